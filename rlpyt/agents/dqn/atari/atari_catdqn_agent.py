"""Categorical DQN for Atari images."""

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel


class AtariCatDqnAgent(CatDqnAgent):
    """Distributions of returns over fixed atoms, from images."""

    ModelCls = AtariCatDqnModel
    space_arguments = AtariMixin.space_arguments
