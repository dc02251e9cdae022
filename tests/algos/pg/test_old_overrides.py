"""Overrides and copies of rlpyt's policy gradients (2019) have its learning rates and clips."""

from collections import namedtuple

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.algos.pg.ppo import PPO, OptInfo
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.quick_args import save__init__args

N_ITR, RATE, CLIP = 4, 0.002, 0.2
LINEAR = [1, 0.75, 0.5, 0.25]


class Noting:
    """Rate and clip of each iteration, in ``used``."""

    def process_returns(self, samples):
        now = self.optimizer.param_groups[0]["lr"] / RATE, self.ratio_clip / CLIP
        self.used = [*getattr(self, "used", []), now]
        return super().process_returns(samples)


class OneStep:
    """The body of rlpyt's ``optimize_agent``, with one epoch and minibatch."""

    def optimize_agent(self, itr, samples):
        env, agent = samples.env, samples.agent
        return_, advantage, valid = self.process_returns(samples)
        inputs = AgentInputs(env.observation, agent.prev_action, env.prev_reward)
        old = agent.agent_info.dist_info
        self.optimizer.zero_grad()
        loss = self.loss(inputs, agent.action, return_, advantage, valid, old)[0]
        loss.backward()
        self.optimizer.step()
        self.update_counter += 1
        if self.linear_lr_schedule:
            self.lr_scheduler.step()
            self.ratio_clip = self._ratio_clip * (self.n_itr - itr) / self.n_itr
        return OptInfo([loss.item()], [0.0], [0.0], [0.0])


class RetypedPPO(OneStep, Noting, PPO):
    pass


class SquaredPPO(Noting, PPO):
    """A scheduler of its own, which nothing here steps."""

    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.lr_scheduler = LambdaLR(self.optimizer, lambda itr: 0.5**itr)
        self._ratio_clip = self.ratio_clip


class RetypedSquaredPPO(OneStep, SquaredPPO):
    pass


class InitializingPPO(Noting, PPO):
    def __init__(self, **kwargs):
        self._ratio_clip = self.lr_scheduler = None  # as of now
        super().__init__(**kwargs)

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset=False, examples=None, **more):
        self.agent, self.n_itr, self.batch_spec = agent, n_itr, batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.optimizer = self.OptimCls(agent.parameters(), lr=self.learning_rate)
        self._batch_size = batch_spec.size // self.minibatches
        self.lr_scheduler = LambdaLR(self.optimizer, lambda itr: (n_itr - itr) / n_itr)
        self._ratio_clip = self.ratio_clip


class CopiedPPO(OneStep, Noting, PolicyGradientAlgo):
    """An algorithm beside PPO, which declares no settings."""

    opt_info_fields = OptInfo._fields

    def __init__(
        self, learning_rate, ratio_clip, discount=0.99, gae_lambda=1, linear_lr_schedule=True,
        clip_grad_norm=1.0, normalize_advantage=False, OptimCls=torch.optim.Adam,
        optim_kwargs=None, initial_optim_state_dict=None,
    ):  # fmt: skip
        save__init__args(locals())

    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.lr_scheduler = LambdaLR(self.optimizer, lambda itr: (self.n_itr - itr) / self.n_itr)
        self._ratio_clip = self.ratio_clip

    def loss(self, inputs, action, return_, advantage, valid, old_dist_info):
        dist_info, value = self.agent(*inputs)
        ratio = self.agent.distribution.likelihood_ratio(action, old_dist_info, dist_info)
        return ((value - return_) ** 2).mean() - (ratio * advantage).mean(), None, None


def trained(algo):
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=8, batch_B=2)
    MinibatchRl(
        algo=algo, agent=CategoricalMlpAgent(), sampler=sampler, n_steps=16 * N_ITR, seed=0
    ).train()
    return algo


LATE = [1, 1, 0.75, 0.5]  # rlpyt's clip, which is set at the end of an iteration


@pytest.mark.parametrize(
    ("Algo", "rates", "clips"),
    [
        (RetypedPPO, LINEAR, LATE),
        (SquaredPPO, [1, 0.5, 0.25, 0.125], LINEAR),
        (RetypedSquaredPPO, [1, 0.5, 0.25, 0.125], LATE),
        (InitializingPPO, LINEAR, LINEAR),
        (CopiedPPO, LINEAR, LATE),
    ],
)
def test_rates_and_clips_are_those_of_rlpyt(Algo, rates, clips):
    algo = trained(Algo(learning_rate=RATE, ratio_clip=CLIP, linear_lr_schedule=True))
    assert algo.used == [pytest.approx(pair) for pair in zip(rates, clips, strict=True)]


def test_an_override_adds_statistics_of_its_own():
    Own = namedtuple("Own", (*OptInfo._fields, "auxLoss"))
    seen = []

    class MyPPO(PPO):
        opt_info_fields = Own._fields

        def optimize_agent(self, itr, samples):
            opt_info = Own(*([] for _ in Own._fields))
            opt_info = opt_info._replace(**super().optimize_agent(itr, samples)._asdict())
            opt_info.auxLoss.append(itr)
            seen.append(opt_info)
            return opt_info

    trained(MyPPO())
    assert [info.auxLoss for info in seen] == [[0], [1], [2], [3]]
    assert all(len(info.loss) == len(info.entropy) == 16 for info in seen)
