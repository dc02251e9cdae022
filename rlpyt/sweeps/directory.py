"""A sweep's directory: its settings, jobs, launcher lock and requests to the launcher."""

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from shlex import quote
from typing import Any

from rlpyt.sweeps.jobs import Job, JobDirectory
from rlpyt.utils.files import write_text
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.signed import read_json, schema_of
from rlpyt.utils.text import counted
from rlpyt.version import VERSION

PathLike = str | os.PathLike[str]

QUEUE = "queue"
ABOUT = "sweep.json"
PAUSED = "paused"
TO_STOP = "to_stop"
FORGIVEN = "forgiven"
TREE = "experiments_tree.txt"
NUM_LAUNCHED = "num_launched.txt"
FORMAT = 2
LEAST_FREE_BYTES = 50 * 2**20  # free disk space below which no run starts


@dataclass(frozen=True)
class About:
    """Settings of a sweep, the content of ``queue/sweep.json``."""

    title: str  # heading of reports
    resources: Resources  # the hardware and its division among runs
    where: str = "local"  # name of the executor
    place: Mapping[str, Any] = field(default_factory=dict)  # its settings, such as the partition
    search: Mapping[str, Any] = field(default_factory=dict)  # of a search, which adds runs
    made_by: str = ""  # command line that created the sweep
    made: float = 0.0  # seconds since 1970
    egl_device: bool = False  # True to give runs the index of their GPU in EGL_DEVICE_ID
    together: int = 1  # runs that train in one process
    file_name: str = ""  # of the copy of the sweep file in ``queue``
    format: int = FORMAT
    rlpyt: str = VERSION


