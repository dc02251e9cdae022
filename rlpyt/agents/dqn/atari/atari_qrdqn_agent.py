"""Quantile regression for Atari images."""

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.dqn.qrdqn_agent import IqnAgent, QrDqnAgent
from rlpyt.models.dqn.atari_dqn_model import AtariQrDqnModel
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel


class AtariQrDqnAgent(QrDqnAgent):
    """Quantiles of returns from images."""

    ModelCls = AtariQrDqnModel
    space_arguments = AtariMixin.space_arguments


class AtariIqnAgent(IqnAgent):
    """Implicit quantiles of returns from images."""

    ModelCls = AtariIqnModel
    space_arguments = AtariMixin.space_arguments
