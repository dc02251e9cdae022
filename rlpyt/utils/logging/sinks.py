"""Destinations of a row of results: a CSV file, TensorBoard, Weights & Biases, a user's function.

A sink has two methods. Whatever it raises while training is caught by ``Guarded``: a full disk or
a lost connection costs rows, never the run.
"""

from __future__ import annotations

import csv
import io
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rlpyt.utils.files import atomic_write, naming

Row = dict[str, Any]


class Sink(Protocol):
    """Something that takes one row of results per logging interval.

    A sink with a true attribute ``grouped_names`` gets statistics as "Return/Average", others get
    the column name "ReturnAverage".
    """

    def write(self, row: Row, step: int) -> None:
        """Take a row: numbers or short texts by column name; ``step`` is the iteration."""

    def close(self) -> None:
        """Release what is held; the last call."""


class Guarded:
    """An output whose failures do not stop the run.

    The first failure is warned about, all are counted in ``failures``. After ``limit`` failures in
    a row the output is dropped, with a second warning; with ``limit=None`` it is tried for ever.
    """

    def __init__(self, output: Any, name: str, limit: int | None = 3) -> None:
        self.output = output
        self.name = name
        self.limit = limit
        self.failures = 0
        self.dropped = False
        self._in_a_row = 0

    def write(self, *args: Any) -> None:
        """Pass on to the output's ``write``, unless it has been dropped."""
        if self.dropped:
            return
        try:
            self.output.write(*args)
        except Exception as error:
            self._failed(error)
        else:
            self._in_a_row = 0

    def close(self) -> None:
        """Close the output, after which it is written to no more; a failure is warned about."""
        self.dropped = True
        try:
            self.output.close()
        except Exception as error:
            _warn(f"{self.name} could not be closed ({_named(error)}).")

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self._in_a_row += 1
        if self.failures == 1:
            _warn(f"{self.name} failed ({_named(error)}); the run goes on without that output.")
        if self._in_a_row == self.limit:
            self.dropped = True
            _warn(f"{self.name} failed {self.limit} times in a row and is dropped.")


class TextFile:
    """Lines appended to a file, each in one unbuffered write."""

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
    """A table with a header line, one line per row, complete on disk after every write.

    Columns keep the order in which they first came; one that first comes in a later row is added
    at the end, by rewriting the file beside itself and renaming it. A value that was not recorded
    is an empty cell.

    Args:
        path: the file. It is emptied, unless ``append``.
        append: go on below the rows of an existing file (a last line without its end is cut off).
    """

    def __init__(self, path: str | os.PathLike[str], append: bool = False) -> None:
        self.path = Path(path)
        self.columns: list[str] = []
        self._n_rows, self._last = 0, list[str]()
        if append and self.path.exists():
            self._adopt()
        else:
            with atomic_write(self.path):
                pass

    def write(self, row: Row, step: int = 0) -> None:
        """Append a row; on error the file is left as it was."""
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
                file.truncate(start)  # no torn line before the next one
                raise
        self._n_rows, self._last = self._n_rows + 1, cells

    def rewind(self, column: str, value: float) -> None:
        """Drop the rows with more than ``value`` in ``column``: a resumed run writes them again."""
        if column in self.columns:
            index = self.columns.index(column)
            self._rewrite(self.columns, keep=lambda cells: _number(cells[index]) <= value)

    def mark(self) -> dict[str, Any]:
        """Return the position for a checkpoint: columns, number of rows, last row."""
        return {"columns": list(self.columns), "rows": self._n_rows, "last": self._last}

    def begins_like(self, mark: Mapping[str, Any]) -> bool:
        """Return True if the table still begins as it did at a ``mark``; columns may be new."""
        rows, n, columns = self._rows(), mark["rows"], mark["columns"]
        last = rows[n - 1] if 0 < n <= len(rows) else []
        same_columns = self.columns[: len(columns)] == columns
        return bool(same_columns and len(rows) >= n and last[: len(mark["last"])] == mark["last"])

    def close(self) -> None:
        """Nothing is held between writes."""

    def _rows(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        with open(self.path, encoding="utf-8", errors="replace", newline="") as file:
            return list(csv.reader(file))[1:]

    def _adopt(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        header = content[:whole].decode().splitlines()[:1]
        self.columns = next(csv.reader(header), [])
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
    """Scalars for TensorBoard (extra ``tensorboard``). Texts and NaN, "no value", are left out.

    Args:
        log_dir: where the event file goes; or
        writer: an open ``SummaryWriter`` to use, which ``close`` closes.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    grouped_names = True

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, writer: Any = None) -> None:
        self.writer = _summary_writer(log_dir) if writer is None else writer

    def write(self, row: Row, step: int) -> None:
        """Add every number as a scalar of this step."""
        for name, value in row.items():
            if isinstance(value, (int, float)) and not math.isnan(value):
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()


class WandbSink:
    """Rows for Weights & Biases (extra ``wandb``); tested against a stand-in of its client only.

    The key is taken from the environment variable WANDB_API_KEY only, never from an argument that
    other users could read in the process list. Without it the run is kept offline on disk, to be
    sent later with ``wandb sync``.

    Args:
        project, name, config: as in ``wandb.init``.
        init_kwargs: further arguments of ``wandb.init``, such as ``mode``, ``dir`` or ``group``.

    Raises:
        ImportError: wandb is not installed.
    """

    grouped_names = True

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
    """Calls a function of the user's with every row.

    Args:
        function: called as ``function(row, step)`` with a dict of its own.
    """

    def __init__(self, function: Callable[[Row, int], object]) -> None:
        self.function = function

    def write(self, row: Row, step: int) -> None:
        """Call the function."""
        self.function(dict(row), step)

    def close(self) -> None:
        """Nothing is held."""


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
    return " ".join(str(value).splitlines())  # a line of the file is a row


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
