"""A worker's entry points in rlpyt (2019), kept as names; workers run ``build_env_worker``."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.samplers.env_worker import EnvWorker
from rlpyt.utils.processes import pin
from rlpyt.utils.seed import set_seed


def initialize_worker(
    rank: int,
    seed: int | None = None,
    cpu: int | Sequence[int] | None = None,
    torch_threads: int | None = None,
) -> None:
    """Pin this process to cores, set its number of torch threads, and seed it."""
    import torch

    if cpu is not None:
        pin([cpu] if isinstance(cpu, int) else cpu)
    torch.set_num_threads(torch_threads or 1)
    if seed is not None:
        set_seed(seed)


def sampling_process(
    common_kwargs: Mapping[str, Any], worker_kwargs: Mapping[str, Any]
) -> EnvWorker:
    """Build an environment worker from the arguments common to all workers and this one's own.

    Workers of rlpyt (2019) ran this function; now they run ``env_worker.build_env_worker``.
    """
    return EnvWorker(**{**common_kwargs, **worker_kwargs})
