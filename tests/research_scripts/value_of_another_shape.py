"""A critic of 8 quantiles: the value has shape [T, B, 8], which the project's algorithm reads."""

import torch
from common import PolicyAgent, PolicyModel, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.base import OptInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler

N_QUANTILES = 8


class QuantileModel(PolicyModel):
    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.critic = torch.nn.Linear(16, N_QUANTILES)


class QuantileActorCritic(RlAlgorithm):
    opt_info_fields = OptInfo._fields
    bootstrap_value = False

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size=1, rank=0):
        self.agent = agent
        self.optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)

    def optimize_agent(self, itr, samples):
        inputs = AgentInputs(
            samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
        )
        dist_info, quantiles = self.agent(*inputs)
        assert quantiles.shape == (*samples.env.reward.shape, N_QUANTILES)
        error = samples.env.reward.unsqueeze(-1) - quantiles
        entropy = self.agent.distribution.mean_entropy(dist_info)
        loss = error.abs().mean() - 0.01 * entropy
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), 1.0)
        self.optimizer.step()
        self.update_counter += 1
        return OptInfo(loss.item(), float(norm), entropy.item(), entropy.exp().item())


if __name__ == "__main__":
    algo = QuantileActorCritic()
    sampler = SerialSampler(Walk, {}, batch_T=5, batch_B=3)
    MinibatchRl(
        algo=algo, agent=PolicyAgent(ModelCls=QuantileModel), sampler=sampler, n_steps=45
    ).train()
    assert algo.update_counter == 3
