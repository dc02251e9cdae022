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
from rlpyt.utils.launching.placement import run_cpus
from rlpyt.utils.processes import available_cpus


def slots_of(code: str, at_once: int | None = None) -> list[Slot]:
    """As many slots as runs fit beside each other.

    Args:
        code: of this machine; or, with ``at_once``, of what a run gets on a cluster.
        at_once: runs on a cluster, each with the first slot of the code.

    Raises:
        ValueError: the code cannot be read, or describes another machine; shows how it was read.
    """
    slots = []
    for number in range(get_n_run_slots(code)):
        own = prepend_run_slot(number, code)
        slots.append(Slot(number, own, run_cpus(own), _gpus(affinity_from_code(own))))
    if at_once is None:
        return slots
    return [replace(slots[0], number=number) for number in range(at_once)]


def default_code(cpus_per_run: int | None = None, gpus_per_run: int | None = None) -> str:
    """Code of the whole of this machine, so many cores to a run, or so many GPUs.

    Raises:
        ValueError: the machine does not have as many.
    """
    cores, cpus_per_run = len(available_cpus()), cpus_per_run or 1
    if gpus_per_run:
        import torch

        gpus = torch.cuda.device_count()
        if gpus < gpus_per_run:
            raise ValueError(f"gpus_per_run={gpus_per_run}, and there are {gpus} GPUs here.")
        return str(encode_affinity(n_cpu_core=cores, n_gpu=gpus, gpu_per_run=gpus_per_run))
    if cores < cpus_per_run:
        raise ValueError(f"cpus_per_run={cpus_per_run}, and there are {cores} cores here.")
    used = cores // cpus_per_run * cpus_per_run
    return str(
        encode_affinity(n_cpu_core=used, cpu_per_run=cpus_per_run, hyperthread_offset=0, n_socket=1)
    )


def _gpus(affinity: Any) -> tuple[int, ...]:
    """Indices of a run's GPUs, those of its optimizer first."""
    if isinstance(affinity, list | tuple):
        return tuple(dict.fromkeys(gpu for one in affinity for gpu in _gpus(one)))
    parts = [affinity[name] for name in ("optimizer", "sampler") if name in affinity]
    if parts:
        return tuple(dict.fromkeys(gpu for part in parts for gpu in _gpus(part)))
    gpu = affinity.get("cuda_idx")
    return () if gpu is None else (gpu,)
