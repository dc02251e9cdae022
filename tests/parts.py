"""Small parts that several tests put together: agents whose behaviour can be worked out by hand."""

from collections import namedtuple

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin
from rlpyt.envs.toy import CountEnv
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple

EchoInfo = namedarraytuple("EchoInfo", ["value", "memory"])
NoiseSpec = namedtuple("NoiseSpec", ["kind", "shape"])


class OneWeight(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))


class EchoDistribution:
    """Passes the environment-owned noise through."""

    noise_spec = NoiseSpec("uniform", ())

    def __init__(self):
        self.noise = None

    def set_noise(self, noise):
        self.noise = noise


class EchoAgent(RecurrentAgentMixin, BaseAgent):
    """Acts by what it sees and remembers; its memory counts steps since the last reset.

    action = (memory + prev_action + floor(3 * noise)) mod 3; value = weight * (t + prev_reward).
    """

    def __init__(self):
        super().__init__(ModelCls=OneWeight)

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        BaseAgent.initialize(self, env_spaces, share_memory)
        self.distribution = EchoDistribution()

    def step(self, observation, prev_action, prev_reward):
        before = self.prev_rnn_state
        if before is None:
            before = torch.zeros(1, prev_reward.shape[0], 1)
        memory = before[0, :, 0]
        noise = self.distribution.noise
        noise = torch.zeros_like(memory) if noise is None else noise
        action = (memory + prev_action + (3 * noise).floor()).long() % 3
        self.advance_rnn_state(before + 1)
        return AgentStep(action, EchoInfo(self.value(observation, 0, prev_reward), memory))

    def value(self, observation, prev_action, prev_reward):
        return (self.model.weight * (time_of(observation) + prev_reward)).detach()


class ForgetfulEchoAgent(BaseAgent):
    """As ``EchoAgent``, without memory: action = (t + prev_action + floor(3 * noise)) mod 3."""

    initialize, value = EchoAgent.initialize, EchoAgent.value

    def __init__(self):
        super().__init__(ModelCls=OneWeight)

    def step(self, observation, prev_action, prev_reward):
        t = time_of(observation)
        noise = self.distribution.noise
        noise = torch.zeros_like(t) if noise is None else noise
        action = (t + prev_action + (3 * noise).floor()).long() % 3
        return AgentStep(action, EchoInfo(self.value(observation, 0, prev_reward), t))


def time_of(observation):
    """t [B] of a ``ShapedCountEnv``'s observations, whatever their kind."""
    if isinstance(observation, tuple):
        return observation.clock[:, 1]
    return observation[:, 0, 0, 2].float() if observation.dim() == 4 else observation[:, 2]


class ShapedCountEnv(CountEnv):
    """``CountEnv`` whose (rank, episode, t) comes as a vector, a record or an image."""

    def __init__(self, kind="box", **kwargs):
        self.kind = kind
        super().__init__(**kwargs)
        if kind == "dict":
            parts = [FloatBox(0.0, 2.0**24, shape=(1,)), FloatBox(0.0, 2.0**24, shape=(2,))]
            self._observation_space = Composite(parts, Parted)
        if kind == "image":
            self._observation_space = IntBox(0, 256, shape=(1, 4, 4), dtype="uint8")

    def _observe(self):
        vector = super()._observe()
        if self.kind == "box":
            return vector
        if self.kind == "dict":
            return Parted(vector[:1], vector[1:])
        image = np.zeros((1, 4, 4), np.uint8)
        image[0, 0, :3] = vector % 256
        return image


Parted = namedarraytuple("Parted", ["rank", "clock"])


class SmallMlp(torch.nn.Module):
    """(pi, value) from a vector observation."""

    def __init__(self, inputs=4, actions=2):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(inputs, 16), torch.nn.Tanh())
        self.head = torch.nn.Linear(16, actions + 1)

    def forward(self, observation, prev_action, prev_reward):
        out = self.head(self.body(observation))
        return torch.softmax(out[..., :-1], -1), out[..., -1]
