"""From options to what the runner is told about the machine."""

import re
from typing import Any

from rlpyt.experiments.options import RunOptions
from rlpyt.samplers.layout import MOST_TORCH_THREADS, check_n_processes
from rlpyt.utils import torchrun
from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.machine import n_granted_cpus


def affinities(options: RunOptions) -> Any:
    """What the runner is told about the machine, of every rank where there are several.

    Raises:
        ValueError: see ``affinity``; torchrun has started another number of ranks, or ranks that
            cannot be.
    """
    own, here = affinity(options), torchrun.place()
    if here is not None and options.sampler.asynchronous:
        raise ValueError(
            "an asynchronous run starts its processes itself: run it without torchrun."
        )
    if here is not None:
        if options.ranks not in (1, here.world_size):
            raise ValueError(
                f"ranks={options.ranks}, and torchrun has started {here.world_size}: leave --ranks "
                "out of a new run; one that is resumed needs as many as it began with."
            )
        return own
    n_ranks = whole_number("ranks", options.ranks, 1)
    check_n_processes("ranks", n_ranks, "ranks")
    first = own["cuda_idx"]
    several = [
        {**own, "cuda_idx": None if first is None else first + rank} for rank in range(n_ranks)
    ]
    if options.sampler.asynchronous:
        return {"sampler": own, "optimizer": several}
    return several if n_ranks > 1 else own


def with_ranks_of_torchrun(options: RunOptions) -> RunOptions:
    """The same with the number of ranks that there really are."""
    here = torchrun.place()
    return options if here is None else options.updated({"ranks": here.world_size})


def affinity(options: RunOptions) -> dict[str, Any]:
    """What the runner is told about the machine.

    Raises:
        ValueError: ``device`` is neither cpu nor cuda nor cuda:N, or ``torch_threads`` is more than
            a machine can start.
    """
    known = re.fullmatch(r"cpu|cuda(?::(?P<index>\d+))?", options.device)
    if known is None:
        raise ValueError(f"device={options.device!r} must be cpu, cuda or cuda:N, such as cuda:0.")
    cuda_idx = None if options.device == "cpu" else int(known["index"] or 0)
    elsewhere = options.sampler.kind in ("serial", "ray")  # Ray's actors are not on these cores
    n_workers = 1 if elsewhere else options.sampler.n_workers
    threads = whole_number("torch_threads", options.torch_threads, 0) or n_granted_cpus()
    if threads > MOST_TORCH_THREADS:
        raise ValueError(
            f"torch_threads (--torch-threads) must be at most {MOST_TORCH_THREADS} on this "
            f"machine, got {threads}. Give the number of cores, or 0 for one thread per core."
        )
    return {"n_workers": n_workers, "cuda_idx": cuda_idx, "master_torch_threads": threads}
