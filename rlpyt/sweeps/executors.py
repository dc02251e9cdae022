"""Executors start the attempts of runs: on this machine, or through a cluster's scheduler.

An executor starts supervisors and reports when they may have ended. The outcome of a run is read
from the job's directory, which all executors share. A run is stopped through that directory too
(``JobDirectory.request_end``): a supervisor starts no attempt that was asked to end.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.sweeps import supervisor
from rlpyt.sweeps.jobs import Attempt, is_supervised
from rlpyt.sweeps.slots import Slot

EXECUTORS = ("local", "slurm", "ray")


class ExecutorError(RlpytError, RuntimeError):
    """Failure to start a run, which may succeed later."""


class Handle:
    """An attempt that was started, known by its job's lock, which is held while it runs."""

    remote_id = ""

    def __init__(self, job_dir: Path) -> None:
        self._job_dir = job_dir

    def has_ended(self) -> bool:
        """Return True if the supervisor has ended; cheap, called often."""
        return not is_supervised(self._job_dir)

    def fileno(self) -> int | None:
        """Return a file descriptor that becomes readable at the end, or None."""
        return None

    def cancel(self) -> None:
        """Cancel the attempt if it still waits for hardware; it was asked to end before."""

    def release(self) -> None:
        """Free the handle's resources; the attempt may continue."""


class Executor:
    """Base class of executors, which start attempts."""

    name: str  # one of EXECUTORS
    assigns_hardware: bool  # False if the cluster chooses cores and GPUs, instead of the slot's
    survives_launcher: bool  # True if runs continue after the launcher has ended

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Start a prepared attempt.

        Raises:
            ExecutorError, OSError: it cannot be started now.
        """
        raise NotImplementedError

    def reattach(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """Return a handle of an attempt that an earlier launcher started, None if it has ended."""
        return Handle(job_dir) if is_supervised(job_dir) else None

    def close(self) -> None:
        """Disconnect from the cluster."""


def supervisor_command(job_dir: Path, number: int) -> list[str]:
    """Return the command that runs an attempt, for any executor."""
    return [sys.executable, "-I", str(Path(supervisor.__file__)), str(job_dir), str(number)]


class LocalExecutor(Executor):
    """Executor that runs supervisors as processes of this machine, each in its own session."""

    name = "local"
    assigns_hardware = True
    survives_launcher = True

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Start a prepared attempt."""
        process = subprocess.Popen(
            supervisor_command(job_dir, attempt.number),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return _LocalHandle(job_dir, process.pid, process)

    def reattach(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """Return a handle of an attempt that an earlier launcher started, None if it has ended."""
        return _LocalHandle(job_dir, attempt.pid) if is_supervised(job_dir) else None


class _LocalHandle(Handle):
    def __init__(
        self, job_dir: Path, pid: int | None, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        super().__init__(job_dir)
        self._process = process
        self._descriptor: int | None = None
        if pid is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # the process has ended; has_ended() reports it
                self._descriptor = os.pidfd_open(pid)

    def has_ended(self) -> bool:
        if self._process is not None:
            if self._process.poll() is None:
                return False
            self._process = None
        return super().has_ended()  # a run may briefly outlive its supervisor

    def fileno(self) -> int | None:
        return self._descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def build_executor(name: str, share: Slot, settings: Mapping[str, Any]) -> Executor:
    """Build the executor of this name, for runs with this share of the hardware.

    Raises:
        ValueError: the name is unknown, or the executor does not have these settings.
        ImportError: the executor's package is missing; the message says how to install it.
    """
    if name in ("slurm", "ray"):
        from rlpyt.sweeps import clusters

        cls = clusters.SlurmExecutor if name == "slurm" else clusters.RayExecutor
        return cls(share, settings)
    if name != "local":
        raise ValueError(f"where={name!r} must be one of {', '.join(EXECUTORS)}.")
    if settings:
        raise ValueError(f"place must be empty for where: local, got {dict(settings)}.")
    return LocalExecutor()
