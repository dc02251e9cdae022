"""Ready actor-critics for Dict and Tuple actions: outputs for each part of an action."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.masking import mask_logits
from rlpyt.models.mlp import value_of
from rlpyt.models.observation import Shape
from rlpyt.models.pg.vector import (
    MultiCategoricalLstmModel,
    MultiCategoricalMlpModel,
    split_softmax,
)

# For each part of an action: number of choices of each component, or of components of a Box.
ActionParts = Sequence[tuple[int, ...] | int]


class JointMlpModel(MultiCategoricalMlpModel):
    """Actions of several parts: one MLP for all parameters, one for the value.

    Returns the parameters of each part in order, then value [*lead]. They are pi [*lead, sum(n)]
    for discrete parts with n choices, and mu and log_std, each [*lead, A], for a Box.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        action_parts: number of choices of each component of discrete parts, a tuple, or of
            components of a Box, an integer.
        *args, **kwargs: further arguments of `MultiCategoricalMlpModel`.
        init_log_std: initial log standard deviation of every component of a Box.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_parts: ActionParts,
        *args: Any,
        init_log_std: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, output_sizes(action_parts), *args, **kwargs)
        self.action_parts = tuple(action_parts)
        self.log_std = log_std_of(action_parts, init_log_std)

    def heads(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return parameters [.., n] of all parts, and value [..], of features [.., F]."""
        x = features if self.trunk is None else self.trunk(features)
        parameters = joint_parameters(self.pi(x), self.action_parts, self.log_std, mask)
        return *parameters, *value_of(self.value, x)


class JointLstmModel(MultiCategoricalLstmModel):
    """Actions of several parts: an MLP, an LSTM and two linear heads.

    Returns what `JointMlpModel` does, and the recurrent state.

    Args:
        observation_shape, action_parts, init_log_std: arguments of `JointMlpModel`.
        *args, **kwargs: further arguments of `MultiCategoricalLstmModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        action_parts: ActionParts,
        *args: Any,
        init_log_std: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, output_sizes(action_parts), *args, **kwargs)
        self.action_parts = tuple(action_parts)
        self.log_std = log_std_of(action_parts, init_log_std)

    def heads(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return parameters [.., n] of all parts, and value [..], of features [.., F]."""
        parameters = joint_parameters(self.pi(features), self.action_parts, self.log_std, mask)
        return *parameters, *value_of(self.value, features)


def output_sizes(action_parts: ActionParts) -> list[int]:
    """Return the number of outputs for each part, log_std excluded."""
    return [part if isinstance(part, int) else sum(part) for part in action_parts]


def log_std_of(action_parts: ActionParts, initial: float) -> nn.Parameter | None:
    """Return the log standard deviations of all components of Boxes; ``None`` if there are none."""
    n = sum(part for part in action_parts if isinstance(part, int))
    return nn.Parameter(torch.full((n,), float(initial))) if n else None


def joint_parameters(
    outputs: Tensor, action_parts: ActionParts, log_std: Tensor | None, mask: Tensor | None
) -> list[Tensor]:
    """Return the parameters of all parts, see `JointMlpModel`.

    Args:
        outputs: [*lead, n], logits of choices and means, in the order of the parts.
        action_parts: see `JointMlpModel`.
        log_std: log standard deviations of all Boxes, [n] or [*lead, n], or ``None``.
        mask: valid choices of all discrete parts, or ``None``.
    """
    parameters: list[Tensor] = []
    n_choices = n_components = 0
    parts = torch.split(outputs, output_sizes(action_parts), -1)
    for i, part in enumerate(action_parts):
        output = parts[i]  # by index, since traces cannot iterate
        if isinstance(part, int):
            assert log_std is not None
            own = log_std[..., n_components : n_components + part]
            n_components += part
            # A copy, since recorded distributions must not change when the parameter is updated.
            parameters += [output.float(), own.expand_as(output).clone()]
        else:
            own_mask = None if mask is None else mask[..., n_choices : n_choices + sum(part)]
            n_choices += sum(part)
            parameters.append(split_softmax(mask_logits(output, own_mask), part))
    return parameters
