"""Policy-gradient agents for Atari images."""

from rlpyt.agents.dqn.atari.mixin import AtariMixin
from rlpyt.agents.pg.categorical import (  # noqa: F401 - rlpyt had these names here
    AlternatingRecurrentCategoricalPgAgent,
    CategoricalPgAgent,
    RecurrentCategoricalPgAgent,
)
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel


class AtariFfAgent(CategoricalPgAgent):
    """Feed-forward categorical policy for images."""

    ModelCls = AtariFfModel
    space_arguments = AtariMixin.space_arguments


class AtariLstmAgent(CategoricalPgAgent):
    """Recurrent categorical policy for images."""

    ModelCls = AtariLstmModel
    space_arguments = AtariMixin.space_arguments
    recurrent = True


class AlternatingAtariLstmAgent(AtariLstmAgent):
    """Recurrent categorical policy for images, for alternating samplers."""

    alternating = True