class SweepDirectory:
    """A sweep on disk. The launcher changes it; other programs read it and leave requests.

    Raises:
        FileNotFoundError: the directory holds no sweep.
        ValueError: the sweep has another format, or its file is damaged.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.queue = self.path / QUEUE
        about = self.queue / ABOUT
        if not about.is_file():
            raise FileNotFoundError(
                f"{path} holds no sweep: {QUEUE}/{ABOUT} not found. Give the directory that "
                "`rlpyt sweep` named when it started."
            )
        try:
            content = read_json(about, "the file of a sweep", schema_of(About))
            if content.get("format") != FORMAT:
                raise ValueError(f"format {content.get('format')}, this rlpyt reads {FORMAT}")
            values = {
                item.name: content[item.name] for item in fields(About) if item.name in content
            }
            self.about = About(**values | {"resources": Resources(**values["resources"]).checked()})
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{about} is not the file of a sweep: {what}.") from error

    @classmethod
    def create(
        cls,
        path: Path | str,
        about: About,
        jobs: Iterable[Job],
        beside: Mapping[str, bytes] | None = None,
    ) -> "SweepDirectory":
        """Create a sweep in a directory, which may hold other files, atomically.

        ``beside`` has the content of further files of the queue's directory, by name.

        Raises:
            FileExistsError: the directory holds a sweep.
        """
        path = Path(path).absolute()
        if (path / QUEUE).exists():
            raise _taken(path)
        unfinished = path / f".{QUEUE}.{os.getpid()}"
        shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process with the same pid
        unfinished.mkdir(parents=True)
        try:
            for job in jobs:
                JobDirectory.create(unfinished / f"{job.number:05d}", job, synced=False)
            os.sync()  # once for all files, before the queue appears
            for name, content in (beside or {}).items():
                (unfinished / name).write_bytes(content)
            _write_about(unfinished, replace(about, made=about.made or time.time()))
            os.rename(unfinished, path / QUEUE)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _taken(path) from None  # another launcher has created one meanwhile
            raise
        return cls(path)

    def divide(self, resources: Resources) -> None:
        """Give the next launcher other hardware, or another division of it."""
        self.about = replace(self.about, resources=resources)
        _write_about(self.queue, self.about)

    def jobs(self) -> list[JobDirectory]:
        """Return all jobs in the order of their numbers."""
        paths = [path for path in self.queue.glob("[0-9]*") if re.fullmatch("[0-9]+", path.name)]
        ordered = sorted(paths, key=lambda path: (len(path.name), path.name))
        return [JobDirectory(path) for path in ordered]

    def add(self, job: Job) -> JobDirectory:
        """Add a job."""
        return JobDirectory.create(self.queue / f"{job.number:05d}", job)

    def lock(self) -> RunLock:
        """Return the lock of the sweep's launcher.

        Raises:
            RunDirectoryError: on entering, if another launcher is active; the message names it.
        """
        return LauncherLock(self.queue)

    # Requests to the launcher, as files.

    @property
    def paused(self) -> bool:
        """Return True if no further run should start."""
        return (self.queue / PAUSED).exists()

    def pause(self, paused: bool = True) -> None:
        """Stop or resume starting runs; active runs continue."""
        (self.queue / PAUSED).touch() if paused else (self.queue / PAUSED).unlink(missing_ok=True)

    def waits_for(self) -> str:
        """Return the reason why no run starts now, as a message; empty if there is none."""
        if self.paused:
            return f"paused: no run starts until rlpyt sweep unpause {quote(str(self.path))}"
        if shutil.disk_usage(self.path).free < LEAST_FREE_BYTES:
            return (
                f"waiting: the disk of {self.path} is nearly full; no run starts until more than "
                f"{LEAST_FREE_BYTES / 2**20:,.0f} MiB are free"
            )
        return ""

    @property
    def to_stop(self) -> bool:
        """Return True if the launcher was asked to end."""
        return (self.queue / TO_STOP).exists()

    def stop(self) -> int:
        """Ask the launcher and all active runs to end; runs save a checkpoint first.

        Returns:
            The number of runs that were asked.
        """
        asked = 0
        if self.launcher():
            (self.queue / TO_STOP).touch()
        for job in self.jobs():
            attempts = job.attempts()
            if not attempts or attempts[-1].ended is not None:
                continue
            waits = attempts[-1].begun is None and attempts[-1].remote_id  # in a cluster's queue
            if waits or job.state(attempts) == "running":
                job.request_end(attempts[-1].number, "stopped")
                asked += 1
        return asked

    def forgive(self) -> list[str]:
        """Queue failed jobs again without counting earlier failures; return their names.

        An active launcher is notified.
        """
        names = []
        for job in self.jobs():
            attempts = job.attempts()
            if job.state(attempts) == "failed":
                for attempt in attempts:
                    if attempt.failed:
                        job.request_end(attempt.number, "forgiven")
                names.append(job.job.name)
        if names:
            (self.queue / FORGIVEN).touch()
        return names

    def take_forgiven(self) -> bool:
        """Return True if failed jobs were queued again since the last call."""
        try:
            (self.queue / FORGIVEN).unlink()
        except FileNotFoundError:
            return False
        return True

    def forget_requests(self) -> None:
        """Remove requests to an earlier launcher."""
        for request in (TO_STOP, FORGIVEN):
            (self.queue / request).unlink(missing_ok=True)

    def launcher(self) -> str:
        """Return a description of the active launcher; empty if there is none."""
        return LauncherLock(self.queue).owner()


class LauncherLock(RunLock):
    """The lock that is held by the launcher of a sweep."""

    name = "launcher.lock"
    requires_locks = True  # the runs' supervisors use them, too

    def refusal(self, owner: dict[str, Any]) -> str:
        """Return the message for a second launcher."""
        sweep = self.path.parent.parent
        return (
            f"{sweep} already has a launcher: process "
            f"{owner.get('pid', 'unknown')} on {owner.get('host', 'this machine')}. See "
            f"`rlpyt status {quote(str(sweep))}`, or end that launcher first. If that "
            f"machine is lost, remove {self.path}."
        )


def log_exps_tree(exp_dir: PathLike, log_dirs: Sequence[PathLike], runs_per_setting: int) -> None:
    """Write ``experiments_tree.txt``: the number of runs and the directory of each setting."""
    lines = [
        f"launched by process {os.getpid()}",
        f"{counted(len(log_dirs), 'setting')} x {counted(runs_per_setting, 'run')} = "
        f"{len(log_dirs) * runs_per_setting}",
        "",
        *map(str, log_dirs),
    ]
    Path(exp_dir).mkdir(parents=True, exist_ok=True)
    write_text(Path(exp_dir, TREE), "\n".join(lines) + "\n")


def log_num_launched(exp_dir: PathLike, n: int, total: int) -> None:
    """Write ``num_launched.txt``: the runs started so far; disk errors are ignored."""
    try:
        write_text(Path(exp_dir, NUM_LAUNCHED), f"{n} of {total} launched\n")
    except OSError:
        return


def _write_about(queue: Path, about: About) -> None:
    write_text(queue / ABOUT, json.dumps(asdict(about), indent=1) + "\n")


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} already holds a sweep: resume it (rlpyt sweep {quote(str(path))}), or choose "
        "another directory."
    )
