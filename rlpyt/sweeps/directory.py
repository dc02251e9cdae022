"""A sweep's directory: its jobs, who launches them, and what it has been asked to do."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rlpyt.sweeps.jobs import Job, JobDirectory
from rlpyt.utils.files import atomic_write
from rlpyt.utils.logging.lock import RunDirectoryError, RunLock
from rlpyt.version import VERSION

QUEUE = "queue"
ABOUT = "sweep.json"
PAUSED = "paused"
TO_STOP = "to_stop"
FORGIVEN = "forgiven"
FORMAT = 1
LEAST_FREE_BYTES = 50 * 2**20  # of the disk, to begin a run


@dataclass(frozen=True)
class About:
    """What belongs to a sweep as a whole; what ``queue/sweep.json`` holds.

    Attributes:
        title: for people.
        slots: affinity code that says what hardware there is, and how much of it a run gets.
        where: "local", "slurm" or "ray".
        place: further arguments of the place, such as the partition.
        search: what decides about runs that are not known from the start; empty: nothing does.
        made_by: the command line.
        made: seconds since 1970.
        egl_device: tell runs the index of their GPU as ``EGL_DEVICE_ID``.
        file_name: of the copy of the sweep file in ``queue``; empty: there was none.
    """

    title: str
    slots: str
    where: str = "local"
    place: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    made_by: str = ""
    made: float = 0.0
    egl_device: bool = False
    file_name: str = ""
    format: int = FORMAT
    rlpyt: str = VERSION


class SweepDirectory:
    """A sweep on disk; the launcher changes it, others look at it and leave requests.

    Args:
        path: that ``create`` has made.

    Raises:
        FileNotFoundError: it holds no sweep.
        ValueError: of a newer format, or damaged.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.queue = self.path / QUEUE
        about = self.queue / ABOUT
        if not about.is_file():
            raise FileNotFoundError(
                f"{path} holds no sweep: there is no {QUEUE}/{ABOUT}. Give the directory that "
                "`rlpyt sweep` named when it started."
            )
        try:
            content = json.loads(about.read_text(encoding="utf-8"))
            if content.get("format") != FORMAT:
                raise ValueError(f"format {content.get('format')}, this rlpyt reads {FORMAT}")
            known = {item.name for item in fields(About)}
            self.about = About(**{k: v for k, v in content.items() if k in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{about} is not a sweep's: {error}.") from error

    @classmethod
    def create(
        cls,
        path: Path | str,
        about: About,
        jobs: Iterable[Job],
        beside: Mapping[str, bytes] | None = None,
    ) -> SweepDirectory:
        """Put a sweep into a directory, whole or not at all.

        Args:
            path: the directory, which is made; may hold other things.
            about: the sweep as a whole.
            jobs: known from the start.
            beside: further files for the queue's directory, by their names.

        Raises:
            FileExistsError: there is one already.
        """
        path = Path(path).absolute()
        if (path / QUEUE).exists():
            raise _taken(path)
        unfinished = path / f".{QUEUE}.{os.getpid()}"
        shutil.rmtree(unfinished, ignore_errors=True)  # of one that was killed, with the same pid
        unfinished.mkdir(parents=True)
        try:
            for job in jobs:
                JobDirectory.create(_place_of(unfinished, job.number), job, synced=False)
            os.sync()  # once for all, before the sweep counts as there
            for name, content in (beside or {}).items():
                (unfinished / name).write_bytes(content)
            about = About(**{**asdict(about), "made": about.made or time.time()})
            _write_json(unfinished / ABOUT, asdict(about))
            os.rename(unfinished, path / QUEUE)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _taken(path) from None  # another launcher was faster
            raise
        return cls(path)

    def jobs(self) -> list[JobDirectory]:
        """All jobs, in the order of their numbers."""
        paths = sorted(self.queue.glob("[0-9]*"), key=lambda path: (len(path.name), path.name))
        return [JobDirectory(path) for path in paths]

    def add(self, job: Job) -> JobDirectory:
        """One more job."""
        return JobDirectory.create(_place_of(self.queue, job.number), job)

    def lock(self) -> RunLock:
        """For the one launcher that there may be.

        Raises:
            RunDirectoryError: on entering, another one is at work; says which.
        """
        return LauncherLock(self.queue)

    # Requests to the launcher, as files.

    @property
    def paused(self) -> bool:
        """Whether no further run shall begin."""
        return (self.queue / PAUSED).exists()

    def pause(self, paused: bool = True) -> None:
        """Let no further run begin, or again; those that run go on."""
        (self.queue / PAUSED).touch() if paused else (self.queue / PAUSED).unlink(missing_ok=True)

    def waits_for(self, least_free_bytes: int = LEAST_FREE_BYTES) -> str:
        """Why no run is begun now, for people; empty if nothing stands in the way."""
        if self.paused:
            return f"paused: no run is begun until rlpyt sweep unpause {self.path}"
        if shutil.disk_usage(self.path).free < least_free_bytes:
            return (
                f"waiting: the disk of {self.path} is nearly full; no run is begun until it has "
                f"more room than {least_free_bytes / 2**20:,.0f} MiB"
            )
        return ""

    @property
    def to_stop(self) -> bool:
        """Whether the launcher shall end."""
        return (self.queue / TO_STOP).exists()

    def stop(self) -> int:
        """Ask everything to end: the launcher, and what runs, which saves its checkpoints first.

        Returns:
            How many runs have been asked.
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
                job.tell(attempts[-1].number, "stopped")
                asked += 1
        return asked

    def forgive(self) -> list[str]:
        """Queue failed jobs again, as if they had not been tried; returns their names.

        A launcher at work is asked to take them up.
        """
        names = []
        for job in self.jobs():
            attempts = job.attempts()
            if job.state(attempts) == "failed":
                for attempt in attempts:
                    if attempt.failed:
                        job.tell(attempt.number, "forgiven")
                names.append(job.job.name)
        if names:
            (self.queue / FORGIVEN).touch()
        return names

    def take_forgiven(self) -> bool:
        """Whether failed jobs have been queued again since this was asked."""
        try:
            (self.queue / FORGIVEN).unlink()
        except FileNotFoundError:
            return False
        return True

    def forget_requests(self) -> None:
        """As a launcher does that begins."""
        for request in (TO_STOP, FORGIVEN):
            (self.queue / request).unlink(missing_ok=True)

    def launcher(self) -> str:
        """Who launches now, for people; empty if nobody does."""
        return LauncherLock(self.queue).owner()


class LauncherLock(RunLock):
    """Held by the launcher of a sweep."""

    name = "launcher.lock"

    def refusal(self, owner: dict[str, Any]) -> str:
        """What to tell the second launcher."""
        return (
            f"{self.path.parent.parent} is launched already, by process "
            f"{owner.get('pid', 'unknown')} on {owner.get('host', 'this machine')}: look at it "
            f"with `rlpyt status {self.path.parent.parent}`, or end that launcher first. If that "
            f"machine is gone for good, remove {self.path}."
        )


def _place_of(queue: Path, number: int) -> Path:
    return queue / f"{number:05d}"


def _write_json(path: Path, content: Any) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())


__all__ = ["About", "RunDirectoryError", "SweepDirectory"]


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} holds a sweep already: go on with it (rlpyt sweep {path}), or choose another "
        "directory."
    )
