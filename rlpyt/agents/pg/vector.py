"""Ready policy-gradient agents, and ``agent_for``, which chooses one for given spaces."""

from typing import Any

import torch

from rlpyt.agents.pg.agent import PgAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.gaussian import GaussianPgAgent
from rlpyt.agents.spaces import (
    action_parts,
    box_size,
    choice_counts,
    is_discrete,
    is_image,
)
from rlpyt.distributions.joint import Joint
from rlpyt.distributions.multi_categorical import DistInfo, MultiCategorical
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.masking import mask_parts
from rlpyt.models.observation import is_composite
from rlpyt.models.pg.joint import JointLstmModel, JointMlpModel
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
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.utils.buffer import Tensors, leaves_of


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


class JointMlpAgent(PgAgent):
    """Actions of several parts (Dict and Tuple spaces, nested), MLP.

    Each part is a Discrete, MultiDiscrete, MultiBinary or Box space. The parts are independent
    given the observation.
    """

    ModelCls: Any = JointMlpModel
    space_arguments = ("observation_shape", "action_parts")

    def make_distribution(self, action_space: Space) -> Joint:
        """Return the joint distribution of all parts."""
        self._parts = [_part_agent(space) for _, space in leaf_spaces(action_space)]
        return Joint([part.distribution for part in self._parts], action_space.null_value())

    def make_dist_info(self, *parameters: Any) -> Any:
        """Return the record of all parts' distributions, given the model's outputs."""
        infos, first = [], 0
        for part in self._parts:
            n = len(part.DistInfo._fields)
            infos.append(part.make_dist_info(*parameters[first : first + n]))
            first += n
        return self.distribution.DistInfo(*infos)

    def action_input(self, prev_action: Tensors) -> torch.Tensor:
        """Return concatenated one-hot vectors and actions in the model's units."""
        rows = zip(self._parts, leaves_of(prev_action), strict=True)
        return torch.cat([part.action_input(leaf) for part, leaf in rows], -1)

    make_dist_info.takes_numpy = True  # type: ignore[attr-defined]

    def _mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        return mask_parts(outputs, mask, action_parts(self.env_spaces.action))


class JointLstmAgent(JointMlpAgent):
    """Actions of several parts, MLP into LSTM."""

    ModelCls = JointLstmModel
    recurrent = True


def _part_agent(space: Space) -> Any:
    """Return an agent without a model, which defines the distribution of one part."""
    if is_discrete(space):
        agent: Any = CategoricalPgAgent()
    else:
        agent = GaussianPgAgent() if choices_of(space) is None else MultiCategoricalMlpAgent()
    agent.distribution = agent.make_distribution(space)
    return agent


def agent_for(env_spaces: EnvSpaces, recurrent: bool = False, **kwargs: Any) -> Any:
    """Return a ready policy-gradient agent for an environment's spaces.

    Args:
        env_spaces: ``EnvSpaces(observation, action)``.
        recurrent: with an LSTM.
        **kwargs: arguments of the agent, e.g. ``model_kwargs=dict(hidden_sizes=[64, 64])``.

    Raises:
        TypeError: no ready agent fits the spaces.
    """
    return agent_class_for(env_spaces, recurrent)(**kwargs)


def agent_class_for(env_spaces: EnvSpaces, recurrent: bool = False) -> Any:
    """Return the class of `agent_for`."""
    if is_composite(env_spaces.action.shape):
        action_parts(env_spaces.action)  # raises TypeError for unsupported parts
        return JointLstmAgent if recurrent else JointMlpAgent
    if is_discrete(env_spaces.action):
        if is_image(env_spaces.observation):
            from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent

            return AtariLstmAgent if recurrent else AtariFfAgent
        return CategoricalLstmAgent if recurrent else CategoricalMlpAgent
    if choices_of(env_spaces.action) is not None:
        return MultiCategoricalLstmAgent if recurrent else MultiCategoricalMlpAgent
    box_size(env_spaces.action)  # raises TypeError for other spaces
    return GaussianLstmAgent if recurrent else GaussianMlpAgent
