"""Find runs below some paths and read their progress.csv, whatever state it is in."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Container
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.resumption import ASIDE

PathLike = str | os.PathLike[str]


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
    for line in content[:end].decode(errors="replace").split("\n")[:-1]:
        cells = cells_of(line.rstrip("\r"))
        if not header or _is_header(cells, columns):
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

    A run that several paths or links lead to counts once. What a sweep has put aside of failed
    attempts does not count. Nor does ``run_0.1`` where ``run_0`` is found too: earlier results that
    were moved aside; a warning names them. A path without runs is skipped with a warning if others
    have some.

    Raises:
        FileNotFoundError: one of the paths does not exist, or none has a run.
    """
    runs: dict[Path, Path] = {}  # by the place where they really are
    without = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; expected a run or a directory of runs."
            )
        found = _run_dirs(path)
        for run in found:
            runs.setdefault(run.resolve(), run)
        if not found:
            without.append(str(path))
    said = f"no runs found in {', '.join(without)}: no progress.csv in it or below it."
    if not runs:
        raise FileNotFoundError(said)
    if without:
        warnings.warn(said, stacklevel=2)
    asides = {real: re.fullmatch(r"(.+)\.[1-9]\d*", real.name) for real in runs}
    superseded = [real for real, at in asides.items() if at and real.with_name(at[1]) in runs]
    if superseded:
        warnings.warn(
            f"left out {', '.join(sorted(str(runs[real]) for real in superseded))}: results that a "
            "later run in the same directory has replaced. Rename a directory to include it.",
            stacklevel=2,
        )
    return sorted(run for real, run in runs.items() if real not in superseded)


def _run_dirs(path: Path) -> list[Path]:
    """Directories at or below a path that hold a progress.csv; each once, by a link if need be."""
    found, seen = [], set()
    waiting = [str(path)]
    while waiting:
        for directory, inner, files in os.walk(waiting.pop(0)):
            real = os.path.realpath(directory)
            if real in seen:
                inner.clear()
                continue
            seen.add(real)
            inner[:] = sorted(name for name in inner if not name.startswith(ASIDE))
            links = (os.path.join(directory, name) for name in inner)
            waiting += filter(os.path.islink, links)  # later, so that runs have their own path
            if "progress.csv" in files:
                found.append(Path(directory))
    return [path.parent] if path.name == "progress.csv" else found


def cells_of(line: str) -> list[str]:
    """The cells of a line; one if it is no CSV, as of a file that a crash has left with zeros."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return [line]


def _is_header(cells: list[str], columns: Container[str]) -> bool:
    """Whether it is another header: no numbers, and some of the columns there were before."""
    return not any(map(_is_value, cells)) and any(cell in columns for cell in cells)


def _is_value(cell: str) -> bool:
    return not cell or _number(cell) is not None


def _number(cell: str) -> float | None:
    """A cell's number; NaN for an empty one, None for a text."""
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        return None
