"""Where runs are carried out: on this machine, or by whoever manages a cluster.

A place starts supervisors and says when they may have ended; the outcome of a run is read from the
job's directory, which all places share. A run is asked to end through that directory too
(``JobDirectory.tell``), so a handle needs no method for it: the supervisor starts no attempt that
was told to end.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlpyt.errors import RlpytError
from rlpyt.sweeps import supervisor
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.supervisor import is_kept

PLACES = ("local", "slurm", "ray")


@dataclass(frozen=True)
class Slot:
    """A share of the hardware, for one run at a time.

    Attributes:
        number: from 0.
        code: affinity code with the slot's number in it, as scripts take it.
        cpus: cores to keep the run on; ``None``: any.
        gpus: indices.
    """

    number: int
    code: str
    cpus: tuple[int, ...] | None = None
    gpus: tuple[int, ...] = ()


class PlaceError(RlpytError, RuntimeError):
    """A place cannot begin a run now; it may later."""


class Handle(Protocol):
    """An attempt under way."""

    remote_id: str

    def over(self) -> bool:
        """Whether its supervisor has ended; cheap, asked often."""

    def fileno(self) -> int | None:
        """What becomes readable when it ends, if there is such a thing."""

    def withdraw(self) -> None:
        """Take it back if it still waits for hardware; it has been told to end already."""

    def release(self) -> None:
        """Forget it; it may go on."""


class Place(Protocol):
    """Starts attempts.

    Attributes:
        name: one of ``PLACES``.
        shares_out: whether a run's cores and GPUs are chosen here, or by the cluster.
        goes_on: whether runs outlive the launcher.
    """

    name: str
    shares_out: bool
    goes_on: bool

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Begin the attempt that has been prepared; PlaceError or OSError if that cannot be now."""

    def adopt(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """Take over what an earlier launcher has started; ``None`` if it does not go on."""

    def close(self) -> None:
        """Let go of the cluster."""


def supervisor_command(job_dir: Path, number: int) -> list[str]:
    """The command that keeps an attempt, wherever it is carried out."""
    return [sys.executable, "-I", str(Path(supervisor.__file__)), str(job_dir), str(number)]


class KeptHandle:
    """An attempt of which no more is known than that its job's lock is held, wherever that is."""

    remote_id = ""

    def __init__(self, job_dir: Path) -> None:
        self._job_dir = job_dir

    def over(self) -> bool:
        """Whether the lock is free."""
        return not is_kept(self._job_dir)

    def fileno(self) -> int | None:
        """None: nothing wakes whoever waits."""
        return None

    def withdraw(self) -> None:
        """It does not wait."""

    def release(self) -> None:
        """Nothing is held."""


class LocalPlace:
    """Supervisors are processes of this machine, in sessions of their own."""

    name = "local"
    shares_out = True
    goes_on = True

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Begin the attempt that has been prepared."""
        process = subprocess.Popen(
            supervisor_command(job_dir, attempt.number),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return _LocalHandle(job_dir, process.pid, process)

    def adopt(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """Take over what an earlier launcher has started; ``None`` if it does not go on."""
        return _LocalHandle(job_dir, attempt.pid) if is_kept(job_dir) else None

    def close(self) -> None:
        """Nothing is held."""


class _LocalHandle:
    remote_id = ""

    def __init__(
        self, job_dir: Path, pid: int | None, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._job_dir, self._process = job_dir, process
        self._descriptor: int | None = None
        if pid is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # already gone; then over() says so
                self._descriptor = os.pidfd_open(pid)

    def over(self) -> bool:
        if self._process is not None:
            if self._process.poll() is None:
                return False
            self._process = None
        return not is_kept(self._job_dir)  # a run may outlive its supervisor for a moment

    def fileno(self) -> int | None:
        return self._descriptor

    def withdraw(self) -> None:
        """It does not wait."""

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def place(name: str, share: Slot, settings: Mapping[str, Any]) -> Place:
    """The place of this name.

    Args:
        name: one of ``PLACES``.
        share: what each run gets.
        settings: see the place.

    Raises:
        ValueError: there is none, or it does not take these settings.
        ImportError: its package is missing; says how to install it.
    """
    if name == "slurm":
        from rlpyt.sweeps.slurm import SlurmPlace

        return SlurmPlace(share, settings)
    if name == "ray":
        from rlpyt.sweeps.ray_place import RayPlace

        return RayPlace(share, settings)
    if name != "local":
        raise ValueError(f"where={name!r} must be one of {', '.join(PLACES)}.")
    if settings:
        raise ValueError(f"runs on this machine take no settings of a place, got {dict(settings)}.")
    return LocalPlace()
