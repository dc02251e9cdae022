"""Learning curves: find runs, read their progress.csv, draw them for a report."""

from __future__ import annotations

import csv
import difflib
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.vis.statistics import bootstrap_interval, interquartile_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PathLike = str | os.PathLike[str]
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x [P], y [P]

# Colours that people with any colour vision can tell apart (Okabe and Ito 2008).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LINE_STYLES = ["-", "--", ":", "-."]  # once the colours are used up
LABELS = {
    "Diagnostics/CumSteps": "Environment steps",
    "Diagnostics/CumTime (s)": "Wall-clock time (s)",
    "Diagnostics/Iteration": "Iteration",
    "Diagnostics/CumUpdates": "Gradient updates",
    "Diagnostics/StepsPerSecond": "Environment steps per second",
    "ReturnAverage": "Episode return",
    "DiscountedReturnAverage": "Discounted episode return",
    "LengthAverage": "Episode length (steps)",
    "GameScoreAverage": "Game score",
}
GRID_POINTS = 200


def read_progress(run_dir: PathLike) -> dict[str, NDArray[np.float64]]:
    """Read a run's progress.csv; what cannot be read is skipped, with a warning that says so.

    A last line without its end (the run was killed, or is writing it) is skipped, and so are lines
    with another number of cells than columns. A further header line, as of files put together, is
    followed: columns that it lacks are NaN from there on. Empty and non-numeric cells are NaN.

    Args:
        run_dir: the run's directory, or the file itself.

    Returns:
        Column name -> [rows] float64, in the order of the file; empty if nothing was logged yet.

    Raises:
        FileNotFoundError: there is no progress.csv.
    """
    path = Path(run_dir)
    path = path / "progress.csv" if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected the progress.csv of a run.")
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    skipped = ["the last line, which is cut off"] if end < len(content) else []

    header: list[str] = []
    columns: dict[str, None] = {}  # a set that keeps its order
    rows: list[dict[str, float]] = []
    n_ragged = n_texts = 0
    for cells in csv.reader(io.StringIO(content[:end].decode(errors="replace"), newline="")):
        if not header or _is_header(cells, header):
            header = cells
            columns.update(dict.fromkeys(header))
        elif len(cells) != len(header):
            n_ragged += 1
        else:
            values = [_number(cell) for cell in cells]
            n_texts += sum(value is None for value in values)
            rows.append({k: np.nan if v is None else v for k, v in zip(header, values)})

    skipped += [f"{n_ragged} lines with a wrong number of cells"] * bool(n_ragged)
    skipped += [f"{n_texts} cells that are no numbers"] * bool(n_texts)
    if skipped:
        warnings.warn(f"{path}: skipped {', '.join(skipped)}.", stacklevel=2)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in columns}


def find_runs(*paths: PathLike) -> list[Path]:
    """Find the directories at or below these paths that hold a progress.csv, sorted.

    Raises:
        FileNotFoundError: one of the paths does not exist, or has no run below it.
    """
    runs = set()
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; expected a run or a directory of runs."
            )
        found = {file.parent for file in path.rglob("progress.csv")}
        if path.name == "progress.csv":
            found.add(path.parent)
        if not found:
            raise FileNotFoundError(f"no runs found in {path}: no progress.csv in it or below it.")
        runs |= found
    return sorted(runs)


def run_label(run_dir: PathLike) -> str:
    """Name the experiment a run belongs to, the same for all its seeds.

    For ``<experiment>/run_<ID>`` it is the experiment's directory, otherwise the "name" in
    params.json, or failing that the run's own directory.
    """
    path = Path(run_dir).absolute()
    if re.fullmatch(r"run_.+", path.name):
        return path.parent.name
    try:
        name = json.loads((path / "params.json").read_text(encoding="utf-8")).get("name")
    except (OSError, ValueError, AttributeError):
        name = None
    return str(name or path.name)


