"""Outputs for rows of results: a CSV file, TensorBoard, experiment trackers, a custom function.

``Guarded`` catches the errors of a sink during training: a full disk or a lost connection loses
rows but does not stop the run.
"""

import csv
import glob
import io
import itertools
import json
import math
import netrc
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from rlpyt.errors import DamagedFile
from rlpyt.utils.extras import needing
from rlpyt.utils.files import atomic_write, naming, read_regular, sync_file
from rlpyt.utils.logging.progress_csv import MAX_PROGRESS_BYTES
from rlpyt.utils.names import flattened

Row = dict[str, Any]

PROJECT = "rlpyt"  # of runs in experiment trackers, if their environment variable names no other
IMAGES = (".png", ".jpg", ".gif")
MLFLOW_METRICS = 1000  # most metrics of a request


class Sink(Protocol):
    """Output for one row of results per logging interval.

    A sink with a method ``attach(path, step)`` also takes files of a run (plots, videos, results),
    and skips formats that it cannot show.
    """

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
        self._call(self.output.write, *args)

    def attach(self, path: Path, step: int) -> None:
        """Call the output's ``attach`` if it takes files and has not been dropped."""
        if hasattr(self.output, "attach"):
            self._call(self.output.attach, path, step)

    def _call(self, method: Callable[..., object], *args: Any) -> None:
        if self.dropped:
            return
        try:
            method(*args)
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
            then = "without this output" if self.limit else "and tries again later"
            _warn(f"{self.name} failed ({_named(error)}); the run continues {then}.")
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
        self._unwritten: list[Row] = []
        if append and self.path.exists():
            self._read_existing()
        else:
            with atomic_write(self.path):
                pass

    def write(self, row: Row, step: int = 0) -> None:
        """Append a row; on error the file is unchanged.

        If the disk is full, for example, a later call writes the row, too.
        """
        self._unwritten.append(row)
        self._write_waiting()

    def _write_waiting(self) -> None:
        while self._unwritten:
            first = self._unwritten.pop(0)
            try:
                self._append(first)
            except OSError:
                self._unwritten.insert(0, first)
                raise

    def _append(self, row: Row) -> None:
        new = [name for name in row if name not in self.columns]
        if new and self.columns:
            self._rewrite(self.columns + new)
        elif new:
            self.columns = new
        # each row is one line of the file
        cells = [" ".join(str(row.get(name, "")).splitlines()) for name in self.columns]

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
            mark: result of ``mark``; if the rows before it are unchanged, those after it are
                deleted instead.
        """
        if self.columns and mark is not None and self.starts_like(mark):
            rows = itertools.count()  # number of each row
            self._rewrite(self.columns, keep=lambda _: next(rows) < mark["rows"])
        elif column in self.columns:
            index = self.columns.index(column)
            self._rewrite(self.columns, keep=lambda cells: _number(cells[index]) <= value)

    def mark(self) -> dict[str, Any]:
        """Return the current position for a checkpoint: columns, number of rows, last row.

        The rows are on the disk then, also those that could not be written before: after a loss of
        power, the checkpoint must not have more rows than the file.
        """
        with suppress(OSError):  # `write` has warned
            self._write_waiting()
        with suppress(OSError), open(self.path, "r+b") as file:
            sync_file(file)
        return {"columns": list(self.columns), "rows": self._n_rows, "last": self._last}

    def starts_like(self, mark: Mapping[str, Any]) -> bool:
        """Return True if the rows up to ``mark`` are unchanged; there may be new columns."""
        n, columns, expected = mark["rows"], mark["columns"], mark["last"]
        if self.columns[: len(columns)] != columns or n > self._n_rows:
            return False
        last = next(itertools.islice(self._rows(), n - 1, n), []) if n > 0 else []
        return bool(last[: len(expected)] == expected)

    def close(self) -> None:
        """Write rows that could not be written before; the file is not kept open."""
        self._write_waiting()

    def _rows(self) -> Iterator[list[str]]:
        if self.path.exists():
            with open(self.path, encoding="utf-8", errors="replace", newline="") as file:
                yield from itertools.islice(csv.reader(file), 1, None)

    def _read_existing(self) -> None:
        content = read_regular(self.path, MAX_PROGRESS_BYTES)
        end = content.rfind(b"\n") + 1
        try:
            text = io.TextIOWrapper(io.BytesIO(content[:end]), encoding="utf-8-sig", newline="")
            rows = csv.reader(text)
            self.columns = next(rows, [])
            self._count(rows)
        except (UnicodeDecodeError, csv.Error) as error:
            raise DamagedFile(
                f"{self.path} is damaged ({error}). Delete its damaged lines, or the file."
            ) from error
        if end < len(content):
            os.truncate(self.path, end)

    def _rewrite(
        self, columns: list[str], keep: Callable[[list[str]], bool] = lambda cells: True
    ) -> None:
        padded = (cells + [""] * (len(columns) - len(cells)) for cells in self._rows())
        kept = filter(keep, padded)
        with atomic_write(self.path) as new:
            new.write(_csv_bytes([columns]))
            while lines := list(itertools.islice(kept, 1000)):
                new.write(_csv_bytes(lines))
        self.columns = columns
        self._count(self._rows())

    def _count(self, rows: Iterable[list[str]]) -> None:
        self._n_rows, self._last = 0, []
        for self._n_rows, self._last in enumerate(rows, 1):
            pass


class TensorBoardSink:
    """Sink for TensorBoard scalars and images (extra ``tensorboard``).

    Strings, NaN and videos other than GIF are left out.

    Args:
        log_dir: directory of the event file.
        writer: open ``SummaryWriter`` to use instead; ``close`` closes it.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, writer: Any = None) -> None:
        if writer is None:
            with needing("The summary writer", "tensorboard"):
                from torch.utils.tensorboard import SummaryWriter
            writer = SummaryWriter(log_dir)
        self.writer = writer

    def write(self, row: Row, step: int) -> None:
        """Write every number as a scalar of this step."""
        for name, value in numbers_of(row).items():
            self.writer.add_scalar(name, value, step)

    def rewind(self, step: int) -> None:
        """Let TensorBoard leave out earlier rows of later steps, which a resumed run repeats."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        start = SessionLog(status=SessionLog.START)
        self.writer._get_file_writer().add_event(Event(session_log=start), step + 1)

    def attach(self, path: Path, step: int) -> None:
        """Write an image, or the numbers of a JSON file as scalars."""
        self.write(numbers_in_file(path), step)
        if path.suffix in IMAGES:
            from tensorboard.compat.proto.summary_pb2 import Summary

            image = Summary.Image(encoded_image_string=path.read_bytes())
            value = Summary.Value(tag=path.stem, image=image)
            self.writer._get_file_writer().add_summary(Summary(value=[value]), step)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()


class Tracker:
    """Base of the sinks of experiment trackers.

    Attributes:
        run_id: ID of the run.
        last_step: rows up to this step are in the run; -1 if it is empty, ``None`` if not known.
        note: what the user should know about the run, if anything.
    """

    run_id: str
    last_step: int | None = None
    note = ""

    def write(self, row: Row, step: int) -> None:
        """Log the row at this step."""
        raise NotImplementedError

    def write_rows(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Log (step, row) pairs."""
        for step, row in rows:
            self.write(row, step)


