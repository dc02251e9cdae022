"""V-trace beside its sampler: batches are learnt from where they lie, in order, each once."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import run_context
from tests.runners.test_minibatch_rl import StopAfter, rows_of

T, B, N_ITR = 8, 4, 20
ONE = dict(sampler=dict(n_workers=2), optimizer=[dict(torch_threads=1)])


def run(Runner, Sampler, algo=None, recurrent=False, sampler=None, **kwargs):
    Agent = CategoricalLstmAgent if recurrent else CategoricalMlpAgent
    network = dict(hidden_sizes=[8], lstm_size=8) if recurrent else dict(hidden_sizes=[8])
    made = Sampler(
        **{
            **dict(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=T, batch_B=B),
            **(sampler or {}),
        }
    )
    runner = Runner(
        algo=algo or VTrace(linear_lr_schedule=True), agent=Agent(model_kwargs=network),
        sampler=made, n_steps=N_ITR * T * B, **{**dict(seed=4, log_interval_steps=64), **kwargs},
    )  # fmt: skip
    runner.train()
    return runner


def assert_same_agent(a, b):
    a, b = a.agent.state_dict(), b.agent.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(
    "Sampler, recurrent",
    [
        (AsyncSerialSampler, False),
        (AsyncCpuSampler, True),
        pytest.param(AsyncAlternatingSampler, True, marks=pytest.mark.slow),
    ],
)
def test_held_in_step_it_is_the_run_of_one_process(Sampler, recurrent):
    kwargs = dict(recurrent=recurrent, sampler=dict(deterministic_acting=True))
    whole = run(MinibatchRl, SerialSampler, **kwargs)
    beside = run(AsyncRl, Sampler, affinity=ONE, max_lead=0, **kwargs)
    assert_same_agent(whole, beside)


@pytest.mark.parametrize("recurrent", [False, True])
def test_held_in_step_a_resumed_run_is_the_uninterrupted_one(recurrent, tmp_path):
    kwargs = dict(affinity=ONE, max_lead=0, recurrent=recurrent)
    whole = run(AsyncRl, AsyncSerialSampler, **kwargs)
    first = dict(checkpoint_dir=tmp_path, hooks=[StopAfter(8)])
    run(AsyncRl, AsyncSerialSampler, **first, **kwargs)
    again = dict(resume_from=tmp_path, checkpoint_dir=tmp_path / "other", seed=99)
    resumed = run(AsyncRl, AsyncSerialSampler, **again, **kwargs)
    assert resumed.start_itr == 9
    assert_same_agent(whole, resumed)


class Watchful(VTrace):
    """Checks that batches follow one another, in CountEnv."""

    seen = 0

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        before = samples.env.observation.clone()
        self.check(samples, sampler_itr)
        info = super().optimize_agent(itr, samples, sampler_itr)
        assert torch.equal(before, samples.env.observation)  # nobody wrote meanwhile
        return info

    def check(self, samples, sampler_itr):
        assert sampler_itr == self.seen
        self.seen += 1
        now = samples.env.observation.numpy().astype(np.int64)
        done, reward = samples.env.done.numpy(), samples.env.reward.numpy()
        assert (reward == 100 * now[..., 1] + now[..., 2] + 1).all()
        rows, ended = now, done[:-1]
        if self.seen > 1:
            rows, ended = np.concatenate([self.last[0], now]), np.concatenate([self.last[1], ended])
        assert (rows[..., 0] == rows[0, :, 0]).all()
        assert (rows[1:, :, 1] == rows[:-1, :, 1] + ended).all()
        assert (rows[1:, :, 2] == np.where(ended, 0, rows[:-1, :, 2] + 1)).all()
        self.last = now[-1:].copy(), done[-1:].copy()


@pytest.mark.parametrize(
    "Sampler, max_lead",
    [
        (AsyncSerialSampler, 1),
        pytest.param(AsyncCpuSampler, None, marks=pytest.mark.slow),
        (AsyncAlternatingSampler, None),
    ],
)
def test_every_batch_comes_once_whole_and_in_order(Sampler, max_lead):
    algo = Watchful()
    count = dict(EnvCls=CountEnv, env_kwargs=dict(length=7), max_decorrelation_steps=0)
    run(AsyncRl, Sampler, algo, sampler=count, affinity=ONE, max_lead=max_lead)
    assert algo.seen == N_ITR == algo.update_counter


def test_a_checkpoint_keeps_batches_that_nobody_has_learnt_from_yet(tmp_path):
    count = dict(EnvCls=CountEnv, env_kwargs=dict(length=7), max_decorrelation_steps=0)
    kwargs = dict(sampler=count, affinity=ONE)
    first, second = Watchful(), Watchful()
    run(AsyncRl, AsyncSerialSampler, first, checkpoint_dir=tmp_path, hooks=[StopAfter(8)], **kwargs)
    assert first.seen == 9
    second.seen, second.last = first.seen, first.last
    run(
        AsyncRl, AsyncSerialSampler, second, resume_from=tmp_path,
        checkpoint_dir=tmp_path / "other", **kwargs,
    )  # fmt: skip
    assert second.seen == N_ITR


def test_the_lag_is_logged_and_bounded_by_the_slots(tmp_path):
    with run_context(tmp_path, 0, "lag"):
        run(AsyncRl, AsyncSerialSampler, affinity=ONE)
    rows = rows_of(tmp_path)
    assert all(0 <= float(row["PolicyLagMax"]) <= 2 for row in rows)
    assert float(rows[-1]["Diagnostics/CumUpdates"]) == N_ITR
    assert all(float(row["rhoAverage"]) <= 1 + 1e-6 for row in rows)
