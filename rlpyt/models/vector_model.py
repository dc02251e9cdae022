"""Base of the models that read vectors."""

from typing import Any

from torch import Tensor, nn

from rlpyt.models.numpy_forward import NumpyForward, NumpyParts, numpy_forward_of
from rlpyt.models.observation import flatten_observation, observation_size
from rlpyt.models.running_mean_std import RunningMeanStdModel


class VectorModel(nn.Module):
    """Makes the first layer's input of an observation; base of the models that read vectors.

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

    def numpy_parts(self) -> NumpyParts | None:
        """What ``forward`` evaluates, for its twin in numpy; ``None``: it has none."""
        return None

    def numpy_forward(self, live: bool = True) -> NumpyForward | None:
        """``forward`` over numpy arrays [B, ...]; see `rlpyt.models.numpy_forward`.

        ``None`` where there are no ``numpy_parts``, or not those of this class's own ``forward``.
        """
        definer: Any = next(c for c in type(self).__mro__ if "numpy_parts" in vars(c))
        parts = self.numpy_parts()
        if parts is None or type(self).forward is not definer.forward:
            return None
        return numpy_forward_of(self, parts, self._observation_shape, self.normalization, live)

    @property
    def normalization(self) -> tuple[RunningMeanStdModel, float, float] | None:
        """(statistics, clip, smallest variance), or ``None`` where nothing is normalized."""
        if not self.normalize_observation:
            return None
        return self.obs_rms, self.norm_obs_clip, self.norm_obs_var_clip
