"""From the cores that a code names to those that this process may use.

Codes count cores from 0. A process in a container or a cluster's job often may use others, and one
that a launcher has started only those of its own run.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

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
    """An affinity of one process, on processors that this one may use.

    Args:
        affinity: a dictionary. If it was made of a code, and pins at all, its processors are
            replaced; others are returned as they are.

    Raises:
        AffinityError: the code is for a larger machine.
    """
    own = affinity.get("all_cpus", affinity.get("cpus"))
    if not isinstance(own, SlotCpus) or not affinity.get("set_affinity", True):
        return affinity
    where = placement(own.code)
    changed: dict[str, Any] = {
        key: tuple(where[cpu] for cpu in affinity[key])
        for key in ("all_cpus", "master_cpus", "cpus")
        if key in affinity
    }
    if "workers_cpus" in affinity:
        changed["workers_cpus"] = [
            tuple(where[cpu] for cpu in worker) for worker in affinity["workers_cpus"]
        ]
    return {**affinity, **changed}


def placement(code: str, available: list[int] | None = None) -> dict[int, int]:
    """For each processor of a code's run slot the one that it stands for.

    They are the same where processors are numbered 0, 1, ..., or this process may use all that the
    code's machine has. Otherwise the code's first processor is the first that may be used, and so
    on; and where only as many may be used as the run has, they are the run's.

    Args:
        code: with a run slot.
        available: processors that may be used; by default those of this process.

    Raises:
        AffinityError: there are too few.
    """
    resources = Resources.from_code(code).checked()
    cores, offset = resources.run_cores(), resources.hyperthread_offset
    run = _with_threads(cores, offset)
    if available is None:
        available = available_cpus()
    plain = available == list(range(len(available)))
    if plain and max(run) < len(available):
        return {cpu: cpu for cpu in run}
    n_machine = resources.n_used_cores * (2 if offset else 1)
    if not plain and n_machine <= len(available):
        where = _machine_on(replace(resources, run_slot=None), tuple(available))
        return {cpu: where[cpu] for cpu in run}
    if not plain and len(run) == len(available):
        return dict(zip(sorted(run), available, strict=True))
    raise AffinityError(
        f"affinity code {code!r} is for a machine of {n_machine} processors, and this process "
        f"may use {len(available)}: {listed(available)}. Write a code for these (`rlpyt affinity` "
        f"suggests some), or add _0saf to leave processes where they are. It says "
        f"{resources.describe()}; this run's processors are {listed(run)}."
    )


@lru_cache(maxsize=4)  # the same for all slots of a machine
def _machine_on(resources: Resources, available: tuple[int, ...]) -> dict[int, int]:
    """For each processor of a whole machine the one that it stands for, of at least as many."""
    machine = _with_threads(resources.machine_cores(), resources.hyperthread_offset)
    if set(machine) <= set(available):
        return {cpu: cpu for cpu in machine}
    return dict(zip(sorted(machine), available, strict=False))


def run_cpus(code: str) -> tuple[int, ...] | None:
    """The processors of this machine that a run slot has, ``None`` if it is not to be pinned.

    Raises:
        AffinityError: the code is malformed, or for a larger machine.
    """
    if not Resources.from_code(code).set_affinity:
        return None
    return tuple(sorted(placement(code).values()))


def _with_threads(cores: Any, offset: int) -> list[int]:
    return [*cores, *(core + offset for core in cores)] if offset else list(cores)


def listed(cpus: Any) -> str:
    """Numbers of processors as one reads them: "0-3, 8-11"."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
