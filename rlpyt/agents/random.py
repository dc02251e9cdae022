"""An agent that knows nothing: the baseline to beat, and a source of first data."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rlpyt.agents.action_scale import ActionScale
from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["value"])


class UniformActions(Distribution):
    """Every action of a space is as likely as any other.

    Args:
        action_space: Discrete, MultiDiscrete, MultiBinary, or a box with finite bounds.

    Raises:
        TypeError: the space is of another kind.
        ValueError: a component of a box has no bounds.
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
        """Number of discrete actions (of all together), or of components of a box."""
        return self._scale.size if self._scale is not None else int(self.n.sum())  # type: ignore[union-attr]

    def draw(self, lead: tuple[int, ...]) -> Tensor:
        """Actions [*lead, ...]: int64 from 0 for discrete ones, float32 in the space's units."""
        noise = self._take_noise(lead, torch.device("cpu"))
        if self._scale is not None:
            return torch.as_tensor(self._scale.to_space(2 * noise - 1))
        assert self.n is not None
        return torch.minimum((noise * self.n).floor(), self.n - 1).long()  # noise * n may round up


class RandomAgent(BaseAgent):
    """Draws actions uniformly, from the same streams of noise as other agents' in any sampler.

    It has nothing to train, and its values are zero.
    """

    def __init__(self) -> None:
        super().__init__(ModelCls=nn.Module)

    def initialize(self, env_spaces: Any, share_memory: bool = False, **kwargs: Any) -> None:
        """Look at the action space; raises as `UniformActions` does."""
        super().initialize(env_spaces, share_memory)
        self.distribution = UniformActions(env_spaces.action)

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Draw an action for each of [B] environments."""
        action = self.distribution.draw(tuple(prev_reward.shape))
        return AgentStep(action, AgentInfo(self.value(observation, prev_action, prev_reward)))

    def value(self, observation: Any, prev_action: Any, prev_reward: Any) -> Tensor:
        """Zeros [B]."""
        return torch.zeros_like(buffer_to(prev_reward, "cpu"), dtype=torch.float32)
