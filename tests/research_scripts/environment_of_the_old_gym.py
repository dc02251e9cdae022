"""An environment of 2019's gym, without the package: reset gives the observation, step 4 values."""

import numpy as np
from common import PolicyAgent
from gymnasium.spaces import Box, Discrete

from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler


class Corridor:
    """Plain class: no gym.Env, no ``unwrapped``, float64 observations."""

    observation_space = Box(-10.0, 10.0, shape=(2,), dtype=np.float64)
    action_space = Discrete(2)
    metadata = {}

    def reset(self):
        self.x, self.t = 0.0, 0
        return np.array([self.x, self.t])

    def step(self, action):
        self.x += 1.0 if action == 1 else -1.0
        self.t += 1
        return np.array([self.x, self.t]), self.x, self.t >= 6, {"at": self.x}


class Shifted:
    """Wrapper of the project, in the manner of gym.Wrapper."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, action):
        observation, reward, done, info = self.env.step(action)
        return observation, reward + 1, done, info


def make_env(**kwargs):
    return GymEnvWrapper(Shifted(Shifted(Corridor())), **kwargs)


if __name__ == "__main__":
    env = make_env()
    assert env.reset().dtype == np.float32
    o, r, d, info = env.step(env.action_space.sample())
    assert o.dtype == np.float32 and info.at in (-1.0, 1.0)
    MinibatchRl(
        algo=A2C(),
        agent=PolicyAgent(),
        sampler=SerialSampler(make_env, dict(act_null_value=0), batch_T=6, batch_B=2),
        n_steps=36,
        log_interval_steps=12,
    ).train()
