"""Learning curves: a column of progress.csv over steps or time, one curve per variant."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.names import suggestion
from rlpyt.utils.signed import read_json
from rlpyt.utils.text import counted
from rlpyt.vis import style
from rlpyt.vis.grouping import RunRecord, natural_key, read_runs, warn_of_uneven_groups
from rlpyt.vis.progress import PathLike, find_runs
from rlpyt.vis.statistics import bootstrap_interval, interquartile_mean
from rlpyt.vis.style import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "X_COLUMNS", "draw_curves", "find_runs", "plot_runs", "read_progress", "run_label",
    "short_number",
]  # fmt: skip

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # x [P], y [P]

TIME = "Diagnostics/CumTime (s)"
X_COLUMNS = {  # short names
    "steps": "Diagnostics/CumSteps",
    "time": TIME,
    "updates": "Diagnostics/CumUpdates",
    "iterations": "Diagnostics/Iteration",
}
GRID_POINTS = 200


def plot_runs(
    paths: PathLike | Sequence[PathLike],
    output_png: PathLike,
    y: str = "ReturnAverage",
    x: str = "Diagnostics/CumSteps",
    title: str | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    label: Callable[[Path], str] | None = None,
    smooth: int = 1,
    confidence: float = 0.95,
    group_by: Sequence[str] = (),
) -> Path:
    """Plot a column of the runs below some paths: a panel per environment, a curve per variant.

    Args:
        paths: runs, or directories that contain runs.
        output_png: path of the plot, as PNG, SVG or PDF; its directory is created.
        y, x, title, x_label, y_label, smooth, confidence: see ``draw_curves``.
        label: function from a run's directory to its label; runs with the same label are seeds of
            one variant. By default the differences between runs, see ``rlpyt.vis.grouping``.
        group_by: settings to group by instead.

    Returns:
        Path of the plot.

    Raises:
        FileNotFoundError: no run is found.
        KeyError: no run has one of the columns; the message lists the available ones.
        ValueError: ``smooth`` is less than 1, no run has a setting of ``group_by``, or the suffix
            of the path is not supported.
        ImportError: matplotlib is not installed.
    """
    output = style.check_output(output_png)
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    runs = read_runs(*several, group_by=group_by)
    if label is not None:
        runs = [replace(run, label=label(run.path)) for run in runs]
    elif not group_by:
        warn_of_uneven_groups(runs)
    figure = draw_curves(runs, y, x, title, x_label, y_label, smooth, confidence)
    return style.save(figure, output)


def draw_curves(
    runs: Sequence[RunRecord],
    y: str = "ReturnAverage",
    x: str = "Diagnostics/CumSteps",
    title: str | None = None,
    x_label: str | None = None,
    y_label: str | None = None,
    smooth: int = 1,
    confidence: float = 0.95,
    look: style.Looks | None = None,
) -> Figure:
    """Plot learning curves of labeled runs, one panel per environment.

    A variant with one run is plotted directly; one with several runs as the interquartile mean
    across runs with a shaded bootstrap interval, over the range that all its runs have reached.

    Args:
        runs: labeled runs, see ``rlpyt.vis.grouping``.
        y: column of progress.csv.
        x: another column, or a short name: "steps", "time", "updates", "iterations".
        title, x_label, y_label: title and axis labels; by default no title, and readable names of
            the columns.
        smooth: width, in rows, of a moving average over each run.
        confidence: confidence level of the shaded interval.
        look: style of each variant, to match other plots.

    Raises:
        KeyError: no run has one of the columns; the message lists the available ones.
        ValueError: ``smooth`` is less than 1.
        ImportError: matplotlib is not installed.
    """
    if smooth < 1:
        raise ValueError(f"smooth must be at least 1 row, got {smooth}.")
    x = X_COLUMNS.get(x, x)
    by_environment: dict[str, dict[str, list[Curve]]] = {}
    for run, (run_x, run_y) in _read_curves(runs, x, y):
        variants = by_environment.setdefault(run.environment, {})
        variants.setdefault(run.label, []).append((run_x, _moving_average(run_y, smooth)))

    look = look or style.looks(label for variants in by_environment.values() for label in variants)
    figure, all_axes = style.panels(len(by_environment))
    lines: dict[str, Line2D] = {}
    for axes, (environment, variants) in zip(all_axes, sorted(by_environment.items())):
        unit, seconds = _time_unit(variants) if x == TIME else ("", 1.0)
        for name in sorted(variants, key=natural_key):
            lines[name] = _draw(axes, variants[name], name, look[name], confidence, seconds)
        words = x_label or (f"Wall-clock time ({unit})" if unit else style.readable(x))
        panel_title = title or ""
        if len(by_environment) > 1:
            panel_title = environment or "Runs without a named environment"
        style.dress(axes, words, y_label or style.readable(y), panel_title)
        style.shorten_ticks(axes.xaxis)
        style.shorten_ticks(axes.yaxis)
    if title and len(by_environment) > 1:
        figure.suptitle(style.plain(title), fontsize=11)
    n_runs = {name: [len(v[name]) for v in by_environment.values() if name in v] for name in lines}
    note = f"Interquartile mean, {confidence:.0%} bootstrap interval"
    style.add_legend(
        figure,
        {
            f"{name} ({counted(min(n_runs[name]), 'run', max(n_runs[name]))})": lines[name]
            for name in look
            if name in lines
        },
        note if max(map(max, n_runs.values())) > 1 else None,
    )
    return figure


def run_label(run_dir: PathLike) -> str:
    """Return a label for a run from its directory alone, independent of other runs.

    For ``<experiment>/run_<ID>`` it is the name of the experiment's directory, otherwise the "name"
    in params.json or, if missing, the name of the run's directory.
    """
    path = Path(run_dir).absolute()
    if re.fullmatch(r"run_.+", path.name):
        return path.parent.name
    try:
        name = read_json(path / "params.json", "the settings of a run").get("name")
    except (OSError, ValueError, AttributeError):
        name = None
    return str(name or path.name)


def _read_curves(runs: Iterable[RunRecord], x: str, y: str) -> list[tuple[RunRecord, Curve]]:
    """Return the runs that have both columns, with their valid points in the order of x."""
    curves, known, skipped = [], dict[str, None](), []
    for run in runs:
        progress = read_progress(run.path)
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
        names = ", ".join(str(run.path) for run in skipped)
        warnings.warn(f"left out, without a value of {x!r} and {y!r}: {names}.", stacklevel=4)
    return curves


def _missing(x: str, y: str, known: list[str]) -> str:
    absent = [name for name in (x, y) if name not in known]
    if not absent:
        return f"no run has a row with numbers in both {x!r} and {y!r}."
    names = [*known, *X_COLUMNS] if absent[0] == x else known
    meant = suggestion(absent[0], names)
    return f"no run has the column {absent[0]!r}{meant} Available: {', '.join(known) or 'none'}."


def _moving_average(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the mean of each value and up to ``width - 1`` previous ones. [P] -> [P]."""
    width = min(width, max(len(values), 1))
    padded = np.concatenate([np.zeros(width - 1), values])
    sums = np.lib.stride_tricks.sliding_window_view(padded, width).sum(-1)
    return np.asarray(sums / np.minimum(np.arange(1, len(values) + 1), width))


