"""Parts of the project save the arguments of their constructors, some named like ours."""

import torch
from common import PolicyAgent, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.base import OptInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.quick_args import save__init__args


class Regression(RlAlgorithm):
    """Everything of its own; only the arguments are saved."""

    opt_info_fields = OptInfo._fields
    bootstrap_value = False

    def __init__(
        self,
        discount=0.9,
        learning_rate=1e-2,
        OptimCls=torch.optim.SGD,
        optim_kwargs={},  # noqa: B006
        clip_grad_norm=0.5,
        mixed_precision="no",
    ):
        save__init__args(locals())

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, world_size=1, rank=0):
        self.agent = agent
        self.optimizer = self.OptimCls(
            agent.parameters(), lr=self.learning_rate, **self.optim_kwargs
        )

    def optimize_agent(self, itr, samples):
        inputs = AgentInputs(
            samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
        )
        _, value = self.agent(*inputs)
        loss = (samples.env.reward - value).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), self.clip_grad_norm)
        self.optimizer.step()
        self.update_counter += 1
        return OptInfo(loss.item(), float(norm), 0.0, 0.0)


class SlowA2C(A2C):
    """Saved first, so that its defaults come before those of its base."""

    def __init__(self, learning_rate=1e-5, n_critics=2, **kwargs):
        save__init__args(locals())
        super().__init__(discount=0.5, **kwargs)


class CriticsAgent(PolicyAgent):
    def __init__(
        self,
        n_critics=2,
        deterministic=0.5,
        model_kwargs=dict(hidden=8),  # noqa: B006
        **kwargs,
    ):
        save__init__args(locals())
        super().__init__(**kwargs)


class LateAgent(PolicyAgent):
    def __init__(self, parts=3, **kwargs):
        super().__init__(**kwargs)
        save__init__args(locals())


class StaggeredSampler(SerialSampler):
    def __init__(self, *args, max_decorrelation_steps=0, slots=3, **kwargs):
        save__init__args(locals())
        super().__init__(*args, **kwargs)


if __name__ == "__main__":
    algo = Regression()
    assert algo.optim_kwargs == {} and algo.OptimCls is torch.optim.SGD
    assert algo.discount == 0.9 and algo.clip_grad_norm == 0.5 and algo.mixed_precision == "no"

    slow = SlowA2C(value_loss_coeff=0.25)
    assert (slow.learning_rate, slow.discount, slow.value_loss_coeff) == (1e-5, 0.5, 0.25)
    assert slow.n_critics == 2 and A2C().learning_rate != 1e-5

    agent = CriticsAgent()
    assert (agent.n_critics, agent.deterministic) == (2, 0.5)
    assert agent.model_kwargs == dict(hidden=8)
    assert LateAgent().parts == 3 and PolicyAgent().parts is None

    sampler = StaggeredSampler(Walk, {}, batch_T=4, batch_B=2)
    assert (sampler.max_decorrelation_steps, sampler.slots) == (0, 3)
    runner = MinibatchRl(
        algo=algo, agent=CriticsAgent(deterministic=False), sampler=sampler, n_steps=24
    )
    runner.train()
    assert algo.update_counter == 3
