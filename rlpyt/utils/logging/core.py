"""Logger of a run: text lines, table rows, snapshots, and their outputs."""

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from rlpyt.utils.logging.console import Terminal, TerminalTablePrinter, colorize
from rlpyt.utils.logging.lock import RunDirectoryError
from rlpyt.utils.logging.sinks import CsvSink, Guarded, Row, Sink, TensorBoardSink, TextFile
from rlpyt.utils.logging.snapshots import SNAPSHOT_MODES, snapshot_names, write_snapshot
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.logging.tracking import TrackerSink
from rlpyt.utils.logging.values import plain_value, statistics

PathLike = str | os.PathLike[str]
OF_A_RUN = (  # attributes that a run has for itself
    *("_texts", "_tables", "_held_tables", "_sinks", "_summary", "_summary_dir", "_snapshot_dir"),
    *("_prefixes", "_tabular_prefixes", "_row", "_step", "_settings_file"),
)


class Logger:
    """Logger of text lines, table rows and snapshots of a run.

    Used by the master process, from one thread. Outputs are guarded: when one fails (full disk,
    broken pipe), a warning is issued once and the run continues.
    """

    def __init__(self) -> None:
        self._disabled = False
        self._tabular_disabled = False
        self._console = True
        self._log_tabular_only = False
        self._disable_prefix = False
        self._terminal = Guarded(Terminal(), "terminal")
        self.table_printer = TerminalTablePrinter()
        self._prefixes: list[str] = []
        self._tabular_prefixes: list[str] = []
        self._texts: dict[str, Guarded] = {}
        self._tables: dict[str, Guarded] = {}
        self._held_tables: dict[str, Guarded] = {}
        self._sinks: list[Guarded] = []
        self._summary: TensorBoardSink | None = None
        self._summary_dir: str | None = None
        self._row: Row = {}
        self.last_row: Row = {}  # of the last `dump_tabular`
        self._step = 0
        self._settings_file: Path | None = None  # present as long as the run directory is
        self._snapshot_dir: str | None = None
        self._snapshot_mode = "none"
        self._snapshot_gap = 1
        self._snapshot_failures = 0
        self._lacks_snapshot = False
        self._outside: dict[str, Any] = {}  # outputs from before the current run; empty: no run
        self._training = False  # in the current run

    # Text lines

    def log(
        self,
        s: Any,
        with_prefix: bool = True,
        with_timestamp: bool = True,
        color: str | None = None,
    ) -> None:
        """Write a line to the terminal and the text files; color is for the terminal only."""
        if self._disabled:
            return
        line = str(s)
        if with_prefix and not self._disable_prefix:
            line = "".join(self._prefixes) + line
        if with_timestamp:
            line = f"{datetime.now().isoformat(sep=' ', timespec='milliseconds')} | {line}"
        if self._console and not self._log_tabular_only:
            self._terminal.write(line if color is None else colorize(line, color))
        for text in self._texts.values():
            text.write(line)

    def push_prefix(self, prefix: str) -> None:
        """Add ``prefix`` to the prefixes of subsequent text lines."""
        self._prefixes.append(prefix)

    def pop_prefix(self) -> None:
        """Remove the prefix pushed last."""
        del self._prefixes[-1]

    def prefix(self, key: str) -> AbstractContextManager[None]:
        """Add ``key`` to the prefixes of text lines in a block."""
        return _pushed(self._prefixes, key)

    def set_disable_prefix(self, disable_prefix: bool) -> None:
        """Disable or enable the prefixes of text lines."""
        self._disable_prefix = disable_prefix

    def get_disable_prefix(self) -> bool:
        """Return True if prefixes of text lines are disabled."""
        return self._disable_prefix

    # Table rows

    def record_tabular(self, key: str, val: Any, *args: Any, **kwargs: Any) -> None:
        """Set one column of the current row.

        Args:
            key: column name, appended to the tabular prefixes. A second value replaces the first.
            val: a number (Python, numpy or torch, of one element) or a short string; None is NaN.
            args, kwargs: ignored, for compatibility.

        Raises:
            TypeError: `val` is an array of several numbers.
        """
        self._record(str(key), val)

    def record_tabular_misc_stat(
        self,
        key: str,
        values: Any,
        placement: str = "back",
        record: Callable[[str, Any], None] | None = None,
    ) -> None:
        """Set five columns that describe a set of numbers, all NaN when it is empty.

        The columns are ``<key>Average``, ``<key>Std`` (of the population), ``<key>Median``,
        ``<key>Min`` and ``<key>Max``.

        Args:
            key: name of the quantity.
            values: numbers, in a sequence, array or tensor of any shape.
            placement: "back", or "front" for ``Average<key>`` ...
            record: function that sets a column; ``None``: that of ``record_tabular``.

        Raises:
            TypeError: ``values`` are not numbers.
            ValueError: ``placement`` is neither "back" nor "front".
        """
        if placement not in ("back", "front"):
            raise ValueError(f"placement must be 'back' or 'front', got {placement!r}.")
        if self._disabled or self._tabular_disabled:
            return
        record = record or self._record
        for name, value in statistics(key, values).items():
            record(key + name if placement == "back" else name + key, value)

    def dump_tabular(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Write the current row to all outputs, start a new one, and return the written row.

        The arguments are passed to ``log``, which writes the row as text.

        Raises:
            RunDirectoryError: the run directory has been deleted or moved.
        """
        row, self._row = self._row, {}
        self.last_row = row
        if not row or self._disabled or self._tabular_disabled:
            return row
        self.check_run_dir()
        if self._console and self._log_tabular_only:
            self.table_printer.print_tabular(list(row.items()))
        for line in tabulate(row.items()).splitlines():
            self.log(line, *args, **kwargs)
        for output in [*self._tables.values(), *self._sinks]:
            output.write(dict(row), self._step)
        return row

    def push_tabular_prefix(self, key: str) -> None:
        """Add ``key`` to the prefixes of subsequent column names."""
        self._tabular_prefixes.append(key)

    def pop_tabular_prefix(self) -> None:
        """Remove the tabular prefix pushed last."""
        del self._tabular_prefixes[-1]

    def tabular_prefix(self, key: str) -> AbstractContextManager[None]:
        """Add ``key`` to the prefixes of column names in a block."""
        return _pushed(self._tabular_prefixes, key)

    def set_iteration(self, iteration: int) -> None:
        """Set the ``step`` given to sinks with subsequent rows; runners set environment steps."""
        self._step = int(iteration)

    def rewind(
        self,
        key: str,
        value: float,
        marks: Mapping[str, Any] | None = None,
        step: int | None = None,
    ) -> None:
        """Delete table rows with more than ``value`` in column ``key``, and those after a mark.

        For a run resumed from a checkpoint that is older than its last row. Ranks other than the
        first, whose output is disabled, change no file.

        Args:
            key, value: column, and its largest value to keep.
            marks: result of ``table_marks``; ignored for files that were changed since.
            step: last step whose rows TensorBoard keeps; ``None``: it keeps all.
        """
        for name, table in self._csv_tables().items() if not self._disabled else ():
            table.rewind(key, value, (marks or {}).get(name))
        if self._summary is not None and step is not None:
            self._summary.rewind(step)

    def table_marks(self) -> dict[str, Any]:
        """Return the current position in each table, by file name, for a checkpoint."""
        return {name: table.mark() for name, table in self._csv_tables().items()}

    def begun_row(self) -> list[list[Any]]:
        """Return the columns set since the last row, [name, value] each, for a checkpoint."""
        return [[name, value] for name, value in self._row.items()]

    def changed_tables(self, marks: Mapping[str, Any]) -> list[str]:
        """Return the files whose rows up to their mark in ``marks`` have changed."""
        tables = self._csv_tables().items()
        return [k for k, table in tables if k in marks and not table.starts_like(marks[k])]

    def _csv_tables(self) -> dict[str, CsvSink]:
        return {os.path.basename(name): table.output for name, table in self._tables.items()}

    def _record(self, name: str, value: Any) -> None:
        if not (self._disabled or self._tabular_disabled):
            prefix = "".join(self._tabular_prefixes)
            self._row[prefix + name] = plain_value(prefix + name, value)

    # Outputs

    def add_text_output(self, file_name: PathLike) -> None:
        """Add a file to which text lines are appended."""
        name = os.path.abspath(file_name)
        if name not in self._texts:
            self._texts[name] = Guarded(TextFile(_with_parent(name)), name, limit=None)

    def get_text_outputs(self) -> list[str]:
        """Return the paths of the files to which text lines are appended."""
        return [*self._texts]

    def remove_text_output(self, file_name: PathLike) -> None:
        """Close a text file; unknown files are ignored."""
        _close(self._texts.pop(os.path.abspath(file_name), None))

    def add_tabular_output(self, file_name: PathLike, append: bool = False) -> None:
        """Add a CSV file for rows; it is emptied unless ``append`` is set or it was held."""
        name = os.path.abspath(file_name)
        if name in self._held_tables:
            self._tables[name] = self._held_tables.pop(name)
        elif name not in self._tables:
            table = CsvSink(_with_parent(name), append)
            self._tables[name] = Guarded(table, name, limit=None)

    def remove_tabular_output(self, file_name: PathLike) -> None:
        """Close a CSV file; unknown files are ignored."""
        for tables in (self._tables, self._held_tables):
            _close(tables.pop(os.path.abspath(file_name), None))

    def hold_tabular_output(self, file_name: PathLike) -> None:
        """Pause a CSV file until ``add_tabular_output`` is called with it again."""
        name = os.path.abspath(file_name)
        if name in self._tables:
            self._held_tables[name] = self._tables.pop(name)

    def add_sink(self, sink: Sink) -> None:
        """Add a sink for rows; it is dropped when it fails three times in a row."""
        self._sinks.append(Guarded(sink, type(sink).__name__))

    def remove_sink(self, sink: Sink) -> None:
        """Close and remove a sink; unknown sinks are ignored."""
        for guarded in [guarded for guarded in self._sinks if guarded.output is sink]:
            self._sinks.remove(guarded)
            guarded.close()

    def attach(self, path: PathLike) -> None:
        """Pass a file of the run, such as a plot or a video, to the sinks that take files."""
        for sink in self._sinks:
            sink.attach(Path(path), self._step)

    def get_trackers(self) -> list[str]:
        """Return the names of the experiment trackers that receive rows."""
        outputs = [sink.output for sink in self._sinks]
        return [output.tracker for output in outputs if isinstance(output, TrackerSink)]

    def set_console(self, enabled: bool) -> None:
        """Enable or disable output of lines and rows to the terminal (for a progress line)."""
        self._console = enabled

    def set_log_tabular_only(self, log_tabular_only: bool) -> None:
        """Show only the table on the terminal, redrawn in place; files still get all lines."""
        self._log_tabular_only = log_tabular_only

    def get_log_tabular_only(self) -> bool:
        """Return True if the terminal shows only the table."""
        return self._log_tabular_only

    def set_tf_summary_dir(self, dir_name: PathLike | None) -> None:
        """Write rows for TensorBoard to this directory; None disables it."""
        self.set_tf_summary_writer(None if dir_name is None else TensorBoardSink(dir_name).writer)
        self._summary_dir = None if dir_name is None else os.path.abspath(dir_name)

    def get_tf_summary_dir(self) -> str | None:
        """Return the directory given to ``set_tf_summary_dir``."""
        return self._summary_dir

    def set_tf_summary_writer(self, writer_name: Any) -> None:
        """Write rows to this open ``SummaryWriter`` and close the previous one; None: disable."""
        if self._summary is not None:
            self.remove_sink(self._summary)
        self._summary = None if writer_name is None else TensorBoardSink(writer=writer_name)
        if self._summary is not None:
            self.add_sink(self._summary)

    def get_tf_summary_writer(self) -> Any:
        """Return the ``SummaryWriter`` in use, or None."""
        return None if self._summary is None else self._summary.writer

    # Snapshots

    def set_snapshot_dir(self, dir_name: PathLike | None) -> None:
        """Set the directory of snapshots; None disables them."""
        self._snapshot_dir = None if dir_name is None else os.path.abspath(dir_name)

    def get_snapshot_dir(self) -> str | None:
        """Return the directory of snapshots, or None."""
        return self._snapshot_dir

    def set_snapshot_mode(self, mode: str) -> None:
        """Set which iterations are saved: "none", "last", "all", "gap" or "last+gap".

        Raises:
            ValueError: the mode is unknown.
        """
        if mode not in SNAPSHOT_MODES:
            raise ValueError(f"snapshot_mode={mode!r} is unknown; use one of {SNAPSHOT_MODES}.")
        self._snapshot_mode = mode

    def get_snapshot_mode(self) -> str:
        """Return the snapshot mode."""
        return self._snapshot_mode

    def set_snapshot_gap(self, gap: int) -> None:
        """Set the number of iterations between kept snapshots in the modes with "gap".

        Raises:
            ValueError: ``gap`` is less than one.
        """
        if gap < 1:
            raise ValueError(f"snapshot gap must be at least 1 iteration, got {gap!r}.")
        self._snapshot_gap = int(gap)

    def get_snapshot_gap(self) -> int:
        """Return the number of iterations between kept snapshots."""
        return self._snapshot_gap

    def save_itr_params(self, itr: int, params: Any) -> None:
        """Save a tree of tensors, arrays, numbers and strings, if the snapshot mode requires it.

        The files are params.pkl and itr_<itr>.pkl in the snapshot directory; ``torch.load`` reads
        them with its safe defaults. A full disk causes one warning and does not stop the run.

        Raises:
            TypeError: ``params`` contains an object of another type; the message gives its path.
            RunDirectoryError: the run directory has been deleted or moved.
        """
        if self._snapshot_dir is None or self._disabled:
            return
        for name in snapshot_names(self._snapshot_mode, itr, self._snapshot_gap):
            path = Path(self._snapshot_dir, name)
            self.check_run_dir(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_snapshot(path, params)
                self._lacks_snapshot = False
            except OSError as error:
                self._snapshot_failures += 1
                self._lacks_snapshot = True
                if self._snapshot_failures == 1:
                    message = f"{path} could not be saved ({type(error).__name__}: {error})"
                    warnings.warn(f"{message}; the run continues.", RuntimeWarning, stacklevel=2)

    def lacks_snapshot(self) -> bool:
        """Return True if the newest snapshot could not be saved: the file has an older one."""
        return self._lacks_snapshot

    # The run directory

    def set_settings_file(self, path: Path) -> None:
        """Set the file in the run directory whose absence means that the directory is lost."""
        self._settings_file = Path(os.path.abspath(path))

    def check_run_dir(self, path: PathLike | None = None) -> None:
        """Check that the run's results can be written: its directory still holds its settings.

        A directory that somebody has created in the place of a deleted one does not.

        Args:
            path: what is going to be written; outside of the run directory, nothing is checked.

        Raises:
            RunDirectoryError: the run directory has been deleted, emptied or moved.
        """
        file = self._settings_file
        if file is None or (path is not None and not Path(path).is_relative_to(file.parent)):
            return
        try:
            os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            raise RunDirectoryError(
                f"{file.parent} has been deleted, emptied or moved while the run was writing to it "
                f"({file.name} is missing). Nothing more can be saved. Start the run again, or, if "
                "the directory was moved, resume it there: rlpyt resume NEW_DIRECTORY."
            ) from None
        except OSError:
            pass  # writing reports it, and the file system may recover

    # Complete state

    def disable(self) -> None:
        """Disable all output, as in ranks other than the first."""
        self._disabled = True

    def enable(self) -> None:
        """Enable output again."""
        self._disabled = False

    def disable_tabular(self) -> None:
        """Disable recording of table rows."""
        self._tabular_disabled = True

    def enable_tabular(self) -> None:
        """Enable recording of table rows again."""
        self._tabular_disabled = False

    @contextmanager
    def session(self) -> Iterator["Logger"]:
        """Restore the logger's state at the end of a block.

        Outputs added in the block are closed; earlier ones are kept.
        """
        before, kept = _copied(vars(self)), set(self._outputs())
        try:
            yield self
        finally:
            for output in self._outputs():
                if output not in kept:
                    output.close()
            vars(self).update(before)

    @contextmanager
    def run_session(self) -> Iterator["Logger"]:
        """Restore the logger's state at the end of a run.

        A run inside another one starts with the outputs from before that one.
        """
        with self.session():
            outside = self._outside or {name: vars(self)[name] for name in OF_A_RUN}
            self._outside = _copied(outside)
            vars(self).update(_copied(outside), _training=False)
            yield self

    @contextmanager
    def training(self) -> Iterator["Logger"]:
        """Let a training write to the current run, unless it is inside another training of it."""
        with self.run_session() if self._training else nullcontext():
            self._training = True
            try:
                yield self
            finally:
                self._training = False

    def _outputs(self) -> list[Guarded]:
        files = [*self._texts.values(), *self._tables.values(), *self._held_tables.values()]
        return files + self._sinks


@contextmanager
def _pushed(stack: list[str], item: str) -> Iterator[None]:
    depth = len(stack)
    stack.append(item)
    try:
        yield
    finally:
        del stack[depth:]


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of attributes; the outputs themselves are shared."""
    return {k: copy.copy(v) if isinstance(v, (list, dict)) else v for k, v in state.items()}


def _with_parent(file_name: str) -> Path:
    path = Path(file_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _close(output: Guarded | None) -> None:
    if output is not None:
        output.close()
