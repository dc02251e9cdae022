"""An agent that acts at random: a baseline, and a source of initial data."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.spaces import ActionScale
from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["value"])


class UniformActions(Distribution):
    """Uniform distribution over the actions of a space.

    Args:
        action_space: Discrete, MultiDiscrete, MultiBinary, or a Box with finite bounds.

    Raises:
        TypeError: the space is of another type.
        ValueError: a component of a Box has no bounds.
    """

    def __init__(self, action_space: Any) -> None:
        space = getattr(action_space, "space", action_space)
        n: Any = getattr(action_space, "n", None)
        if type(space).__name__ == "MultiBinary":
            n = np.full(space.shape, 2)
        elif n is None:
            n = getattr(space, "nvec", None)
        self.n = None if n is None else torch.from_numpy(np.array(n, np.float32))
        self._scale = ActionScale(action_space, bounded=True) if n is None else None
        shape = (self._scale.size,) if self._scale is not None else tuple(np.shape(n))
        self.noise_spec = NoiseSpec("uniform", shape)

    @property
    def dim(self) -> int:
        """Total number of discrete choices, or of components of a Box."""
        return self._scale.size if self._scale is not None else int(self.n.sum())  # type: ignore[union-attr]

    def sample_rows(self, lead: tuple[int, ...]) -> Tensor:
        """Return actions [*lead, ...]: int64 if discrete, else float32 in the space's units."""
        noise = self._take_noise(lead, torch.device("cpu"))
        if self._scale is not None:
            return torch.as_tensor(self._scale.to_space(2 * noise - 1))
        assert self.n is not None
        return torch.minimum((noise * self.n).floor(), self.n - 1).long()  # noise * n may round up


class RandomAgent(BaseAgent):
    """Draws actions uniformly, from the same random streams as other agents in any sampler.

    It has no parameters, and its values are zero.
    """

    ModelCls = nn.Module

    def __init__(self) -> None:
        super().__init__()

    def initialize(self, env_spaces: Any, share_memory: bool = False, **kwargs: Any) -> None:
        """Build the distribution; raises what `UniformActions` does."""
        super().initialize(env_spaces, share_memory)
        self.distribution = UniformActions(env_spaces.action)

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Draw actions for [B] environments."""
        action = self.distribution.sample_rows(tuple(prev_reward.shape))
        return AgentStep(action, AgentInfo(self.value(observation, prev_action, prev_reward)))

    def value(self, observation: Any, prev_action: Any, prev_reward: Any) -> Tensor:
        """Return zeros [B]."""
        return torch.zeros_like(buffer_to(prev_reward, "cpu"), dtype=torch.float32)
