"""Control groups of Linux, by which containers and job schedulers limit memory and CPU time."""

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def own_cgroups(
    controller: str, cgroups_dir: Path = CGROUPS, own_cgroup: Path = OWN_CGROUP
) -> Iterator[tuple[Path, int]]:
    """Yield directory and version (1 or 2) of the groups of this process, from its own to the root.

    All of them count: a process is bound by the limits of every group around it. Directories may be
    missing, since a container sees its own group as the root.

    Args:
        controller: "memory" or "cpu"; version 2 has the same groups for all controllers.
        cgroups_dir: where the groups are mounted.
        own_cgroup: file with the process's groups; if it is unreadable, only the root is yielded.
    """
    try:
        lines = own_cgroup.read_text().splitlines()
    except OSError:
        lines = ["0::/", f"1:{controller}:/"]
    for line in lines:
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version == 2 or controller in controllers.split(","):
            root = cgroups_dir if version == 2 else cgroups_dir / controller
            own = root / path.lstrip("/")
            for group in (own, *own.parents):
                if group.is_relative_to(root):
                    yield group, version
