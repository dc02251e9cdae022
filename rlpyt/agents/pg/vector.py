"""Ready policy-gradient agents, and ``agent_for``, which chooses one for given spaces."""

from typing import Any

import torch

from rlpyt.agents.pg.agent import PgAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.gaussian import GaussianPgAgent
from rlpyt.agents.spaces import box_size, choice_counts, is_discrete, is_image
from rlpyt.distributions.multi_categorical import DistInfo, MultiCategorical
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.observation import is_composite
from rlpyt.models.pg.vector import (
    CategoricalLstmModel,
    CategoricalMlpModel,
    GaussianLstmModel,
    GaussianMlpModel,
    MultiCategoricalLstmModel,
    MultiCategoricalMlpModel,
)
from rlpyt.spaces.action_mask import choices_of
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Tensors


class CategoricalMlpAgent(CategoricalPgAgent):
    """Discrete actions, MLP."""

    ModelCls: Any = CategoricalMlpModel
    space_arguments = ("observation_shape", "output_size")


class CategoricalLstmAgent(CategoricalMlpAgent):
    """Discrete actions, MLP into LSTM."""

    ModelCls = CategoricalLstmModel
    recurrent = True


class GaussianMlpAgent(GaussianPgAgent):
    """Continuous actions, MLP."""

    ModelCls: Any = GaussianMlpModel
    space_arguments = ("observation_shape", "action_size")


class GaussianLstmAgent(GaussianMlpAgent):
    """Continuous actions, MLP into LSTM."""

    ModelCls = GaussianLstmModel
    recurrent = True


class MultiCategoricalMlpAgent(PgAgent):
    """Several discrete actions at once (MultiDiscrete, MultiBinary), MLP."""

    DistInfo = DistInfo
    ModelCls: Any = MultiCategoricalMlpModel
    space_arguments = ("observation_shape", "dims")

    def make_distribution(self, action_space: Space) -> MultiCategorical:
        """Return independent categorical distributions, one for each action."""
        return MultiCategorical(choice_counts(action_space))

    def action_input(self, prev_action: Tensors) -> torch.Tensor:
        """Return concatenated one-hot vectors, [.., n] -> [.., sum(dims)]."""
        return torch.as_tensor(self.distribution.to_onehot(prev_action))


class MultiCategoricalLstmAgent(MultiCategoricalMlpAgent):
    """Several discrete actions at once, MLP into LSTM."""

    ModelCls = MultiCategoricalLstmModel
    recurrent = True


def agent_for(env_spaces: EnvSpaces, recurrent: bool = False, **kwargs: Any) -> Any:
    """Return a ready policy-gradient agent for an environment's spaces.

    Args:
        env_spaces: ``EnvSpaces(observation, action)``.
        recurrent: with an LSTM.
        **kwargs: arguments of the agent, e.g. ``model_kwargs=dict(hidden_sizes=[64, 64])``.

    Raises:
        TypeError: no ready agent fits the spaces.
    """
    if is_composite(env_spaces.action.shape):
        raise TypeError(
            f"no ready agent takes an action of several spaces, {env_spaces.action}; one Box, "
            "Discrete, MultiDiscrete or MultiBinary space fits. Join the parts in an environment "
            "wrapper, or write an agent."
        )
    if is_discrete(env_spaces.action):
        if is_image(env_spaces.observation):
            from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent

            return (AtariLstmAgent if recurrent else AtariFfAgent)(**kwargs)
        return (CategoricalLstmAgent if recurrent else CategoricalMlpAgent)(**kwargs)
    if choices_of(env_spaces.action) is not None:
        return (MultiCategoricalLstmAgent if recurrent else MultiCategoricalMlpAgent)(**kwargs)
    box_size(env_spaces.action)  # raises TypeError for other spaces
    return (GaussianLstmAgent if recurrent else GaussianMlpAgent)(**kwargs)
