"""Find runs below some paths and read their progress.csv, whatever state it is in."""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PathLike = str | os.PathLike[str]

ASIDE = re.compile("run_dir_of_attempt_")


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

    What a sweep has put aside of failed attempts does not count.

    Raises:
        FileNotFoundError: one of the paths does not exist, or has no run below it.
    """
    runs = set()
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; expected a run or a directory of runs."
            )
        found = {
            file.parent
            for file in path.rglob("progress.csv")
            if not any(map(ASIDE.match, file.relative_to(path).parts))
        }
        if path.name == "progress.csv":
            found.add(path.parent)
        if not found:
            raise FileNotFoundError(f"no runs found in {path}: no progress.csv in it or below it.")
        runs |= found
    return sorted(runs)


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
