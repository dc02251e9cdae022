"""Atari with a constructor of its own, which sets up emulator, actions and frames itself."""

import cv2
import numpy as np
from ale_py import ALEInterface, roms

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.quick_args import save__init__args


class SquareAtari(AtariEnv):
    """Frames of another size; `reset`, `step` and the rules of lives are inherited."""

    def __init__(
        self,
        game="breakout",
        frame_skip=4,
        num_img_obs=2,
        clip_reward=True,
        episodic_lives=True,
        fire_on_reset=True,
        max_start_noops=3,
        repeat_action_probability=0.0,
        horizon=50,
        imagesize=40,
    ):
        save__init__args(locals(), underscore=True)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", repeat_action_probability)
        self.ale.loadROM(roms.get_rom_path(game))
        self._action_set = self.ale.getMinimalActionSet()
        self._action_space = IntBox(low=0, high=len(self._action_set))
        obs_shape = (num_img_obs, imagesize, imagesize)
        self._observation_space = IntBox(low=0, high=255, shape=obs_shape, dtype="uint8")
        self._max_frame = self.ale.getScreenGrayscale()
        self._raw_frame_1 = self._max_frame.copy()
        self._raw_frame_2 = self._max_frame.copy()
        self._obs = np.zeros(shape=obs_shape, dtype="uint8")
        self._has_fire = "FIRE" in self.get_action_meanings()
        self._has_up = "UP" in self.get_action_meanings()
        self._horizon = int(horizon)
        self.reset()

    def _update_obs(self):
        self._get_screen(2)
        np.maximum(self._raw_frame_1, self._raw_frame_2, self._max_frame)
        frame = cv2.resize(self._max_frame, (self._imagesize, self._imagesize))
        self._obs = np.concatenate([self._obs[1:], frame[np.newaxis]])

    def _reset_obs(self):
        self._obs[:] = 0
        self._max_frame[:] = 0
        self._raw_frame_1[:] = 0
        self._raw_frame_2[:] = 0


if __name__ == "__main__":
    env = SquareAtari()
    assert env._has_fire and not env._has_up and env.horizon == 50
    for _ in range(49):
        assert not env.step(0).env_info.traj_done
    step = env.step(0)
    assert step.env_info.timeout and step.observation.shape == (2, 40, 40)
    assert step.observation.any()
    sampler = SerialSampler(
        EnvCls=SquareAtari, env_kwargs=dict(game="pong"), batch_T=4, batch_B=1,
        TrajInfoCls=AtariTrajInfo, max_decorrelation_steps=0,
    )  # fmt: skip
    model = dict(channels=[4], kernel_sizes=[8], strides=[8], paddings=[0], fc_sizes=16)
    algo = DQN(min_steps_learn=16, replay_size=64, batch_size=4)
    agent = AtariDqnAgent(model_kwargs=model)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=32).train()
    assert algo.update_counter > 0
