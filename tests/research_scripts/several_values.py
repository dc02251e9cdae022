"""Values of more than one number: a named tuple, and two heads in one tensor."""

import torch
from common import PolicyAgent, PolicyModel, Walk

from rlpyt.agents.base import AgentInputs, AgentStep
from rlpyt.agents.pg.base import AgentInfo
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.base import OptInfo, PolicyGradientAlgo
from rlpyt.algos.utils import discount_return
from rlpyt.distributions.categorical import DistInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

Values = namedarraytuple("Values", ["extrinsic", "intrinsic"])


class TwoCritics(PolicyModel):
    """Two values in the last dimension."""

    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.critic = torch.nn.Linear(16, 2)


class TupleModel(PolicyModel):
    """Two values by name."""

    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.bonus = torch.nn.Linear(16, 1)

    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        features = self.body(observation.reshape(T * B, -1).float())
        pi = torch.softmax(self.policy(features), dim=-1)
        values = self.critic(features).squeeze(-1), self.bonus(features).squeeze(-1)
        return restore_leading_dims((pi, *values), lead_dim, T, B)


class TupleAgent(PolicyAgent):
    """Everything that reads the model is the project's."""

    def __call__(self, observation, prev_action, prev_reward):
        pi, extrinsic, intrinsic = self.model(observation, prev_action, prev_reward)
        return DistInfo(prob=pi), Values(extrinsic, intrinsic)

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, prev_action, prev_reward), device=self.device)
        pi, extrinsic, intrinsic = self.model(*inputs)
        dist_info = DistInfo(prob=pi)
        action = self.distribution.sample(dist_info)
        agent_info = AgentInfo(dist_info=dist_info, value=Values(extrinsic, intrinsic))
        action, agent_info = buffer_to((action, agent_info), device="cpu")
        return AgentStep(action=action, agent_info=agent_info)

    @torch.no_grad()
    def value(self, observation, prev_action, prev_reward):
        inputs = buffer_to((observation, prev_action, prev_reward), device=self.device)
        _, extrinsic, intrinsic = self.model(*inputs)
        return buffer_to(Values(extrinsic, intrinsic), device="cpu")


class TwoReturns(RlAlgorithm):
    """Actor-critic whose second return is of bonuses."""

    opt_info_fields = OptInfo._fields
    bootstrap_value = True

    def __init__(self, discount=0.9):
        self.discount = discount

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size=1, rank=0):
        self.agent, self.batch_spec = agent, batch_spec
        self.optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)

    def optimize_agent(self, itr, samples):
        inputs = AgentInputs(
            samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
        )
        recorded, last = samples.agent.agent_info.value, samples.agent.bootstrap_value
        dist_info, value = self.agent(*inputs)
        if isinstance(value, tuple):
            assert torch.allclose(recorded.intrinsic, value.intrinsic, atol=1e-5)
            value, recorded, last = (torch.stack(tuple(v), dim=-1) for v in (value, recorded, last))
        T, B = self.batch_spec
        assert value.shape == recorded.shape == (T, B, 2) and last.shape == (1, B, 2)
        assert torch.allclose(recorded, value, atol=1e-5)
        assert last.abs().sum() > 0
        self.lasts.append(last.clone())
        done = samples.env.done.float()
        rewards = samples.env.reward, torch.ones_like(samples.env.reward)
        returns = [
            discount_return(reward, done, last[..., i], self.discount)
            for i, reward in enumerate(rewards)
        ]
        error = torch.stack(returns, dim=-1) - value
        logli = self.agent.distribution.log_likelihood(samples.agent.action, dist_info)
        loss = error.pow(2).mean() - (logli * error.sum(-1).detach()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), 1.0)
        self.optimizer.step()
        self.update_counter += 1
        return OptInfo(loss.item(), float(norm), 0.0, 0.0)


class OfPolicyGradients(TwoReturns, PolicyGradientAlgo):
    """The same from the base class of policy gradients, which checks agents."""

    def initialize(self, agent, n_itr, batch_spec, *args, **kwargs):
        self.clip_grad_norm, self.learning_rate = 1.0, 1e-3
        PolicyGradientAlgo.initialize(self, agent, n_itr, batch_spec, *args, **kwargs)


def train(SamplerCls, agent, AlgoCls=TwoReturns):
    algo = AlgoCls()
    algo.lasts = []
    sampler = SamplerCls(Walk, {}, batch_T=5, batch_B=4, max_decorrelation_steps=0)
    affinity = dict(workers_cpus=[0, 1], set_affinity=False)
    MinibatchRl(
        algo=algo, agent=agent, sampler=sampler, n_steps=80, seed=1, affinity=affinity
    ).train()
    assert algo.update_counter == 4
    return torch.stack(algo.lasts)


if __name__ == "__main__":
    for make in (
        lambda: PolicyAgent(ModelCls=TwoCritics),
        lambda: TupleAgent(ModelCls=TupleModel),
    ):
        serial = train(SerialSampler, make())
        for SamplerCls in (CpuSampler, GpuSampler):
            assert torch.allclose(train(SamplerCls, make()), serial, atol=1e-5)
        assert torch.equal(train(SerialSampler, make(), OfPolicyGradients), serial)
