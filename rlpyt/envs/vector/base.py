"""The contract of natively batched environments, and the door through which foreign ones come.

    observation = envs.reset()                                    # [n, ...]
    observation, reward, done, env_info = envs.step(action)       # action [n, ...]
    rows = np.flatnonzero(env_info.traj_done)
    first_observation = envs.reset_rows(rows)                     # [len(rows), ...]

As seen from outside nothing resets by itself, whatever the source does: a step returns the true
final observation of an episode, and the first one of the next comes from ``reset_rows``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.base import EnvSpaces, EnvStep
from rlpyt.errors import RlpytError
from rlpyt.utils.collections import namedarraytuple

Rows = NDArray[np.integer[Any]]


class UnsupportedVectorEnv(RlpytError, TypeError):
    """Batched environments whose resets, seeds or batches would not be what a sampler expects."""


class VectorEnv:
    """Interface of ``n`` environments stepped together.

    ``step`` takes actions [n, ...] in the form of ``action_space`` and returns an ``EnvStep``:

    - observation: [n, ...] array, or (nested) named tuple of such, as in ``observation_space``.
      Where an episode has ended it is the true final observation.
    - reward: [n] float32.
    - done: [n] bool; the return ends here: termination, truncation, or a lost life.
    - env_info: namedarraytuple of arrays [n, ...], the same fields, shapes and dtypes at every
      step. It begins with ``timeout`` (bool: truncated and not terminated) and ``traj_done``
      (bool: this row needs ``reset_rows`` now); the numbers asked for as ``info_keys`` follow.

    Rows with ``traj_done`` wait for ``reset_rows``. Until then they may be stepped on: they show
    reward zero, ``done`` and ``traj_done``, and an observation that means nothing. `reset` starts
    all rows; without new seeds it is ``reset_rows`` of all. Returned arrays may be written anew
    by the next call of any method: who keeps them makes copies. Actions are checked before they
    reach foreign code.

    Attributes:
        n: number of environments, the rows.
    """

    n: int
    _action_space: Any
    _observation_space: Any

    def reset(self) -> Any:
        """Start an episode in every row; return the first observations [n, ...]."""
        raise NotImplementedError

    def step(self, action: Any) -> EnvStep:
        """Step every row; see the class.

        Raises:
            ValueError: wrong batch size, or an action outside its space; the message has the row.
            TypeError: actions that are no numbers, or no integers where integers belong.
        """
        raise NotImplementedError

    def reset_rows(self, rows: Rows) -> Any:
        """Start an episode in these rows and leave the others; return [len(rows), ...].

        Args:
            rows: [k] integers, each row at most once; k may be 0.
        """
        raise NotImplementedError

    @property
    def action_space(self) -> Any:
        """Space of one environment's actions."""
        return self._action_space

    @property
    def observation_space(self) -> Any:
        """Space of one environment's observations."""
        return self._observation_space

    @property
    def spaces(self) -> EnvSpaces:
        """Both spaces, as agents and models want them."""
        return EnvSpaces(observation=self.observation_space, action=self.action_space)

    @property
    def horizon(self) -> int | None:
        """Steps after which an episode is truncated; ``None`` if unlimited or unknown."""
        return None

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed the spaces now, and row i with ``seeds[i]`` at the next ``reset``.

        Raises:
            ValueError: not one seed of at least 0 for each row.
            UnsupportedVectorEnv: the environments can be seeded only as they are made; the
                message tells how.
        """
        seeds = self._checked_seeds(seeds)
        for space in self.spaces:
            if hasattr(space, "seed"):
                space.seed(seeds[0])
        self._seed_rows(seeds)

    def _seed_rows(self, seeds: list[int]) -> None:
        """Note the seeds for the next ``reset``."""
        raise NotImplementedError

    def get_state(self) -> dict[str, Any] | None:
        """Return the exact state as a plain tree, as in ``Env.get_state``; ``None``: cannot."""
        return None

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state that ``get_state`` of equally constructed environments returned."""
        raise NotImplementedError(f"{type(self).__name__} cannot be set to a saved state.")

    def statistics(self) -> dict[str, Any]:
        """Return what wrappers have learnt of the data (means, variances) as a plain tree."""
        return {}

    def load_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Take over what equally wrapped environments have learnt."""

    def freeze(self, frozen: bool = True) -> None:
        """Learn no more of the data (or again): for evaluation with the training's statistics."""

    def close(self) -> None:
        """Release what the environments hold; harmless when repeated."""

    def _checked_seeds(self, seeds: Sequence[int]) -> list[int]:
        listed = np.asarray(seeds)
        if listed.shape != (self.n,) or listed.dtype.kind not in "iu" or (listed < 0).any():
            raise ValueError(
                f"seeds={seeds!r:.80} must be {self.n} integers of at least 0, one for each row."
            )
        return [int(seed) for seed in listed]

    def _checked_rows(self, rows: Any) -> Rows:
        """Return rows as an integer array.

        Raises:
            TypeError: they are not integers, for example a mask.
            ValueError: they are no row numbers, or some come twice.
        """
        rows = np.asarray(rows, np.int64) if isinstance(rows, list | tuple) else np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(
                f"rows={rows!r:.80} must be a list of row numbers; of a mask, np.flatnonzero(mask)."
            )
        if np.count_nonzero(rows[1:] <= rows[:-1]):  # out of order; flatnonzero gives them in order
            in_order = np.sort(rows)
            if (in_order[1:] == in_order[:-1]).any():
                raise ValueError(f"rows={rows!r:.80} must name each row only once.")
        else:
            in_order = rows
        if len(rows) and not (in_order[0] >= 0 and in_order[-1] < self.n):
            raise ValueError(f"rows={rows!r:.80} must lie in [0, {self.n}).")
        checked: Rows = rows
        return checked

    def __repr__(self) -> str:
        return f"<{type(self).__name__} n={self.n}>"


