"""A vector environment of one row as a single environment, to play a trained agent in it."""

from typing import Any

import numpy as np

from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.vector.base import VectorEnv
from rlpyt.utils.buffer import buffer_func


class VectorRow(Env):
    """A vector environment of one row as a single environment.

    Args:
        envs: the vector environment.
    """

    def __init__(self, envs: VectorEnv) -> None:
        self._envs, self._known_horizon = envs, envs.horizon
        self._observation_space, self._action_space = envs.spaces

    def seed(self, seed: int) -> None:
        """Seed both spaces now, and the environment in the next ``reset``."""
        self._envs.seed([seed])

    def reset(self) -> Any:
        """Start an episode and return its first observation."""
        return buffer_func(self._envs.reset(), _first)

    def step(self, action: Any) -> EnvStep:
        """Run one step."""
        step = self._envs.step(buffer_func(action, lambda leaf: np.asarray(leaf)[None]))
        observation, reward, done, info = (buffer_func(part, _first) for part in step)
        return EnvStep(observation, float(reward), bool(done), info)

    def close(self) -> None:
        """Close the vector environment."""
        self._envs.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._envs}>"


def _first(leaf: Any) -> Any:
    return np.array(leaf[0])
