"""Memory that this process can still allocate, within the limits of containers."""

import contextlib
import sys
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


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
    for group, limit, usage in _cgroups():
        with contextlib.suppress(OSError, ValueError):  # no such file, or the limit is "max"
            taken = int((group / usage).read_text()) - _file_cache(group)
            available.append(int((group / limit).read_text()) - taken)
    return available


def _cgroups() -> list[tuple[Path, str, str]]:
    """Return (directory, names of limit and usage) of this process's groups, up to the root."""
    groups = []
    with contextlib.suppress(OSError):
        for line in OWN_CGROUP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":  # version 2: a single hierarchy
                root, limit, usage = CGROUPS, "memory.max", "memory.current"
            elif "memory" in controllers.split(","):
                root = CGROUPS / "memory"
                limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
            else:
                continue
            own = root / path.lstrip("/")
            above = [group for group in (own, *own.parents) if group.is_relative_to(root)]
            groups += [(group, limit, usage) for group in above]
    return groups


def _file_cache(group: Path) -> int:
    fields = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    names = ("total_inactive_file", "total_active_file")
    if "total_inactive_file" not in fields:
        names = ("inactive_file", "active_file")
    return sum(int(fields.get(name, 0)) for name in names)