class WandbSink(Tracker):
    """Sink for Weights & Biases (extra ``wandb``).

    A run continued offline is empty: its files replace those of the earlier process.

    The key is only read from WANDB_API_KEY or from the file of ``wandb login``, since other users
    could read an argument in the process list. Without a key the run is stored offline; upload it
    later with ``wandb sync``.

    Args:
        project: project of the run; by default WANDB_PROJECT or "rlpyt".
        name, config, group: as in ``wandb.init``.
        run_id: ID of a run to continue; ``None``: a new run.
        init_kwargs: further arguments of ``wandb.init``, such as ``mode`` or ``dir``.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        run_id: str | None = None,
        group: str | None = None,
        **init_kwargs: Any,
    ) -> None:
        with needing("WandbSink", "wandb"):
            import wandb
        self._wandb = wandb
        if "WANDB_MODE" not in os.environ and not has_wandb_key():
            init_kwargs.setdefault("mode", "offline")
        if run_id is not None:
            init_kwargs["id"] = run_id
            mode = init_kwargs.get("mode") or os.environ.get("WANDB_MODE")
            if mode != "offline":  # otherwise the upload replaces that of the earlier process
                init_kwargs["resume"] = "allow"
        project = project or os.environ.get("WANDB_PROJECT", PROJECT)
        self.run: Any = wandb.init(
            project=project, name=name, config=config, group=group, **init_kwargs
        )
        self.run_id = str(self.run.id)
        self.last_step = -1 if self.run.offline else self.run.starting_step - 1
        if self.run.offline:
            self.note = (
                f"W&B run stored offline. Upload it with: wandb sync {self.run.settings.sync_dir}"
            )

    def write(self, row: Row, step: int) -> None:
        """Log the row at this step."""
        self.run.log(dict(row), step=step)

    def attach(self, path: Path, step: int) -> None:
        """Log an image or video with the last row; write numbers of a JSON file to the summary."""
        step = max(step, self.run.starting_step)  # nothing can be added to an earlier one
        if path.suffix in IMAGES:
            self.run.log({path.stem: self._wandb.Image(str(path))}, step=step)
        elif path.suffix == ".mp4":
            self.run.log({path.stem: self._wandb.Video(str(path), format="mp4")}, step=step)
        else:
            self.run.summary.update(numbers_in_file(path))
            self.run.save(glob.escape(str(path)), base_path=str(path.parent), policy="now")

    def close(self, failed: bool = False) -> None:
        """Finish the run."""
        self.run.finish(exit_code=int(failed))


class MlflowSink(Tracker):
    """Sink for MLflow (extra ``mlflow``).

    Runs are sent to MLFLOW_TRACKING_URI, by default to MLflow's database in the working directory
    (``mlflow.db``). NaN and strings are left out; names lose characters that MLflow refuses.

    Args:
        project: MLflow's experiment; by default MLFLOW_EXPERIMENT_NAME or "rlpyt".
        name: name of the run.
        config: its settings, stored as parameters with dotted names.
        run_id: ID of a run to continue; ``None``: a new run.
        group: value of the run's tag "group".

    Raises:
        ImportError: mlflow is not installed.
        MlflowException: the server does not answer, or has no such run.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        run_id: str | None = None,
        group: str | None = None,
    ) -> None:
        with needing("MlflowSink", "mlflow"):
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        self._metric, self._client = Metric, MlflowClient()
        self._params: list[Any] = []
        if run_id is not None:
            self._client.update_run(run_id, status="RUNNING")
            self.run_id = run_id
            return
        project = project or os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        known = self._client.get_experiment_by_name(project)
        experiment_id = known.experiment_id if known else self._client.create_experiment(project)
        tags = {} if group is None else {"group": group}
        run = self._client.create_run(experiment_id, run_name=name, tags=tags)
        self.run_id = str(run.info.run_id)
        # With the first row: if this failed here, nobody would know the run that exists already.
        self._params = [
            Param(_mlflow_name(key), str(value)[:500])
            for key, value in flattened(config or {}).items()
        ]

    def write(self, row: Row, step: int) -> None:
        """Log every number as a metric of this step."""
        self.write_rows([(step, row)])

    def write_rows(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Log rows by as few requests as possible; each costs a transaction."""
        while self._params:
            self._client.log_batch(self.run_id, params=self._params[:100])
            del self._params[:100]
        now_ms = int(time.time() * 1000)
        metrics = [
            self._metric(_mlflow_name(key), value, now_ms, step)
            for step, row in rows
            for key, value in numbers_of(row).items()
        ]
        for start in range(0, len(metrics), MLFLOW_METRICS):
            self._client.log_batch(self.run_id, metrics[start : start + MLFLOW_METRICS])

    def attach(self, path: Path, step: int) -> None:
        """Store the file as an artifact, and the numbers of a JSON file as metrics."""
        self.write(numbers_in_file(path), step)
        self._client.log_artifact(self.run_id, str(path))

    def close(self, failed: bool = False) -> None:
        """Mark the run as finished or failed."""
        self._client.set_terminated(self.run_id, "FAILED" if failed else "FINISHED")


class TrackioSink(Tracker):
    """Sink for trackio (extra ``trackio``).

    Runs are stored in a local database (TRACKIO_DIR, by default in Hugging Face's cache), or sent
    to the Space TRACKIO_SPACE_ID or the server TRACKIO_SERVER_URL.

    Args:
        project: trackio's project; by default TRACKIO_PROJECT or "rlpyt".
        name: name of the run, to which a random number is added: trackio knows runs by their name.
        config, group: as in ``trackio.init``.
        run_id: name of a run to continue; ``None``: a new run.

    Raises:
        ImportError: trackio is not installed.
    """

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        run_id: str | None = None,
        group: str | None = None,
    ) -> None:
        with needing("TrackioSink", "trackio"):
            import trackio
        self._trackio = trackio
        self._run: Any = trackio.init(
            project=project or os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=run_id or f"{name or 'run'}-{secrets.token_hex(3)}",
            group=group,
            config=config,
            resume="never" if run_id is None else "allow",
            embed=False,
        )
        self.run_id = str(self._run.name)

    def write(self, row: Row, step: int) -> None:
        """Log the numbers of the row at this step."""
        self._run.log(numbers_of(row), step=step)

    def attach(self, path: Path, step: int) -> None:
        """Log an image, a video, or the numbers of a JSON file."""
        if path.suffix == ".mp4":
            self._run.log({path.stem: self._trackio.Video(str(path))}, step=step)
        elif path.suffix in IMAGES:
            self._run.log({path.stem: self._trackio.Image(str(path))}, step=step)
        else:
            self._run.log(numbers_in_file(path), step=step)

    def close(self, failed: bool = False) -> None:
        """Finish the run.

        Raises:
            ConnectionError: a server has not received everything; trackio sends it when the run is
                opened again.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self._run.finish()
        unsent = [str(w.message) for w in caught if w.category is UserWarning]
        if unsent:
            raise ConnectionError(unsent[-1])


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


def numbers_of(row: Row) -> dict[str, float]:
    """Return the numbers of a row that are not NaN."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, (int, float)) and not math.isnan(value)
    }


def numbers_in_file(path: Path) -> dict[str, float]:
    """Return the floats in the dictionary of a JSON file as "<file>/<key>"; others have none."""
    if path.suffix != ".json":
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return {f"{path.stem}/{key}": x for key, x in content.items() if isinstance(x, float)}


def has_wandb_key() -> bool:
    """Return True if there is a key of Weights & Biases: WANDB_API_KEY or that of its login."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    url = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    try:
        keys = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return keys.authenticators(urlsplit(url).hostname or "") is not None


def _mlflow_name(name: str) -> str:
    return re.sub(r"[^\w/.\- :]", "", name)


def _csv_bytes(lines: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode(errors="backslashreplace")


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
