"""DQN for Atari images."""

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel


class AtariDqnAgent(DqnAgent):
    """Action values of images."""

    ModelCls = AtariDqnModel
    space_arguments = AtariMixin.space_arguments