class WaitingRows:
    """Which rows have ended an episode and wait for ``reset_rows``: for adapters and wrappers.

    Attributes:
        mask: [n] bool.
        n: how many wait.
    """

    def __init__(self, n: int) -> None:
        self.mask = np.zeros(n, bool)
        self.n = 0

    def add(self, mask: NDArray[np.bool_]) -> None:
        """Let these rows [n] wait as well."""
        self.mask |= mask
        self.n = int(np.count_nonzero(self.mask))

    def remove(self, rows: Any = slice(None)) -> None:
        """They have been reset; all, if none are named."""
        if self.n:
            self.mask[rows] = False
            self.n = int(np.count_nonzero(self.mask))


def vector_info(info_keys: Sequence[str] = ()) -> Any:
    """Return the type of ``env_info``: timeout, traj_done, and a field for each further key."""
    for key in ("timeout", "traj_done"):
        if key in info_keys:
            raise ValueError(f"info_keys={tuple(info_keys)} must not have '{key}': it always is.")
    return namedarraytuple("VectorInfo", ("timeout", "traj_done", *info_keys))


def is_vector_env(x: Any) -> bool:
    """Whether ``x`` is, or claims to be, a batch of environments; imports no library.

    True for our `VectorEnv`, for those of gymnasium, gym, ale_py and EnvPool and what wraps them,
    and for other objects with ``num_envs`` that are no single ``gymnasium.Env``. Whether it can
    be used, `adapt` tells.
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


def adapt(envs: Any, info_keys: Sequence[str] = ()) -> VectorEnv:
    """Put batched environments behind the contract; ours are returned as they are.

    Args:
        envs: our `VectorEnv`, an EnvPool, ale_py's ``AtariVectorEnv``, a gymnasium ``VectorEnv``.
        info_keys: entries of the source's info to keep in ``env_info``; zero where missing.

    Raises:
        UnsupportedVectorEnv: it is of another kind, or its behaviour at episode ends is unknown
            or cannot be translated; the message says what to do.
    """
    if isinstance(envs, VectorEnv):
        return envs
    from rlpyt.envs.vector.adapt import adapter_of

    adapted: VectorEnv = adapter_of(envs)(envs, info_keys=tuple(info_keys))
    return adapted
