"""Ready agents for plain vector observations (and a chooser by the environment's spaces)."""

from typing import Any

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariIqnAgent, AtariQrDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent, n_actions
from rlpyt.agents.dqn.qrdqn_agent import IqnAgent, QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent, R2d1AlternatingAgent
from rlpyt.agents.pg.vector import is_image
from rlpyt.models.dqn.vector import (
    CatDqnMlpModel,
    DqnMlpModel,
    IqnMlpModel,
    QrDqnMlpModel,
    R2d1LstmModel,
)


class VectorMixin:
    """The model's arguments from the spaces of a vector environment."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``output_size``, the number of actions."""
        return dict(
            observation_shape=env_spaces.observation.shape,
            output_size=n_actions(env_spaces.action, type(self).__name__),
        )


class DqnMlpAgent(VectorMixin, DqnAgent):
    """Action values, MLP."""

    def __init__(self, ModelCls: Any = DqnMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class CatDqnMlpAgent(VectorMixin, CatDqnAgent):
    """Distributions of returns over fixed atoms, MLP."""

    def __init__(self, ModelCls: Any = CatDqnMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class QrDqnMlpAgent(VectorMixin, QrDqnAgent):
    """Quantiles of returns, MLP."""

    def __init__(self, ModelCls: Any = QrDqnMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class IqnMlpAgent(VectorMixin, IqnAgent):
    """Implicit quantiles of returns, MLP."""

    def __init__(self, ModelCls: Any = IqnMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class R2d1LstmAgent(VectorMixin, R2d1Agent):
    """Action values with memory, MLP into LSTM."""

    def __init__(self, ModelCls: Any = R2d1LstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


class R2d1LstmAlternatingAgent(VectorMixin, R2d1AlternatingAgent):
    """Action values with memory, MLP into LSTM, in alternating samplers."""

    def __init__(self, ModelCls: Any = R2d1LstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)


AGENTS: dict[str, tuple[Any, Any]] = {  # for (vectors, images)
    "dqn": (DqnMlpAgent, AtariDqnAgent),
    "catdqn": (CatDqnMlpAgent, AtariCatDqnAgent),
    "qrdqn": (QrDqnMlpAgent, AtariQrDqnAgent),
    "iqn": (IqnMlpAgent, AtariIqnAgent),
    "r2d1": (R2d1LstmAgent, AtariR2d1Agent),
}


def dqn_agent_for(kind: str, env_spaces: Any, **kwargs: Any) -> Any:
    """Choose a ready agent for an environment's spaces.

    Args:
        kind: "dqn", "catdqn", "qrdqn", "iqn" or "r2d1".
        env_spaces: ``EnvSpaces(observation, action)``.
        **kwargs: of the agent, e.g. ``model_kwargs=dict(dueling=True)``.

    Raises:
        ValueError: there is no such kind.
        TypeError: the actions are not discrete.
    """
    if kind not in AGENTS:
        raise ValueError(f"kind={kind!r} of agent is none of {list(AGENTS)}.")
    for_vectors, for_images = AGENTS[kind]
    cls = for_images if is_image(env_spaces.observation) else for_vectors
    n_actions(env_spaces.action, cls.__name__)
    return cls(**kwargs)
