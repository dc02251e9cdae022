"""Interface of vector environments, and adaptation of those from other libraries.

    observation = envs.reset()                                    # [n, ...]
    observation, reward, done, env_info = envs.step(action)       # action [n, ...]
    rows = np.flatnonzero(env_info.traj_done)
    first_observation = envs.reset_rows(rows)                     # [len(rows), ...]

There is no automatic reset, whatever the source does: a step returns the true final observation
of an episode, and ``reset_rows`` returns the first one of the next episode.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.envs.base import BaseEnv, EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.errors import RlpytError
from rlpyt.utils.collections import namedarraytuple

Rows = NDArray[np.integer[Any]]
Elements = NDArray[Any] | tuple[Any, ...]  # [n, ...] of a space; named tuples if composite
Native = Elements | dict[str, Any]  # the same in Gymnasium's form


class UnsupportedVectorEnv(RlpytError, TypeError):
    """Vector environments whose resets, seeds or batches do not work as samplers expect."""


class VectorEnv(BaseEnv):
    """Interface of ``n`` environments stepped together.

    ``step`` takes actions [n, ...] in the form of ``action_space`` and returns an ``EnvStep``:

    - observation: [n, ...] array, or (nested) named tuple of arrays, as in ``observation_space``.
      Where an episode has ended it is the true final observation.
    - reward: [n] float32.
    - done: [n] bool; the return ends here: termination, truncation, or a lost life.
    - env_info: namedarraytuple of arrays [n, ...] with the same fields, shapes and dtypes at every
      step. The first fields are ``timeout`` (bool: truncated and not terminated) and
      ``traj_done`` (bool: this row needs ``reset_rows`` now), followed by the ``info_keys``.

    Rows with ``traj_done`` wait for ``reset_rows``. Stepping them before has no effect: they
    return reward zero, ``done`` and ``traj_done``, and a meaningless observation. `reset` starts
    all rows; without new seeds it equals ``reset_rows`` of all. Returned arrays may be
    overwritten by the next call of any method; copy them to keep them. Actions are checked before
    they are passed to external code.

    Attributes:
        n: number of environments, called rows.
    """

    n: int

    def reset(self) -> Any:
        """Start an episode in every row; return the first observations [n, ...]."""
        raise NotImplementedError

    def step(self, action: Any) -> EnvStep:
        """Step every row; see the class.

        Raises:
            ValueError: the batch size is wrong, or an action is outside its space; the message
                names the row.
            TypeError: actions are not numbers, or not integers for an integer space.
        """
        raise NotImplementedError

    def reset_rows(self, rows: Rows) -> Any:
        """Start an episode in these rows only; return first observations [len(rows), ...].

        Args:
            rows: [k] integers, each row at most once; k may be 0.
        """
        raise NotImplementedError

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed the spaces now, and row i with ``seeds[i]`` at the next ``reset``.

        Raises:
            ValueError: ``seeds`` is not one integer of at least 0 for each row.
            UnsupportedVectorEnv: the environments can only be seeded on construction; the
                message says how.
        """
        listed = np.asarray(seeds)
        if listed.shape != (self.n,) or listed.dtype.kind not in "iu" or (listed < 0).any():
            raise ValueError(
                f"seeds={seeds!r:.80} must be {self.n} integers of at least 0, one for each row."
            )
        seeds = [int(seed) for seed in listed]
        for space in self.spaces:
            if hasattr(space, "seed"):
                space.seed(seeds[0])
        self._seed_rows(seeds)

    def _seed_rows(self, seeds: list[int]) -> None:
        """Store the seeds for the next ``reset``."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of wrappers (running means, variances) as a plain tree."""
        return {}

    def load_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Load the ``statistics()`` of equally wrapped environments."""

    def freeze(self, frozen: bool = True) -> None:
        """Stop (or resume) updating statistics, for evaluation with those of training."""

    def _checked_rows(self, rows: ArrayLike) -> Rows:
        """Return rows as an integer array.

        Raises:
            TypeError: ``rows`` are not integers, for example a mask.
            ValueError: ``rows`` has invalid or repeated row numbers.
        """
        rows = np.asarray(rows, np.int64) if isinstance(rows, list | tuple) else np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(
                f"rows={rows!r:.80} must be a list of row numbers. For a mask, use "
                "np.flatnonzero(mask)."
            )
        if np.count_nonzero(rows[1:] <= rows[:-1]):  # not sorted, unlike rows of flatnonzero
            in_order = np.sort(rows)
            if (in_order[1:] == in_order[:-1]).any():
                raise ValueError(f"rows={rows!r:.80} must contain each row only once.")
        else:
            in_order = rows
        if len(rows) and not (in_order[0] >= 0 and in_order[-1] < self.n):
            raise ValueError(f"rows={rows!r:.80} must be in [0, {self.n}).")
        checked: Rows = rows
        return checked

    def __repr__(self) -> str:
        return f"<{type(self).__name__} n={self.n}>"


class WaitingRows:
    """Rows whose episode has ended and that wait for ``reset_rows``, for adapters and wrappers.

    Attributes:
        mask: [n] bool.
        n: number of waiting rows.
    """

    def __init__(self, n: int) -> None:
        self.mask = np.zeros(n, bool)
        self.n = 0

    def add(self, mask: NDArray[np.bool_]) -> None:
        """Add the rows of a mask [n]."""
        self.mask |= mask
        self.n = int(np.count_nonzero(self.mask))

    def remove(self, rows: Rows | slice = slice(None)) -> None:
        """Remove rows that have been reset; by default all."""
        if self.n:
            self.mask[rows] = False
            self.n = int(np.count_nonzero(self.mask))


def vector_info(info_keys: Sequence[str] = ()) -> Any:
    """Return the type of ``env_info``: timeout, traj_done, and a field for each further key."""
    for key in ("timeout", "traj_done"):
        if key in info_keys:
            raise ValueError(
                f"info_keys={tuple(info_keys)} must not contain '{key}'; it is always included."
            )
    return namedarraytuple("VectorInfo", ("timeout", "traj_done", *info_keys))


def is_vector_env(x: object) -> bool:
    """Return True if ``x`` is, or claims to be, a vector environment, without importing libraries.

    True for our `VectorEnv`, for those of gymnasium, gym, ale_py and EnvPool and their wrappers,
    and for other objects with ``num_envs`` that are not a single ``gymnasium.Env``. `adapt`
    checks whether it is supported.
    """
    if isinstance(x, type):
        return False
    if isinstance(x, VectorEnv):
        return True
    classes = [(c.__module__.partition(".")[0], c.__name__) for c in type(x).__mro__]
    if any(name in ("VectorEnv", "EnvPoolMixin") for _, name in classes):
        return True
    if not isinstance(getattr(x, "num_envs", None), int | np.integer):
        return False
    single = any(c in (("gymnasium", "Env"), ("gym", "Env"), ("rlpyt", "Env")) for c in classes)
    return not single or hasattr(x, "single_action_space")


def adapt(envs: EnvLike, info_keys: Sequence[str] | Mapping[str, Any] = ()) -> VectorEnv:
    """Adapt vector environments to `VectorEnv`; instances of it are returned unchanged.

    Args:
        envs: our `VectorEnv`, an EnvPool, ale_py's ``AtariVectorEnv``, a gymnasium ``VectorEnv``.
        info_keys: entries of the source's info to keep in ``env_info``, or a dict of examples;
            zero where missing.

    Raises:
        UnsupportedVectorEnv: ``envs`` is of another kind, or its behavior at episode ends is
            unknown or not supported; the message says what to do.
    """
    if isinstance(envs, VectorEnv):
        return envs
    adapted: VectorEnv = _adapter_of(envs)(envs, info_keys=info_keys)
    return adapted


def _adapter_of(envs: object) -> Any:
    """Return the adapter class for vector environments."""
    inner = envs  # inside gymnasium's vector wrappers
    while hasattr(inner, "env") and "VectorWrapper" in _names(inner):
        inner = inner.env
    names = _names(inner)
    if "EnvPoolMixin" in names:
        from rlpyt.envs.vector.envpool import EnvPoolVector

        return EnvPoolVector
    if "AtariVectorEnv" in names:
        from rlpyt.envs.vector.atari import AtariVector

        return AtariVector
    if not any(c.__module__.startswith("gymnasium.vector") for c in type(inner).__mro__):
        raise UnsupportedVectorEnv(_message(envs))
    if "CartPoleVectorEnv" in names:
        if inner is not envs:
            raise UnsupportedVectorEnv(
                f"{envs} wraps CartPoleVectorEnv, which cannot reset single rows. Adapt it without "
                "wrappers and use rlpyt.envs.vector.wrappers, or batch single environments: "
                "make_vec('CartPole-v1', vectorization_mode='sync')."
            )
        from rlpyt.envs.vector.cartpole import CartPoleVector

        return CartPoleVector
    from rlpyt.envs.vector.gymnasium_vector import GymnasiumVectorEnv

    return GymnasiumVectorEnv


def _names(envs: object) -> set[str]:
    return {c.__name__ for c in type(envs).__mro__}


def _message(envs: object) -> str:
    kind = f"{type(envs).__module__}.{type(envs).__name__}"
    if kind.startswith("stable_baselines3."):
        return (
            f"{kind} resets automatically and hides how. Pass the single environment to samplers "
            "(EnvCls=rlpyt.envs.gym.make, env_kwargs=dict(id=...)), or make_vec(id)."
        )
    return (
        f"{kind} is not a supported vector environment: rlpyt.envs.vector.VectorEnv, a "
        "gymnasium.vector.VectorEnv, ale_py's AtariVectorEnv, EnvPool. Subclass "
        "rlpyt.envs.vector.VectorEnv (reset, step, reset_rows), or pass a single environment to "
        "samplers, which batch it."
    )
