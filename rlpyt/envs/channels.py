"""Pictures [H, W, C] of Gymnasium environments as [C, H, W], for the convolutional models."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

IMAGE_DIMS = 3


class ChannelsFirst(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Gymnasium wrapper that hands [H, W, C] on as [C, H, W], contiguous; the space likewise.

    Raises:
        ValueError: observations are no Box with three axes.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        if not _has_three_axes(space):
            raise ValueError(
                f"channels_first is for pictures, a Box of [H, W, C], and {env} observes {space}; "
                "leave it out."
            )
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: Any) -> NDArray[Any]:
        """[H, W, C] -> [C, H, W], copied."""
        return np.ascontiguousarray(np.moveaxis(observation, -1, 0))


def looks_channels_last(space: Any) -> bool:
    """Whether a space has the shape of pictures [H, W, C]: three axes, the last one the shortest.

    A picture with as many channels as rows or columns does not, nor does a stack of frames
    [C, H, W].

    >>> looks_channels_last(Box(0, 255, (96, 96, 3))), looks_channels_last(Box(0, 255, (4, 84, 84)))
    (True, False)
    """
    return _has_three_axes(space) and space.shape[-1] < min(space.shape[:-1])


def _has_three_axes(space: Any) -> bool:
    return isinstance(space, Box) and len(space.shape) == IMAGE_DIMS
