"""Last layers of a policy, which return the parameters of an action distribution.

A head's ``forward`` returns parameters as the agents' distributions take them. Its
``distribution`` returns an object of ``torch.distributions``, for custom training loops.
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
    """Probabilities of discrete actions.

    Args:
        feature_dim: number of inputs.
        num_action: A.
        device: of the parameters.
    """

    def __init__(self, feature_dim: int, num_action: int, device: Device = None) -> None:
        super().__init__()
        self.logits = nn.Linear(feature_dim, num_action, device=device)
        ortho_init(self.logits, weight_scale=POLICY_GAIN)

    def forward(self, x: Tensor) -> Tensor:
        """[*lead, feature_dim] -> probabilities [*lead, A] float32."""
        return torch.softmax(self.logits(x), dim=-1, dtype=torch.float32)

    def distribution(self, x: Tensor) -> Categorical:
        """[*lead, feature_dim] -> a distribution of actions [*lead]."""
        return Categorical(logits=self.logits(x))  # type: ignore[no-untyped-call]


class DiagGaussianHead(nn.Module):
    """Mean of continuous actions, and a standard deviation that does not depend on the input.

    Args:
        feature_dim: number of inputs.
        action_dim: A.
        device: of the parameters.
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
        """[*lead, feature_dim] -> mean and log standard deviation, each [*lead, A] float32."""
        mean = self.mean(x).float()
        return mean, self.log_std.expand_as(mean).clone()

    def distribution(self, x: Tensor) -> Any:
        """[*lead, feature_dim] -> a distribution of actions [*lead, A], an ``Independent``."""
        mean, log_std = self(x)
        return Independent(Normal(mean, log_std.exp()), 1)  # type: ignore[no-untyped-call]
