"""Runs of several ranks: evaluation, checkpoints, signals."""

import csv
import os
import re
import signal
from functools import partial

import numpy as np
import psutil
import pytest

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.base import BatchSpec
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.ranked import of_new_rank
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.programs import Program
from tests.runners.sync_parts import (
    N_ITR,
    B,
    ShortInRank1,
    StopAfter,
    T,
    same,
    steady_sac,
    sync_runner,
)
from tests.runners.test_minibatch_rl import unmeasured


def rows_of(run_dir):
    with open(run_dir / "progress.csv") as file:
        return list(csv.DictReader(file))


def small_dqn():
    algo = DQN(min_steps_learn=T * B, replay_size=500, prioritized_replay=True, batch_size=16)
    return dict(algo=algo, agent=DqnMlpAgent())


PARTS = {
    "a2c": dict,
    "a2c with workers": lambda: dict(Sampler=CpuSampler),
    "a2c with evaluation": lambda: dict(Runner=SyncRlEval),
    "a2c by fork": dict,
    "dqn": small_dqn,
    "sac": lambda: dict(zip(("algo", "agent"), steady_sac(2)), env="Pendulum-v1"),
}


TAKES_LONG = ["a2c", "a2c with workers", "a2c by fork", "sac"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in TAKES_LONG else []) for n in PARTS],
)
def test_a_resumed_run_is_the_uninterrupted_one_in_every_rank(name, tmp_path, monkeypatch):
    make = PARTS[name]
    if "fork" in name:  # a forked rank must not change the table of rank 0
        monkeypatch.setenv("RLPYT_START_METHOD", "fork")
    whole = sync_runner(**make())
    with run_context(tmp_path / "a", 0, "whole"):
        whole.train()
    first = sync_runner(**make(), hooks=[StopAfter(2)])
    with run_context(tmp_path / "b", 0, "half"):
        first.train()
    assert first.itr == 2
    second = sync_runner(**make(), seed=99, resume_from=tmp_path / "b" / "checkpoint")
    with run_context(tmp_path / "b", 0, "half", resume=True):
        second.train()
    assert (second.start_itr, second.itr) == (3, N_ITR - 1)
    assert same(whole.agent.state_dict(), second.agent.state_dict())
    rows = [[*map(unmeasured, rows_of(tmp_path / name))] for name in "ab"]
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_a_checkpoint_holds_every_ranks_state(tmp_path):
    sync_runner(**small_dqn(), checkpoint_dir=tmp_path).train()
    state = load_checkpoint(tmp_path).state
    (other,) = state["ranks"]
    assert "agent" not in other and "optimizer" not in other["algo"]
    assert other["algo"]["replay"] is not None
    assert not same_tree(other["random"]["torch"], state["random"]["torch"])


def same_tree(a, b):
    return bool((a == b).all())


class KeepStart(Hook):
    """Hook that keeps what a run starts with."""

    def on_start(self, runner):
        self.agent = {k: v.clone() for k, v in runner.agent.state_dict()["model"].items()}
        self.itr, self.n_itr = runner.start_itr, runner.n_itr
        self.batches_in_replay = runner.algo.batches_in_replay


