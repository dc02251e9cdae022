"""An evaluation collector of the project: one episode of each environment."""

import numpy as np
import torch
from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.collectors import BaseEvalCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler


class OneEpisodeEach(BaseEvalCollector):
    def __init__(self, envs, agent, TrajInfoCls, max_T, max_trajectories=None):
        self.envs, self.agent, self.TrajInfoCls, self.max_T = envs, agent, TrajInfoCls, max_T

    def collect_evaluation(self, itr):
        finished = []
        self.agent.reset()
        self.agent.eval_mode(itr)
        for env in self.envs:
            info, observation, done, t = self.TrajInfoCls(), env.reset(), False, 0
            while not done and t < self.max_T:
                o = torch.from_numpy(np.array(observation))[None]
                action, agent_info = self.agent.step(o, torch.zeros(1, 2), torch.zeros(1))
                a = action[0].numpy()
                next_o, reward, done, env_info = env.step(a)
                info.step(observation, a, reward, done, agent_info[0], env_info)
                observation, t = next_o, t + 1
            finished.append(info.terminate(observation))
        return finished


if __name__ == "__main__":
    sampler = SerialSampler(
        EnvCls=Walk,
        env_kwargs=dict(length=3),
        batch_T=5,
        batch_B=2,
        CollectorCls=CpuResetCollector,
        eval_CollectorCls=OneEpisodeEach,
        eval_env_kwargs=dict(length=3),
        eval_n_envs=3,
        eval_max_steps=60,
        max_decorrelation_steps=10,
    )
    MinibatchRlEval(
        algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=40, log_interval_steps=20
    ).train()
