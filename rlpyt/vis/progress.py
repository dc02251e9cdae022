"""Discovery of runs below given paths, and robust reading of their progress.csv."""

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
    """Read a run's progress.csv; unreadable parts are skipped with a warning.

    An incomplete last line (the run was killed, or is writing it) is skipped, and so are lines
    whose number of cells differs from the number of columns. A second header line, as in
    concatenated files, applies to the rows after it: columns that it lacks are NaN there. Empty
    and non-numeric cells are NaN.

    Args:
        run_dir: the run's directory, or the file itself.

    Returns:
        Column name -> [rows] float64, in the order of the file; empty if nothing has been logged.

    Raises:
        FileNotFoundError: the run has no progress.csv.
    """
    path = Path(run_dir)
    path = path / "progress.csv" if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected the progress.csv of a run.")
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    skipped = ["the last line, which is cut off"] if end < len(content) else []

    header: list[str] = []
    columns: dict[str, None] = {}  # an ordered set
    rows: list[dict[str, float]] = []
    n_ragged = n_strings = 0
    for line in content[:end].decode(errors="replace").split("\n")[:-1]:
        cells = cells_of(line.rstrip("\r"))
        if not header or _is_header(cells, columns):
            header = cells
            columns.update(dict.fromkeys(header))
        elif len(cells) != len(header):
            n_ragged += 1
        else:
            values = [_number(cell) for cell in cells]
            n_strings += sum(value is None for value in values)
            rows.append({k: np.nan if v is None else v for k, v in zip(header, values)})

    skipped += [f"{n_ragged} lines with a wrong number of cells"] * bool(n_ragged)
    skipped += [f"{n_strings} cells that are not numbers"] * bool(n_strings)
    if skipped:
        warnings.warn(f"{path}: skipped {', '.join(skipped)}.", stacklevel=2)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in columns}


def find_runs(*paths: PathLike) -> list[Path]:
    """Return the directories at or below these paths that contain a progress.csv, sorted.

    A run reached by several paths or links counts once. Failed attempts that a sweep has moved
    aside are left out. So is ``run_0.1`` if ``run_0`` is found, with a warning: it contains earlier
    results that were moved aside. A path without runs is skipped with a warning if others have
    runs.

    Raises:
        FileNotFoundError: one of the paths does not exist, or none contains a run.
    """
    runs: dict[Path, Path] = {}  # by resolved path
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
    message = f"no runs found in {', '.join(without)}: no progress.csv in it or below it."
    if not runs:
        raise FileNotFoundError(message)
    if without:
        warnings.warn(message, stacklevel=2)
    numbered = {real: re.fullmatch(r"(.+)\.[1-9]\d*", real.name) for real in runs}
    superseded = [
        real for real, match in numbered.items() if match and real.with_name(match[1]) in runs
    ]
    if superseded:
        warnings.warn(
            f"left out {', '.join(sorted(str(runs[real]) for real in superseded))}: results "
            "replaced by a later run in the same directory. Rename a directory to include it.",
            stacklevel=2,
        )
    return sorted(run for real, run in runs.items() if real not in superseded)


def _run_dirs(path: Path) -> list[Path]:
    """Return the directories at or below a path that contain a progress.csv, following links."""
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
    """Return the cells of a line, or the line itself if it is not CSV (zeros after a crash)."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return [line]


def _is_header(cells: list[str], columns: Container[str]) -> bool:
    """Return True for another header: no numbers, and at least one known column."""
    return not any(map(_is_value, cells)) and any(cell in columns for cell in cells)


def _is_value(cell: str) -> bool:
    return not cell or _number(cell) is not None


def _number(cell: str) -> float | None:
    """Return a cell's number, NaN for an empty cell, or None for a string."""
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        return None
