"""Memory that this process may still allocate, containers' limits included."""

import contextlib
import sys
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def available_memory() -> int:
    """Bytes that can be taken without anybody being killed for it: an estimate from above.

    The least of what the machine has available, what limits of containers and jobs (control
    groups) leave, and what this process's own limit of address space (``ulimit -v``) leaves.
    """
    room = [int(psutil.virtual_memory().available), *_room_in_cgroups()]
    if sys.platform.startswith("linux"):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            room.append(limit - psutil.Process().memory_info().vms)
    return max(0, min(room))


def _room_in_cgroups() -> list[int]:
    """Return the free bytes of each control group around this process, file cache included."""
    room = []
    for group, limit, usage in _cgroups():
        with contextlib.suppress(OSError, ValueError):  # no such file, or the limit is "max"
            taken = int((group / usage).read_text()) - _file_cache(group)
            room.append(int((group / limit).read_text()) - taken)
    return room


def _cgroups() -> list[tuple[Path, str, str]]:
    """(directory, names of limit and usage) of the groups, from our own up to the root."""
    groups = []
    with contextlib.suppress(OSError):
        for line in OWN_CGROUP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":  # the second version: one hierarchy for all
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
