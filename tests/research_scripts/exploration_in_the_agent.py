"""DDPG whose agent adds noise correlated in time and scales observations before the model."""

import torch

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.envs.gym import make as gym_make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

SCALE = torch.tensor([1.0, 1.0, 0.125])


class OuAgent(DdpgAgent):
    theta, sigma = 0.15, 0.2

    def collector_initialize(self, global_B=1, env_ranks=None):
        self.noise = torch.zeros(global_B if env_ranks is None else len(env_ranks), 1)

    def reset_one(self, idx):
        self.noise[idx] = 0

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        step = super().step(observation * SCALE, prev_action, prev_reward)
        if self._mode == "sample":
            self.noise += -self.theta * self.noise + self.sigma * torch.randn_like(self.noise)
            step = step._replace(action=(step.action + self.noise).clamp(-2, 2))
        return step

    def q(self, observation, prev_action, prev_reward, action):
        return super().q(observation * SCALE, prev_action, prev_reward, action)

    def q_at_mu(self, observation, prev_action, prev_reward):
        return super().q_at_mu(observation * SCALE, prev_action, prev_reward)

    def target_q_at_mu(self, observation, prev_action, prev_reward):
        return super().target_q_at_mu(observation * SCALE, prev_action, prev_reward)


if __name__ == "__main__":
    algo = DDPG(min_steps_learn=40, replay_size=1000, batch_size=16, replay_ratio=4)
    agent = OuAgent(
        model_kwargs=dict(hidden_sizes=[16]),
        q_model_kwargs=dict(hidden_sizes=[16]),
        action_std=0.01,
    )
    sampler = CpuSampler(EnvCls=gym_make, env_kwargs=dict(id="Pendulum-v1"), batch_T=5, batch_B=2)
    MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=100,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False),
    ).train()
    assert algo.update_counter > 0
