"""Policy-gradient agents for MuJoCo-like environments: vectors in, continuous actions out."""

from typing import Any

from rlpyt.agents.action_scale import box_size
from rlpyt.agents.pg.gaussian import (
    AlternatingRecurrentGaussianPgAgent,
    GaussianPgAgent,
    RecurrentGaussianPgAgent,
)
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel


class MujocoMixin:
    """The model's arguments from the spaces of a vector environment.

    ``update_obs_rms`` and ``data_parallel`` are those of ``PgAgent`` and ``BaseAgent``.
    """

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``action_size``.

        Raises:
            TypeError: the action space is not a continuous vector.
        """
        return dict(
            observation_shape=env_spaces.observation.shape,
            action_size=box_size(env_spaces.action),
        )

    def update_obs_rms(self, observation: Any) -> None:
        """Let the model's observation statistics take in a batch."""
        super().update_obs_rms(observation)  # type: ignore[misc]

    def data_parallel(self, *args: Any, **kwargs: Any) -> None:
        """Average gradients over processes."""
        super().data_parallel(*args, **kwargs)  # type: ignore[misc]


class MujocoFfAgent(MujocoMixin, GaussianPgAgent):
    """Feed-forward Gaussian agent."""

    def __init__(self, ModelCls: Any = MujocoFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class MujocoLstmAgent(MujocoMixin, RecurrentGaussianPgAgent):
    """Recurrent Gaussian agent."""

    def __init__(self, ModelCls: Any = MujocoLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingMujocoLstmAgent(MujocoMixin, AlternatingRecurrentGaussianPgAgent):
    """Recurrent Gaussian agent, in alternating samplers."""

    def __init__(self, ModelCls: Any = MujocoLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
