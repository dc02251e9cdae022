"""Vector observations of any structure, as one float vector."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlpyt.models.running_mean_std import RunningMeanStdModel


class VectorModel(nn.Module):
    """Base of the models that read vectors: makes their first layer's input of an observation.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        normalize_observation: subtract the running mean, divide by the running deviation.
        norm_obs_clip: normalized observations are limited to +- this.
        norm_obs_var_clip: smallest variance that is divided by.

    Attributes:
        obs_rms: the running statistics, where there are any; algorithms feed them through
            ``update_obs_rms``.
    """

    def __init__(
        self,
        observation_shape: Any,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
    ) -> None:
        super().__init__()
        self._observation_shape = observation_shape
        self.normalize_observation = normalize_observation
        self.norm_obs_clip = norm_obs_clip
        self.norm_obs_var_clip = norm_obs_var_clip
        if normalize_observation:
            self.obs_rms = RunningMeanStdModel((self.observation_size,))

    @property
    def observation_size(self) -> int:
        """How many numbers there are in an observation."""
        return observation_size(self._observation_shape)

    def read(self, observation: Any) -> Tensor:
        """The observation [*lead, *observation_shape] as [*lead, observation_size] float32."""
        x = flatten_observation(observation, self._observation_shape)
        if self.normalize_observation:
            x = self.obs_rms.normalize(x, self.norm_obs_clip, self.norm_obs_var_clip)
        return x

    def update_obs_rms(self, observation: Any) -> None:
        """Take a batch [*lead, *observation_shape] into the running mean and deviation."""
        if self.normalize_observation:
            self.obs_rms.update(flatten_observation(observation, self._observation_shape))

    @property
    def normalization(self) -> tuple[RunningMeanStdModel, float, float] | None:
        """(statistics, clip, smallest variance), or ``None`` where nothing is normalized."""
        if not self.normalize_observation:
            return None
        return self.obs_rms, self.norm_obs_clip, self.norm_obs_var_clip


def observation_size(shape: Any) -> int:
    """How many numbers there are in an observation.

    Args:
        shape: of an observation space: a tuple of integers, or for composite (Dict, Tuple) spaces
            a named tuple of shapes.
    """
    if hasattr(shape, "_fields"):
        return sum(observation_size(part) for part in tuple(shape))
    return int(np.prod(shape, dtype=np.int64))


def flatten_observation(observation: Any, shape: Any) -> Tensor:
    """Put all numbers of an observation side by side.

    Args:
        observation: tensor [*lead, *shape] of any number type, or a named tuple of them.
        shape: as in ``observation_size``.

    Returns:
        [*lead, size] float32.

    Raises:
        ValueError: the observation does not end with ``shape``.
    """
    if hasattr(shape, "_fields"):
        parts = zip(tuple(observation), tuple(shape), strict=True)
        return torch.cat([flatten_observation(*part) for part in parts], dim=-1)
    n_dim = len(shape)
    if n_dim != 1:
        lead = observation.shape[: observation.dim() - n_dim]
        _check(observation, tuple(shape), lead)
        return observation.reshape(*lead, observation_size(shape)).float()  # type: ignore[no-any-return]
    return observation.float()  # type: ignore[no-any-return]


def flatten_numpy(observation: Any, shape: Any) -> NDArray[np.float32]:
    """``flatten_observation`` for numpy arrays [B, *shape]; [B, size], not copied if it is that."""
    if hasattr(shape, "_fields"):
        parts = zip(tuple(observation), tuple(shape), strict=True)
        return np.concatenate([flatten_numpy(*part) for part in parts], axis=1)
    return observation.reshape(len(observation), -1).astype(np.float32, copy=False)  # type: ignore[no-any-return]


def _check(observation: Tensor, shape: tuple[int, ...], lead: tuple[int, ...]) -> None:
    if observation.shape[len(lead) :] != shape:
        raise ValueError(
            f"observation of shape {tuple(observation.shape)} must end with the shape of the "
            f"observation space, {shape}."
        )
