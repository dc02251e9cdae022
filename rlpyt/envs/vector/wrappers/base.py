"""Base class of wrappers of vector environments."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.base import Rows, VectorEnv, WaitingRows, adapt


class VectorWrapper(VectorEnv):
    """Wrapper that forwards everything to the inner environments; subclasses override hooks.

    A subclass overrides `_begin`, called once for each episode's first observation, and `_follow`,
    called once for each step. State of running episodes is saved by `_get_own` and `_set_own`,
    statistics of the data by `_get_learnt` and `_set_learnt`. Without one of these a custom wrapper
    may have state that is not saved, so that a resumed run starts new episodes.

    Args:
        env: a `VectorEnv`, or environments supported by `adapt`.

    Attributes:
        env: the inner environments.
        training: True while statistics are updated; see `freeze`.
    """

    def __init__(self, env: EnvLike) -> None:
        self.env = adapt(env)
        self.n = self.env.n
        self._observation_space = self.env.observation_space
        self._action_space, self._known_horizon = self.env.action_space, self.env.horizon
        self.training = True
        self._waiting = WaitingRows(self.n)

    def _begin(self, observation: Any, rows: Rows) -> Any:
        """Process the first observations [k, ...] of these rows; return the wrapper's."""
        return observation

    def _follow(self, step: EnvStep) -> EnvStep:
        """Process a step; return the wrapper's. Rows in ``_waiting.mask`` had ended before it."""
        return step

    def reset(self) -> Any:
        """Start an episode in every row."""
        first = self.env.reset()
        self._waiting.remove()
        return self._begin(first, np.arange(self.n))

    def reset_rows(self, rows: Rows) -> Any:
        """Start an episode in these rows."""
        first = self.env.reset_rows(rows)
        rows = np.asarray(rows, np.int64)
        self._waiting.remove(rows)
        return self._begin(first, rows)

    def step(self, action: Any) -> EnvStep:
        """Step every row."""
        inner = self.env.step(action)
        own = self._follow(inner)
        if np.count_nonzero(inner.env_info.traj_done):
            self._waiting.add(inner.env_info.traj_done)
        return own

    def _seed_rows(self, seeds: list[int]) -> None:
        self.env.seed(seeds)

    def get_state(self) -> dict[str, Any] | None:
        """Return the inner state and the wrapper's own; ``None`` if one of them is not known."""
        inner = self.env.get_state() if self._saves_state() else None
        if inner is None:
            return None
        own = {"own": self._get_own(), "learnt": self._get_learnt()}
        return {"env": inner, "waiting": self._waiting.mask.copy(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of equally wrapped environments."""
        self.env.set_state(state["env"])
        self._set_own(state["own"])
        self._set_learnt(state["learnt"])
        self._waiting.remove()
        self._waiting.add(np.asarray(state["waiting"], bool))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of each wrapper by class name ("..._2" for a second one)."""
        learnt = {name: wrapper._get_learnt() for name, wrapper in self._with_statistics().items()}
        return {**self._innermost().statistics(), **learnt}

    def load_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Load the statistics of wrappers with the same names; other entries are ignored.

        Raises:
            ValueError: ``statistics`` has no entry for a wrapper.
        """
        self._innermost().load_statistics(statistics)
        for name, wrapper in self._with_statistics().items():
            if name not in statistics:
                raise ValueError(
                    f"statistics must contain {name}, got {sorted(statistics)}. Use the same "
                    "wrappers as the environments that the statistics come from."
                )
            wrapper._set_learnt(statistics[name])

    def freeze(self, frozen: bool = True) -> None:
        """Stop (or resume) updating statistics, also of inner wrappers."""
        self.training = not frozen
        self.env.freeze(frozen)

    def close(self) -> None:
        """Close the inner environments."""
        self.env.close()

    def _saves_state(self) -> bool:
        cls, base = type(self), VectorWrapper
        defined = cls._get_own is not base._get_own or cls._get_learnt is not base._get_learnt
        return defined or cls.__module__.startswith("rlpyt.")

    def _get_own(self) -> dict[str, Any]:
        return {}

    def _set_own(self, state: Mapping[str, Any]) -> None: ...

    def _get_learnt(self) -> dict[str, Any]:
        return {}

    def _set_learnt(self, learnt: Mapping[str, Any]) -> None: ...

    def _innermost(self) -> VectorEnv:
        return self.env._innermost() if isinstance(self.env, VectorWrapper) else self.env

    def _with_statistics(self) -> dict[str, "VectorWrapper"]:
        """Return the wrappers with statistics by name, innermost first."""
        found = self.env._with_statistics() if isinstance(self.env, VectorWrapper) else {}
        if self._get_learnt():
            name = first = type(self).__name__
            number = 2
            while name in found:
                name, number = f"{first}_{number}", number + 1
            found[name] = self
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # not set yet: do not forward
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env!r}>"
