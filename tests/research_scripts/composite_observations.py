"""Observations of two parts, as a Composite space of an rlpyt environment."""

from collections import namedtuple

import numpy as np
import torch
from common import PolicyAgent, PolicyModel, Walk, WalkInfo

from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.base import EnvStep
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.collections import namedarraytuple

Obs = namedarraytuple("Obs", ["cells", "clock"])
ObsSpaces = namedtuple("ObsSpaces", ["cells", "clock"])


class ClockWalk(Walk):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        clock = FloatBox(0.0, 1.0, shape=(1,))
        self._observation_space = Composite([self._observation_space, clock], Obs)

    def _observe(self):
        return Obs(super()._observe(), np.float32([self.steps / self.horizon]))


class TwoPartModel(PolicyModel):
    def forward(self, observation, prev_action, prev_reward):
        joined = torch.cat([observation.cells, observation.clock], dim=-1)
        return super().forward(joined, prev_action, prev_reward)


class TwoPartAgent(PolicyAgent):
    def __init__(self, ModelCls=TwoPartModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        cells, clock = env_spaces.observation.shape
        return dict(n_in=cells[0] + clock[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    env = ClockWalk()
    assert env.observation_space.names == ("cells", "clock")
    step = env.step(0) if env.reset() else None
    assert isinstance(step, EnvStep) and isinstance(step.env_info, WalkInfo)
    sampler = CpuSampler(ClockWalk, dict(length=4), batch_T=4, batch_B=2)
    MinibatchRl(
        algo=PPO(minibatches=2, epochs=1), agent=TwoPartAgent(), sampler=sampler, n_steps=24,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False),
    ).train()  # fmt: skip
