"""Statistics of the project for each trajectory, logged by the runner."""

import csv

from common import PolicyAgent, Walk

from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


class WalkTrajInfo(TrajInfo):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Furthest = 0
        self._right_steps = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        self.Furthest = max(self.Furthest, env_info.position)
        self._right_steps += int(action)

    def terminate(self, observation):
        self.FractionRight = self._right_steps / self.Length
        return self


if __name__ == "__main__":
    sampler = SerialSampler(Walk, dict(horizon=4), batch_T=8, batch_B=2, TrajInfoCls=WalkTrajInfo)
    runner = MinibatchRl(
        algo=PPO(discount=0.9, minibatches=1, epochs=1),
        agent=PolicyAgent(),
        sampler=sampler,
        n_steps=64,
        log_interval_steps=32,
    )
    with logger_context("runs", 0, "stats", snapshot_mode="last", override_prefix=True):
        runner.train()
    with open("runs/run_0/progress.csv") as f:
        rows = list(csv.DictReader(f))
    assert 0 <= float(rows[-1]["FractionRightAverage"]) <= 1
    assert float(rows[-1]["FurthestMax"]) >= 1
