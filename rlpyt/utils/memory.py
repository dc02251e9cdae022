"""Memory that this process can still allocate, within the limits of containers."""

import contextlib
import sys
from pathlib import Path

import psutil

from rlpyt.utils.cgroups import CGROUPS, OWN_CGROUP, own_cgroups

FILES = {  # names of limit and usage, by version of the control groups
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}


def available_memory() -> int:
    """Return an upper bound on the bytes that can be allocated without running out of memory.

    The minimum of the machine's available memory and of what the limits of containers and jobs
    (control groups) and of this process's address space (``ulimit -v``) leave.
    """
    available = [int(psutil.virtual_memory().available), *_available_in_cgroups()]
    if sys.platform.startswith("linux"):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            available.append(limit - psutil.Process().memory_info().vms)
    return max(0, min(available))


def _available_in_cgroups() -> list[int]:
    """Return the free bytes of each control group around this process, including file cache."""
    available = []
    for group, version in own_cgroups("memory", CGROUPS, OWN_CGROUP):
        limit, usage = FILES[version]
        with contextlib.suppress(OSError, ValueError):  # no such file, or the limit is "max"
            taken = int((group / usage).read_text()) - _file_cache(group)
            available.append(int((group / limit).read_text()) - taken)
    return available


def _file_cache(group: Path) -> int:
    fields = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    names = ("total_inactive_file", "total_active_file")
    if "total_inactive_file" not in fields:
        names = ("inactive_file", "active_file")
    return sum(int(fields.get(name, 0)) for name in names)
