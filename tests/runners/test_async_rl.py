"""Asynchronous runs: held in step they are the synchronous ones; let go, they lose nothing."""

import time

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent, R2d1LstmAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.async_.alternating_sampler import (
    AsyncAlternatingSampler,
    AsyncNoOverlapAlternatingSampler,
)
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from tests.masked_env import MaskedEnv
from tests.runners import test_qpg_runs
from tests.runners.test_minibatch_rl import StopAfter, unmeasured
from tests.runners.test_off_policy import NARROW, SEQUENCES, assert_same_agent, rows_of
from tests.samplers.test_masks import MODES, native

T, B, N_ITR = 8, 4, 14
SMALL = dict(
    batch_size=16, min_steps_learn=4 * T * B, replay_size=10 * T * B, replay_ratio=2,
    target_update_interval=5, eps_steps=8 * T * B, learning_rate=1e-3,
)  # fmt: skip
ONE = dict(sampler=dict(n_workers=2), optimizer=dict(torch_threads=1))
TWO = dict(sampler=[dict(n_workers=2), dict(n_workers=2)], optimizer=[dict(torch_threads=1)])
RUNS = {
    "dqn": lambda **kw: (
        DQN(prioritized_replay=True, n_step_return=2, pri_beta_steps=200, **{**SMALL, **kw}),
        DqnMlpAgent(model_kwargs=NARROW),
    ),
    "rainbow": lambda **kw: (
        CategoricalDQN(-5, 5, prioritized_replay=True, n_step_return=2, **{**SMALL, **kw}),
        CatDqnMlpAgent(n_atoms=11, model_kwargs=dict(NARROW, noisy=True, dueling=True)),
    ),
    "r2d1": lambda **kw: (
        R2D1(**{**SEQUENCES, "min_steps_learn": 4 * T * B, "replay_ratio": 3, **kw}),
        R2d1LstmAgent(model_kwargs=dict(hidden_sizes=[8], lstm_size=8)),
    ),
    "dqn, gru": lambda **kw: (
        DQN(**{**SEQUENCES, "min_steps_learn": 4 * T * B, "replay_ratio": 3, **kw}),
        DqnMlpAgent(model_kwargs=dict(hidden_sizes=[8], memory="gru", lstm_size=8)),
    ),
}


def make_masked():
    return GymEnvWrapper(MaskedEnv())  # refuses invalid actions


def run(name, Runner, Sampler, settings=None, train=True, sampler=None, n_itr=N_ITR, **kwargs):
    algo, agent = RUNS[name](**(settings or {}))
    evaluated = Runner._eval
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    made = Sampler(
        **{
            **dict(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=T, batch_B=B),
            **(evaluation if evaluated else {}),
            **(sampler or {}),
        }
    )
    runner = Runner(
        algo=algo, agent=agent, sampler=made, n_steps=n_itr * T * B,
        **{**dict(seed=4, log_interval_steps=2 * T * B), **kwargs},
    )  # fmt: skip
    if train:
        runner.train()
    return runner


