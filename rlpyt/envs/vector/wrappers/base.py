"""What wrappers have in common: who begins, who goes on, who waits; state and statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.vector.base import Rows, VectorEnv, WaitingRows, adapt


class VectorWrapper(VectorEnv):
    """Passes everything on to the environments inside; subclasses change what they define.

    A subclass defines `_begin`, which sees each episode's first observation once, and `_follow`,
    which sees each step once. What it keeps of running episodes goes into `_get_own` and
    `_set_own`, what it has learnt of the data into `_get_learnt` and `_set_learnt`.

    Args:
        env: our `VectorEnv`, or environments that `adapt` knows.

    Attributes:
        env: the environments inside.
        training: whether it still learns of the data; see `freeze`.
    """

    def __init__(self, env: Any) -> None:
        self.env = adapt(env)
        self.n = self.env.n
        self._observation_space = self.env.observation_space
        self._action_space = self.env.action_space
        self.training = True
        self._waiting = WaitingRows(self.n)

    def _begin(self, observation: Any, rows: Rows) -> Any:
        """Take in the first observations [k, ...] of these rows' episodes; return ours."""
        return observation

    def _follow(self, step: EnvStep) -> EnvStep:
        """Take in a step, and return ours. Rows in ``_waiting.mask`` had ended before it."""
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

    @property
    def horizon(self) -> int | None:
        """That of the environments inside."""
        return self.env.horizon

    def _seed_rows(self, seeds: list[int]) -> None:
        self.env.seed(seeds)

    def get_state(self) -> dict[str, Any] | None:
        """Return the state inside, and the wrapper's own with it; ``None`` if the former is."""
        inner = self.env.get_state()
        if inner is None:
            return None
        own = {"own": self._get_own(), "learnt": self._get_learnt()}
        return {"env": inner, "waiting": self._waiting.mask.copy(), **own}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of equally wrapped environments."""
        self.env.set_state(state["env"])
        self._set_own(state["own"])
        self._set_learnt(state["learnt"])
        self._waiting.remove()
        self._waiting.add(np.asarray(state["waiting"], bool))

    def statistics(self) -> dict[str, Any]:
        """Return what each wrapper has learnt, by its class name ("..._2" for a second)."""
        learnt = {name: wrapper._get_learnt() for name, wrapper in self._learners().items()}
        return {**self._innermost().statistics(), **learnt}

    def load_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Take over what wrappers of the same names have learnt; others there are passed over.

        Raises:
            ValueError: a wrapper here finds nothing under its name.
        """
        self._innermost().load_statistics(statistics)
        for name, wrapper in self._learners().items():
            if name not in statistics:
                raise ValueError(
                    f"the statistics are of {sorted(statistics)}, and {name} is wanted too: wrap "
                    "these environments like those that the statistics come from."
                )
            wrapper._set_learnt(statistics[name])

    def freeze(self, frozen: bool = True) -> None:
        """Learn no more of the data (or again), here and inside."""
        self.training = not frozen
        self.env.freeze(frozen)

    def close(self) -> None:
        """Close the environments inside."""
        self.env.close()

    def _get_own(self) -> dict[str, Any]:
        return {}

    def _set_own(self, state: Mapping[str, Any]) -> None: ...

    def _get_learnt(self) -> dict[str, Any]:
        return {}

    def _set_learnt(self, learnt: Mapping[str, Any]) -> None: ...

    def _innermost(self) -> VectorEnv:
        return self.env._innermost() if isinstance(self.env, VectorWrapper) else self.env

    def _learners(self) -> dict[str, "VectorWrapper"]:
        """Wrappers that learn, from the inside out."""
        found = self.env._learners() if isinstance(self.env, VectorWrapper) else {}
        if self._get_learnt():
            name = first = type(self).__name__
            number = 2
            while name in found:
                name, number = f"{first}_{number}", number + 1
            found[name] = self
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # not there yet: do not search inside
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env!r}>"
