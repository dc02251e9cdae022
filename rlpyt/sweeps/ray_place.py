"""Runs as tasks of a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.places import Handle, KeptHandle, Slot, supervisor_command
from rlpyt.sweeps.supervisor import is_kept


class RayPlace:
    """Each attempt is a task with a run's cores and GPUs; directories must be shared by all nodes.

    Args:
        share: cores and GPUs of a run.
        settings: of ``ray.init``, such as ``address``; by default a cluster of this machine alone.

    Raises:
        ImportError: Ray is missing.
    """

    name = "ray"
    shares_out = False
    goes_on = False

    def __init__(self, share: Slot, settings: Mapping[str, Any]) -> None:
        try:
            import ray
        except ImportError as error:
            raise ImportError("This needs Ray: pip install 'rlpyt[ray]'.") from error
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            ray.init(**{"log_to_driver": False, "include_dashboard": False, **settings})
        self._keep = ray.remote(
            num_cpus=len(share.cpus or ()) or 1, num_gpus=len(share.gpus), max_retries=0
        )(subprocess.call)

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Begin the attempt that has been prepared, as soon as the cluster has room."""
        return _RayHandle(
            self._ray, job_dir, self._keep.remote(supervisor_command(job_dir, attempt.number))
        )

    def adopt(self, job_dir: Path, attempt: Attempt) -> Handle | None:
        """A task ends with the launcher that asked for it; its run may need a while for it."""
        return KeptHandle(job_dir) if is_kept(job_dir) else None

    def close(self) -> None:
        """Leave the cluster."""
        if self._own:
            self._ray.shutdown()


class _RayHandle:
    remote_id = ""

    def __init__(self, ray: Any, job_dir: Path, task: Any) -> None:
        self._ray, self._job_dir, self._task = ray, job_dir, task

    def over(self) -> bool:
        ready, _ = self._ray.wait([self._task], timeout=0)
        return bool(ready) and not is_kept(self._job_dir)

    def fileno(self) -> int | None:
        return None

    def withdraw(self) -> None:
        """Once there is room for its supervisor, that begins nothing."""

    def release(self) -> None:
        self._task = None
