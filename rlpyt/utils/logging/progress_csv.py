"""Robust reading of progress.csv, which ``CsvSink`` writes."""

import csv
import math
import os
import warnings
from array import array
from collections.abc import Collection, Container, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlpyt.errors import DamagedFile
from rlpyt.utils.files import check_regular, read_regular

MAX_PROGRESS_BYTES = 2**30
FloatArray = NDArray[np.float64]
STEPS = "CumSteps"  # end of the name of the column with environment steps


def read_progress(run_dir: str | os.PathLike[str]) -> dict[str, FloatArray]:
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
        DamagedFile: it is not a regular file, or is too large.
    """
    path = Path(run_dir)
    path = path / "progress.csv" if path.is_dir() else path
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected the progress.csv of a run.")
    content = read_regular(path, MAX_PROGRESS_BYTES)
    skipped = [] if content.endswith(b"\n") or not content else ["the last line, which is cut off"]

    header: list[str] = []
    known: set[str] = set()
    tables: list[tuple[list[str], array[float]]] = []  # (header, its rows one after the other)
    n_ragged = n_strings = 0
    for line in _complete_lines(content):
        cells = cells_of(line)
        if not header or _is_header(cells, known):
            header = cells
            known.update(header)
            tables.append((header, array("d")))
        elif len(cells) != len(header):
            n_ragged += 1
        else:
            try:
                values = [float(cell or "nan") for cell in cells]
            except ValueError:
                numbers = [_number(cell) for cell in cells]
                n_strings += numbers.count(None)
                values = [math.nan if x is None else x for x in numbers]
            tables[-1][1].extend(values)

    skipped += [f"{n_ragged} lines with a wrong number of cells"] * bool(n_ragged)
    skipped += [f"{n_strings} cells that are not numbers"] * bool(n_strings)
    if skipped:
        warnings.warn(f"{path}: skipped {', '.join(skipped)}.", stacklevel=2)
    return _by_column([
        (names, np.array(values).reshape(-1, len(names))) for names, values in tables if names
    ])  # fmt: skip


def _by_column(tables: list[tuple[list[str], FloatArray]]) -> dict[str, FloatArray]:
    """Return column name -> [rows] of all tables; NaN in the rows of one without the column."""
    n_rows = sum(len(rows) for _, rows in tables)
    columns = {name: np.full(n_rows, np.nan) for names, _ in tables for name in names}
    start = 0
    for names, rows in tables:
        for name, values in zip(names, rows.T):
            columns[name][start : start + len(rows)] = values
        start += len(rows)
    return columns


def last_row(
    path: str | os.PathLike[str], max_bytes: int = 50_000, newest: Collection[str] = ()
) -> dict[str, float]:
    """Return the finite numbers of the newest complete row of a progress.csv, by column.

    A second header line, as in concatenated files, applies to the rows after it.

    Only the header and the last ``max_bytes`` of the file are read. Empty without a complete row.

    Args:
        path: the file.
        max_bytes: number of bytes to read.
        newest: columns that are empty in some rows, such as returns of evaluations: if one has no
            number in the newest row, that of the row before is taken, and so on.
    """
    try:
        check_regular(path)
        with open(path, "rb") as file:
            header = file.readline(max_bytes)
            start = max(len(header), file.seek(0, os.SEEK_END) - max_bytes)
            file.seek(start)
            lines = _complete_lines(file.read())
    except (OSError, DamagedFile):
        return {}
    names = cells_of(header.decode("utf-8-sig", "replace").rstrip("\r\n"))
    first = 0 if start == len(header) else 1  # the first line read may lack its beginning
    found: dict[str, float] = {}
    rows: list[tuple[list[str], list[str]]] = []  # (header, cells)
    for cells in map(cells_of, lines[first:]):
        if _is_header(cells, set(names)):
            names = cells
        else:
            rows.append((names, cells))
    wanted = {name for names, _ in rows for name in names}
    for names, cells in reversed(rows):
        if len(cells) == len(names):
            row = {name: _number(cell) for name, cell in zip(names, cells) if name in wanted}
            found |= {name: v for name, v in row.items() if v is not None and math.isfinite(v)}
            wanted = wanted.intersection(newest).difference(found)
            if not wanted:
                break
    return found


class NewRows:
    """Rows of a growing progress.csv, read as they are written.

    Lines whose number of cells differs from the number of columns are skipped.

    Args:
        path: the file; it may not exist yet.

    Attributes:
        from_start: True if the last ``read`` has begun with the first row.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self.restart()

    def restart(self) -> None:
        """Start again with the first row."""
        self._file, self._position, self._n_rows = 0, 0, 0
        self._names: list[str] = []
        self._header = b""
        self.from_start = True

    def read(self) -> list[tuple[int, dict[str, float | str]]]:
        """Return the complete rows since the last call; all of them after the file was replaced.

        Returns:
            (steps, row) for each row: environment steps, or the number of the row if it has no
            such number; values by column name, without empty cells and NaN.

        Raises:
            DamagedFile: it is not a regular file.
        """
        try:
            check_regular(self._path)
            with open(self._path, "rb") as file:
                status = os.fstat(file.fileno())
                same = file.read(len(self._header)) == self._header
                if status.st_ino != self._file or status.st_size < self._position or not same:
                    self.restart()
                    self._file = status.st_ino
                self.from_start = self._position == 0
                file.seek(self._position)
                content = file.read()
        except FileNotFoundError:
            self.restart()
            return []
        if self._position == 0:
            self._header = content[: content.find(b"\n") + 1]
        self._position += content.rfind(b"\n") + 1
        rows = []
        for line in _complete_lines(content):
            cells = cells_of(line)
            if not self._names or _is_header(cells, self._names):
                self._names = cells
                continue
            if len(cells) != len(self._names):
                continue
            self._n_rows += 1
            row = dict(_values(self._names, cells))
            cells_of_steps = (row[name] for name in row if name.endswith(STEPS))
            numbers = (x for x in cells_of_steps if isinstance(x, float) and math.isfinite(x))
            rows.append((int(next(numbers, self._n_rows)), row))
        return rows


def _values(names: list[str], cells: list[str]) -> Iterator[tuple[str, float | str]]:
    for name, cell in zip(names, cells):
        value = _number(cell)
        if value is None:
            yield name, cell
        elif not math.isnan(value):
            yield name, value


def cells_of(line: str) -> list[str]:
    """Return the cells of a line, or the line itself if it is not CSV (zeros after a crash)."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return [line]


def _complete_lines(content: bytes) -> list[str]:
    """Return the lines that end with a newline, without it."""
    lines = content.decode("utf-8-sig", "replace").split("\n")[:-1]  # spreadsheets write a mark
    return [line.rstrip("\r") for line in lines]


def _is_header(cells: list[str], columns: Container[str]) -> bool:
    """Return True for another header: no numbers, and at least one known column."""
    has_values = any(not cell or _number(cell) is not None for cell in cells)
    return not has_values and any(cell in columns for cell in cells)


def _number(cell: str) -> float | None:
    """Return a cell's number, NaN for an empty cell, or None for a string."""
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        return None
