"""Recurrent DQN for Atari images."""

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent, R2d1AlternatingAgent
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model


class AtariR2d1Agent(AtariMixin, R2d1Agent):
    """Action values of images, with memory."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariR2d1AlternatingAgent(AtariMixin, R2d1AlternatingAgent):
    """Action values of images, with memory, in alternating samplers."""

    def __init__(self, ModelCls: Any = AtariR2d1Model, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