def assert_same_run(a, b):
    assert_same_agent(a, b)
    assert a.algo.update_counter == b.algo.update_counter > 0
    x, y = a.algo.replay_buffer.samples, b.algo.replay_buffer.samples
    for one, other in zip(leaves_of(x), leaves_of(y), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(
    "name, Sampler, affinity",
    [
        ("dqn", AsyncSerialSampler, None),
        # Workers of an asynchronous sampler come from a fork server that it starts itself, which
        # imports torch again. With masks, and where environments wait, this case is below.
        pytest.param("dqn", AsyncCpuSampler, ONE, marks=pytest.mark.slow),
        pytest.param("dqn", AsyncGpuSampler, TWO, marks=pytest.mark.slow),
        ("r2d1", AsyncSerialSampler, TWO),
        ("r2d1", AsyncAlternatingSampler, ONE),
        pytest.param("r2d1", AsyncNoOverlapAlternatingSampler, ONE, marks=pytest.mark.slow),
        pytest.param("dqn, gru", AsyncAlternatingSampler, TWO, marks=pytest.mark.slow),
    ],
)
def test_held_in_step_it_is_the_run_of_one_process(name, Sampler, affinity):
    tiles = dict(deterministic_acting=True)  # whatever the number of rows
    whole = run(name, MinibatchRl, SerialSampler, sampler=tiles)
    beside = run(name, AsyncRl, Sampler, sampler=tiles, affinity=affinity, max_lead=0)
    assert_same_run(whole, beside)


@pytest.mark.parametrize(
    "name, Sampler, affinity",
    [
        ("rainbow", AsyncCpuSampler, ONE),
        pytest.param("dqn", AsyncSerialSampler, TWO, marks=pytest.mark.slow),
        pytest.param("dqn", AsyncGpuSampler, ONE, marks=pytest.mark.slow),
        pytest.param("r2d1", AsyncGpuSampler, ONE, marks=pytest.mark.slow),
        pytest.param("r2d1", AsyncAlternatingSampler, ONE, marks=pytest.mark.slow),
    ],
)
def test_masks_are_obeyed_and_stored(name, Sampler, affinity):
    masked = dict(EnvCls=make_masked, env_kwargs={}, deterministic_acting=True)
    whole = run(name, MinibatchRl, SerialSampler, sampler=masked)
    beside = run(name, AsyncRl, Sampler, sampler=masked, affinity=affinity, max_lead=0)
    assert_same_run(whole, beside)
    assert_masks_were_obeyed(whole)


def assert_masks_were_obeyed(runner):
    rows, written = runner.algo.replay_buffer.samples, runner.algo.replay_buffer.ring.written
    taken = np.take_along_axis(rows.observation.action_mask, rows.action[..., None], -1)
    assert taken[:written].all() and runner.algo.update_counter > 0


@pytest.mark.parametrize(
    "name, Sampler",
    [
        ("rainbow", AsyncSerialSampler),
        pytest.param("rainbow", AsyncCpuSampler, marks=pytest.mark.slow),
        pytest.param("dqn", AsyncGpuSampler, marks=pytest.mark.slow),
        pytest.param("r2d1", AsyncGpuSampler, marks=pytest.mark.slow),
        pytest.param("r2d1", AsyncAlternatingSampler, marks=pytest.mark.slow),
    ],
)
def test_masks_are_obeyed_and_stored_out_of_step(name, Sampler):
    masked = dict(EnvCls=make_masked, env_kwargs={}, deterministic_acting=True)
    assert_masks_were_obeyed(run(name, AsyncRlEval, Sampler, sampler=masked, affinity=ONE))


@pytest.mark.slow
@pytest.mark.parametrize("Sampler", [AsyncCpuSampler, AsyncGpuSampler])
@pytest.mark.parametrize("mode", MODES)
def test_masks_of_vector_environments(mode, Sampler):
    kwargs = dict(name="masked", mode=mode)  # refuses invalid actions
    masked = dict(EnvCls=native, env_kwargs=kwargs, deterministic_acting=True)
    whole = run("dqn", MinibatchRl, SerialSampler, sampler=masked)
    beside = run("dqn", AsyncRl, Sampler, sampler=masked, affinity=ONE, max_lead=0)
    assert_same_run(whole, beside)
    run("dqn", AsyncRlEval, Sampler, sampler=masked, affinity=ONE)  # evaluates, too


@pytest.mark.parametrize(
    "name, Sampler",
    [("dqn", AsyncCpuSampler), pytest.param("r2d1", AsyncGpuSampler, marks=pytest.mark.slow)],
)
def test_runs_held_in_step_learn_the_same_where_environments_wait(name, Sampler):
    gpu = Sampler is AsyncGpuSampler
    collectors = CpuWaitResetCollector, GpuWaitResetCollector if gpu else CpuWaitResetCollector
    waits = [dict(CollectorCls=cls, deterministic_acting=True) for cls in collectors]
    whole = run(name, MinibatchRl, SerialSampler, sampler=waits[0])
    beside = run(name, AsyncRl, Sampler, sampler=waits[1], affinity=ONE, max_lead=0)
    assert_same_run(whole, beside)
    assert beside.algo.replay_buffer.ring.void.any() and beside.algo.update_counter > 0


def test_of_several_hosts_the_first_evaluates():
    hosts = dict(sampler=[dict(n_workers=1)] * 2, optimizer=[{}])
    runner = run("dqn", AsyncRlEval, AsyncSerialSampler, affinity=hosts)
    assert runner.algo.update_counter > 0


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("td3", "sac", "sac_v")),
        *("ddpg", "sac, normalized", "sac, parts"),
    ],
)
def test_continuous_control_held_in_step(name):
    whole = test_qpg_runs.run(name)
    beside = test_qpg_runs.run(name, AsyncRl, AsyncSerialSampler, affinity=ONE, max_lead=0)
    test_qpg_runs.assert_same_run(whole, beside)


