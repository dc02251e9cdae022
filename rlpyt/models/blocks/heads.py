"""Policy heads, which return the parameters of an action distribution.

A head's ``forward`` returns parameters for the agents' distributions. Its ``distribution`` returns
an object of ``torch.distributions``, for custom training loops.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from rlpyt.models.blocks.layers import ortho_init
from rlpyt.models.mlp import POLICY_GAIN
from rlpyt.utils.checks import check_range

Device = torch.device | str | None


class CategoricalHead(nn.Module):
    """Head for probabilities of discrete actions.

    Args:
        feature_dim: number of inputs.
        num_action: A, number of actions.
        device: device of the parameters.
    """

    def __init__(self, feature_dim: int, num_action: int, device: Device = None) -> None:
        super().__init__()
        self.logits = nn.Linear(feature_dim, num_action, device=device)
        ortho_init(self.logits, weight_scale=POLICY_GAIN)

    def forward(self, x: Tensor) -> Tensor:
        """Return probabilities, [*lead, feature_dim] -> [*lead, A] float32."""
        return torch.softmax(self.logits(x), dim=-1, dtype=torch.float32)

    def distribution(self, x: Tensor) -> Categorical:
        """Return the distribution of actions [*lead] for inputs [*lead, feature_dim]."""
        return Categorical(logits=self.logits(x))  # type: ignore[no-untyped-call]


class DiagGaussianHead(nn.Module):
    """Head for the mean of continuous actions and a state-independent standard deviation.

    Args:
        feature_dim: number of inputs.
        action_dim: A, number of action components.
        device: device of the parameters.
        std0: initial standard deviation; its logarithm is trained.
    """

    def __init__(
        self,
        feature_dim: int,
        action_dim: int,
        device: Device = None,
        std0: float = 1.0,
    ) -> None:
        super().__init__()
        check_range("std0", std0, 0.0, open_low=True)
        self.mean = nn.Linear(feature_dim, action_dim, device=device)
        ortho_init(self.mean, weight_scale=POLICY_GAIN)
        self.log_std = nn.Parameter(torch.full((action_dim,), math.log(std0), device=device))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log std, each [*lead, A] float32, for inputs [*lead, feature_dim]."""
        mean = self.mean(x).float()
        return mean, self.log_std.expand_as(mean).clone()

    def distribution(self, x: Tensor) -> Any:
        """Return the distribution (``Independent``) of actions [*lead, A]."""
        mean, log_std = self(x)
        return Independent(Normal(mean, log_std.exp()), 1)  # type: ignore[no-untyped-call]
