"""SAC with a policy and critics of the project, and an action prior."""

import torch

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.gym import make as gym_make
from rlpyt.models.mlp import MlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class Policy(torch.nn.Module):
    def __init__(self, observation_shape, hidden_sizes, action_size):
        super().__init__()
        self.net = MlpModel(observation_shape[0], hidden_sizes, 2 * action_size)

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        mean, log_std = self.net(observation.view(T * B, -1)).chunk(2, dim=-1)
        return restore_leading_dims((mean, log_std), lead_dim, T, B)


class Critic(torch.nn.Module):
    def __init__(self, observation_shape, hidden_sizes, action_size):
        super().__init__()
        self.net = MlpModel(observation_shape[0] + action_size, hidden_sizes, 1)

    def forward(self, observation, prev_action, prev_reward, action):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = torch.cat([observation.view(T * B, -1), action.view(T * B, -1)], dim=1)
        return restore_leading_dims(self.net(x).squeeze(-1), lead_dim, T, B)


if __name__ == "__main__":
    agent = SacAgent(
        ModelCls=Policy,
        QModelCls=Critic,
        model_kwargs=dict(hidden_sizes=(16,)),
        q_model_kwargs=dict(hidden_sizes=[16, 16]),
        pretrain_std=1,
    )
    algo = SAC(
        min_steps_learn=40,
        replay_size=int(1e3),
        batch_size=16,
        replay_ratio=4,
        action_prior="gaussian",
        bootstrap_timelimit=1,
    )
    sampler = SerialSampler(gym_make, dict(id="Pendulum-v1"), batch_T=1, batch_B=1)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=100).train()
    assert algo.update_counter > 0
