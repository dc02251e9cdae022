"""Atari with fewer actions, clipped differently, and statistics of the game."""

import numpy as np

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.int_box import IntBox


class TwoActionPong(AtariEnv):
    def __init__(self, **kwargs):
        super().__init__(game="pong", **kwargs)
        self._action_set = [2, 5]  # plain integers of the emulator: up and down
        self._action_space = IntBox(0, len(self._action_set))

    def step(self, action):
        step = super().step(action)
        return step._replace(reward=np.float32(step.reward * 0.5))


if __name__ == "__main__":
    sampler = SerialSampler(
        EnvCls=TwoActionPong,
        env_kwargs=dict(num_img_obs=2, max_start_noops=2),
        batch_T=4,
        batch_B=1,
        TrajInfoCls=AtariTrajInfo,
        max_decorrelation_steps=0,
    )
    model = dict(channels=[4], kernel_sizes=[8], strides=[8], paddings=[0], fc_sizes=16)
    algo = DQN(min_steps_learn=16, replay_size=64, batch_size=4)
    MinibatchRl(
        algo=algo, agent=AtariDqnAgent(model_kwargs=model), sampler=sampler, n_steps=32
    ).train()
    assert algo.update_counter > 0
