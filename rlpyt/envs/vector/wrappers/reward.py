"""Reward wrappers; the original rewards are kept in ``env_info.raw_reward``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.utils.checks import check_range
from rlpyt.utils.collections import namedarraytuple


class RewardWrapper(VectorWrapper):
    """Base class: ``_change`` maps rewards [n] float32; ``env_info`` gets the field ``raw_reward``.

    With several wrappers, ``raw_reward`` is the input of the innermost one. Returns of trajectories
    are sums of it.
    """

    def _follow(self, step: EnvStep) -> EnvStep:
        reward: Any  # [n], as is done
        done: Any
        observation, reward, done, info = step
        changed = np.asarray(self._change(reward, done), np.float32)
        if "raw_reward" not in info._fields:
            cls = namedarraytuple(type(info).__name__, (*info._fields, "raw_reward"))
            info = tuple.__new__(cls, (*info, reward))
        return EnvStep(observation, changed, done, info)

    def _change(self, reward: NDArray[np.float32], done: NDArray[np.bool_]) -> Any:
        raise NotImplementedError


class ScaleReward(RewardWrapper):
    """Wrapper that multiplies rewards by a factor.

    Args:
        env: as for `VectorWrapper`.
        scale: factor, above 0.
    """

    def __init__(self, env: EnvLike, scale: float = 0.01) -> None:
        check_range("scale", scale, low=0.0, open_low=True)
        super().__init__(env)
        self.scale = float(scale)

    def _change(self, reward: NDArray[np.float32], done: NDArray[np.bool_]) -> Any:
        return reward * self.scale


class ClipReward(RewardWrapper):
    """Wrapper that clips rewards to [low, high]."""

    def __init__(self, env: EnvLike, low: float, high: float) -> None:
        check_range("low", low)
        check_range("high", high, low=low)
        super().__init__(env)
        self.low, self.high = float(low), float(high)

    def _change(self, reward: NDArray[np.float32], done: NDArray[np.bool_]) -> Any:
        return np.clip(reward, self.low, self.high)


class SignReward(RewardWrapper):
    """Wrapper that replaces rewards by their sign: -1, 0 or 1."""

    def _change(self, reward: NDArray[np.float32], done: NDArray[np.bool_]) -> Any:
        return np.sign(reward)
