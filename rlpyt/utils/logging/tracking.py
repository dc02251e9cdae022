"""Experiment trackers of a run: names of loggers, and the sink that leaves sending to a process.

Every tracker (Weights & Biases, MLflow, trackio) has a process of its own, see
``tracker_process``. It reads the rows from progress.csv, so training neither waits for a network
nor imports the tracker's package, and a row that could not be sent is still there later.
"""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from shlex import quote
from typing import Any

from rlpyt.errors import DamagedFile
from rlpyt.utils.extras import missing_extra
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.sinks import Row
from rlpyt.utils.logging.tracker_process import WAIT_VARIABLE, Delivery, patience_s
from rlpyt.utils.names import UnknownName

TRACKERS = ("wandb", "mlflow", "trackio")  # and their packages
LOGGERS = ("csv", "tensorboard", *TRACKERS)
POLL_S = 0.05
QUIET_S = 3.0  # of the wait at the end, without a message
PROCESS = "rlpyt.utils.logging.tracker_process"
PACKAGE_ROOT = Path(__file__).resolve().parents[3]


def logger_names(loggers: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of loggers, given as a list or with commas between them.

    Raises:
        UnknownName: a logger is unknown.
    """
    items = [loggers] if isinstance(loggers, str) else loggers
    names = [name.strip() for item in items for name in item.split(",")]
    for name in names:
        if name not in LOGGERS:
            raise UnknownName("logger", name, LOGGERS)
    return tuple(dict.fromkeys(names))


def check_installed(loggers: Iterable[str]) -> None:
    """Check that the packages of loggers are installed, without importing them.

    Raises:
        ImportError: a package is missing; the message says how to install it.
    """
    for name in loggers:
        found = name == "csv" or importlib.util.find_spec(name)
        if not found or getattr(found, "origin", "") is None:  # a directory "wandb" is a namespace
            raise missing_extra(f"The logger {name}", name, None)


class TrackerSink:
    """Sink that lets a process send the rows and files of a run to an experiment tracker.

    Args:
        run_dir: directory of the run, with progress.csv and params.json.
        tracker: "wandb", "mlflow" or "trackio".

    Raises:
        ValueError: RLPYT_TRACKER_WAIT_S is not a number of seconds.
    """

    def __init__(self, run_dir: str | os.PathLike[str], tracker: str) -> None:
        self.tracker, self.run_dir = tracker, Path(run_dir).absolute()
        self._patience_s = patience_s()
        self._files: list[str] = []
        self._failed: bool | None = None
        self._messages = b""  # to the process
        self._reports = b""  # from the process
        self._unsent = ""  # why the tracker has not received everything
        self._deadline: float | None = None
        paths = [os.environ.get("PYTHONPATH", "")]
        if not {"site-packages", "dist-packages"} & {*PACKAGE_ROOT.parts}:
            paths.insert(0, str(PACKAGE_ROOT))
        with open(self.run_dir / "debug.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", PROCESS, tracker, str(self.run_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                start_new_session=True,  # Ctrl-C is for the run, which ends its trackers itself
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    def write(self, row: Row, step: int) -> None:
        """Tell the process that progress.csv has a new row.

        Raises:
            RuntimeError: the process has ended.
        """
        if self._process.poll() is not None:
            raise RuntimeError(self._ended())
        if not self._messages:  # otherwise it has not read the last message yet
            self._send({"row": step})
        self._receive()

    def attach(self, path: Path, step: int) -> None:
        """Let the process send a file."""
        self._files.append(os.path.abspath(path))
        self._send({"attach": self._files[-1]})

    def end(self, failed: bool | None = None) -> None:
        """Tell the process that no further row or file follows, without waiting for it.

        Args:
            failed: True for a run that ended early; ``None`` if an earlier process knows.
        """
        if self._deadline is None:
            self._failed = failed
            self._send({"end": failed})
            self._deadline = time.monotonic() + self._patience_s

    def close(self) -> None:
        """Wait until everything is sent, for at most RLPYT_TRACKER_WAIT_S since ``end``."""
        self.wait()

    def wait(self, patient: bool = False) -> bool:
        """Wait until everything is sent, without a time limit if ``patient``; end the process.

        Ctrl-C stops waiting. What was not sent is reported in a warning.

        Returns:
            True if the tracker has received everything.
        """
        self.end()
        quiet_until = time.monotonic() + QUIET_S
        try:
            while self._process.poll() is None:
                now = time.monotonic()
                if now > (self._deadline or now) and not patient:
                    waited = f"not sent within {self._patience_s:g} s, see {WAIT_VARIABLE}"
                    self._unsent = self._unsent or waited
                    break
                if now > quiet_until:
                    limit = "" if patient else f", for at most {self._patience_s:g} s"
                    say(f"Waiting for {self.tracker}{limit} (Ctrl-C to stop waiting).")
                    quiet_until = float("inf")
                self._send()
                self._receive()
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            self._unsent = self._unsent or "interrupted"
        finally:
            with contextlib.suppress(ProcessLookupError):  # also what the package has started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._receive()
            self._stdin.close()
            self._stdout.close()
        if self._process.returncode and not self._unsent:
            self._unsent = self._ended()
        if self._unsent:
            warnings.warn(
                f"{self.tracker} has not received {self._rest()} ({self._unsent}). Send the rest "
                f"with: rlpyt upload {quote(str(self.run_dir))}",
                RuntimeWarning,
                stacklevel=2,
            )
        return not self._unsent

    def _rest(self) -> str:
        """Let a later process know all files and how the run ended; return what is not sent."""
        try:
            delivery = Delivery(self.run_dir, self.tracker, None, lambda run_id: None)
        except DamagedFile as error:
            return f"everything: {str(error).rstrip('.')}"
        for path in self._files:
            delivery.attach(path)
        delivery.end(self._failed)
        with contextlib.suppress(OSError):  # the directory is gone, or the disk is full
            delivery.remember()
        delivery.read()
        return delivery.unsent() or "the end of the run"

    def _ended(self) -> str:
        return f"its process ended with exit code {self._process.returncode}, see debug.log"

    def _send(self, *messages: dict[str, Any]) -> None:
        """Write messages, as far as the pipe has room; the rest follows with the next ones."""
        for message in messages:
            self._messages += json.dumps(message).encode() + b"\n"
        try:
            while self._messages:
                self._messages = self._messages[os.write(self._stdin.fileno(), self._messages) :]
        except (BlockingIOError, BrokenPipeError):
            pass  # a process that has ended is reported by `close`

    def _receive(self) -> None:
        """Read reports of the process, and show them."""
        try:
            while content := os.read(self._stdout.fileno(), 65536):
                self._reports += content
        except BlockingIOError:
            pass
        *lines, self._reports = self._reports.split(b"\n")
        for line in lines:
            report = json.loads(line)
            self._unsent = report.get("unsent", self._unsent)
            if "note" in report:
                say(report["note"])
            if "warning" in report:
                warnings.warn(report["warning"], RuntimeWarning, stacklevel=2)