def test_rows_and_evaluations_are_those_of_one_process(tmp_path):
    every = dict(eval_interval_steps=4 * T * B)
    with run_context(tmp_path / "a", 0, "one"):
        run("dqn", MinibatchRlEval, SerialSampler, **every)
    with run_context(tmp_path / "b", 0, "beside", snapshot_mode="last"):
        run("dqn", AsyncRlEval, AsyncSerialSampler, affinity=ONE, max_lead=0, **every)
    one, beside = rows_of(tmp_path / "a"), rows_of(tmp_path / "b")
    own = {"OptThrottle", "SamplerThrottle", "SamplerIteration", "Iteration"}
    own = {f"Diagnostics/{name}" for name in own}
    assert len(one) == len(beside) == 1 + N_ITR // 2
    for x, y in zip(one, beside):
        assert not {k: (x[k], y[k]) for k in unmeasured(x) if k not in own and x[k] != y[k]}
    assert sum(row["ReturnAverage"] != "nan" for row in beside) < len(beside)
    last = beside[-1]
    assert last["ReturnAverage"] != "nan" and last["Training/ReturnAverage"] != "nan"
    assert own <= set(last) and int(last["Diagnostics/SamplerIteration"]) == N_ITR - 1
    assert float(last["PolicyLagAverage"]) == 0
    snapshot = torch.load(tmp_path / "b" / "params.pkl")
    assert snapshot["sampler_itr"] == N_ITR - 1
    assert snapshot["cum_updates"] == float(last["Diagnostics/CumUpdates"]) > 0


@pytest.mark.parametrize(
    "name, Sampler",
    [("dqn", AsyncSerialSampler), pytest.param("r2d1", AsyncCpuSampler, marks=pytest.mark.slow)],
)
def test_held_in_step_a_resumed_run_is_the_uninterrupted_one(name, Sampler, tmp_path):
    kwargs = dict(affinity=ONE, max_lead=0)
    whole = run(name, AsyncRl, Sampler, **kwargs)
    for stop in (1, 8):  # while the replay fills, and while learning goes on
        directory = tmp_path / str(stop)
        run(name, AsyncRl, Sampler, checkpoint_dir=directory, hooks=[StopAfter(stop)], **kwargs)
        other = dict(checkpoint_dir=tmp_path / "other", seed=99, **kwargs)
        resumed = run(name, AsyncRl, Sampler, resume_from=directory, **other)
        assert resumed.start_itr == stop + 1
        assert_same_run(whole, resumed)


@pytest.mark.parametrize("max_lead", [None, 1])
def test_resumed_anywhere_it_goes_on_with_what_was_on_its_way(max_lead, tmp_path):
    kwargs = dict(affinity=ONE, max_lead=max_lead, n_itr=40, settings=dict(replay_size=10_000))
    kwargs["sampler"] = dict(EnvCls=CountEnv, env_kwargs={}, max_decorrelation_steps=0)
    first = run(
        "dqn", AsyncRl, AsyncSerialSampler, checkpoint_dir=tmp_path, hooks=[StopAfter(9)], **kwargs
    )
    collected = first.pipeline.next_itr
    assert collected > 9
    second = run(
        "dqn", AsyncRl, AsyncSerialSampler, resume_from=tmp_path,
        checkpoint_dir=tmp_path / "other", **kwargs,
    )  # fmt: skip
    assert second.start_itr == 10 and second.itr == 39
    check_counts(second.algo.replay_buffer, 40 * T)


