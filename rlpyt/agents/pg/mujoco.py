"""Policy-gradient agents for MuJoCo-like environments: vectors in, continuous actions out."""

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.pg.gaussian import (  # noqa: F401 - rlpyt had these names here
    AlternatingRecurrentGaussianPgAgent,
    GaussianPgAgent,
    RecurrentGaussianPgAgent,
)
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel


class MujocoMixin(BaseAgent):
    """Mixin that passes ``observation_shape`` and ``action_size`` to an agent's model."""

    space_arguments = ("observation_shape", "action_size")


class MujocoFfAgent(GaussianPgAgent):
    """Feed-forward Gaussian policy."""

    ModelCls = MujocoFfModel
    space_arguments = MujocoMixin.space_arguments


class MujocoLstmAgent(GaussianPgAgent):
    """Recurrent Gaussian policy."""

    ModelCls = MujocoLstmModel
    space_arguments = MujocoMixin.space_arguments
    recurrent = True


class AlternatingMujocoLstmAgent(MujocoLstmAgent):
    """Recurrent Gaussian policy, for alternating samplers."""

    alternating = True
