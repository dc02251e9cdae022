"""Quantile regression for Atari images."""

from typing import Any

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.qrdqn_agent import IqnAgent, QrDqnAgent
from rlpyt.models.dqn.atari_dqn_model import AtariQrDqnModel
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel


class AtariQrDqnAgent(AtariMixin, QrDqnAgent):
    """Quantiles of returns from images."""

    def __init__(self, ModelCls: Any = AtariQrDqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariIqnAgent(AtariMixin, IqnAgent):
    """Implicit quantiles of returns from images."""

    def __init__(self, ModelCls: Any = AtariIqnModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
