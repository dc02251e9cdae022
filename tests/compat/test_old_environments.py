"""Environments written for rlpyt and the gym of 2019 run in samplers and runners of today."""

from collections import namedtuple

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent, GaussianMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.base import EnvStep, build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple

BOX = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class OldEnv:
    """No base class, no ``unwrapped``; float64 although the space says float32."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = BOX

    def __init__(self, limit=3):
        self.limit = limit
        self.seed(0)

    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed % 2**32)
        return [seed]

    def reset(self):
        self.t = 0
        return self.rng.normal(size=2)

    def step(self, action):
        self.t += 1
        over = self.t == self.limit
        info = {"steps": self.t, "TimeLimit.truncated": over}
        return self.rng.normal(size=2), 1, over, info


class OldDictEnv(OldEnv):
    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
        goal=gymnasium.spaces.Dict(at=BOX),
    )

    def reset(self):
        place = super().reset()
        return dict(place=place, goal=dict(at=place + 1))

    def step(self, action):
        place, *rest = super().step(action)
        return dict(place=place, goal=dict(at=place + 1)), *rest


class Layer:
    """A wrapper that passes everything on, of no base class either."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)

    def step(self, action):
        observation, reward, done, info = self.env.step(action)
        return observation, 2.0 * reward, done, info


class OldGymnasiumEnv(OldEnv, gymnasium.Env):
    """Only the import was ported."""


class HalfReward(gymnasium.Wrapper):
    """Only the import was ported; ``reset`` is Gymnasium's."""

    def step(self, action):
        observation, reward, done, info = self.env.step(action)
        return observation, 0.5 * reward, done, info


def layered():
    return GymEnvWrapper(Layer(Layer(OldDictEnv())))


def ported():
    return GymEnvWrapper(HalfReward(HalfReward(OldGymnasiumEnv())))


def limited():
    inner = OldGymnasiumEnv(limit=100)
    return GymEnvWrapper(gymnasium.wrappers.TimeLimit(inner, max_episode_steps=3))


def plain():
    return GymEnvWrapper(OldEnv())


@pytest.mark.parametrize("make, reward", [(plain, 1), (layered, 4), (ported, 0.25), (limited, 1)])
def test_old_interfaces_train_through_layers_and_tell_time_limits(make, reward):
    sampler = SerialSampler(EnvCls=make, env_kwargs={}, batch_T=4, batch_B=2)
    runner = MinibatchRl(
        algo=PPO(epochs=1, minibatches=2), agent=CategoricalMlpAgent(), sampler=sampler,
        n_steps=24, seed=3,
    )  # fmt: skip
    runner.train()
    env = sampler.samples_pyt.env
    observations = env.observation if torch.is_tensor(env.observation) else env.observation.place
    assert observations.dtype == torch.float32 and (env.reward == reward).all()
    if make is layered:
        assert env.observation.goal.at.dtype == torch.float32
    assert env.done.any() and torch.equal(env.env_info.timeout, env.done)


def test_old_environments_are_seeded_in_workers():
    def first(SamplerCls):
        sampler = SamplerCls(EnvCls=layered, env_kwargs={}, batch_T=2, batch_B=2)
        sampler.initialize(CategoricalMlpAgent(), affinity=dict(n_workers=2), seed=5)
        try:
            return sampler.obtain_samples(0)[0].env.observation.place[0].clone()
        finally:
            sampler.shutdown()

    assert torch.equal(first(SerialSampler), first(CpuSampler))


Observation = namedarraytuple("Observation", ["place", "count"])
Info = namedtuple("Info", ["height"])


class WithOurSpaces(gymnasium.Env):
    """A ``gym.Env`` with rlpyt's spaces and rlpyt's interface."""

    def __init__(self):
        place = FloatBox(low=-1, high=1, shape=(2,))
        self.observation_space = Composite([place, IntBox(0, 10)], Observation)
        self.action_space = FloatBox(low=-2, high=2, shape=(1,))

    def observe(self):
        return Observation(place=np.full(2, self.t / 10, np.float32), count=np.int32(self.t))

    def reset(self):
        self.t = 0
        return self.observe()

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        return EnvStep(self.observe(), 1.0, self.t == 3, Info(0.5))


@pytest.mark.parametrize("make", [WithOurSpaces, lambda: GymEnvWrapper(WithOurSpaces())])
def test_a_gym_environment_may_have_spaces_of_rlpyt(make):
    sampler = SerialSampler(EnvCls=make, env_kwargs={}, batch_T=4, batch_B=2)
    runner = MinibatchRl(
        algo=PPO(epochs=1, minibatches=2), agent=GaussianMlpAgent(), sampler=sampler, n_steps=8,
        seed=3,
    )  # fmt: skip
    runner.train()
    env = sampler.samples_pyt.env
    assert env.observation.count.max() == 2 and (env.env_info.height == 0.5).all()


def test_invalid_steps_are_still_refused():
    env = build_env(GymEnvWrapper, dict(env=OldEnv()))
    env.seed(1)
    env.reset()
    env.env.env.step = lambda action: (np.zeros(2), 1.0, True)
    with pytest.raises(TypeError, match="expected 4 or 5 values"):
        env.step(0)
