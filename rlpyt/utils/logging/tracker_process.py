"""Process that sends the rows and files of a run to one experiment tracker.

``python -m rlpyt.utils.logging.tracker_process TRACKER RUN_DIR`` is started by ``TrackerSink``,
which sends JSON lines: ``{"row": steps}`` after a new row in progress.csv, ``{"attach": path}``,
and ``{"end": failed}``. Answers are JSON lines, too: a "note" or "warning" for the user, and why
something is "unsent" at the end. Output of the tracker's package goes to debug.log (standard
error).
"""

import contextlib
import itertools
import json
import os
import re
import select
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from rlpyt.utils.files import write_text
from rlpyt.utils.logging.progress_csv import NewRows
from rlpyt.utils.logging.sinks import MLFLOW_METRICS, MlflowSink, TrackioSink, WandbSink
from rlpyt.utils.signed import read_json, schema_of
from rlpyt.utils.text import counted

WAIT_VARIABLE = "RLPYT_TRACKER_WAIT_S"
MAX_WAIT_S = 86_400
WAIT_S = 10.0  # longest wait for a tracker at the end of a run, if the variable is not set
NICENESS = 5  # training has priority
INTERVAL_S = 5.0  # between two deliveries: several rows at once cost less
LONGEST_DELAY_S = 60.0  # between two attempts while the tracker does not answer
SINKS: dict[str, Callable[..., Any]] = {
    "wandb": WandbSink,
    "mlflow": MlflowSink,
    "trackio": TrackioSink,
}
SERVERS = {  # environment variables
    "wandb": ("WANDB_BASE_URL",),
    "mlflow": ("MLFLOW_TRACKING_URI",),
    "trackio": ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"),
}
# No reports to the makers of the packages, no capture of output, short waits for a server.
ENVIRONMENT = {
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
    "WANDB_CONSOLE": "off",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


@dataclass
class Memory:
    """Content of ``logger_<tracker>.json``: what the tracker has received."""

    server: str
    files: dict[str, float]  # path -> change that was sent
    failed: bool
    run_id: str | None = None
    steps: int = -1  # of the last row sent
    closed: bool = True  # everything has arrived


class Delivery:
    """Delivery of a run to a tracker, which remembers what has been sent.

    The memory is ``logger_<tracker>.json`` in the run directory.

    Args:
        run_dir: directory of the run.
        tracker: a key of ``SINKS``.
        server: where the tracker stores runs; the memory is ignored if it is of another one.
            ``None``: that of the memory.
        open_sink: returns the tracker's sink; called with its ``run_id``, or ``None`` for a new
            run, when there is something to send.
    """

    def __init__(
        self,
        run_dir: Path,
        tracker: str,
        server: str | None,
        open_sink: Callable[[str | None], Any],
    ) -> None:
        known = memory_of(run_dir, tracker) or Memory(server or "", {}, False)
        if server is not None and known.server != server:
            known = Memory(server, dict.fromkeys(known.files, 0.0), known.failed)
        self._run_dir, self._path, self._known = run_dir, _memory_path(run_dir, tracker), known
        self._open_sink = open_sink
        self._new_rows = NewRows(run_dir / "progress.csv")
        self._rows: deque[tuple[int, dict[str, Any]]] = deque()  # not yet sent
        self.sink: Any = None

    def attach(self, path: str) -> None:
        """Add a file to what must be sent; it is remembered relative to the run directory."""
        if Path(path).is_relative_to(self._run_dir):
            path = str(Path(path).relative_to(self._run_dir))
        self._known.files.setdefault(path, 0.0)

    def send(self) -> None:
        """Send all new rows and files; raise what the sink raises, to be called again."""
        self.read()
        if self.sink is None and self._known.closed and not self._rows and not self._new_files():
            return
        if self.sink is None:
            self.remember()  # the tracker may never answer
            self._open()
        try:
            while self._rows:
                several = self._first_rows()
                self.sink.write_rows(several)
                for _ in several:
                    self._known.steps, _ = self._rows.popleft()
            for path, changed in self._new_files().items():
                self.sink.attach(self._run_dir / path, max(self._known.steps, 0))
                self._known.files[path] = changed
        finally:
            self.remember()

    def read(self) -> None:
        """Read the rows of progress.csv that have not been sent."""
        newest = self._rows[-1][0] if self._rows else self._known.steps
        self._rows.extend(item for item in self._new_rows.read() if item[0] > newest)

    def unsent(self) -> str:
        """Return in words what has been read and not sent, or an empty string."""
        parts = {"row": len(self._rows), "file": len(self._new_files())}
        return ", ".join(counted(n, noun) for noun, n in parts.items() if n)

    def close(self, failed: bool | None) -> None:
        """Close the run in the tracker; ``None``: as an earlier process said."""
        self.end(failed)
        if self.sink is not None:
            self.sink.close(self._known.failed)
            self._known.closed = True
            self.remember()

    def end(self, failed: bool | None) -> None:
        """Set whether the run has ended early; ``None``: as an earlier process said."""
        self._known.failed = self._known.failed if failed is None else failed

    def remember(self) -> None:
        """Write the memory."""
        write_text(self._path, json.dumps(asdict(self._known), indent=2) + "\n")

    def _open(self) -> None:
        self.sink = self._open_sink(self._known.run_id)
        self._known.run_id, last, self._known.closed = self.sink.run_id, self.sink.last_step, False
        if last is not None and last != self._known.steps:  # the tracker knows better
            self._known.steps = last
            if last < 0:
                self._known.files = dict.fromkeys(self._known.files, 0.0)
            self._rows.clear()
            self._new_rows.restart()
            self.read()
        self.remember()

    def _first_rows(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the first rows to send, at most the values of one request to MLflow."""
        sizes = itertools.accumulate(len(row) for _, row in self._rows)
        n = max(sum(1 for _ in itertools.takewhile(MLFLOW_METRICS.__ge__, sizes)), 1)
        return list(itertools.islice(self._rows, n))

    def _new_files(self) -> dict[str, float]:
        """Return the files that have changed since they were sent, with the times of the change."""
        files = {path: self._run_dir / path for path in self._known.files}
        times = {path: file.stat().st_mtime for path, file in files.items() if file.exists()}
        sent = self._known.files
        return {path: changed for path, changed in times.items() if changed != sent[path]}


def memory_of(run_dir: Path, tracker: str) -> Memory | None:
    """Return what is known of the delivery to a tracker, ``None`` if nothing is.

    Raises:
        DamagedFile: the file has other content.
    """
    path = _memory_path(run_dir, tracker)
    kind = f"what {tracker} has received (without this file it receives everything again)"
    found = read_json(path, kind, schema_of(Memory)) if path.exists() else None
    return found and Memory(**{k: found[k] for k in Memory.__annotations__ if k in found})


def _memory_path(run_dir: Path, tracker: str) -> Path:
    return run_dir / f"logger_{tracker}.json"


def patience_s() -> float:
    """Return the seconds to wait for a tracker at the end of a run: RLPYT_TRACKER_WAIT_S, or 10.

    Raises:
        ValueError: the variable is not a number from 0 to ``MAX_WAIT_S``.
    """
    given = os.environ.get(WAIT_VARIABLE, WAIT_S)
    try:
        seconds = float(given)
        if 0 <= seconds <= MAX_WAIT_S:  # false for NaN
            return seconds
    except ValueError:
        pass
    raise ValueError(
        f"{WAIT_VARIABLE} must be a number of seconds from 0 to {MAX_WAIT_S:,}, got {given!r}."
    )


def prepare(run_dir: Path, tracker: str) -> str:
    """Set defaults of environment variables; return the server, or directory, that they name."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if tracker == "mlflow":
        known = memory_of(run_dir, tracker)
        local = (known and known.server) or f"sqlite:///{os.getcwd()}/mlflow.db"
        os.environ.setdefault("MLFLOW_TRACKING_URI", local)
    servers = [os.environ[name] for name in SERVERS[tracker] if os.environ.get(name)]
    if tracker == "trackio" and not servers:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # it would ask for the user's name
    # The memory is no place for passwords.
    return re.sub(r"(?<=://)[^/?][^?]*@", "", next(iter(servers), "")).partition("?")[0]


def create_database(uri: str) -> None:
    """Create a local database of MLflow that does not exist, and only as a whole.

    One whose creation was interrupted could not be used by any run, and several runs may start at
    the same time.
    """
    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or path.exists():
        return
    from mlflow.tracking import MlflowClient

    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        MlflowClient(f"sqlite:///{part}").search_experiments(max_results=1)
        with contextlib.suppress(FileExistsError):  # another run was faster
            os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


def sink_opener(run_dir: Path, tracker: str) -> Callable[[str | None], Any]:
    """Return a function that opens the tracker's sink, for ``Delivery``."""

    def open_sink(run_id: str | None) -> Any:
        config = read_json(run_dir / "params.json", "the settings of a run", {"type": "object"})
        name = run_dir.name
        if name.startswith("run_"):  # of a script or sweep: the directory above has the name
            name = f"{run_dir.parent.name}/{name}"
        more = {"dir": str(run_dir)} if tracker == "wandb" else {}
        if tracker == "mlflow":
            create_database(os.environ["MLFLOW_TRACKING_URI"])
        group = str(config.get("name", "")) or None
        return SINKS[tracker](name=name, config=config, run_id=run_id, group=group, **more)

    return open_sink


def _print_new(reason: str, before: str) -> None:
    """Print the traceback of an error with a new reason: a tracker may be unreachable for days."""
    if re.sub(r"0x[0-9a-f]+|\d+", "", reason) != re.sub(r"0x[0-9a-f]+|\d+", "", before):
        traceback.print_exc()


def serve(delivery: Delivery, tracker: str, reports: TextIO) -> int:
    """Deliver as the messages on standard input say; return the exit code of the process."""

    def report(**content: str) -> None:
        with contextlib.suppress(OSError):  # the run has been killed
            print(json.dumps(content), file=reports, flush=True)

    messages, failed, ended, has_failed = b"", None, False, False
    waiting, next_try_s, delay_s, reason = False, 0.0, 0.0, ""
    while True:
        patience_s = max(next_try_s - time.monotonic(), 0.0) if waiting else None
        if select.select([0], [], [], patience_s)[0]:
            content = os.read(0, 65536)
            ended = ended or not content
            *lines, messages = (messages + content).split(b"\n")
            for message in map(json.loads, lines):
                waiting = True
                if "attach" in message:
                    delivery.attach(message["attach"])
                if "end" in message:
                    ended, failed = True, message["end"]
        if not ended and time.monotonic() < next_try_s:
            continue
        try:
            delivery.send()
            if ended:
                delivery.close(failed)
            waiting, delay_s, next_try_s, reason = False, 0.0, time.monotonic() + INTERVAL_S, ""
        except Exception as error:
            before, reason = reason, " ".join(f"{type(error).__name__}: {error}".split())[:300]
            _print_new(reason, before)
            if not has_failed and not ended:
                report(
                    warning=f"{tracker} failed ({reason}). The run continues; its rows are kept in "
                    "progress.csv and sent when it answers."
                )
            has_failed = True
            delay_s = min(max(2 * delay_s, 1.0), LONGEST_DELAY_S)
            waiting, next_try_s = True, time.monotonic() + delay_s
        if ended and reason:
            report(unsent=reason)
        elif ended and delivery.sink is not None and delivery.sink.note:
            report(note=delivery.sink.note)
        if ended:
            return int(bool(reason))


def end_after_parent() -> None:
    """End this process some time after the run has been killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        time.sleep(patience_s())
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(tracker: str, run_dir: Path) -> int:
    """Run the process and return its exit code."""
    os.nice(NICENESS)
    end_after_parent()
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the packages print
    server = prepare(run_dir, tracker)
    run_dir = run_dir.absolute()
    delivery = Delivery(run_dir, tracker, server, sink_opener(run_dir, tracker))
    return serve(delivery, tracker, reports)


if __name__ == "__main__":
    if code := main(sys.argv[1], Path(sys.argv[2])):
        os._exit(code)  # without exit handlers, which may wait for a network
