"""Runs whose ranks fail, and start again from the newest checkpoint (on_fault)."""

import csv
import os
import signal

import pytest

import rlpyt
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import RankError
from rlpyt.experiments import run
from rlpyt.experiments.api import options_of
from rlpyt.utils import processes
from tests.runners.sync_parts import sync_runner


@pytest.fixture(scope="module")
def warmed_up():
    """Train once: multiprocessing and the store open files that stay open."""
    sync_runner(n_itr=1).train()


class KillsRank1(CountEnv):
    """Environment that kills the process of rank 1 in its 1,000th step, once."""

    n = 0

    def __init__(self, tally, **kwargs):
        super().__init__(**kwargs)
        self.tally = tally

    def step(self, action):
        self.n += 1
        if processes.is_child and self.n == 250 and not os.path.exists(self.tally):
            open(self.tally, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_a_killed_rank_costs_the_steps_since_the_checkpoint(tmp_path, capsys):
    rlpyt.train(
        "a2c", KillsRank1, env_args=dict(tally=str(tmp_path / "tally"), length=9), steps=4096,
        ranks=2, sampler=dict(kind="serial", batch_T=16, batch_B=4), checkpoint_interval_steps=256,
        log_interval_steps=256, on_fault="restart", run_dir=tmp_path / "run", eval_episodes=0,
        video=False,
    )  # fmt: skip
    with open(tmp_path / "run" / "progress.csv") as file:
        steps = [int(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]
    assert (tmp_path / "tally").exists() and steps == [*range(256, 4097, 256)]
    told = capsys.readouterr().out
    assert told.count("healed (on_fault): rank 1 of 2 ") == 1 and "from checkpoint-" in told


def failing(monkeypatch, tmp_path, ends):
    """Let trainings end like this: with a new checkpoint and an error, or well (None)."""
    calls, ends = [], iter(ends)

    def train(options, run_dir, hooks, resume, finish, debug):
        calls.append(resume)
        makes_checkpoint, error = next(ends)
        if makes_checkpoint:
            (tmp_path / "checkpoint" / f"checkpoint-{8 + len(calls)}").mkdir(parents=True)
        if error is not None:
            raise type(error)(*error.args)  # without notes of other tests

    monkeypatch.setattr(run, "_train", train)
    monkeypatch.setattr(run.time, "sleep", calls.append)
    return calls


LOST = RankError("rank 1 of 2 was killed.")


def options(**on_fault):
    return options_of("a2c", "CartPole-v1", on_fault={"rank_death": "restart_run", **on_fault})


def test_restarts_resume_and_wait_if_there_is_no_progress(monkeypatch, tmp_path):
    ends = [(True, LOST), (False, LOST), (False, LOST), (True, LOST), (False, None)]
    calls = failing(monkeypatch, tmp_path, ends)
    run.train(options(backoff_s=2.0), tmp_path)
    assert calls == [False, 0.0, True, 2.0, True, 4.0, True, 0.0, True]


@pytest.mark.parametrize(
    "given, ends",
    [
        ({"rank_death": "raise"}, [(True, LOST)]),
        ({}, [(False, LOST)]),  # before the first checkpoint
        ({"max_per_hour": 1}, [(True, LOST)] * 2),
    ],
)
def test_other_losses_end_the_run(monkeypatch, tmp_path, given, ends):
    calls = failing(monkeypatch, tmp_path, [*ends, (False, None)])
    with pytest.raises(RankError, match="rank 1 of 2 was killed") as caught:
        run.train(options(**given), tmp_path)
    assert ("no checkpoint yet" in str(getattr(caught.value, "__notes__", ""))) == (not given)
    assert sum(isinstance(call, bool) for call in calls) == len(ends)