def plot_runs(
    paths: PathLike | Sequence[PathLike],
    output_png: PathLike,
    y: str = "ReturnAverage",
    x: str = "Diagnostics/CumSteps",
    title: str | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    label: Callable[[Path], str] = run_label,
    smooth: int = 1,
    confidence: float = 0.95,
) -> Path:
    """Draw a column of the runs below some paths, one curve for each experiment.

    An experiment of one run is drawn as it is; of several, as the interquartile mean across runs
    with a bootstrap interval as shade, over the range that all its runs have reached.

    Args:
        paths: runs, or directories that hold runs.
        output_png: the picture to write; its directory is created.
        y, x: columns of progress.csv.
        title, x_label, y_label: texts; by default no title, and readable names of the columns.
        label: gives a run's experiment; runs with the same label are seeds of one.
        smooth: width, in rows, of a moving average over each run.
        confidence: of the shaded interval.

    Returns:
        Path of the picture.

    Raises:
        FileNotFoundError: there are no runs.
        KeyError: no run has one of the columns; the message lists those there are.
        ValueError: ``smooth`` is less than 1.
        ImportError: matplotlib is not installed.
    """
    if smooth < 1:
        raise ValueError(f"smooth={smooth} must be a number of rows, at least 1.")
    runs = find_runs(*([paths] if isinstance(paths, (str, os.PathLike)) else paths))
    experiments: dict[str, list[Curve]] = {}
    for run, (run_x, run_y) in _read_curves(runs, x, y):
        curve = (run_x, _moving_average(run_y, smooth))
        experiments.setdefault(label(run), []).append(curve)

    figure, axes = _figure()
    several = max(map(len, experiments.values())) > 1
    for i, (name, curves) in enumerate(sorted(experiments.items())):
        colour = COLOURS[i % len(COLOURS)]
        _draw(axes, curves, name, colour, LINE_STYLES[i // len(COLOURS) % 4], confidence)
    note = f"Interquartile mean, {confidence:.0%} bootstrap interval" if several else None
    _finish(
        axes, x_label or LABELS.get(x, _readable(x)), y_label or LABELS.get(y, _readable(y)), note
    )
    if title:
        axes.set_title(title, fontsize=10)

    output = Path(output_png)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output)
    return output


def _read_curves(runs: Iterable[Path], x: str, y: str) -> list[tuple[Path, Curve]]:
    """The runs that have both columns, as points without gaps, in the order of x."""
    curves, known, skipped = [], dict[str, None](), []
    for run in runs:
        progress = read_progress(run)
        known.update(dict.fromkeys(progress))
        if x in progress and y in progress:
            valid = np.isfinite(progress[x]) & np.isfinite(progress[y])
            order = np.argsort(progress[x][valid], kind="stable")
            if valid.any():
                curves.append((run, (progress[x][valid][order], progress[y][valid][order])))
                continue
        skipped.append(run)
    if not curves:
        raise KeyError(_missing(x, y, list(known)))
    if skipped:
        names = ", ".join(map(str, skipped))
        warnings.warn(f"left out, without a value of {x!r} and {y!r}: {names}.", stacklevel=3)
    return curves


def _missing(x: str, y: str, known: list[str]) -> str:
    absent = [name for name in (x, y) if name not in known]
    if not absent:
        return f"no run has a row with numbers in both {x!r} and {y!r}."
    nearest = difflib.get_close_matches(absent[0], known, 1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"no run has the column {absent[0]!r}.{hint} There are: {', '.join(known) or 'none'}."


def _is_header(cells: list[str], header: list[str]) -> bool:
    return bool(cells) and (cells == header or not any(map(_is_value, cells)))


def _is_value(cell: str) -> bool:
    return not cell or _number(cell) is not None


def _number(cell: str) -> float | None:
    """A cell's number; NaN for an empty one, None for a text."""
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        return None


def _moving_average(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Mean of each value and up to ``width - 1`` before it. [P] -> [P]."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - width, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def _figure() -> tuple[Any, Axes]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'rlpyt[plot]'.") from error
    figure = Figure(figsize=(5.0, 3.2), dpi=200, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _draw(
    axes: Axes, curves: list[Curve], name: str, colour: str, style: str, confidence: float
) -> None:
    look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.5}
    if len(curves) == 1:
        axes.plot(*curves[0], label=f"{name} (1 run)", **look)
        return
    grid, on_grid = _on_common_grid(curves, name)
    low, high = bootstrap_interval(on_grid[:, None], confidence=confidence)
    mean = interquartile_mean(on_grid)
    axes.fill_between(grid, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(grid, mean, label=f"{name} ({len(curves)} runs)", **look)


def _on_common_grid(
    curves: list[Curve], name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interpolate runs where all have data. Returns x [P] and y [runs, P]."""
    start = max(curve_x[0] for curve_x, _ in curves)
    ends = [curve_x[-1] for curve_x, _ in curves]
    if min(ends) < 0.95 * max(ends):
        warnings.warn(
            f"{name}: drawn up to {min(ends):g}, the end of its shortest run; the longest has "
            f"{max(ends):g}.",
            stacklevel=4,
        )
    grid = np.linspace(start, max(start, min(ends)), GRID_POINTS)
    return grid, np.stack([np.interp(grid, *curve) for curve in curves])


def _finish(axes: Axes, x_label: str, y_label: str, note: str | None) -> None:
    axes.set_xlabel(x_label, fontsize=9)
    axes.set_ylabel(y_label, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, position: short_number(value))
    axes.legend(title=note, frameon=False, fontsize=8, title_fontsize=7, alignment="left")


def short_number(value: float) -> str:
    """Write a number shortly: 1500000 as "1.5M", 20000 as "20k", 0.25 as "0.25"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def _readable(column: str) -> str:
    """ "Diagnostics/CumEvalTime" as "Cum eval time", for columns without a label of their own."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", column.rsplit("/", 1)[-1])
    return words[:1].upper() + words[1:].lower()
