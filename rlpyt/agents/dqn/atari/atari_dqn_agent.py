"""DQN for Atari images."""

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel


class AtariDqnAgent(AtariMixin, DqnAgent):
    """Action values of images."""

    def __init__(self, ModelCls: Any = AtariDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
