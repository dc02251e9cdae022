"""Executors for clusters: SLURM by submitit (extra ``slurm``), Ray (extra ``ray``)."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpyt.processes.ray import signals_kept
from rlpyt.sweeps.executors import Executor, ExecutorError, Handle, supervisor_command
from rlpyt.sweeps.jobs import Attempt, JobDirectory
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.supervisor import CLUSTER_SIGNALS
from rlpyt.utils.extras import needing

POLL_INTERVAL_S = 10.0  # between two queries of SLURM about one job


class SlurmExecutor(Executor):
    """Executor that submits attempts as SLURM jobs; directories must be shared with its nodes.

    Args:
        share: cores and GPUs of a run.
        settings: ``cluster`` ("slurm", or "local" for a trial without one), and parameters of
            submitit's ``update_parameters``: ``slurm_partition``, ``timeout_min``, ``mem_gb``, ...

    Raises:
        ImportError: submitit is missing.
        ValueError: a setting is unknown, or SLURM is not available.
    """

    name = "slurm"
    assigns_hardware = False
    survives_launcher = True

    def __init__(self, share: Slot, settings: Mapping[str, Any]) -> None:
        with needing("SLURM", "slurm"):
            import submitit
        self._submitit = submitit
        self._cluster = settings.get("cluster", "slurm")
        self._parameters = {
            "name": "rlpyt",
            "cpus_per_task": len(share.cpus or ()) or 1,
            "gpus_per_node": len(share.gpus),
            "timeout_min": 24 * 60,
            **{name: value for name, value in settings.items() if name != "cluster"},
        }
        with tempfile.TemporaryDirectory() as folder:  # submitit creates it
            self._executor(Path(folder))  # raises for unknown settings before anything starts

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Submit a prepared attempt."""
        command = supervisor_command(job_dir, attempt.number)
        try:
            job = self._executor(job_dir / "slurm").submit(run_supervisor, command)
        except Exception as error:  # submitit raises its own, and subprocess's
            raise ExecutorError(f"SLURM rejected the job: {error}") from error
        return _SlurmHandle(job_dir, attempt.number, job)

    def reattach(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """Return a handle of the job that an earlier launcher submitted, None if it has ended."""
        if attempt.remote_id:
            kinds = {"slurm": self._submitit.SlurmJob, "local": self._submitit.LocalJob}
            job = kinds[self._cluster](folder=job_dir / "slurm", job_id=attempt.remote_id)
            handle = _SlurmHandle(job_dir, attempt.number, job)
            if not handle.has_ended():
                return handle
        return super().reattach(job_dir, attempt)

    def _executor(self, folder: Path) -> Any:
        try:
            executor = self._submitit.AutoExecutor(folder=folder, cluster=self._cluster)
            executor.update_parameters(**self._parameters)
        except (NameError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"SLURM: {error}") from error
        return executor


def run_supervisor(command: list[str]) -> int:
    """Run a supervisor inside a SLURM job.

    Submitit would end the job, and with it the run, at the signal before the time limit. The
    supervisor receives the signal too, and lets the run save a checkpoint first.
    """
    for number in CLUSTER_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    return subprocess.call(command)


class _SlurmHandle(Handle):
    def __init__(self, job_dir: Path, number: int, job: Any) -> None:
        super().__init__(job_dir)
        self._number, self._job = number, job
        self.remote_id = str(job.job_id)
        self._next_poll_s = 0.0

    def has_ended(self) -> bool:
        if time.monotonic() < self._next_poll_s:
            return False
        self._next_poll_s = time.monotonic() + POLL_INTERVAL_S
        return bool(self._job.done(force_check=True)) and super().has_ended()

    def cancel(self) -> None:
        attempts = JobDirectory(self._job_dir).attempts()
        if any(one.number == self._number and one.begun is None for one in attempts):
            self._job.cancel(check=False)
            self._next_poll_s = 0.0


class RayExecutor(Executor):
    """Executor that runs attempts as Ray tasks; directories must be shared by all nodes.

    Args:
        share: cores and GPUs of a run.
        settings: of ``ray.init``, such as ``address``; by default a cluster of this machine alone.

    Raises:
        ImportError: Ray is missing.
    """

    name = "ray"
    assigns_hardware = False
    survives_launcher = False

    def __init__(self, share: Slot, settings: Mapping[str, Any]) -> None:
        with needing("Ray", "ray"):
            import ray
        self._ray = ray
        self._has_started_ray = not ray.is_initialized()
        if self._has_started_ray:
            with signals_kept():
                ray.init(**{"log_to_driver": False, "include_dashboard": False, **settings})
        self._call = ray.remote(
            num_cpus=len(share.cpus or ()) or 1, num_gpus=len(share.gpus), max_retries=0
        )(subprocess.call)

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Queue a prepared attempt; it starts when the cluster has room."""
        task = self._call.remote(supervisor_command(job_dir, attempt.number))
        return _RayHandle(self._ray, job_dir, task)

    def close(self) -> None:
        """Disconnect from the cluster."""
        if self._has_started_ray:
            self._ray.shutdown()


class _RayHandle(Handle):
    """A task; without ``cancel``, since a supervisor that was asked to end starts nothing."""

    def __init__(self, ray: Any, job_dir: Path, task: Any) -> None:
        super().__init__(job_dir)
        self._ray, self._task = ray, task

    def has_ended(self) -> bool:
        ready, _ = self._ray.wait([self._task], timeout=0)
        return bool(ready) and super().has_ended()

    def release(self) -> None:
        self._task = None
