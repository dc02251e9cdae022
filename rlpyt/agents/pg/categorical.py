"""Policy-gradient agents with discrete actions; the model returns (pi, value[, rnn_state])."""

from typing import Any

import torch

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.pg.agent import PgAgent, one_hot_size
from rlpyt.distributions.categorical import Categorical, DistInfo


class CategoricalPgAgent(PgAgent):
    """Discrete actions from probabilities pi [.., A]; the previous action enters one-hot."""

    DistInfo = DistInfo

    def make_distribution(self, action_space: Any) -> Categorical:
        """A categorical distribution over the space's actions."""
        return Categorical(dim=one_hot_size(action_space))

    def action_input(self, prev_action: torch.Tensor) -> torch.Tensor:
        """One-hot, [..] -> [.., A]."""
        return torch.as_tensor(self.distribution.to_onehot(prev_action))


class RecurrentCategoricalPgAgentBase(CategoricalPgAgent):
    """``CategoricalPgAgent`` for a recurrent model; to be combined with a memory mixin."""

    recurrent = True


class RecurrentCategoricalPgAgent(RecurrentAgentMixin, RecurrentCategoricalPgAgentBase):
    """Discrete actions, recurrent model."""


class AlternatingRecurrentCategoricalPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentCategoricalPgAgentBase
):
    """Discrete actions, recurrent model, in alternating samplers."""
