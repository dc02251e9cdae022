"""Mapping of the cores of a run slot to those that this process may use.

Slots and affinity codes count cores from 0. A process in a container or a cluster job often may use
different ones, and one started by a launcher only those of its run.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rlpyt.utils.launching.machine import Machine
from rlpyt.utils.launching.resources import AffinityError, Resources
from rlpyt.utils.processes import available_cpus


class SlotCpus(tuple[int, ...]):
    """Tuple of processors, numbered as in an affinity code, with the run slot that has them."""

    resources: Resources

    @classmethod
    def of(cls, cpus: tuple[int, ...], resources: Resources) -> "SlotCpus":
        """Build from processors and resources with a run slot."""
        self = cls(cpus)
        self.resources = resources
        return self


def placed(affinity: Any) -> Any:
    """Return the affinity of a process with its processors mapped to those this process may use.

    Warns if runs or processes use the same cores. If the slot is of a larger machine, warns,
    disables pinning, and limits the master's torch threads to the processors here.

    Args:
        affinity: an affinity dictionary. It is returned unchanged unless it was built from a code
            and has ``set_affinity``.
    """
    own = affinity.get("all_cpus", affinity.get("cpus"))
    if not isinstance(own, SlotCpus) or not affinity.get("set_affinity", True):
        return affinity
    for conflict in own.resources.conflicts():
        warnings.warn(f"affinity code {own.resources.to_code()!r}: {conflict}.")
    try:
        where = placement(own.resources)
    except AffinityError as error:
        warnings.warn(f"{error} No process is pinned.")
        threads = {
            key: min(affinity[key], len(available_cpus()))
            for key in ("master_torch_threads", "torch_threads")
            if key in affinity
        }
        return {**affinity, **threads, "set_affinity": False}

    def here(cpus: Any) -> tuple[int, ...]:
        return tuple(dict.fromkeys(where[cpu] for cpu in cpus))

    several = ("all_cpus", "master_cpus", "cpus")
    changed: dict[str, Any] = {key: here(affinity[key]) for key in several if key in affinity}
    if "workers_cpus" in affinity:
        changed["workers_cpus"] = [here(worker) for worker in affinity["workers_cpus"]]
    return {**affinity, **changed}


def placement(resources: Resources, available: list[int] | None = None) -> dict[int, int]:
    """Map each processor of a run slot to one of this machine.

    The mapping is the identity if the available processors are 0, 1, ... or include all processors
    of the slot's machine. Otherwise that machine's first processor is mapped to the first available
    one, and so on. If exactly as many are available as the run has, they are the run's. A missing
    second hardware thread is replaced by the first thread of its core.

    Args:
        resources: a machine and its division, with a run slot.
        available: processors that may be used; by default those of this process.

    Raises:
        AffinityError: that machine has more cores than there are available processors.
    """
    cores, offset = resources.checked().run_cores(), resources.thread_offset
    if available is None:
        available = available_cpus()
    for threads in dict.fromkeys((offset, 0)):
        found = _found(resources, cores, threads, available)
        if found is not None:
            return {**{core + offset: found[core] for core in cores}, **found}
    raise AffinityError(
        f"affinity code {resources.to_code()!r} is for a machine of {resources.n_used_cores} "
        f"cores, and this process may use {len(available)} processors: {listed(available)}. Write "
        f"a code for these (`rlpyt affinity` suggests some), or add _0saf to disable pinning. The "
        f"code means {resources.describe()}; this run's cores are {listed(cores)}."
    )


def _found(
    resources: Resources, cores: tuple[int, ...], offset: int, available: list[int]
) -> dict[int, int] | None:
    """Map a run's processors to those of this machine; ``None`` if it has too few."""
    run = get_master_cpus(cores, offset)
    if available == list(range(len(available))):
        return {cpu: cpu for cpu in run} if max(run) < len(available) else None
    n_machine = resources.n_used_cores * (2 if offset else 1)
    if n_machine <= len(available):
        where = _machine_on(replace(resources, run_slot=None), offset, tuple(available))
        return {cpu: where[cpu] for cpu in run}
    if len(run) != len(available):
        return None
    # A launcher has pinned the run to these, unless they are a smaller machine's cores.
    kept = not offset or set(run) == set(available) or Machine.here().n_core == len(cores)
    return dict(zip(sorted(run), available, strict=True)) if kept else None


@lru_cache(maxsize=4)  # the same for all slots of a machine
def _machine_on(resources: Resources, offset: int, available: tuple[int, ...]) -> dict[int, int]:
    """Map each processor of the slot's machine to one of at least as many available processors."""
    machine = get_master_cpus(resources.machine_cores(), offset)
    if set(machine) <= set(available):
        return {cpu: cpu for cpu in machine}
    return dict(zip(sorted(machine), available, strict=False))


def run_cpus(resources: Resources) -> tuple[int, ...] | None:
    """Return the processors of this machine for a run slot, or ``None`` if it is not pinned.

    Raises:
        AffinityError: the slot is of a larger machine.
    """
    return tuple(sorted(set(placement(resources).values()))) if resources.set_affinity else None


def get_master_cpus(cores: Sequence[int], hto: int | None) -> tuple[int, ...]:
    """Return cores and, unless ``hto`` is ``None`` or 0, their second hardware threads."""
    return (*cores, *(core + hto for core in cores)) if hto else tuple(cores)


def listed(cpus: Any) -> str:
    """Format processor numbers as ranges: "0-3, 8-11"."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
