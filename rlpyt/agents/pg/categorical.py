"""Policy-gradient agents with discrete actions; the model returns (pi, value[, rnn_state])."""

import torch

from rlpyt.agents.pg.agent import PgAgent
from rlpyt.agents.spaces import discrete_size
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Tensors


class CategoricalPgAgent(PgAgent):
    """Samples discrete actions from probabilities pi [.., A]; the previous action is one-hot."""

    DistInfo = DistInfo

    def make_distribution(self, action_space: Space) -> Categorical:
        """Return a categorical distribution over the space's actions."""
        return Categorical(dim=discrete_size(action_space))

    def action_input(self, prev_action: Tensors) -> torch.Tensor:
        """Return one-hot vectors, [..] -> [.., A]."""
        return torch.as_tensor(self.distribution.to_onehot(prev_action))


class RecurrentCategoricalPgAgent(CategoricalPgAgent):
    """Discrete actions, recurrent model."""

    recurrent = True


class AlternatingRecurrentCategoricalPgAgent(RecurrentCategoricalPgAgent):
    """Discrete actions, recurrent model, for alternating samplers."""

    alternating = True


RecurrentCategoricalPgAgentBase = RecurrentCategoricalPgAgent  # rlpyt's name
