"""MLPs for continuous control: deterministic and Gaussian policies, and critics.

Actions are in units where the action space is [-1, 1]; agents convert them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.ensemble import EnsembleMlp
from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import Shape
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import check_range, whole_number

Nonlinearity = Callable[[], nn.Module]
Sizes = int | Sequence[int]


class MuMlpModel(VectorModel):
    """A deterministic policy. Returns actions [*lead, A], ``output_max * tanh(...)``.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        hidden_sizes: sizes of the MLP's hidden layers.
        action_size: A, number of action components.
        output_max: maximum absolute action, in units where the space is [-1, 1].
        nonlinearity: class of the nonlinearity between layers.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        output_max: float = 1,
        nonlinearity: Nonlinearity = nn.ReLU,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.output_max = output_max
        self.mlp = MlpModel(self.observation_size, hidden_sizes, action_size, nonlinearity)

    def heads(self, features: Tensor) -> Tensor:
        """Return actions."""
        return self.output_max * torch.tanh(self.mlp(features).float())


class PiMlpModel(VectorModel):
    """A Gaussian policy. Returns mean and log std before squashing, each [*lead, A].

    Args:
        observation_shape, hidden_sizes, action_size, nonlinearity, **kwargs: see `MuMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        nonlinearity: Nonlinearity = nn.ReLU,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.action_size = action_size
        self.mlp = MlpModel(self.observation_size, hidden_sizes, 2 * action_size, nonlinearity)

    def heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation."""
        mean, log_std = torch.split(self.mlp(features).float(), self.action_size, dim=-1)
        return mean, log_std


class QofMuMlpModel(VectorModel):
    """One critic of actions, or several evaluated as one.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        hidden_sizes: sizes of each MLP's hidden layers.
        action_size: A, number of action components.
        n_critics: E, number of critics; ``None``: one, without a dimension E.
        n_quantiles: N, number of quantiles of the return per critic; ``None``: its mean.
        layer_norm: normalize hidden layers (Hiraoka et al. 2022, with ``dropout``: DroQ).
        dropout: dropout rate of hidden outputs, below 1.
        nonlinearity: class of the nonlinearity; it must be elementwise.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        n_critics: int | None = None,
        n_quantiles: int | None = None,
        layer_norm: bool = False,
        dropout: float = 0.0,
        nonlinearity: Nonlinearity = nn.ReLU,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        if n_critics is not None:
            n_critics = whole_number("n_critics", n_critics, 1)
        if n_quantiles is not None:
            n_quantiles = whole_number("n_quantiles", n_quantiles, 1)
        check_range("dropout", dropout, 0, 0.99)
        self.n_critics, self.n_quantiles = n_critics, n_quantiles
        self.mlp = EnsembleMlp(
            self.observation_size + action_size,
            size_list(hidden_sizes),
            n_quantiles or 1,
            n_critics,
            nonlinearity,
            layer_norm,
            dropout,
        )

    def forward(  # type: ignore[override]
        self,
        observation: Tensors,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        action: Tensor,
        member: int | None = None,
    ) -> Tensor:
        """Return values [*lead] float32, or [E, *lead] with E critics; with quantiles [..., N].

        Args:
            observation: see `Network.forward`.
            prev_action, prev_reward: not used.
            action: [*lead, A], in units where the space is [-1, 1].
            member: index of the only critic to evaluate; ``None``: all.
        """
        x = torch.cat([self.read(observation), action.float()], dim=-1)
        lead = x.shape[:-1]
        x = x.reshape(-1, x.shape[-1])
        single = self.n_critics is None or member is not None
        out: Tensor = self.mlp(x, member).float()
        members = () if single else (self.n_critics,)
        quantiles = () if self.n_quantiles is None else (self.n_quantiles,)
        return out.reshape((*members, *lead, *quantiles))


class VMlpModel(VectorModel):
    """A state value function. Returns values [*lead].

    Args:
        observation_shape, hidden_sizes, nonlinearity, **kwargs: arguments of `MuMlpModel`.
        action_size: not used.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.mlp = MlpModel(self.observation_size, hidden_sizes, 1, nonlinearity)

    def heads(self, features: Tensor) -> Tensor:
        """Return values."""
        return self.mlp(features).squeeze(-1).float()  # type: ignore[no-any-return]
