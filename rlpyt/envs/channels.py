"""Convert images [H, W, C] of Gymnasium environments to [C, H, W], for convolutional models."""

from typing import Any, TypeGuard

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

IMAGE_DIMS = 3


class ChannelsFirst(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Gymnasium wrapper that transposes observations [H, W, C] to contiguous [C, H, W].

    Raises:
        ValueError: the observation space is not a Box with three axes.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not _has_three_axes(space):
            raise ValueError(
                f"channels_first requires image observations, a Box [H, W, C], got {space} of "
                f"{env}. Leave it out."
            )
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Return a copy transposed from [H, W, C] to [C, H, W]."""
        return np.ascontiguousarray(np.moveaxis(observation, -1, 0))


def looks_channels_last(space: object) -> bool:
    """Return True if a space looks like images [H, W, C]: three axes, the last one the shortest.

    Images with as many channels as rows or columns do not match, nor do stacked frames [C, H, W].

    >>> looks_channels_last(Box(0, 255, (96, 96, 3))), looks_channels_last(Box(0, 255, (4, 84, 84)))
    (True, False)
    """
    return _has_three_axes(space) and space.shape[-1] < min(space.shape[:-1])


def _has_three_axes(space: object) -> TypeGuard[Box]:
    return isinstance(space, Box) and len(space.shape) == IMAGE_DIMS
