"""Policy-gradient agents for Atari images."""

from typing import Any

from rlpyt.agents.pg.agent import one_hot_size
from rlpyt.agents.pg.categorical import (
    AlternatingRecurrentCategoricalPgAgent,
    CategoricalPgAgent,
    RecurrentCategoricalPgAgent,
)
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel


class AtariMixin:
    """The model's arguments from the spaces of an image environment."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``image_shape`` (C, H, W) and ``output_size``, the number of actions."""
        return dict(
            image_shape=env_spaces.observation.shape, output_size=one_hot_size(env_spaces.action)
        )


class AtariFfAgent(AtariMixin, CategoricalPgAgent):
    """Feed-forward categorical agent for images."""

    def __init__(self, ModelCls: Any = AtariFfModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AtariLstmAgent(AtariMixin, RecurrentCategoricalPgAgent):
    """Recurrent categorical agent for images."""

    def __init__(self, ModelCls: Any = AtariLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class AlternatingAtariLstmAgent(AtariMixin, AlternatingRecurrentCategoricalPgAgent):
    """Recurrent categorical agent for images, in alternating samplers."""

    def __init__(self, ModelCls: Any = AtariLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)
