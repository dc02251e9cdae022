"""Runners, and their parts, that are used a second time in one process."""

import signal

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.faulty import FaultyEnv

PLACES = dict(batch_T=4, batch_B=2, max_decorrelation_steps=0)
N_ITR = 6


def serial(EnvCls=CountEnv, **kwargs):
    return SerialSampler(EnvCls, **{"env_kwargs": {}, **PLACES, **kwargs})


def mlp(AgentCls=CategoricalMlpAgent):
    return AgentCls(model_kwargs=dict(hidden_sizes=[8]))


def runner_of(Runner=MinibatchRl, sampler=None, **kwargs):
    settings = dict(algo=A2C(), agent=mlp(), n_steps=8 * N_ITR, log_interval_steps=8)
    return Runner(sampler=sampler or serial(), **{**settings, **kwargs})


class Once(Hook):
    """Acts in one iteration of the first training."""

    def __init__(self, act, itr=2):
        self.act, self.itr, self.seen = act, itr, []

    def on_iteration(self, runner, itr):
        self.seen.append(itr)
        if self.act is not None and itr == self.itr:
            act, self.act = self.act, None
            act(runner)


def test_a_runner_that_a_hook_has_stopped_trains_again_to_the_end():
    hook = Once(lambda runner: runner.request_stop())
    runner = runner_of(hooks=[hook])
    runner.train()
    runner.train()
    assert hook.seen == [0, 1, 2, *range(N_ITR)]


def test_a_runner_that_has_failed_counts_from_zero_again(tmp_path):
    faulty = serial(FaultyEnv, env_kwargs=dict(at=13, victim=1, tally=str(tmp_path / "tally")))
    saved = []

    class Saved(Hook):
        def on_iteration(self, runner, itr):
            saved.append(runner.saved_itr)

    runner = runner_of(sampler=faulty, hooks=[Saved()], checkpoint_dir=tmp_path / "checkpoint")
    with pytest.raises(Exception, match="told to fail"):
        runner.train()
    assert runner.saved_itr == 2 and saved == [-1] * 3
    runner.train()
    assert (
        saved[3:] == [-1] * (N_ITR - 1) + [N_ITR - 1] and runner.state.last_logged_itr == N_ITR - 1
    )
    assert runner.steps_per_second > 0


def test_what_a_stopped_run_has_set_is_undone():
    sampler = serial(eval_n_envs=1, eval_max_steps=2_000, eval_max_trajectories=30)
    stop = Once(lambda runner: signal.raise_signal(signal.SIGTERM))
    n_threads = torch.get_num_threads() + 1
    runner = runner_of(sampler=sampler, hooks=[stop], affinity=dict(master_torch_threads=n_threads))
    with pytest.raises(SystemExit):
        runner.train()
    assert torch.get_num_threads() == n_threads - 1
    sampler.initialize(mlp(), seed=0)
    assert len(sampler.evaluate_agent(0)) == 30
    sampler.shutdown()


def test_faults_are_counted_from_zero_again():
    faults = dict(env_kwargs=dict(at=3), on_fault=dict(env_error="restart_env", backoff_s=0.01))
    sampler = serial(FaultyEnv, **faults)
    counts = []
    for _ in range(2):
        sampler.initialize(mlp(), seed=0)
        counts.append(sampler.statistics()["EnvRestarts"])
        sampler.obtain_samples(0)
        counts.append(sampler.statistics()["EnvRestarts"])
        sampler.shutdown()
    assert counts[2:] == counts[:2] and counts[0] == 0 < counts[1]


@pytest.mark.parametrize("Sampler", [SerialSampler, GpuSampler])
def test_ranks_are_started_for_a_sampler_that_has_run(Sampler):
    sampler = Sampler(CountEnv, {}, **PLACES, on_fault="restart")
    runner_of(sampler=sampler, affinity=dict(n_workers=1, set_affinity=False)).train()
    runner = runner_of(SyncRl, sampler=sampler, affinity=2, n_steps=16 * N_ITR)
    runner.train()
    assert runner.itr == N_ITR - 1


def test_asynchronous_runs_take_parts_that_have_run():
    algo = DQN(min_steps_learn=16, batch_size=8, replay_size=200, replay_ratio=1)
    parts = dict(algo=algo, agent=mlp(DqnMlpAgent), sampler=AsyncCpuSampler(CountEnv, {}, **PLACES))
    affinity = dict(sampler=dict(n_workers=1, set_affinity=False), optimizer={})
    runner, updates = AsyncRl(**parts, n_steps=64, affinity=affinity), []
    for again in (runner, runner, AsyncRl(**parts, n_steps=64, affinity=affinity)):
        again.train()
        updates.append(algo.update_counter)
    assert np.min(updates) > 0


def test_faults_may_be_healed_in_one_run_and_not_in_the_next():
    sampler = serial(on_fault="restart")
    for on_fault in (sampler.on_fault, None):
        sampler.on_fault = on_fault
        sampler.initialize(mlp(), seed=0)
        sampler.obtain_samples(0)
        sampler.shutdown()


@pytest.mark.parametrize("n", [(1, 2), (2, 1)])
def test_asynchronous_samplers_resume_with_another_number_of_processes(n):
    states, counts = [], []
    for processes in n:
        sampler = AsyncSerialSampler(
            FaultyEnv, dict(at=3), **PLACES, on_fault=dict(env_error="restart_env", backoff_s=0.01)
        )
        sampler.async_initialize(mlp(), seed=0)
        sampler.initialize([dict(set_affinity=False)] * processes)
        try:
            if states:
                assert not sampler.load_state_dict(states[0])
                counts.append(sum(x["EnvRestarts"] for x in sampler._call("statistics")))
                sampler.start_anew(1)
            sampler.obtain_samples(0)
            states.append(sampler.state_dict())
            counts.append(sampler.statistics()["EnvRestarts"])
        finally:
            sampler.shutdown()
    assert 0 < counts[0] == counts[1] < counts[2]