def _time_unit(variants: dict[str, list[Curve]]) -> tuple[str, float]:
    """Return a unit of time that suits the longest run, and its length in seconds."""
    longest = max(curve_x[-1] for curves in variants.values() for curve_x, _ in curves)
    for unit, seconds in (("h", 3600.0), ("min", 60.0)):
        if longest >= 3 * seconds:
            return unit, seconds
    return "s", 1.0


def _draw(
    axes: Axes,
    curves: list[Curve],
    name: str,
    look: Mapping[str, Any],
    confidence: float,
    x_unit: float,
) -> Line2D:
    if len(curves) == 1:
        grid, mean = curves[0]
    else:
        grid, on_grid = _on_common_grid(curves, name)
        low, high = bootstrap_interval(on_grid[:, None], confidence=confidence)
        mean = interquartile_mean(on_grid)
        axes.fill_between(grid / x_unit, low, high, color=look["color"], alpha=0.2, linewidth=0)
    (line,) = axes.plot(
        grid / x_unit, mean, linewidth=1.5, marker="." if grid[0] == grid[-1] else "", **look
    )
    return line


def _on_common_grid(
    curves: list[Curve], name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interpolate runs in the range where all have data. Return x [P] and y [runs, P]."""
    start = max(curve_x[0] for curve_x, _ in curves)
    if len(reaching := [curve for curve in curves if curve[0][-1] >= start]) < len(curves):
        warnings.warn(
            f"{name}: runs that end before {start:g}, where the last one begins, are left out: "
            f"{len(curves) - len(reaching)} of {len(curves)}.",
            stacklevel=5,
        )
        curves = reaching
    ends = [curve_x[-1] for curve_x, _ in curves]
    if min(ends) < 0.95 * max(ends):
        warnings.warn(
            f"{name}: plotted up to {min(ends):g}, the end of its shortest run; the longest ends "
            f"at {max(ends):g}.",
            stacklevel=5,
        )
    grid = np.linspace(start, max(start, min(ends)), GRID_POINTS)
    return grid, np.stack([np.interp(grid, *curve) for curve in curves])
