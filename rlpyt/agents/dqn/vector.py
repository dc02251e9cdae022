"""Ready deep Q-learning agents, and ``dqn_agent_for``, which chooses one for given spaces."""

from typing import Any

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariIqnAgent, AtariQrDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.qrdqn_agent import IqnAgent, QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.agents.spaces import discrete_size, is_image
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.dqn.vector import (
    CatDqnMlpModel,
    DqnMlpModel,
    IqnMlpModel,
    QrDqnMlpModel,
    R2d1LstmModel,
)


class DqnMlpAgent(DqnAgent):
    """Action values, MLP."""

    ModelCls = DqnMlpModel
    space_arguments = ("observation_shape", "output_size")


class CatDqnMlpAgent(CatDqnAgent):
    """Distributions of returns over fixed atoms, MLP."""

    ModelCls = CatDqnMlpModel
    space_arguments = DqnMlpAgent.space_arguments


class QrDqnMlpAgent(QrDqnAgent):
    """Quantiles of returns, MLP."""

    ModelCls = QrDqnMlpModel
    space_arguments = DqnMlpAgent.space_arguments


class IqnMlpAgent(IqnAgent):
    """Implicit quantiles of returns, MLP."""

    ModelCls = IqnMlpModel
    space_arguments = DqnMlpAgent.space_arguments


class R2d1LstmAgent(R2d1Agent):
    """Action values with memory, MLP into LSTM."""

    ModelCls = R2d1LstmModel
    space_arguments = DqnMlpAgent.space_arguments


AGENTS: dict[str, tuple[Any, Any]] = {  # for (vectors, images)
    "dqn": (DqnMlpAgent, AtariDqnAgent),
    "catdqn": (CatDqnMlpAgent, AtariCatDqnAgent),
    "qrdqn": (QrDqnMlpAgent, AtariQrDqnAgent),
    "iqn": (IqnMlpAgent, AtariIqnAgent),
    "r2d1": (R2d1LstmAgent, AtariR2d1Agent),
}


def dqn_agent_for(kind: str, env_spaces: EnvSpaces, **kwargs: Any) -> Any:
    """Return a ready agent for an environment's spaces.

    Args:
        kind: "dqn", "catdqn", "qrdqn", "iqn" or "r2d1".
        env_spaces: ``EnvSpaces(observation, action)``.
        **kwargs: arguments of the agent, e.g. ``model_kwargs=dict(dueling=True)``.

    Raises:
        ValueError: ``kind`` is unknown.
        TypeError: the action space is not Discrete.
    """
    if kind not in AGENTS:
        raise ValueError(f"kind={kind!r} must be one of {list(AGENTS)}.")
    for_vectors, for_images = AGENTS[kind]
    cls = for_images if is_image(env_spaces.observation) else for_vectors
    discrete_size(env_spaces.action, cls.__name__)
    return cls(**kwargs)
