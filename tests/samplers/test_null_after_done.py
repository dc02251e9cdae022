"""After a done an agent is shown the null action and no reward, whatever the action space."""

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple

T, B, N_BATCHES, LENGTH = 5, 4, 4, 3
NULL = 1  # not zero, so that it shows who nulls with what

Seen = namedarraytuple("Seen", ["action", "reward", "value"])
SPACES = {
    "discrete": gymnasium.spaces.Discrete(4),
    "discrete from 5": gymnasium.spaces.Discrete(4, start=5),
    "several": gymnasium.spaces.MultiDiscrete([4, 3]),
    "box": gymnasium.spaces.Box(-4, 4, (2,), np.float32),
}


class FixedLength(gymnasium.Env):
    """Episodes of three steps; every second one is truncated."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)

    def __init__(self, action_space):
        self.action_space, self.episode = action_space, 0

    def reset(self, seed=None, options=None):
        self.t, self.episode = 0, self.episode + 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        over, odd = self.t == LENGTH, self.episode % 2
        return np.full(1, self.t, np.float32), 7.0, bool(over and odd), bool(over and not odd), {}


class Witness(BaseAgent):
    """Always chooses 2, and records what it was shown."""

    def __init__(self):
        super().__init__(ModelCls=lambda: torch.nn.Linear(1, 1))

    def step(self, observation, prev_action, prev_reward):
        seen = Seen(prev_action.clone(), prev_reward.clone(), prev_reward * 0)
        return AgentStep(torch.full_like(prev_action, 2), seen)

    def value(self, observation, prev_action, prev_reward):
        return prev_reward * 0


def shown(SamplerCls, Collector, space):
    """(shown actions, shown rewards, dones), each [N_BATCHES * T, B, ...]."""

    def make():
        return GymEnvWrapper(FixedLength(space), act_null_value=NULL)

    sampler = SamplerCls(
        make, {}, batch_T=T, batch_B=B, CollectorCls=Collector, max_decorrelation_steps=0
    )
    sampler.initialize(Witness(), affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    try:
        batches = []
        for itr in range(N_BATCHES):
            samples, _ = sampler.obtain_samples(itr)
            seen = samples.agent.agent_info
            assert torch.equal(seen.action[0], samples.agent.prev_action[0])
            assert torch.equal(seen.reward[0], samples.env.prev_reward[0])
            batches.append([x.clone() for x in (seen.action, seen.reward, samples.env.done)])
        return [torch.cat(column).numpy() for column in zip(*batches)]
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_null_after_every_done_and_the_last_action_otherwise(SamplerCls, space):
    action, reward, done = shown(SamplerCls, CpuResetCollector, space)
    starts = np.arange(N_BATCHES * T) % LENGTH == 0
    assert (done[:-1] == starts[1:, None]).all()
    assert (action[starts] == NULL).all() and (reward[starts] == 0).all()
    assert (action[~starts] == 2).all() and (reward[~starts] == 7).all()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_null_at_the_start_of_batches_after_waiting(SamplerCls, space):
    action, reward, _ = shown(SamplerCls, CpuWaitResetCollector, space)
    first = np.arange(N_BATCHES * T) % T == 0
    then = np.isin(np.arange(N_BATCHES * T) % T, range(1, LENGTH))
    assert (action[first] == NULL).all() and (reward[first] == 0).all()
    assert (action[then] == 2).all() and (reward[then] == 7).all()
