"""The slots that an affinity code divides a machine into."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlpyt.sweeps.places import Slot
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


def slots_of(code: str, where: str = "local", at_once: int | None = None) -> list[Slot]:
    """As many slots as runs are carried out beside each other.

    Args:
        code: of this machine; or of what a run gets on a cluster, whose first slot all have.
        where: "local", or the name of a cluster's place: this machine need not have it then.
        at_once: runs on a cluster; by default as many as the code has slots.

    Raises:
        ValueError: the code cannot be read, or describes another machine; shows how it was read.
    """
    n_slots = get_n_run_slots(code)
    codes = [prepend_run_slot(number, code) for number in range(n_slots)]
    if where == "local":
        check_gpus(code)
        gpus = [_gpus(affinity_from_code(own)) for own in codes]
        return [Slot(number, own, run_cpus(own), gpus[number]) for number, own in enumerate(codes)]
    first = Resources.from_code(codes[0])
    cpus = first.run_cores()
    if "hto" in parse(code):  # said, so the cluster's machines have second threads
        cpus = tuple(sorted(set(get_master_cpus(cpus, first.hyperthread_offset))))
    share = Slot(0, codes[0], cpus, _gpus(affinity_from_code(codes[0])))
    return [replace(share, number=number) for number in range(at_once or n_slots)]


def check_gpus(code: str) -> None:
    """Refuse a code with GPUs that this machine has not.

    Raises:
        AffinityError: it has not as many.
    """
    resources = Resources.from_code(code)
    if resources.n_gpu and (here := n_gpus()) < resources.n_gpu:
        raise AffinityError(
            f"affinity code {code!r} is for a machine of {resources.n_gpu} GPUs, and this process "
            f"sees {here}; `rlpyt affinity` suggests codes for this machine. It says "
            f"{resources.describe()}."
        )


def default_code(cpus_per_run: int | None = None, gpus_per_run: int | None = None) -> str:
    """Code of the whole of this machine, so many cores to a run, or so many GPUs.

    Raises:
        ValueError: the machine does not have as many.
    """
    machine, cpus_per_run = Machine.here(), cpus_per_run or 1
    cores, pins = len(machine.cpus), machine.n_granted == machine.n_core
    if not pins:  # a container's cores are not its own, its share of their time is
        cores = machine.n_granted
    if gpus_per_run:
        gpus = n_gpus()
        if gpus < gpus_per_run:
            raise ValueError(
                f"gpus_per_run={gpus_per_run}, and there {_are(gpus)} {counted(gpus, 'GPU')} here."
            )
        return encode_affinity(
            n_cpu_core=cores, n_gpu=gpus, gpu_per_run=gpus_per_run, set_affinity=pins
        )
    if cores < cpus_per_run:
        raise ValueError(
            f"cpus_per_run={cpus_per_run}, and there {_are(cores)} {counted(cores, 'core')} here."
        )
    used = cores // cpus_per_run * cpus_per_run
    return encode_affinity(
        n_cpu_core=used,
        cpu_per_run=cpus_per_run,
        hyperthread_offset=0,
        n_socket=1,
        set_affinity=pins,
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _gpus(affinity: Any) -> tuple[int, ...]:
    """Indices of a run's GPUs, those of its optimizer first."""
    if isinstance(affinity, list | tuple):
        return tuple(dict.fromkeys(gpu for one in affinity for gpu in _gpus(one)))
    parts = [affinity[name] for name in ("optimizer", "sampler") if name in affinity]
    if parts:
        return tuple(dict.fromkeys(gpu for part in parts for gpu in _gpus(part)))
    gpu = affinity.get("cuda_idx")
    return () if gpu is None else (gpu,)
