"""Recurrent DQN for Atari images."""

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model


class AtariR2d1Agent(R2d1Agent):
    """Action values of images, with memory."""

    ModelCls = AtariR2d1Model
    space_arguments = AtariMixin.space_arguments


class AtariR2d1AlternatingAgent(AtariR2d1Agent):
    """Action values of images, with memory, for alternating samplers."""

    alternating = True
