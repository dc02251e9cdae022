"""Ready agents for plain vector observations (and a chooser by the environment's spaces)."""

from typing import Any

import torch

from rlpyt.agents.action_scale import box_size
from rlpyt.agents.base import RecurrentAgentMixin
from rlpyt.agents.pg.agent import PgAgent, one_hot_size
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent, RecurrentCategoricalPgAgent
from rlpyt.agents.pg.gaussian import GaussianPgAgent, RecurrentGaussianPgAgent
from rlpyt.distributions.multi_categorical import DistInfo, MultiCategorical
from rlpyt.models.pg.vector import (
    CategoricalLstmModel,
    CategoricalMlpModel,
    GaussianLstmModel,
    GaussianMlpModel,
    MultiCategoricalMlpModel,
)

IMAGE_DIMS = 3  # [C, H, W]


class CategoricalMlpAgent(CategoricalPgAgent):
    """Discrete actions, MLP."""

    def __init__(self, ModelCls: Any = CategoricalMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``output_size``."""
        return dict(
            observation_shape=env_spaces.observation.shape,
            output_size=one_hot_size(env_spaces.action),
        )


class CategoricalLstmAgent(RecurrentCategoricalPgAgent):
    """Discrete actions, MLP into LSTM."""

    def __init__(self, ModelCls: Any = CategoricalLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

    make_env_to_model_kwargs = CategoricalMlpAgent.make_env_to_model_kwargs


class GaussianMlpAgent(GaussianPgAgent):
    """Continuous actions, MLP."""

    def __init__(self, ModelCls: Any = GaussianMlpModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``action_size``."""
        return dict(
            observation_shape=env_spaces.observation.shape, action_size=box_size(env_spaces.action)
        )


class GaussianLstmAgent(RecurrentGaussianPgAgent):
    """Continuous actions, MLP into LSTM."""

    def __init__(self, ModelCls: Any = GaussianLstmModel, **kwargs: Any) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

    make_env_to_model_kwargs = GaussianMlpAgent.make_env_to_model_kwargs


class MultiCategoricalMlpAgent(PgAgent):
    """Several discrete actions at once (MultiDiscrete, MultiBinary), MLP."""

    DistInfo = DistInfo

    def __init__(
        self,
        ModelCls: Any = MultiCategoricalMlpModel,
        **kwargs: Any,
    ) -> None:
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``dims``, the number of choices of each action."""
        return dict(
            observation_shape=env_spaces.observation.shape, dims=choices_of(env_spaces.action)
        )

    def make_distribution(self, action_space: Any) -> MultiCategorical:
        """Independent categorical distributions, one for each action."""
        return MultiCategorical(choices_of(action_space))

    def action_input(self, prev_action: torch.Tensor) -> torch.Tensor:
        """One-hot parts side by side, [.., n] -> [.., sum(dims)]."""
        return torch.as_tensor(self.distribution.to_onehot(prev_action))


class MultiCategoricalLstmAgent(RecurrentAgentMixin, MultiCategoricalMlpAgent):
    """Several discrete actions at once with a recurrent model of the user's."""


def choices_of(action_space: Any) -> list[int]:
    """Number of choices of each component of a MultiDiscrete or MultiBinary space.

    Raises:
        TypeError: the space is neither.
    """
    space = getattr(action_space, "space", action_space)
    nvec = getattr(space, "nvec", None)
    if nvec is not None:
        return [int(n) for n in nvec.ravel()]
    if type(space).__name__ == "MultiBinary":
        return [2] * int(torch.tensor(space.shape).prod())
    raise TypeError(f"expected a MultiDiscrete or MultiBinary action space, got {action_space}.")


def is_image(observation_space: Any) -> bool:
    """Whether observations are [C, H, W], for ready agents; others are vectors, or several.

    Raises:
        TypeError: ready models cannot read them: of several parts one is no vector.
    """
    shape = observation_space.shape
    if hasattr(shape, "_fields"):
        _check_parts(observation_space, "observation")
        return False
    return isinstance(shape, tuple) and len(shape) == IMAGE_DIMS


def _check_parts(space: Any, name: str) -> None:
    """Refuse images and numbers of categories, which mean nothing side by side with vectors."""
    composite = getattr(space, "space", space)
    for part, field in zip(getattr(composite, "spaces", ()), space.shape._fields, strict=True):
        path, own = f"{name}.{field}", getattr(part, "space", part)
        if hasattr(part.shape, "_fields"):
            _check_parts(part, path)
            continue
        scalar = type(own).__name__ == "IntBox" and part.shape == ()
        categories = scalar or type(own).__name__ in ("Discrete", "MultiDiscrete")
        if categories or len(part.shape) >= IMAGE_DIMS:
            what = "a number of a category" if categories else f"an image of shape {part.shape}"
            raise TypeError(
                f"{path} is {what} ({own}), and ready models put vectors side by side. Give such "
                "(gymnasium.wrappers.FlattenObservation makes one of all, with Discrete parts "
                "one-hot; FilterObservation leaves parts out) by a function my_module:make_env, or "
                "write a model of your own (ModelCls) in a script."
            )


def agent_for(env_spaces: Any, recurrent: bool = False, **kwargs: Any) -> Any:
    """Choose a ready policy-gradient agent for an environment's spaces.

    Args:
        env_spaces: ``EnvSpaces(observation, action)``.
        recurrent: with an LSTM.
        **kwargs: of the agent, e.g. ``model_kwargs=dict(hidden_sizes=[64, 64])``.

    Raises:
        TypeError: no ready agent fits; the message says what would.
    """
    if hasattr(getattr(env_spaces.action, "shape", None), "_fields"):
        raise TypeError(
            f"no ready agent takes an action of several spaces, {env_spaces.action}; one Box, "
            "Discrete, MultiDiscrete or MultiBinary space fits. Join the parts in a wrapper around "
            "the environment, or write an agent."
        )
    if is_image(env_spaces.observation):
        return (AtariLstmAgent if recurrent else AtariFfAgent)(**kwargs)
    space = getattr(env_spaces.action, "space", env_spaces.action)
    if hasattr(space, "nvec") or type(space).__name__ == "MultiBinary":
        if recurrent:
            raise TypeError(
                "no ready recurrent model for MultiDiscrete or MultiBinary actions; write one and "
                "pass it to MultiCategoricalLstmAgent(ModelCls=...)."
            )
        return MultiCategoricalMlpAgent(**kwargs)
    if getattr(env_spaces.action, "n", None) is not None:
        return (CategoricalLstmAgent if recurrent else CategoricalMlpAgent)(**kwargs)
    box_size(env_spaces.action)  # says what fits if this does not
    return (GaussianLstmAgent if recurrent else GaussianMlpAgent)(**kwargs)