@pytest.mark.parametrize(
    "before, after", [(2, 1), (1, 2), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_a_run_goes_on_with_another_number_of_ranks(before, after, tmp_path):
    """After half of 12 batches, in iterations of as many as there are ranks."""
    run_dir, kept = tmp_path / "run", KeepStart()

    def train(n_ranks, n_batches, hooks=(), **resuming):
        Runner = MinibatchRl if n_ranks == 1 else SyncRl
        parts = dict(small_dqn(), hooks=hooks, **resuming, log_interval_steps=T * B)
        runner = sync_runner(Runner, n_ranks=n_ranks, **parts)
        runner.sampler.batch_spec = BatchSpec(T, B)
        runner.n_steps = n_batches * T * B
        with run_context(run_dir, 0, "n", snapshot_mode="last", resume=bool(resuming)):
            runner.train()

    train(before, 6)
    saved = load_checkpoint(run_dir / "checkpoint").state
    with pytest.warns(UserWarning, match=f"is of {before} ranks, this run has {after}"):
        train(after, 12, [kept], resume_from=run_dir / "checkpoint")
    assert same(saved["agent"]["model"], kept.agent)
    assert (kept.itr, kept.n_itr) == (6 // after, 12 // after)
    assert kept.batches_in_replay == 6 // before
    rows = rows_of(run_dir)
    batches = [*range(before, 7, before), *range(6 + after, 13, after)]
    assert [int(row["Diagnostics/CumSteps"]) for row in rows] == [n * T * B for n in batches]
    assert len({row["Diagnostics/ReplayRatio"] for row in rows[-6 // after :]}) == 1


def test_a_rank_that_the_checkpoint_lacks_has_an_empty_replay_and_its_own_random_numbers():
    first = {"agent": 1, "algo": {"optimizer": 2, "replay": 3}, "random": 5}
    first["sampler"] = {"stations": [{"envs": [6], "statistics": [7]}], "kind": [8]}
    new = of_new_rank(first)
    assert new["agent"] == 1 and new["algo"] == {"optimizer": 2, "replay": None}
    assert new["random"] is None
    assert new["sampler"] == {"stations": [{"statistics": [7]}], "kind": []}


@pytest.mark.slow
def test_a_hook_may_save_and_stop(tmp_path):
    class SaveAt(Hook):
        def on_iteration(self, runner, itr):
            if itr == 1:
                assert runner.save_checkpoint(itr) is None  # once all are there
            if itr == 2:
                saved.append(load_checkpoint(tmp_path).state["itr"])
                runner.request_stop()

    saved = []
    runner = sync_runner(checkpoint_dir=tmp_path, hooks=[SaveAt()])
    runner.train()
    assert saved == [1] and runner.itr == 2


def test_only_rank_0_evaluates_and_others_wait(tmp_path):
    settings = dict(hooks=[SlowLog()], eval_interval_steps=3 * T * B)  # rows every 2 batches
    runner = sync_runner(SyncRlEval, rank_timeout_s=2.0, **settings)
    with run_context(tmp_path, 0, "eval"):
        runner.train()
    rows = rows_of(tmp_path)
    steps = [int(row["Diagnostics/CumSteps"]) // (T * B) for row in rows]
    assert steps == [0, 2, 3, 4, 6] and N_ITR == 6
    assert [row["Diagnostics/TrajsInEval"] for row in rows] == ["4", "0", "4", "0", "4"]
    completed = int(rows[-1]["Diagnostics/CumCompletedTrajs"])
    assert completed > 0 and 0 < float(rows[-1]["Training/LengthAverage"]) <= N_ITR * T


class Updates(Hook):
    """Counts the updates made and postponed after each iteration."""

    def on_start(self, runner):
        self.made, self.postponed, self.begin = [], [], runner.algo.min_itr_learn

    def on_iteration(self, runner, itr):
        self.made.append(runner.algo.update_counter)
        self.postponed.append(runner.algo.schedule.postponed)


@pytest.mark.parametrize("recurrent", [False, True])
def test_all_ranks_postpone_updates_where_the_steps_of_one_are_void(recurrent, tmp_path):
    settings = dict(batch_size=9)
    if recurrent:  # the steps after the burn-in are often void
        settings = dict(batch_T=2, warmup_T=1, batch_B=3, store_rnn_state_interval=0)
    algo = DQN(min_steps_learn=0, replay_size=200, replay_ratio=2, **settings)
    kwargs = dict(model_kwargs=dict(memory="gru", lstm_size=8)) if recurrent else {}
    updates = Updates()
    runner = sync_runner(
        algo=algo,
        agent=DqnMlpAgent(**kwargs),
        EnvCls=ShortInRank1,
        env_kwargs=dict(length=T),
        Sampler=partial(
            SerialSampler, CollectorCls=CpuWaitResetCollector, max_decorrelation_steps=0
        ),
        n_itr=12,
        hooks=[updates],
        checkpoint_dir=tmp_path,
    )
    runner.train()
    state = load_checkpoint(tmp_path).state
    (other,) = state["ranks"]
    # Two environments: 16 valid steps in rank 0, and 2 or 4 in rank 1; an update takes 9.
    steps = np.cumsum([9, 10] * 6)
    due = (2 * (steps - (steps[updates.begin - 1] if updates.begin else 0)) // 9).clip(0).tolist()
    assert [sum(n) for n in zip(updates.made, updates.postponed, strict=True)] == due
    assert max(updates.postponed) > 0 and updates.made[-1] > 0
    for name in ("update_counter", "updates_postponed"):
        assert other["algo"][name] == state["algo"][name]
    assert other["algo"]["replay"]["void"].sum() == 2 * 12 * (T - 1.5)
    assert "void" not in state["algo"]["replay"]


class SlowLog(Hook):
    def on_log(self, runner, row):
        if runner.itr == 1:
            import time

            time.sleep(4)


@pytest.mark.slow
class Listening(Hook):
    """Notes at which addresses the run's processes accept connections."""

    def on_iteration(self, runner, itr):
        own = psutil.Process()
        self.addresses = [
            connection.laddr.ip
            for process in (own, *own.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]


def test_other_machines_cannot_connect_to_the_ranks_of_one():
    listening = Listening()
    sync_runner(n_itr=1, hooks=[listening]).train()
    assert set(listening.addresses) == {"127.0.0.1"}


def test_an_agent_can_be_used_after_training():
    runner = sync_runner()
    runner.train()
    one = sync_runner(MinibatchRl, algo=A2C(), agent=runner.agent)
    one.train()


SCRIPT = """
import os
import sys
from pathlib import Path
from rlpyt.utils.logging.context import run_context
from tests.runners.sync_parts import *

class Mark(Hook):
    def on_iteration(self, runner, itr):
        if itr == 1:
            Path(sys.argv[2]).touch()

os.setpgid(0, 0)
with run_context(Path(sys.argv[1]), 0, "signal"):
    sync_runner(n_itr=10**6, hooks=[Mark()]).train()
"""


@pytest.mark.parametrize(
    "number,code",
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_a_signal_stops_all_ranks_with_one_checkpoint(number, code, tmp_path):
    script, running = tmp_path / "script.py", tmp_path / "running"
    script.write_text(SCRIPT)
    program = Program(script, tmp_path / "run", running, own_server=False)
    program.wait_for(running)
    program.send_to_group(number)
    done = program.wait()
    out, err = done.stdout, done.stderr
    assert done.returncode == code, err
    assert out.count("Stopped by signal") == 1 and "checkpoint saved" in out
    assert "Traceback" not in err
    assert len([*(tmp_path / "run" / "checkpoint").iterdir()]) == 1
    resumed = sync_runner(
        n_itr=10**6, resume_from=tmp_path / "run" / "checkpoint", hooks=[StopAtOnce()]
    )
    resumed.train()
    assert resumed.start_itr >= 2


class WarnRank1(Hook):
    """Sends a signal to rank 1 only."""

    def on_iteration(self, runner, itr):
        if itr == 1:
            os.kill(runner._processes.processes[0].pid, signal.SIGUSR1)


def test_the_signal_of_one_rank_stops_all_with_a_checkpoint(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        sync_runner(n_itr=500, checkpoint_dir=tmp_path, hooks=[WarnRank1()]).train()
    assert stopped.value.code == 138 and len([*tmp_path.iterdir()]) == 1
    assert re.search(r"after iteration \d+, \d+\.\d s later: ", capsys.readouterr().out)


class StopAtOnce(Hook):
    def on_iteration(self, runner, itr):
        runner.request_stop()


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(affinity=[]), ValueError, "affinity .*got 0"),
        (dict(affinity="two"), TypeError, "affinity .*got 'two'"),
        (dict(affinity=True), TypeError, "affinity .*got True"),
        (dict(backend="mpi"), ValueError, "backend .*got 'mpi'"),
        (dict(rank_timeout_s=0), ValueError, "rank_timeout_s"),
    ],
)
def test_bad_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        sync_runner(**kwargs)


def test_less_than_a_batch_of_all_ranks_is_one_iteration_with_a_warning():
    runner = sync_runner(n_itr=1, log_interval_steps=1)
    runner.n_steps = 31
    with pytest.warns(UserWarning, match="32 steps"):
        runner.train()
    assert runner.cum_steps == 32


def test_a_number_of_ranks_shares_the_machine():
    runner = sync_runner(affinity=2)
    assert len(runner.affinities) == 2
    assert all(a["n_workers"] >= 1 and a["cuda_idx"] is None for a in runner.affinities)
    runner.train()
