"""Rewards of goal environments for goals other than those that they set."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.layers import wrappers_of

Array = NDArray[Any]


class GoalRewards:
    """``compute_reward`` and ``compute_terminated`` of an environment, for batches of goals.

    The interface is that of ``GoalEnv`` of gymnasium-robotics. The environment is made by `bind`,
    or at the first call in a process; pickling leaves it out.

    Args:
        make_env: function that makes the environment.

    Attributes:
        terminates: True if the environment has ``compute_terminated``, so that reaching a goal may
            end an episode; set by `bind`.
    """

    terminates = False

    def __init__(self, make_env: Callable[[], Any]) -> None:
        self.make_env = make_env
        self._functions: tuple[Callable[..., Any], ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {"make_env": self.make_env, "terminates": self.terminates, "_functions": ()}

    def bind(self, goal: Array) -> None:
        """Make the environment, and try its methods with a pair of goals like ``goal``.

        Raises:
            ValueError: the environment has no ``compute_reward``, or it returns no numbers.
        """
        env = self.make_env()
        weakref.finalize(self, env.close)
        reward = _method(env, "compute_reward")
        if reward is None:
            raise ValueError(
                f"hindsight must be None for {env}, which has no method "
                "compute_reward(achieved_goal, desired_goal, info). Define it, as in GoalEnv of "
                "gymnasium-robotics."
            )
        terminated = _method(env, "compute_terminated")
        self.terminates = terminated is not None
        pair = np.stack([goal, goal])
        found = (reward,) if terminated is None else (reward, terminated)
        self._functions = tuple(_of_batches(function, pair) for function in found)

    def reward(self, achieved: Array, desired: Array) -> Array:
        """Return rewards [N], float32, of reaching ``achieved`` where ``desired`` is the goal."""
        return self._call(0, achieved, desired).astype(np.float32, copy=False)

    def terminated(self, achieved: Array, desired: Array) -> Array:
        """Return [N] bool, True where that ends the episode; only if ``terminates``."""
        return self._call(1, achieved, desired).astype(bool, copy=False)

    def _call(self, i: int, achieved: Array, desired: Array) -> Array:
        if not self._functions:
            self.bind(achieved[0])
        return np.asarray(self._functions[i](achieved, desired, {}))


def _method(env: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of an environment, of what it wraps or adapts, or of its first row."""
    *_, last = wrappers_of(env)
    source = getattr(last, "source", last)  # of a vector environment
    bare = getattr(source, "unwrapped", source)
    rows = getattr(bare, "envs", ())
    row = rows[0] if rows else None
    for layer in (env, getattr(env, "unwrapped", None), source, bare, row):
        method: Callable[..., Any] | None = getattr(layer, name, None)
        if method is not None:
            return method
    return None if row is None else _method(row, name)


def _of_batches(function: Callable[..., Any], pair: Array) -> Callable[..., Any]:
    """Return a function of batches of goals, which calls one that takes single goals row by row.

    Raises:
        ValueError: the function returns no number for a goal.
    """
    if np.shape(function(pair, pair, {})) == (2,):
        return function
    single = function(pair[0], pair[0], {})
    if np.shape(single) != ():
        raise ValueError(
            f"{function.__name__} must return one number for a goal of shape "
            f"{list(pair[0].shape)}, got the shape {list(np.shape(single))}."
        )
    return lambda achieved, desired, info: [
        function(a, d, info) for a, d in zip(achieved, desired, strict=True)
    ]
