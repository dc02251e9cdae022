"""Shared parts of the scripts in this folder, as a research code base of 2019 kept them."""

import numpy as np
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.base import Env, EnvStep
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

WalkInfo = namedarraytuple("WalkInfo", ["position", "timeout"])


class Walk(Env):
    """Walk on a line of cells to the right end; a step costs 0.1, the end pays 1."""

    def __init__(self, length=5, horizon=12):
        self.length = length
        self.steps_allowed = horizon
        self._action_space = IntBox(0, 2)
        self._observation_space = FloatBox(0.0, 1.0, shape=(length,))

    def reset(self):
        self.position = self.steps = 0
        return self._observe()

    def step(self, action):
        self.position = max(0, self.position + (1 if action else -1))
        self.steps += 1
        arrived = self.position == self.length - 1
        timeout = self.steps >= self.steps_allowed
        reward = 1.0 if arrived else -0.1
        return EnvStep(
            self._observe(), reward, arrived or timeout, WalkInfo(self.position, timeout)
        )

    def _observe(self):
        observation = np.zeros(self.length, dtype=np.float32)
        observation[self.position] = 1
        return observation

    @property
    def horizon(self):
        return self.steps_allowed


class PolicyModel(torch.nn.Module):
    """Probabilities and value of flat observations."""

    def __init__(self, n_in, n_out, hidden=16):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(n_in, hidden), torch.nn.Tanh())
        self.policy = torch.nn.Linear(hidden, n_out)
        self.critic = torch.nn.Linear(hidden, 1)

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        features = self.body(observation.reshape(T * B, -1).float())
        pi = torch.softmax(self.policy(features), dim=-1)
        value = self.critic(features).squeeze(-1)
        return restore_leading_dims((pi, value), lead_dim, T, B)


class PolicyAgent(CategoricalPgAgent):
    """Categorical agent of the model above."""

    def __init__(self, ModelCls=PolicyModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


def train_a2c(sampler, n_steps):
    """Train a new agent by A2C, on two processors where the sampler has workers."""
    affinity = dict(workers_cpus=[0, 1], set_affinity=False)
    MinibatchRl(
        algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=n_steps, affinity=affinity
    ).train()


class QModel(torch.nn.Module):
    """Action values of flat observations."""

    def __init__(self, n_in, n_out, hidden=16):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_in, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, n_out)
        )

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        q = self.layers(observation.reshape(T * B, -1).float())
        return restore_leading_dims(q, lead_dim, T, B)