def test_without_a_saved_replay_a_new_one_is_filled_before_learning_goes_on(tmp_path):
    kwargs = dict(affinity=ONE, max_lead=0, settings=dict(save_replay=False))
    run("dqn", AsyncRl, AsyncSerialSampler, checkpoint_dir=tmp_path, hooks=[StopAfter(8)], **kwargs)
    resumed = run(
        "dqn", AsyncRl, AsyncSerialSampler, resume_from=tmp_path,
        checkpoint_dir=tmp_path / "other", **kwargs,
    )  # fmt: skip
    # Of 14 iterations, 4 to 8 learnt, 9 to 12 filled, 13 learnt: 4 updates in each.
    assert resumed.algo.update_counter == 4 * (5 + 1)


class Watchful(DQN):
    """Checks every batch that it learns from: in CountEnv, one can tell what follows what."""

    def update(self, batch):
        now, after = batch.agent_inputs.observation, batch.target_inputs.observation
        assert (now[:, 0] == after[:, 0]).all()
        on = ~batch.done.bool()
        assert (after[on, 2] == now[on, 2] + 1).all() and (after[on, 1] == now[on, 1]).all()
        assert (batch.return_ == 100 * now[:, 1] + now[:, 2] + 1).all()
        return super().update(batch)


def check_counts(replay, T_all):
    """The last rows are the end of an unbroken stream of every environment."""
    samples, ring = replay.samples, replay.ring
    assert ring.written == T_all
    rows = np.arange(max(0, T_all - ring.T), T_all) % ring.T
    observation, reward, done = (
        np.asarray(getattr(samples, name))[rows] for name in ("observation", "reward", "done")
    )
    rank, episode, t = np.moveaxis(observation.astype(np.int64), -1, 0)
    assert (rank == rank[0]).all() and len(set(rank[0])) == rank.shape[1]
    assert (reward == 100 * episode + t + 1).all()
    assert (episode[1:] == episode[:-1] + done[:-1]).all()
    assert (t[1:] == np.where(done[:-1], 0, t[:-1] + 1)).all()


@pytest.mark.parametrize(
    "Sampler, affinity, normalize",
    [
        (AsyncAlternatingSampler, ONE, False),
        (AsyncSerialSampler, TWO, False),
        pytest.param(AsyncCpuSampler, TWO, False, marks=pytest.mark.slow),
        (AsyncSerialSampler, ONE, True),  # a batch keeps its slot until it has been looked at
    ],
)
def test_nothing_is_lost_or_torn_while_both_run_freely(Sampler, affinity, normalize):
    count_freely(Sampler, affinity, 8_000, normalize)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("Sampler", [AsyncSerialSampler, AsyncCpuSampler, AsyncGpuSampler])
def test_nothing_is_lost_or_torn_in_a_million_steps(Sampler):
    count_freely(Sampler, ONE, 1_000_000)


