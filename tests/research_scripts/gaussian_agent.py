"""A Gaussian policy of the project on Pendulum, with running statistics of observations."""

import torch

from rlpyt.agents.pg.gaussian import GaussianPgAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make as gym_make
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class Model(torch.nn.Module):
    def __init__(self, observation_shape, action_size):
        super().__init__()
        self.rms = RunningMeanStdModel(observation_shape)
        self.mu = torch.nn.Linear(observation_shape[0], action_size)
        self.v = torch.nn.Linear(observation_shape[0], 1)
        self.log_std = torch.nn.Parameter(torch.zeros(action_size))

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = (observation - self.rms.mean) / (self.rms.var + 1e-6).sqrt()
        x = x.reshape(T * B, -1)
        mu, v, log_std = self.mu(x), self.v(x).squeeze(-1), self.log_std.repeat(T * B, 1)
        return restore_leading_dims((mu, log_std, v), lead_dim, T, B)

    def update_obs_rms(self, observation):
        self.rms.update(observation)


class Agent(GaussianPgAgent):
    def __init__(self, ModelCls=Model, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return dict(
            observation_shape=env_spaces.observation.shape,
            action_size=env_spaces.action.shape[0],
        )

    def update_obs_rms(self, observation):
        self.model.update_obs_rms(observation)


if __name__ == "__main__":
    agent = Agent()
    sampler = SerialSampler(gym_make, dict(id="Pendulum-v1"), batch_T=8, batch_B=2)
    MinibatchRl(
        algo=PPO(normalize_advantage=1, minibatches=2, epochs=1),
        agent=agent,
        sampler=sampler,
        n_steps=32,
    ).train()
    assert float(agent.model.rms.count) > 0
