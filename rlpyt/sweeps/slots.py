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
from rlpyt.utils.text import counted


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


def code_for_machine(
    cpus_per_run: int = 1, gpus_per_run: int = 0, max_parallel: int | None = None
) -> str:
    """Return the affinity code that divides this machine by cores, or by GPUs, per run.

    Args:
        cpus_per_run: cores of a run; with GPUs, the default is an equal share.
        gpus_per_run: GPUs of a run.
        max_parallel: maximum number of parallel runs; by default as many as the machine can hold.

    Raises:
        ValueError: the machine has fewer cores or GPUs.
    """
    machine = Machine.here()
    pins = machine.n_granted == machine.n_core
    # With GPUs the code counts physical cores, whose second threads belong to the same run. A
    # container with a quota has processor time, but not cores of its own.
    cores = len(machine.cpus) if pins and not gpus_per_run else machine.n_granted
    if cores < cpus_per_run:
        raise ValueError(
            f"cpus_per_run must be at most {cores}, the cores of this machine, got {cpus_per_run}."
        )
    if gpus_per_run:
        gpus = n_gpus()
        if gpus < gpus_per_run:
            raise ValueError(
                f"gpus_per_run must be at most {gpus}, the GPUs of this machine, got "
                f"{gpus_per_run}."
            )
        n_runs = min(gpus // gpus_per_run, max_parallel or gpus, cores // cpus_per_run)
        if n_runs < gpus // gpus_per_run:
            cores, gpus = cores // n_runs * n_runs, n_runs * gpus_per_run
        return encode_affinity(
            n_cpu_core=cores, n_gpu=gpus, gpu_per_run=gpus_per_run, set_affinity=pins
        )
    n_runs = min(cores // cpus_per_run, max_parallel or cores)
    return encode_affinity(
        n_cpu_core=n_runs * cpus_per_run,
        cpu_per_run=cpus_per_run,
        hyperthread_offset=0,
        n_socket=1,
        set_affinity=pins,
    )


def code_for_cluster(cpus_per_run: int = 1, gpus_per_run: int = 0, max_parallel: int = 1) -> str:
    """Return the affinity code of parallel runs on a cluster, whose nodes need not be known."""
    return encode_affinity(
        n_cpu_core=max_parallel * cpus_per_run,
        n_gpu=max_parallel * gpus_per_run,
        gpu_per_run=max(1, gpus_per_run),
        cpu_per_run=cpus_per_run if not gpus_per_run else 1,
        n_socket=1,
        hyperthread_offset=max_parallel * cpus_per_run,
    )


def describe_share(slot: Slot) -> str:
    """Describe the hardware of a run: ``4 cores, 1 GPU each``."""
    parts = [counted(len(Resources.from_code(slot.code).run_cores()), "core")]
    parts += [counted(len(slot.gpus), "GPU")] if slot.gpus else []
    return f"{', '.join(parts)} each"


def _gpus(affinity: Any) -> tuple[int, ...]:
    """Return the indices of a run's GPUs, the optimizer's first."""
    if isinstance(affinity, list | tuple):
        return tuple(dict.fromkeys(gpu for one in affinity for gpu in _gpus(one)))
    parts = [affinity[name] for name in ("optimizer", "sampler") if name in affinity]
    if parts:
        return tuple(dict.fromkeys(gpu for part in parts for gpu in _gpus(part)))
    gpu = affinity.get("cuda_idx")
    return () if gpu is None else (gpu,)
