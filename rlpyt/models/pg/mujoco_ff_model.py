"""Feed-forward actor-critic for continuous control: two MLPs and a state-independent log_std."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.image_encoder import Encoder
from rlpyt.models.mlp import MlpModel, value_of
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import Shape
from rlpyt.models.utils import Nonlinearity, nonlinearity_class


class MujocoFfModel(VectorModel):
    """One MLP for the mean, one for the value; log_std is a trained, state-independent parameter.

    Returns mu [*lead, A], log_std [*lead, A] and value [*lead].

    Args:
        observation_shape: shape of one observation.
        action_size: A, number of action components.
        hidden_sizes: sizes of both MLPs' hidden layers; ``None``: 64, 64.
        hidden_nonlinearity: class or name of the nonlinearity between layers.
        mu_nonlinearity: class or name of the nonlinearity of the mean; tanh keeps it within
            [-1, 1]; ``None``: none.
        init_log_std: initial log standard deviation of every component.
        normalize_observation, norm_obs_clip, norm_obs_var_clip, encoder, encoders: see
            `VectorModel`.
        with_value: if False, return no value, for agents with a separate critic.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int,
        hidden_sizes: int | Sequence[int] | None = None,
        hidden_nonlinearity: Nonlinearity = nn.Tanh,
        mu_nonlinearity: Nonlinearity | None = nn.Tanh,
        init_log_std: float = 0.0,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        encoder: Encoder | None = None,
        with_value: bool = True,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        limits = (norm_obs_clip, norm_obs_var_clip)
        observation_args = (normalize_observation, *limits, encoder, encoders)
        super().__init__(observation_shape, *observation_args)
        size = self.observation_size
        hidden_sizes = [64, 64] if hidden_sizes is None else hidden_sizes
        mu = MlpModel(size, hidden_sizes, action_size, hidden_nonlinearity)
        self.mu: nn.Module = mu
        if mu_nonlinearity is not None:
            self.mu = nn.Sequential(mu, nonlinearity_class(mu_nonlinearity)())
        self.v = MlpModel(size, hidden_sizes, 1, hidden_nonlinearity) if with_value else None
        self.log_std = nn.Parameter(torch.full((action_size,), float(init_log_std)))

    def heads(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return mean, log standard deviation and value."""
        mu = self.mu(features).float()
        # A copy, since recorded distributions must not change when the parameter is updated.
        return mu, self.log_std.expand_as(mu).clone(), *value_of(self.v, features)
