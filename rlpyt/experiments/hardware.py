"""Affinities of runners built from options."""

import re
from typing import Any

from rlpyt.experiments.options import RunOptions
from rlpyt.samplers.layout import MAX_TORCH_THREADS, check_n_processes
from rlpyt.utils import torchrun
from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.machine import n_gpus, n_granted_cpus


def affinities(options: RunOptions) -> Any:
    """Return the affinity of the runner: of all ranks if there are several.

    Raises:
        ValueError: the run is asynchronous under torchrun, or the number of ranks is invalid or
            differs from torchrun's; see also ``affinity``.
    """
    base, place = affinity(options), torchrun.place()
    if place is not None and options.sampler.asynchronous:
        raise ValueError(
            "An asynchronous run starts its processes itself. Run it without torchrun."
        )
    if place is not None:
        if options.ranks not in (1, place.world_size):
            raise ValueError(
                f"ranks must be the number started by torchrun, {place.world_size}, got "
                f"{options.ranks}. Omit --ranks for a new run; resume a run with the number it was "
                "started with."
            )
        return base
    n_ranks = whole_number("ranks", options.ranks, 1)
    check_n_processes("ranks", n_ranks, "ranks")
    first = base["cuda_idx"]
    per_rank = [
        {**base, "cuda_idx": None if first is None else first + rank} for rank in range(n_ranks)
    ]
    if options.sampler.asynchronous:
        return {"sampler": base, "optimizer": per_rank}
    return per_rank if n_ranks > 1 else base


def with_ranks_of_torchrun(options: RunOptions) -> RunOptions:
    """Return the options with the number of ranks started by torchrun, if any."""
    place = torchrun.place()
    return options if place is None else options.updated({"ranks": place.world_size})


def affinity(options: RunOptions) -> dict[str, Any]:
    """Return the affinity of one rank.

    Raises:
        ValueError: ``device`` is not cpu, cuda or cuda:N, or ``torch_threads`` is too large.
    """
    cuda_idx = _cuda_idx(options.device)
    # Ray actors do not use the cores of this process.
    without_workers = options.sampler.kind in ("serial", "ray", "tensor")
    n_workers = 1 if without_workers else options.sampler.n_workers
    threads = whole_number("torch_threads", options.torch_threads, 0) or n_granted_cpus()
    if threads > MAX_TORCH_THREADS:
        raise ValueError(
            f"torch_threads (--torch-threads) must be at most {MAX_TORCH_THREADS} on this "
            f"machine, got {threads}. Give the number of cores, or 0 for one thread per core."
        )
    return {"n_workers": n_workers, "cuda_idx": cuda_idx, "master_torch_threads": threads}


def check_device(device: str) -> None:
    """Check that a device exists.

    Raises:
        ValueError: ``device`` is not cpu, cuda or cuda:N, or is not a GPU of this machine.
    """
    cuda_idx, n = _cuda_idx(device), n_gpus()
    if cuda_idx is not None and cuda_idx >= n:
        found = f"cuda:0 to cuda:{n - 1}" if n else "none"
        raise ValueError(
            f"device={device!r} must be a GPU that PyTorch finds on this machine: {found}. Train "
            "on another device (--device cpu), or install a GPU driver and PyTorch with CUDA."
        )


def _cuda_idx(device: str) -> int | None:
    known = re.fullmatch(r"cpu|cuda(?::(?P<index>\d{1,18}))?", device)
    if known is None:
        raise ValueError(f"device={device!r} must be cpu, cuda or cuda:N, such as cuda:0.")
    return None if device == "cpu" else int(known["index"] or 0)
