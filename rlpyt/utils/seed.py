"""Random numbers: one seed per process, and streams derived from it.

Each stream belongs to one purpose (environment 3, the exploration noise of environment 3), not to
a worker, so that the same seed gives the same data for any number of workers.
"""

import contextlib
import random
import secrets
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rlpyt.utils.checks import whole_number

seed_: int | None = None  # last argument of set_seed


def check_seed(seed: Any) -> int:
    """Return the seed as an int that all generators accept.

    Raises:
        TypeError: the seed is not an integer.
        ValueError: the seed is negative, or 2**64 or above.
    """
    return whole_number("seed", seed, 0)


def set_seed(seed: int) -> None:
    """Seed the global generators of ``random``, numpy and torch (on every device).

    Raises:
        TypeError, ValueError: see `check_seed`.
    """
    global seed_
    import torch

    seed_ = check_seed(seed)
    random.seed(seed_)
    words = [seed_ % 2**32, seed_ >> 32]
    np.random.seed(words if words[1] else words[0])  # numpy limits single numbers to 32 bits
    torch.manual_seed(seed_)  # seeds CUDA as well


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the state of the global generators, and `get_seed`, at the end of a block."""
    global seed_
    has_torch = "torch" in sys.modules  # if it is not imported, its generator is not in use
    states = random.getstate(), np.random.get_state()
    of_torch, seed = torch_state() if has_torch else {}, seed_
    try:
        yield
    finally:
        seed_ = seed
        random.setstate(states[0])
        np.random.set_state(states[1])
        if has_torch:
            set_torch_state(of_torch)


def random_state() -> dict[str, Any]:
    """Return the states of the global generators of random, numpy and torch."""
    version, internal, gauss = random.getstate()
    name, keys, pos, has_gauss, cached = np.random.get_state()
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys), int(pos), int(has_gauss), float(cached)],
    }
    return state | torch_state()


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the global generators to a state from ``random_state``."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(tuple(state["numpy"]))
    set_torch_state(state)


def torch_state() -> dict[str, Any]:
    """Return the states of torch's global generators, those of GPUs if any is in use."""
    import torch

    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = {"cuda": torch.cuda.get_rng_state_all()} if used else {}
    return {"torch": torch.get_rng_state(), **cuda}


def set_torch_state(state: dict[str, Any]) -> None:
    """Restore torch's global generators to a state from `torch_state`."""
    import torch

    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def get_seed() -> int | None:
    """Return the last argument of `set_seed` in this process, or None."""
    return seed_


def make_seed() -> int:
    """Return a random number in [0, 10000] from the operating system, independent of seeds."""
    return secrets.randbelow(10_001)


def stream(seed: int, purpose: str, rank: int = 0) -> np.random.Generator:
    """Return the random stream for one purpose of one rank, the same in every process and run.

    Args:
        seed: seed of the run.
        purpose: name of the purpose, e.g. "action_noise"; purposes are independent.
        rank: number of the environment, replica or server; ranks are independent.

    Raises:
        TypeError, ValueError: see `check_seed`.
    """
    return np.random.default_rng(_sequence(seed, purpose, rank))


def env_seed(seed: int, env_rank: int, purpose: str = "env") -> int:
    """Return the seed in [0, 2**31) for the environment of this global rank.

    Evaluation environments use a different ``purpose`` from training environments.

    Raises:
        TypeError, ValueError: see `check_seed`.
    """
    return int(_sequence(seed, purpose, env_rank).generate_state(1)[0] >> 1)


def set_envs_seeds(
    envs: Iterable[Any],
    seed: int | None,
    env_ranks: Sequence[int] | None = None,
    purpose: str = "env",
) -> None:
    """Seed every environment that has a ``seed`` method with its `env_seed`.

    Args:
        envs: environments.
        seed: seed of the run; None leaves the environments unchanged.
        env_ranks: global ranks of the environments; None means 0, 1, 2 and so on.
        purpose: as in `env_seed`.
    """
    if seed is None:
        return
    envs = list(envs)
    ranks = range(len(envs)) if env_ranks is None else env_ranks
    for env, rank in zip(envs, ranks, strict=True):
        if callable(getattr(env, "seed", None)):
            env.seed(env_seed(seed, rank, purpose))


def saved_seed(state: Mapping[str, Any]) -> int | None:
    """Return the seed of the next reset from the saved state of an environment, if it has one.

    Raises:
        TypeError, ValueError: it is no seed.
    """
    seed = state["next_seed"]
    return None if seed is None else whole_number("next_seed", seed, 0)


def _sequence(seed: int, purpose: str, rank: int) -> np.random.SeedSequence:
    key = (zlib.crc32(purpose.encode()), rank)  # hash() differs from process to process
    return np.random.SeedSequence(entropy=check_seed(seed), spawn_key=key)
