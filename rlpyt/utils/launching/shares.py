"""Affinity dictionaries of a run slot, for runners."""

from typing import Any

from rlpyt.utils.collections import AttrDict
from rlpyt.utils.launching.placement import SlotCpus, get_master_cpus
from rlpyt.utils.launching.resources import Resources, divided

Cpus = tuple[int, ...]


def affinity_of(resources: Resources) -> Any:
    """Return the affinity of a run slot, in the form that its runner takes.

    Args:
        resources: hardware and its division, with a run slot.

    Returns:
        See ``affinity_from_code``.

    Raises:
        AffinityError: the run slot is out of range, or the numbers are inconsistent.
    """
    shares = resources.checked().rank_cores()
    if resources.async_sample:
        return _asynchronous(resources, shares[0])
    ranks = [
        _one_process(resources, own, own[resources.reserved :], gpu)
        for own, gpu in zip(shares, resources.run_gpus()[0], strict=True)
    ]
    return ranks if len(ranks) > 1 else ranks[0]


def get_workers_cpus(cores: Cpus, cpw: int, hto: int | None, alt: int) -> list[Cpus]:
    """Return the processors of each worker.

    Args:
        cores: cores of all workers; a remainder too small for another worker is left out.
        cpw: cores per worker.
        hto: hyperthread offset; a worker gets both threads of its cores.
        alt: if true, twice as many workers for alternating samplers; the second half gets the
            second threads or, without hyperthreads, the same cores.
    """
    first = [tuple(cores[i : i + cpw]) for i in range(0, len(cores) - cpw + 1, cpw)]
    second = [tuple(core + (hto or 0) for core in worker) for worker in first]
    if alt:
        return first + second
    return [a + b for a, b in zip(first, second, strict=True)] if hto else first


def _one_process(
    resources: Resources, cores: Cpus, sampling: Cpus, cuda_idx: int | None
) -> AttrDict:
    """Return the affinity of a process with a sampler whose workers use the `sampling` cores."""
    per_worker, offset = resources.cpu_per_worker, resources.thread_offset
    return AttrDict(
        all_cpus=_cpus(resources, cores),
        master_cpus=_cpus(resources, cores),
        workers_cpus=get_workers_cpus(sampling, per_worker, offset, resources.alternating),
        master_torch_threads=len(cores),
        worker_torch_threads=per_worker,
        alternating=resources.alternating,
        set_affinity=resources.set_affinity,
        **_on_gpu(cuda_idx),
    )


def _on_gpu(cuda_idx: int | None) -> dict[str, int]:
    return {} if cuda_idx is None else {"cuda_idx": cuda_idx}


def _asynchronous(resources: Resources, cores: Cpus) -> AttrDict:
    """Return an asynchronous run's affinity: first the optimizers' cores, then the samplers'."""
    gpus, sample_gpus = resources.run_gpus()
    left, optimizers = list(cores), []
    for rank, gpu in enumerate(gpus):
        own = _next_to_gpu(resources, left, rank) or cores
        left = [core for core in left if core not in own]
        made = AttrDict(
            cpus=_cpus(resources, own),
            torch_threads=len(own),
            set_affinity=resources.set_affinity,
            **_on_gpu(gpu),
        )
        optimizers.append(made)
    parts, acting_on = divided(tuple(left) or cores, resources.n_samplers), sample_gpus or [None]
    samplers = [
        _one_process(resources, own, own, gpu) for own, gpu in zip(parts, acting_on, strict=True)
    ]
    used = [own["cpus"] for own in optimizers] + [own["all_cpus"] for own in samplers]
    cpus = tuple(dict.fromkeys(cpu for own in used for cpu in own))
    return AttrDict(
        all_cpus=SlotCpus.of(cpus, resources),
        optimizer=optimizers,
        sampler=samplers if sample_gpus else samplers[0],
        set_affinity=resources.set_affinity,
    )


def _next_to_gpu(resources: Resources, left: list[int], rank: int) -> Cpus:
    """Return the next cores for an optimizer, on its GPU's socket if the run has several."""
    if not left:
        return ()
    stride = resources.cores_per_socket
    sockets = sorted({core // stride for core in left})
    wanted = sockets[rank * len(sockets) // resources.n_ranks]
    left = sorted(left, key=lambda core: (core // stride != wanted, core))
    return tuple(left[: resources.reserved])


def _cpus(resources: Resources, cores: Cpus) -> SlotCpus:
    return SlotCpus.of(get_master_cpus(cores, resources.thread_offset), resources)
