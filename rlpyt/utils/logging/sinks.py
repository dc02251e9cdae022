"""Outputs for rows of results: a CSV file, TensorBoard, Weights & Biases, a custom function.

``Guarded`` catches the errors of a sink during training: a full disk or a lost connection loses
rows but does not stop the run.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rlpyt.utils.files import atomic_write, naming
from rlpyt.utils.logging.progress_csv import cells_of

Row = dict[str, Any]


class Sink(Protocol):
    """Output for one row of results per logging interval."""

    def write(self, row: Row, step: int) -> None:
        """Write a row: numbers or short strings by column name.

        Args:
            row: values by column name, the same names in all outputs.
            step: environment steps so far, the x axis of plots.
        """

    def close(self) -> None:
        """Release resources. No further call follows."""


class Guarded:
    """Output whose failures do not stop the run.

    The first failure causes a warning; all are counted in ``failures``. After ``limit`` failures in
    a row the output is dropped with a second warning; with ``limit=None`` it is never dropped.
    """

    def __init__(self, output: Any, name: str, limit: int | None = 3) -> None:
        self.output = output
        self.name = name
        self.limit = limit
        self.failures = 0
        self.dropped = False
        self._in_a_row = 0

    def write(self, *args: Any) -> None:
        """Call the output's ``write`` unless it has been dropped."""
        if self.dropped:
            return
        try:
            self.output.write(*args)
        except Exception as error:
            self._failed(error)
        else:
            self._in_a_row = 0

    def close(self) -> None:
        """Close the output and stop writing to it; a failure causes a warning."""
        self.dropped = True
        try:
            self.output.close()
        except Exception as error:
            _warn(f"{self.name} could not be closed ({_named(error)}).")

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self._in_a_row += 1
        if self.failures == 1:
            _warn(f"{self.name} failed ({_named(error)}); the run continues without this output.")
        if self._in_a_row == self.limit:
            self.dropped = True
            _warn(f"{self.name} failed {self.limit} times in a row and is dropped.")


