"""From the cores that a code names to those that this process may use.

Codes count cores from 0. A process in a container or a cluster's job often may use others, and one
that a launcher has started only those of its own run.
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
    """Processors as a code numbers them; a tuple that remembers the code."""

    code: str

    @classmethod
    def of(cls, cpus: tuple[int, ...], code: str) -> "SlotCpus":
        """Processors, of a code with a run slot."""
        self = cls(cpus)
        self.code = code
        return self


def placed(affinity: Any) -> Any:
    """Return an affinity of one process, on processors that this process may use.

    Warns where runs or processes use the same cores. If the code is for a larger machine, warns,
    pins nothing, and lowers the master's torch threads to the processors here.

    Args:
        affinity: a dictionary. If it was made of a code, and pins at all, its processors are
            replaced; others are returned as they are.
    """
    own = affinity.get("all_cpus", affinity.get("cpus"))
    if not isinstance(own, SlotCpus) or not affinity.get("set_affinity", True):
        return affinity
    for conflict in Resources.from_code(own.code).conflicts():
        warnings.warn(f"affinity code {own.code!r}: {conflict}.")
    try:
        where = placement(own.code)
    except AffinityError as error:
        warnings.warn(f"{error} Nothing is pinned.")
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


def placement(code: str, available: list[int] | None = None) -> dict[int, int]:
    """Map each processor of a code's run slot to one of this machine.

    They are the same where processors are numbered 0, 1, ..., or this process may use all that the
    code's machine has. Otherwise the code's first processor is the first that may be used, and so
    on; and where only as many may be used as the run has, they are the run's. A second hardware
    thread that is missing is replaced by the first one of its core.

    Args:
        code: with a run slot.
        available: processors that may be used; by default those of this process.

    Raises:
        AffinityError: there are fewer processors than the code has cores.
    """
    resources = Resources.from_code(code).checked()
    cores, offset = resources.run_cores(), resources.hyperthread_offset
    if available is None:
        available = available_cpus()
    for threads in dict.fromkeys((offset, 0)):
        found = _found(resources, cores, threads, available)
        if found is not None:
            return {**{core + offset: found[core] for core in cores}, **found}
    raise AffinityError(
        f"affinity code {code!r} is for a machine of {resources.n_used_cores} cores, and this "
        f"process may use {len(available)} processors: {listed(available)}. Write a code for these "
        f"(`rlpyt affinity` suggests some), or add _0saf to leave processes where they are. It "
        f"says {resources.describe()}; this run's cores are {listed(cores)}."
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
    # A launcher keeps the run on these, unless they are a smaller machine's cores.
    kept = not offset or set(run) == set(available) or Machine.here().n_core == len(cores)
    return dict(zip(sorted(run), available, strict=True)) if kept else None


@lru_cache(maxsize=4)  # the same for all slots of a machine
def _machine_on(resources: Resources, offset: int, available: tuple[int, ...]) -> dict[int, int]:
    """For each processor of a whole machine the one that it stands for, of at least as many."""
    machine = get_master_cpus(resources.machine_cores(), offset)
    if set(machine) <= set(available):
        return {cpu: cpu for cpu in machine}
    return dict(zip(sorted(machine), available, strict=False))


def run_cpus(code: str) -> tuple[int, ...] | None:
    """Return a run slot's processors of this machine, or ``None`` if it is not to be pinned.

    Raises:
        AffinityError: the code is malformed, or for a larger machine.
    """
    if not Resources.from_code(code).set_affinity:
        return None
    return tuple(sorted(set(placement(code).values())))


def get_master_cpus(cores: Sequence[int], hto: int | None) -> tuple[int, ...]:
    """Return cores, and their second hardware threads (``hto`` of ``None`` or 0: without)."""
    return (*cores, *(core + hto for core in cores)) if hto else tuple(cores)


def listed(cpus: Any) -> str:
    """Numbers of processors as one reads them: "0-3, 8-11"."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
