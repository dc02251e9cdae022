"""Slots: the shares of a machine, each for one run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rlpyt.utils.launching.affinity import (
    affinity_from_code,
    encode_affinity,
    get_n_run_slots,
    prepend_run_slot,
)
from rlpyt.utils.launching.machine import Machine, n_gpus
from rlpyt.utils.launching.placement import get_master_cpus, run_cpus
from rlpyt.utils.launching.resources import AffinityError, Resources, parse


@dataclass(frozen=True)
class Slot:
    """A share of the hardware, for one run at a time.

    Attributes:
        number: from 0.
        code: affinity code that includes the slot's number, as rlpyt's scripts take it.
        cpus: cores of the run; None: any.
        gpus: indices of the run's GPUs.
    """

    number: int
    code: str
    cpus: tuple[int, ...] | None = None
    gpus: tuple[int, ...] = ()


def slots_of(code: str, where: str = "local", at_once: int | None = None) -> list[Slot]:
    """Return one slot for each of the runs that are carried out in parallel.

    Args:
        code: affinity code of this machine; on a cluster, whose first slot is what each run gets.
        where: "local", or the name of a cluster's executor.
        at_once: number of parallel runs on a cluster; by default the number of slots of the code.

    Raises:
        ValueError: the code is invalid, or describes another machine; the message says how it
            was read.
    """
    n_slots = get_n_run_slots(code)
    codes = [prepend_run_slot(number, code) for number in range(n_slots)]
    if where == "local":
        check_gpus(code)
        gpus = [_gpus(affinity_from_code(own)) for own in codes]
        return [Slot(number, own, run_cpus(own), gpus[number]) for number, own in enumerate(codes)]
    first = Resources.from_code(codes[0])
    cpus = first.run_cores()
    if "hto" in parse(code):  # the cluster's cores have hyperthreads
        cpus = tuple(sorted(set(get_master_cpus(cpus, first.hyperthread_offset))))
    share = Slot(0, codes[0], cpus, _gpus(affinity_from_code(codes[0])))
    return [replace(share, number=number) for number in range(at_once or n_slots)]


def check_gpus(code: str) -> None:
    """Check that this machine has the GPUs of an affinity code.

    Raises:
        AffinityError: it has fewer.
    """
    resources = Resources.from_code(code)
    if resources.n_gpu and (here := n_gpus()) < resources.n_gpu:
        raise AffinityError(
            f"affinity code {code!r} is for a machine of {resources.n_gpu} GPUs, and this process "
            f"sees {here}; `rlpyt affinity` suggests codes for this machine. It says "
            f"{resources.describe()}."
        )


def default_code(cpus_per_run: int | None = None, gpus_per_run: int | None = None) -> str:
    """Return the affinity code that divides this machine by cores, or GPUs, per run.

    Raises:
        ValueError: the machine has fewer cores or GPUs.
    """
    machine, cpus_per_run = Machine.here(), cpus_per_run or 1
    cores, pins = len(machine.cpus), machine.n_granted == machine.n_core
    if not pins:  # a container with a quota of processor time, not cores of its own
        cores = machine.n_granted
    if gpus_per_run:
        gpus = n_gpus()
        if gpus < gpus_per_run:
            raise ValueError(
                f"gpus_per_run must be at most {gpus}, the GPUs of this machine, got "
                f"{gpus_per_run}."
            )
        return encode_affinity(
            n_cpu_core=cores, n_gpu=gpus, gpu_per_run=gpus_per_run, set_affinity=pins
        )
    if cores < cpus_per_run:
        raise ValueError(
            f"cpus_per_run must be at most {cores}, the cores of this machine, got {cpus_per_run}."
        )
    used = cores // cpus_per_run * cpus_per_run
    return encode_affinity(
        n_cpu_core=used,
        cpu_per_run=cpus_per_run,
        hyperthread_offset=0,
        n_socket=1,
        set_affinity=pins,
    )


def _gpus(affinity: Any) -> tuple[int, ...]:
    """Return the indices of a run's GPUs, the optimizer's first."""
    if isinstance(affinity, list | tuple):
        return tuple(dict.fromkeys(gpu for one in affinity for gpu in _gpus(one)))
    parts = [affinity[name] for name in ("optimizer", "sampler") if name in affinity]
    if parts:
        return tuple(dict.fromkeys(gpu for part in parts for gpu in _gpus(part)))
    gpu = affinity.get("cuda_idx")
    return () if gpu is None else (gpu,)
