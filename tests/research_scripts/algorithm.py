"""An algorithm of the project, from the base class alone: REINFORCE with a moving baseline."""

from collections import namedtuple

import torch
from common import PolicyAgent, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.utils import discount_return
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.quick_args import save__init__args

OptInfo = namedtuple("OptInfo", ["loss", "baseline"])


class Reinforce(RlAlgorithm):
    opt_info_fields = tuple(f for f in OptInfo._fields)

    def __init__(self, learning_rate=1e-2, discount=0.95, baseline_rate=0.1):
        save__init__args(locals())
        self.baseline = 0.0

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size=1, rank=0):
        self.agent, self.batch_spec = agent, batch_spec
        self.optimizer = torch.optim.SGD(agent.parameters(), lr=self.learning_rate)

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        inputs = buffer_to(
            AgentInputs(
                samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
            ),
            device=self.agent.device,
        )
        dist_info, _ = self.agent(*inputs)
        done = samples.env.done.float()
        return_ = discount_return(
            samples.env.reward, done, torch.zeros(done.shape[1]), self.discount
        )
        self.baseline += self.baseline_rate * (return_.mean().item() - self.baseline)
        logli = self.agent.distribution.log_likelihood(samples.agent.action, dist_info)
        loss = -(logli * (return_ - self.baseline)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.update_counter += 1
        return OptInfo(loss=loss.item(), baseline=self.baseline)


if __name__ == "__main__":
    algo = Reinforce()
    MinibatchRl(
        algo=algo,
        agent=PolicyAgent(),
        sampler=SerialSampler(Walk, {}, batch_T=12, batch_B=4),
        n_steps=192,
        log_interval_steps=96,
    ).train()
    assert algo.update_counter == 4 and algo.baseline != 0
