"""Ready actor-critics: MLPs, with or without an LSTM.

Initial weights are orthogonal, with gain sqrt(2) in hidden layers, 0.01 in the policy's output
layer, so that the initial policy is nearly uniform, and 1 in the value's output layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.image_encoder import Encoder
from rlpyt.models.masking import mask_logits
from rlpyt.models.mlp import (
    HIDDEN_GAIN,
    POLICY_GAIN,
    VALUE_GAIN,
    MlpModel,
    init_orthogonal,
    size_list,
    value_of,
)
from rlpyt.models.network import LstmVectorModel, VectorModel
from rlpyt.models.observation import Shape
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.utils import Nonlinearity


def split_softmax(logits: Tensor, dims: Sequence[int]) -> Tensor:
    """Apply softmax to each part of the logits; return probabilities [*lead, sum(dims)] float32."""
    if len(dims) == 1:
        return torch.softmax(logits, dim=-1, dtype=torch.float32)
    if len(set(dims)) == 1:
        by_action = torch.unflatten(logits, -1, (len(dims), dims[0]))
        return torch.softmax(by_action, dim=-1, dtype=torch.float32).flatten(-2)
    parts = torch.split(logits, list(dims), dim=-1)
    each = [torch.softmax(parts[i], dim=-1, dtype=torch.float32) for i in range(len(dims))]
    return torch.cat(each, dim=-1)


class MultiCategoricalMlpModel(VectorModel):
    """Several discrete actions: one MLP for all their probabilities, one for the value.

    Returns pi [*lead, sum(dims)], each part summing to one, and value [*lead].

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        dims: number of choices of each action.
        hidden_sizes: sizes of both MLPs' hidden layers.
        nonlinearity: class or name of the nonlinearity.
        shared: use one MLP for both, with two linear heads.
        with_value: if False, return no value, for agents with a separate critic.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        dims: Sequence[int],
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Nonlinearity = nn.Tanh,
        shared: bool = False,
        with_value: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.dims = tuple(dims)
        n_in = self.observation_size
        sizes = size_list(hidden_sizes)
        self.trunk: MlpModel | None = None
        if shared and sizes:
            self.trunk = MlpModel(n_in, sizes, None, nonlinearity, orthogonal_gain=1)
            n_in, sizes = self.trunk.output_size, []
        self.pi = MlpModel(n_in, sizes, sum(dims), nonlinearity, orthogonal_gain=POLICY_GAIN)
        self.value: MlpModel | None = None
        if with_value:
            self.value = MlpModel(n_in, sizes, 1, nonlinearity, orthogonal_gain=VALUE_GAIN)

    def heads(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return action probabilities [.., sum(dims)] and value [..] of features [.., F]."""
        x = features if self.trunk is None else self.trunk(features)
        pi = split_softmax(mask_logits(self.pi(x), mask), self.dims)
        return pi, *value_of(self.value, x)


class CategoricalMlpModel(MultiCategoricalMlpModel):
    """One discrete action: one MLP for its probabilities, one for the value.

    Returns pi [*lead, A] and value [*lead].

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        *args, **kwargs: further arguments of `MultiCategoricalMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, [output_size], *args, **kwargs)


class GaussianMlpModel(MujocoFfModel):
    """Continuous actions: a `MujocoFfModel` without a nonlinearity after the mean.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        action_size: A, number of action components.
        hidden_sizes, nonlinearity: of both MLPs.
        init_log_std, normalize_observation, norm_obs_clip, norm_obs_var_clip: see `MujocoFfModel`.
        encoder, encoders, with_value: see `MujocoFfModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int,
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Nonlinearity = nn.Tanh,
        init_log_std: float = 0.0,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        encoder: Encoder | None = None,
        with_value: bool = True,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            observation_shape,
            action_size,
            hidden_sizes,
            nonlinearity,
            None,
            init_log_std,
            normalize_observation,
            norm_obs_clip,
            norm_obs_var_clip,
            encoder,
            with_value,
            encoders,
        )
        for tower, gain in ((self.mu, POLICY_GAIN), (self.v, VALUE_GAIN)):
            if tower is None:
                continue
            init_orthogonal(tower, HIDDEN_GAIN)
            init_orthogonal(tower.model[-1], gain)  # type: ignore[union-attr, index, arg-type]


class MultiCategoricalLstmModel(LstmVectorModel):
    """Several discrete actions: an MLP, an LSTM and two linear heads.

    Returns pi [*lead, sum(dims)], each part summing to one, value [*lead] and the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        dims: number of choices of each action.
        *args, **kwargs: further arguments of `LstmVectorModel`.
        with_value: see `MultiCategoricalMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        dims: Sequence[int],
        *args: Any,
        with_value: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, sum(dims), *args, **kwargs)
        self.dims, H = tuple(dims), self.memory_size
        self.pi = MlpModel(H, [], sum(dims), orthogonal_gain=POLICY_GAIN)
        self.value = MlpModel(H, [], 1, orthogonal_gain=VALUE_GAIN) if with_value else None

    def heads(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return action probabilities [.., sum(dims)] and value [..] of features [.., F]."""
        pi = split_softmax(mask_logits(self.pi(features), mask), self.dims)
        return pi, *value_of(self.value, features)


class CategoricalLstmModel(MultiCategoricalLstmModel):
    """One discrete action: an MLP, an LSTM and two linear heads.

    Returns pi [*lead, A], value [*lead] and the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        *args, **kwargs: further arguments of `MultiCategoricalLstmModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, [output_size], *args, **kwargs)


class GaussianLstmModel(LstmVectorModel):
    """Continuous actions: an MLP, an LSTM and two heads; a trained, state-independent log_std.

    Returns mu [*lead, A], log_std [*lead, A], value [*lead] and the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        action_size: A, number of action components.
        *args, **kwargs: further arguments of `LstmVectorModel`.
        init_log_std: initial log standard deviation of every component.
        with_value: see `MultiCategoricalMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int,
        *args: Any,
        init_log_std: float = 0.0,
        with_value: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, action_size, *args, **kwargs)
        H = self.memory_size
        self.mu = MlpModel(H, [], action_size, orthogonal_gain=POLICY_GAIN)
        self.value = MlpModel(H, [], 1, orthogonal_gain=VALUE_GAIN) if with_value else None
        self.log_std = nn.Parameter(torch.full((action_size,), float(init_log_std)))

    def heads(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return mean, log standard deviation [.., A] and value [..] of features [.., F]."""
        mu = self.mu(features).float()
        return mu, self.log_std.expand_as(mu).clone(), *value_of(self.value, features)
