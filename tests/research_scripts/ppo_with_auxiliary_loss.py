"""PPO with an auxiliary loss: the loss is overridden and the model returns one output more."""

import torch
from common import PolicyAgent, PolicyModel, Walk

from rlpyt.agents.base import AgentStep
from rlpyt.agents.pg.base import AgentInfo
from rlpyt.algos.pg.ppo import PPO
from rlpyt.distributions.categorical import DistInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_to


class AuxModel(PolicyModel):
    def __init__(self, n_in, n_out, **kwargs):
        super().__init__(n_in, n_out, **kwargs)
        self.reconstruct = torch.nn.Linear(16, n_in)

    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi, value, self.reconstruct(self.body(observation.float()))


class AuxAgent(PolicyAgent):
    def __init__(self, ModelCls=AuxModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def __call__(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, self._onehot(prev_action), prev_reward), self.device)
        pi, value, self.reconstruction = self.model(*inputs)
        return buffer_to((DistInfo(prob=pi), value), device="cpu")

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, self._onehot(prev_action), prev_reward), self.device)
        pi, value, _ = self.model(*inputs)
        info = AgentInfo(dist_info=DistInfo(prob=pi), value=value)
        action = self.distribution.sample(info.dist_info)
        action, info = buffer_to((action, info), device="cpu")
        return AgentStep(action=action, agent_info=info)

    @torch.no_grad()
    def value(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, self._onehot(prev_action), prev_reward), self.device)
        return self.model(*inputs)[1].to("cpu")

    def _onehot(self, action):
        return self.distribution.to_onehot(action)


class AuxPPO(PPO):
    def loss(self, agent_inputs, action, return_, advantage, valid, old_dist_info,
             init_rnn_state=None):  # fmt: skip
        loss, entropy, perplexity = super().loss(
            agent_inputs, action, return_, advantage, valid, old_dist_info, init_rnn_state
        )
        error = (self.agent.reconstruction - agent_inputs.observation).pow(2).mean()
        self.errors = [*getattr(self, "errors", []), error.item()]
        return loss + 0.1 * error, entropy, perplexity


if __name__ == "__main__":
    algo = AuxPPO(minibatches=2, epochs=3)
    sampler = SerialSampler(Walk, {}, batch_T=6, batch_B=4)
    MinibatchRl(algo=algo, agent=AuxAgent(), sampler=sampler, n_steps=48).train()
    assert len(algo.errors) == 12
