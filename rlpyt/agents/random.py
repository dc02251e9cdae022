"""An agent with random actions, as a baseline or for initial data."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.spaces import ActionScale
from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.observation import is_composite
from rlpyt.spaces.action_mask import action_mask_of, choices_of, valid_at
from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.utils.buffer import Tensors, buffer_from_example, buffer_func, buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["value"])


class UniformActions(Distribution):
    """Uniform distribution over the actions of a space.

    Args:
        action_space: Discrete, MultiDiscrete, MultiBinary, a Box with finite bounds, or (nested)
            Dict and Tuple spaces of them.

    Raises:
        TypeError: the space, or a part of it, has another type.
        ValueError: a component of a Box has no bounds.
    """

    def __init__(self, action_space: Space) -> None:
        self.n: Tensor | None = None  # number of choices of each discrete component
        self._scale: ActionScale | None = None
        self._parts: list[UniformActions] = []  # of Dict and Tuple spaces
        n = choices_of(action_space)
        if is_composite(action_space.shape):
            self._example = buffer_from_example(action_space.null_value(), ())
            self._parts = [UniformActions(space) for _, space in leaf_spaces(action_space)]
            shape: tuple[int, ...] = (sum(part.n_noise for part in self._parts),)
        elif n is not None:
            self.n = torch.from_numpy(n.astype(np.float32))
            shape = n.shape
        else:
            self._scale = ActionScale(action_space, bounded=True)
            shape = (self._scale.size,)
        self.noise_spec: NoiseSpec = NoiseSpec("uniform", shape)

    @property
    def dim(self) -> int:
        """Return the total number of discrete choices and of components of Boxes."""
        own = self.n_choices if self._scale is None else self._scale.size
        return sum(part.dim for part in self._parts) or own

    @property
    def n_choices(self) -> int:
        """Return the total number of discrete choices, the size of a mask."""
        own = 0 if self.n is None else int(self.n.sum())
        return own + sum(part.n_choices for part in self._parts)

    @property
    def n_noise(self) -> int:
        """Return how many random numbers an action takes."""
        return math.prod(self.noise_spec.shape)

    def sample_rows(self, lead: tuple[int, ...], mask: Tensor | None = None) -> Any:
        """Return actions [*lead, ...]: int64 if discrete, else float32 in the space's units.

        Args:
            lead: leading dimensions.
            mask: [*lead, n], not zero where discrete choices are valid; ``None``: all are.
        """
        return self._actions(self._take_noise(lead, torch.device("cpu")), mask)

    def _actions(self, noise: Tensor, mask: Tensor | None) -> Any:
        """Return the actions for this noise, [*lead, *noise_spec.shape]."""
        if self._parts:
            rows = zip(self._parts, self._split(noise, mask), strict=True)
            actions = (part._actions(*inputs) for part, inputs in rows)
            return buffer_func(self._example, lambda _: next(actions))
        if self._scale is not None:
            return torch.as_tensor(self._scale.to_space(2 * noise - 1))
        assert self.n is not None
        if mask is None:
            return (noise * self.n).long()
        sizes = self.n.reshape(-1).int().tolist()
        columns = noise.reshape(*mask.shape[:-1], len(sizes)).unbind(-1)
        parts = zip(torch.split(mask, sizes, -1), columns, strict=True)
        return torch.stack([valid_at(part, u) for part, u in parts], -1).reshape(noise.shape)

    def _split(self, noise: Tensor, mask: Tensor | None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yield noise and mask of each part."""
        column = choice = 0
        for part in self._parts:
            own = noise[..., column : column + part.n_noise]
            valid = None if mask is None else mask[..., choice : choice + part.n_choices]
            yield own.reshape(*noise.shape[:-1], *part.noise_spec.shape), valid
            column, choice = column + part.n_noise, choice + part.n_choices


class RandomAgent(BaseAgent):
    """An agent that draws uniform actions from the same random streams as other agents.

    It has no parameters, and its values are zero.
    """

    ModelCls = nn.Module

    def __init__(self) -> None:
        super().__init__()

    def initialize(self, env_spaces: EnvSpaces, share_memory: bool = False, **kwargs: Any) -> None:
        """Build the distribution; raise the errors of `UniformActions`."""
        super().initialize(env_spaces, share_memory)
        self.distribution = UniformActions(env_spaces.action)

    @torch.no_grad()
    def step(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Draw actions for [B] environments."""
        mask = action_mask_of(buffer_to(observation, "cpu"))
        action = self.distribution.sample_rows(tuple(prev_reward.shape), mask)
        return AgentStep(action, AgentInfo(self.value(observation, prev_action, prev_reward)))

    def value(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Tensor:
        """Return zeros [B]."""
        return torch.zeros_like(buffer_to(prev_reward, "cpu"), dtype=torch.float32)
