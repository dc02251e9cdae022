"""Categorical DQN for Atari images."""

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel


class AtariCatDqnAgent(AtariMixin, CatDqnAgent):
    """Distributions of returns from images, over fixed atoms."""

    def __init__(self, ModelCls: Any = AtariCatDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