def count_freely(Sampler, affinity, n_steps, normalize=False):
    sampler = Sampler(
        EnvCls=CountEnv, env_kwargs=dict(length=7), batch_T=5, batch_B=8,
        max_decorrelation_steps=0,
    )  # fmt: skip
    algo = Watchful(**{**SMALL, "replay_size": 4000, "min_steps_learn": 400}, double_dqn=True)
    agent = DqnMlpAgent(model_kwargs=dict(**NARROW, normalize_observation=normalize))
    runner = AsyncRl(
        algo, agent, sampler, n_steps, affinity=affinity, seed=1, log_interval_steps=10_000
    )
    runner.train()
    assert runner.pipeline._keep_slots is normalize
    if normalize:
        assert agent.model.obs_rms.count == n_steps
    assert algo.update_counter > 0
    check_counts(algo.replay_buffer, n_steps // 8)


def test_the_sampler_may_lead_by_so_many_batches():
    led = []

    class Lead(Hook):
        def on_iteration(self, runner, itr):
            time.sleep(0.02)
            led.append(runner.pipeline.next_itr - itr)

    runner = run("dqn", AsyncRl, AsyncSerialSampler, affinity=ONE, max_lead=2, hooks=[Lead()])
    # All is learnt of batch i; i + 1 follows, two more may lead, the next to begin is i + 4 then.
    assert 3 <= max(led) <= 4 and runner.algo.update_counter == 4 * (N_ITR - 4)


def test_a_sampler_that_never_waits_is_followed_without_delay(tmp_path):
    class Slow(DQN):
        def update(self, batch):
            time.sleep(0.01)
            return super().update(batch)

    n_itr = 300
    algo = Slow(**{**SMALL, "replay_size": 20_000, "replay_ratio": 16})
    with run_context(tmp_path, 0, "slow"):
        runner = run(
            "dqn", AsyncRl, AsyncSerialSampler, train=False, affinity=ONE, n_itr=n_itr,
            log_interval_steps=n_itr * T * B,
        )  # fmt: skip
        runner.algo = algo
        runner.train()
    (row,) = rows_of(tmp_path)[-1:]
    # Updates were due 32 times a batch, which nobody could make: some batches went by between two.
    assert 0 < algo.update_counter < n_itr
    # The median, since on a busy machine a process may wait while several updates are made.
    assert float(row["PolicyLagMedian"]) <= 5


def test_a_row_of_an_evaluation_is_of_one_moment(tmp_path):
    with run_context(tmp_path, 0, "rows"):
        run(
            "dqn", AsyncRlEval, AsyncSerialSampler, affinity=ONE, max_lead=1, n_itr=60,
            log_interval_steps=4 * T * B, sampler=dict(eval_max_steps=4000),
        )  # fmt: skip
    rows = [
        {k.removeprefix("Diagnostics/"): v for k, v in row.items()} for row in rows_of(tmp_path)
    ]
    assert len(rows) > 2
    for row in rows:
        # All updates that are due have been made when a row is written: 4 for each batch.
        batches = int(row["SamplerIteration"]) + 1 if int(row["CumSteps"]) else 0
        assert int(row["CumSteps"]) == batches * T * B
        assert int(row["CumUpdates"]) == 4 * max(0, batches - 4)


def test_the_ratio_is_an_upper_bound_and_reached_where_the_sampler_waits():
    algo = DQN(**{**SMALL, "batch_size": 48, "replay_ratio": 1})
    runner = run("dqn", AsyncRl, AsyncSerialSampler, train=False, affinity=ONE, max_lead=0)
    runner.algo = algo
    runner.train()
    # 32 samples may be used in each iteration from the fifth on, 48 at a time.
    assert algo.update_counter == 32 * (N_ITR - 4) // 48


def test_statistics_of_trajectories_reach_the_rows(tmp_path):
    with run_context(tmp_path, 0, "count"):
        run(
            "dqn", AsyncRl, AsyncCpuSampler, affinity=ONE,
            sampler=dict(EnvCls=CountEnv, env_kwargs=dict(fixed=True, length=4)),
        )  # fmt: skip
    last = rows_of(tmp_path)[-1]
    # All but the random steps at the start fill whole episodes of 4 steps.
    assert abs(int(last["Diagnostics/CumCompletedTrajs"]) - N_ITR * T * B / 4) <= B
    assert float(last["LengthAverage"]) == 4


@pytest.mark.parametrize(
    "kwargs, error, message",
    [
        (dict(Sampler=SerialSampler), TypeError, "asynchronous sampler"),
        (dict(affinity=dict(n_workers=2)), TypeError, r"dict\(sampler=\.\.\., optimizer=\.\.\.\)"),
        (dict(affinity=dict(sampler=[{}] * 3)), ValueError, "among 3"),
        (dict(max_lead=-1), ValueError, "max_lead"),
        (dict(affinity=dict(sampler={}, optimizer=[])), ValueError, "entry .*optimizer"),
        (
            dict(affinity=dict(sampler={}, optimizer=[{}] * 5000)),
            ValueError,
            "optimizers .*cores, got 5000",
        ),
    ],
)
def test_what_does_not_fit_is_refused(kwargs, error, message):
    kwargs = {"Sampler": AsyncSerialSampler, **kwargs}
    with pytest.raises(error, match=message):
        run("dqn", AsyncRl, **kwargs)


def test_algorithms_that_cannot_learn_beside_the_sampler_say_so():
    from rlpyt.agents.pg.vector import CategoricalMlpAgent
    from rlpyt.algos.pg.ppo import PPO

    sampler = AsyncSerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B)
    with pytest.raises(ValueError, match="PPO .*asynchronously.*VTrace"):
        AsyncRl(PPO(), CategoricalMlpAgent(), sampler, n_steps=10 * T * B)