class TextFile:
    """Text file to which each line is appended in one unbuffered write."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()

    def write(self, line: str) -> None:
        """Append a line."""
        with naming(self._file.name):
            self._file.write(f"{line}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CsvSink:
    """CSV table with a header line and one line per row, complete on disk after every write.

    Columns keep the order of their first appearance; a column that first appears in a later row is
    added at the end, by writing a new file and renaming it. A missing value is an empty cell.

    Args:
        path: the file. It is emptied unless ``append`` is set.
        append: append to an existing file (an incomplete last line is cut off).
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path = Path(path)
        self.columns: list[str] = []
        self._n_rows, self._last = 0, list[str]()
        if append and self.path.exists():
            self._read_existing()
        else:
            with atomic_write(self.path):
                pass

    def write(self, row: Row, step: int = 0) -> None:
        """Append a row; on error the file is unchanged."""
        new = [name for name in row if name not in self.columns]
        if new and self.columns:
            self._rewrite(self.columns + new)
        elif new:
            self.columns = new
        cells = [_cell(row[name]) if name in row else "" for name in self.columns]

        with naming(self.path), open(self.path, "ab", buffering=0) as file:
            start = file.tell()
            lines = [cells] if start else [self.columns, cells]
            try:
                _write_all(file, _csv_bytes(lines))
            except BaseException:
                file.truncate(start)  # leave no partial line
                raise
        self._n_rows, self._last = self._n_rows + 1, cells

    def rewind(self, column: str, value: float, mark: Mapping[str, Any] | None = None) -> None:
        """Delete rows that a resumed run writes again.

        Args:
            column, value: rows with more than this in the column are deleted.
            mark: result of ``mark``; rows after it are deleted if those before are unchanged.
        """
        if column in self.columns:
            index = self.columns.index(column)
            most = mark["rows"] if mark is not None and self.starts_like(mark) else math.inf
            rows = itertools.count()  # number of each row
            self._rewrite(
                self.columns,
                keep=lambda cells: next(rows) < most and _number(cells[index]) <= value,
            )

    def mark(self) -> dict[str, Any]:
        """Return the current position for a checkpoint: columns, number of rows, last row."""
        return {"columns": list(self.columns), "rows": self._n_rows, "last": self._last}

    def starts_like(self, mark: Mapping[str, Any]) -> bool:
        """Return True if the rows up to ``mark`` are unchanged; there may be new columns."""
        rows, n, columns = self._rows(), mark["rows"], mark["columns"]
        last = rows[n - 1] if 0 < n <= len(rows) else []
        same_columns = self.columns[: len(columns)] == columns
        return bool(same_columns and len(rows) >= n and last[: len(mark["last"])] == mark["last"])

    def close(self) -> None:
        """Do nothing: the file is not kept open."""

    def _rows(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        with open(self.path, encoding="utf-8", errors="replace", newline="") as file:
            return list(csv.reader(file))[1:]

    def _read_existing(self) -> None:
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            os.truncate(self.path, end)
        header = content[:end].decode().splitlines()[:1]
        self.columns = cells_of(header[0]) if header else []
        self._count()

    def _rewrite(
        self, columns: list[str], keep: Callable[[list[str]], bool] = lambda cells: True
    ) -> None:
        with open(self.path, encoding="utf-8", newline="") as old, atomic_write(self.path) as new:
            new.write(_csv_bytes([columns]))
            reader = csv.reader(old)
            next(reader, None)
            for cells in reader:
                padded = cells + [""] * (len(columns) - len(cells))
                if keep(padded):
                    new.write(_csv_bytes([padded]))
        self.columns = columns
        self._count()

    def _count(self) -> None:
        rows = self._rows()
        self._n_rows, self._last = len(rows), (rows or [[]])[-1]


class TensorBoardSink:
    """Sink for TensorBoard scalars (extra ``tensorboard``). Strings and NaN are left out.

    Args:
        log_dir: directory of the event file.
        writer: open ``SummaryWriter`` to use instead; ``close`` closes it.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, writer: Any = None) -> None:
        self.writer = _summary_writer(log_dir) if writer is None else writer

    def write(self, row: Row, step: int) -> None:
        """Write every number as a scalar of this step."""
        for name, value in row.items():
            if isinstance(value, (int, float)) and not math.isnan(value):
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()


class WandbSink:
    """Sink for Weights & Biases (extra ``wandb``); tested only with a mock of its client.

    The key is only read from the environment variable WANDB_API_KEY, since other users could read
    an argument in the process list. Without it the run is stored offline; upload it later with
    ``wandb sync``.

    Args:
        project, name, config: as in ``wandb.init``.
        init_kwargs: further arguments of ``wandb.init``, such as ``mode``, ``dir`` or ``group``.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(
        self,
        project: str = "rlpyt",
        name: str | None = None,
        config: dict[str, Any] | None = None,
        **init_kwargs: Any,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ImportError("WandbSink needs wandb: pip install 'rlpyt[wandb]'.") from error
        if not ({"WANDB_API_KEY", "WANDB_MODE"} & set(os.environ)):
            init_kwargs.setdefault("mode", "offline")
        self.run = wandb.init(project=project, name=name, config=config, **init_kwargs)

    def write(self, row: Row, step: int) -> None:
        """Log the row at this step."""
        self.run.log(dict(row), step=step)

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()


class CallbackSink:
    """Sink that calls a custom function with every row.

    Args:
        function: called as ``function(row, step)`` with a copy of the row.
    """

    def __init__(self, function: Callable[[Row, int], object]) -> None:
        self.function = function

    def write(self, row: Row, step: int) -> None:
        """Call the function."""
        self.function(dict(row), step)

    def close(self) -> None:
        """Do nothing."""


def _summary_writer(log_dir: str | os.PathLike[str] | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "The summary writer needs TensorBoard: pip install 'rlpyt[tensorboard]'."
        ) from error
    return SummaryWriter(log_dir)


def _csv_bytes(lines: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode(errors="backslashreplace")


def _cell(value: Any) -> str:
    return " ".join(str(value).splitlines())  # each row is one line of the file


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return -math.inf


def _write_all(file: io.RawIOBase, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
