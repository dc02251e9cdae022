"""Cores, sockets, hyperthreads and GPUs that this process may use."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from rlpyt.utils.cgroups import CGROUPS, OWN_CGROUP, own_cgroups
from rlpyt.utils.processes import available_cpus
from rlpyt.utils.text import digits

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Machine:
    """Hardware of a machine. Cores are counted and numbered among those that this process may use.

    Attributes:
        cpus: processors (hardware threads) that may be used, numbered by the operating system.
        n_core: number of physical cores among them.
        n_socket: number of sockets if each has an equal block of cores, else 1.
        hyperthread_offset: distance from each core's first thread to its second, 0 if irregular.
        quota: CPU quota of the container in cores, or ``None``.
    """

    cpus: tuple[int, ...]
    n_core: int
    n_socket: int = 1
    hyperthread_offset: int = 0
    quota: float | None = None

    @property
    def n_granted(self) -> int:
        """Number of cores that can be kept busy: all, or the container's CPU quota."""
        return self.n_core if self.quota is None else max(1, min(self.n_core, int(self.quota)))

    @classmethod
    def here(cls, cpus_dir: Path = CPUS, cgroups_dir: Path = CGROUPS) -> "Machine":
        """Return this machine; without topology information, cores are estimated from counts."""
        cpus = available_cpus()
        quota = cpu_quota(cgroups_dir)
        topology = [_socket_and_core(cpus_dir / f"cpu{cpu}" / "topology") for cpu in cpus]
        known = [pair for pair in topology if pair is not None]
        if len(known) < len(cpus):
            n_core = min(psutil.cpu_count(logical=False) or len(cpus), len(cpus))
            offset = n_core if len(cpus) == 2 * n_core else 0
            return cls(tuple(cpus), n_core, hyperthread_offset=offset, quota=quota)
        n_core = len(set(known))
        first = known[:n_core]
        paired = known[n_core:] == first and len(set(first)) == n_core
        return cls(
            cpus=tuple(cpus),
            n_core=n_core,
            n_socket=_n_blocks([socket for socket, _ in (first if paired else known)]),
            hyperthread_offset=n_core if paired else 0,
            quota=quota,
        )


def n_gpus() -> int:
    """Return the number of CUDA devices visible to this process."""
    import torch

    return torch.cuda.device_count()


def names_of_gpus(indices: Sequence[int]) -> list[str]:
    """Return ``CUDA_VISIBLE_DEVICES`` for a process that should see only these GPUs.

    Args:
        indices: among the GPUs visible to this process; others are left out.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return [str(index) for index in indices]
    names = [name.strip() for name in seen.split(",") if name.strip()]
    return [names[index] for index in indices if index < len(names)]


def egl_device(indices: Sequence[int]) -> str:
    """Return ``EGL_DEVICE_ID`` for a run with these GPUs, or an empty string without GPUs.

    EGL numbers all GPUs of the machine and ignores ``CUDA_VISIBLE_DEVICES``.

    Args:
        indices: among the GPUs visible to this process.
    """
    names = names_of_gpus(indices[:1])
    return names[0] if names and digits(names[0]) is not None else "".join(map(str, indices[:1]))


def n_granted_cpus() -> int:
    """Return the number of processors this process can keep busy, limited by the CPU quota."""
    quota = cpu_quota()
    cpus = len(available_cpus())
    return cpus if quota is None else max(1, min(cpus, int(quota)))


def check_gpu(cuda_idx: int) -> None:
    """Check that a GPU exists.

    Raises:
        ValueError: `cuda_idx` is not below the number of GPUs visible to this process.
    """
    if cuda_idx >= n_gpus():
        raise ValueError(
            f"cuda_idx must be below the number of GPUs here ({n_gpus()}), got {cuda_idx}. "
            "`rlpyt affinity` shows the hardware of this machine."
        )


def cpu_quota(cgroups_dir: Path = CGROUPS, own_cgroup: Path = OWN_CGROUP) -> float | None:
    """Return the CPU quota of the container or job in cores, or ``None`` if unlimited.

    The smallest quota of this process's control groups (see ``own_cgroups``).
    """
    groups = own_cgroups("cpu", cgroups_dir, own_cgroup)
    quotas = [_quota_of(group, version) for group, version in groups]
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_of(group: Path, version: int) -> float | None:
    try:
        if version == 2:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        granted = float(quota) / float(period)  # "max" and -1: unlimited
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return granted if granted > 0 else None


def _socket_and_core(topology: Path) -> tuple[int, int] | None:
    """Return the socket of a processor and its core on that socket."""
    try:
        socket = int((topology / "physical_package_id").read_text())
        return socket, int((topology / "core_id").read_text())
    except (OSError, ValueError):
        return None


def _n_blocks(sockets: list[int]) -> int:
    """Return the number of sockets if their cores are numbered in equal blocks, else 1."""
    different = sorted(set(sockets))
    each, rest = divmod(len(sockets), len(different))
    in_blocks = not rest and sockets == [socket for socket in different for _ in range(each)]
    return len(different) if in_blocks else 1
