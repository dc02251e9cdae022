"""Runs of several ranks that tests put together; importable by the ranks."""

import os
import signal
import time

import numpy as np
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.qpg.sac import SAC
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import SmallMlp

T, B, N_ITR = 8, 4, 6  # B of all ranks together
CPU = dict(n_workers=1, master_torch_threads=1)


def sync_runner(
    Runner=SyncRl, algo=None, agent=None, n_ranks=2, Sampler=SerialSampler, env="CartPole-v1",
    EnvCls=make, env_kwargs=None, n_itr=N_ITR, **kwargs,
):  # fmt: skip
    """A small run of several ranks; of one, where the runner is of one process."""
    ranked = issubclass(Runner, SyncRl | SyncRlEval)
    n = n_ranks if ranked else 1
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    sampler = Sampler(
        EnvCls=EnvCls,
        env_kwargs=dict(id=env) if env_kwargs is None else env_kwargs,
        batch_T=T,
        batch_B=B // n,
        **(evaluation if Runner._eval else {}),
    )
    settings = dict(seed=4, log_interval_steps=2 * T * B, affinity=[CPU] * n if ranked else CPU)
    return Runner(
        algo=algo or A2C(),
        agent=agent or CategoricalPgAgent(ModelCls=SmallMlp),
        sampler=sampler,
        n_steps=n_itr * T * B,
        **{**settings, **kwargs},
    )


def same(a, b, atol=0.0):
    """Return True if two states of agents are equal up to atol."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], atol) for k in a)
    return torch.equal(a, b) if not atol else torch.allclose(a, b, rtol=0, atol=atol)


class EveryColumn(UniformReplayBuffer):
    """Draws the same time steps in any rank, of all its environments."""

    def sample_idxs(self, batch_B, batch_T=None):
        low, high = self.valid(batch_T)
        rows = np.linspace(low, high - 1, batch_B // self.B).astype(int) % self.T
        return np.repeat(rows, self.B), np.tile(np.arange(self.B), len(rows))


class SteadyGaussian(Gaussian):
    """The same noise for every sample of training."""

    def sample_loglikelihood(self, dist_info, *args):
        self.set_noise(torch.full_like(dist_info.mean, 0.3))
        return super().sample_loglikelihood(dist_info, *args)


class SteadySacAgent(SacAgent):
    """Trains with the same noise in every rank."""

    def make_distribution(self, size):
        plain = super().make_distribution(size)
        plain.__class__ = SteadyGaussian
        return plain


def steady_sac(n_ranks):
    """(algorithm, agent) that learn the same from a batch as from its halves in two ranks."""
    algo = SAC(
        batch_size=32 // n_ranks,
        replay_ratio=16,
        min_steps_learn=T * B,
        replay_size=1000 // n_ranks,
        ReplayBufferCls=EveryColumn,
    )
    sizes = dict(hidden_sizes=[16])
    return algo, SteadySacAgent(model_kwargs=sizes, q_model_kwargs=sizes)


class ShortInRank1(CountEnv):
    """Episodes of one or two steps in rank 1 and of ``length`` steps in rank 0."""

    def episode_length(self, episode):
        return 1 + episode % 2 if torch.distributed.get_rank() else self.length


class FailingA2C(A2C):
    """Fails in one rank and iteration, in some way."""

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if itr == 3 and self.rank == self.victim:
            fail(self.fault)
            if self.fault == "nan":
                samples.env.reward[:] = float("nan")
        return super().optimize_agent(itr, samples)


class HangingAdam(torch.optim.Adam):
    """Hangs in rank 1 in the third step."""

    n_steps = 0

    def step(self, closure=None):
        self.n_steps += 1
        if self.n_steps == 3 and torch.distributed.get_rank() == 1:
            fail("hang")
        return super().step(closure)


class HangingGradient(torch.autograd.Function):
    """Identity whose gradient hangs in rank 1 in the third step."""

    n_steps = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        HangingGradient.n_steps += 1
        if HangingGradient.n_steps == 3 and torch.distributed.get_rank() == 1:
            fail("hang")
        return grad


class HangingLoss(A2C):
    """A2C with that gradient."""

    def loss(self, *args):
        loss, *rest = super().loss(*args)
        return HangingGradient.apply(loss), *rest


def fail(fault):
    """Fail in this way, now."""
    if fault == "raise":
        raise ZeroDivisionError("told to fail")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(3)
    if fault == "hang":
        time.sleep(1000)
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def failing(fault, victim):
    """The algorithm that does."""
    algo = FailingA2C()
    algo.fault, algo.victim = fault, victim
    return algo


class StopAfter(Hook):
    """Asks to stop after an iteration."""

    def __init__(self, itr):
        self.itr = itr

    def on_iteration(self, runner, itr):
        if itr == self.itr:
            runner.request_stop()
