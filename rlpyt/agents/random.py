"""An agent with random actions, as a baseline or for initial data."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.spaces import ActionScale
from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.envs.base import EnvSpaces
from rlpyt.spaces.action_mask import action_mask_of, choices_of, valid_or_all
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Tensors, buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["value"])


class UniformActions(Distribution):
    """Uniform distribution over the actions of a space.

    Args:
        action_space: Discrete, MultiDiscrete, MultiBinary, or a Box with finite bounds.

    Raises:
        TypeError: the space has another type.
        ValueError: a component of a Box has no bounds.
    """

    def __init__(self, action_space: Space) -> None:
        n = choices_of(action_space)
        self.n = None if n is None else torch.from_numpy(n.astype(np.float32))
        self._scale = ActionScale(action_space, bounded=True) if n is None else None
        self.noise_spec = NoiseSpec("uniform", (self.dim,) if n is None else n.shape)

    @property
    def dim(self) -> int:
        """Return the total number of discrete choices, or of components of a Box."""
        return self._scale.size if self._scale is not None else int(self.n.sum())  # type: ignore[union-attr]

    def sample_rows(self, lead: tuple[int, ...], mask: Tensor | None = None) -> Tensor:
        """Return actions [*lead, ...]: int64 if discrete, else float32 in the space's units.

        Args:
            lead: leading dimensions.
            mask: [*lead, n], not zero where discrete choices are valid; ``None``: all are.
        """
        noise = self._take_noise(lead, torch.device("cpu"))
        if self._scale is not None:
            return torch.as_tensor(self._scale.to_space(2 * noise - 1))
        assert self.n is not None
        if mask is None:
            return torch.minimum((noise * self.n).floor(), self.n - 1).long()  # it may round up
        sizes = self.n.reshape(-1).int().tolist()
        columns = noise.reshape(*lead, len(sizes)).unbind(-1)
        chosen = []
        for u, part in zip(columns, torch.split(mask, sizes, -1), strict=True):
            valid = valid_or_all(part)
            number = (u * valid.sum(-1)).long().unsqueeze(-1)  # among valid choices
            chosen.append((valid.cumsum(-1) <= number).sum(-1))
        return torch.stack(chosen, -1).reshape(noise.shape)


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
