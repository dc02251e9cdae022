"""Categorical DQN with a network of the project and n-step prioritised replay."""

import torch
from common import Walk

from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class Atoms(torch.nn.Module):
    def __init__(self, n_in, n_out, n_atoms=51):
        super().__init__()
        self.net = torch.nn.Linear(n_in, n_out * n_atoms)
        self.shape = (n_out, n_atoms)

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        p = self.net(observation.view(T * B, -1)).view(T * B, *self.shape)
        return restore_leading_dims(torch.softmax(p, dim=-1), lead_dim, T, B)


class Agent(CatDqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    algo = CategoricalDQN(
        V_min=-2, V_max=2, prioritized_replay=True, n_step_return=3, double_dqn=True,
        min_steps_learn=60, replay_size=600, batch_size=8,
    )  # fmt: skip
    sampler = CpuSampler(
        Walk, {}, batch_T=10, batch_B=4, CollectorCls=CpuWaitResetCollector,
        max_decorrelation_steps=0,
    )  # fmt: skip
    MinibatchRl(
        algo=algo,
        agent=Agent(ModelCls=Atoms, n_atoms=21),
        sampler=sampler,
        n_steps=200,
        affinity=dict(workers_cpus=[0, 1], set_affinity=False),
    ).train()
    assert algo.update_counter > 0