class Same(Hook):
    """Looks whether the optimizer's ranks have the same parameters."""

    def on_end(self, runner):
        own = runner.agent.state_dict()["model"]
        (other,) = runner.optimizers.call("parameters")
        assert own.keys() == other.keys()
        assert all(np.array_equal(own[name].numpy(), other[name]) for name in own)


@pytest.mark.parametrize("Runner", [AsyncRl, AsyncRlEval])
def test_methods_are_called_with_the_arguments_of_rlpyt(Runner, tmp_path):
    """A runner in the manner of 2019 overrides them, and calls those of its parent."""
    called = []

    class Own(Runner):
        def launch_workers(self, n_itr, double_buffer, replay_buffer):
            called.append(("launch_workers", n_itr))
            self.launch_sampler(n_itr)
            self.launch_memcpy(double_buffer, replay_buffer)
            self.launch_optimizer_workers(n_itr)

        def store_diagnostics(self, itr, sampler_itr, traj_infos, opt_info):
            called.append(("store_diagnostics", sampler_itr))
            super().store_diagnostics(itr, sampler_itr, traj_infos, opt_info)

        def log_diagnostics(self, itr, sampler_itr, throttle_time, prefix="Diagnostics/"):
            with logger.tabular_prefix(prefix):
                logger.record_tabular("Own", [itr, sampler_itr])
            assert throttle_time >= 0
            super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)

        def get_itr_snapshot(self, itr, sampler_itr):
            return dict(super().get_itr_snapshot(itr, sampler_itr), own=[itr, sampler_itr])

        def save_itr_snapshot(self, itr, sample_itr):
            called.append(("save_itr_snapshot", sample_itr))
            super().save_itr_snapshot(itr, sample_itr)

    with run_context(tmp_path, 0, "own", snapshot_mode="last"):
        runner = run("dqn", Own, AsyncSerialSampler, affinity=ONE, max_lead=0, n_itr=8)
    assert called[0] == ("launch_workers", 8)
    assert [itr for name, itr in called if name == "store_diagnostics"] == list(range(8))
    assert [itr for name, itr in called if name == "save_itr_snapshot"] == [3, 5, 7]
    first, *_, last = rows_of(tmp_path)
    if Runner is AsyncRlEval:  # before the first iteration, as in rlpyt
        assert (first["Diagnostics/Own"], first["Diagnostics/CumSteps"]) == ("[0, 0]", "0")
    assert last["Diagnostics/Own"] == f"[{runner.opt_itr}, 7]"
    assert last["Diagnostics/CumSteps"] == str(8 * T * B)
    assert torch.load(tmp_path / "params.pkl")["own"] == [runner.opt_itr, 7]


def test_processes_of_a_sampler_that_are_not_called_say_what_runs():
    settings = dict(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=2, batch_B=2)

    class Own(AsyncGpuSampler):
        def action_server_process(
            self, rank, env_ranks, double_buffer_slice, affinity, seed, n_envs_list
        ):
            super().action_server_process(
                rank, env_ranks, double_buffer_slice, affinity, seed, n_envs_list
            )

    sampler = Own(**settings)
    with (
        pytest.warns(UserWarning, match="Own.action_server_process .*SamplerCls"),
        pytest.raises(TypeError, match="agent"),
    ):
        sampler.async_initialize(None)
    with pytest.raises(NotImplementedError, match="Set SamplerCls"):
        sampler.action_server_process(0, [0], None, {}, 0, [1])
    with pytest.raises(NotImplementedError, match="initialize"):
        sampler.launch_workers(None, {}, 0, [1])
