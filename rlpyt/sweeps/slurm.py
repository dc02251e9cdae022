"""Runs as jobs of a SLURM cluster, by submitit (extra ``slurm``)."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpyt.sweeps.jobs import Attempt, JobDirectory
from rlpyt.sweeps.places import Handle, KeptHandle, PlaceError, Slot, supervisor_command
from rlpyt.sweeps.supervisor import CLUSTERS, is_kept

ASK_S = 10.0  # between two questions to the cluster about one job
OURS = {"cluster"}  # settings that are not submitit's


class SlurmPlace:
    """Each attempt is a job of the cluster; directories must be shared with its nodes.

    Args:
        share: cores and GPUs of a run.
        settings: ``cluster`` ("slurm", or "local" to try it without one), and what submitit's
            ``update_parameters`` takes: ``slurm_partition``, ``timeout_min``, ``mem_gb``, ...

    Raises:
        ImportError: submitit is missing.
        ValueError: it does not know a setting, or finds no SLURM here.
    """

    name = "slurm"
    shares_out = False
    goes_on = True

    def __init__(self, share: Slot, settings: Mapping[str, Any]) -> None:
        try:
            import submitit
        except ImportError as error:
            raise ImportError("SLURM needs submitit: pip install 'rlpyt[slurm]'.") from error
        self._submitit = submitit
        self._cluster = settings.get("cluster", "slurm")
        self._parameters = {
            "name": "rlpyt",
            "cpus_per_task": len(share.cpus or ()) or 1,
            "gpus_per_node": len(share.gpus),
            "timeout_min": 24 * 60,
            **{name: value for name, value in settings.items() if name not in OURS},
        }
        self._executor(Path(".slurm"))  # refuses what it does not know, before anything begins

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Submit the attempt that has been prepared."""
        command = supervisor_command(job_dir, attempt.number)
        try:
            job = self._executor(job_dir / "slurm").submit(keep, command)
        except Exception as error:  # submitit has several, one of its own and subprocess's
            raise PlaceError(f"the cluster has not taken it: {error}") from error
        return _SlurmHandle(job_dir, attempt.number, job)

    def adopt(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """The job that an earlier launcher has submitted, if it waits or runs."""
        if attempt.remote_id:
            kinds = {"slurm": self._submitit.SlurmJob, "local": self._submitit.LocalJob}
            job = kinds[self._cluster](folder=job_dir / "slurm", job_id=attempt.remote_id)
            handle = _SlurmHandle(job_dir, attempt.number, job)
            if not handle.over():
                return handle
        return KeptHandle(job_dir) if is_kept(job_dir) else None

    def close(self) -> None:
        """Jobs go on without us."""

    def _executor(self, folder: Path) -> Any:
        try:
            executor = self._submitit.AutoExecutor(folder=folder, cluster=self._cluster)
            executor.update_parameters(**self._parameters)
        except (NameError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"SLURM: {error}") from error
        return executor


def keep(command: list[str]) -> int:
    """What a job of the cluster does: have an attempt kept.

    Submitit would end the job, and with it the run, when the cluster says that its time is up; the
    supervisor hears that too, and has the run save its checkpoint first.
    """
    for number in CLUSTERS:
        signal.signal(number, signal.SIG_IGN)
    return subprocess.call(command)


class _SlurmHandle:
    def __init__(self, job_dir: Path, number: int, job: Any) -> None:
        self._job_dir, self._number, self._job = job_dir, number, job
        self.remote_id = str(job.job_id)
        self._next_s = 0.0

    def over(self) -> bool:
        if time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + ASK_S
        return bool(self._job.done(force_check=True)) and not is_kept(self._job_dir)

    def fileno(self) -> int | None:
        return None

    def withdraw(self) -> None:
        attempts = JobDirectory(self._job_dir).attempts()
        if any(one.number == self._number and one.begun is None for one in attempts):
            self._job.cancel(check=False)
            self._next_s = 0.0

    def release(self) -> None:
        """The cluster keeps it."""
