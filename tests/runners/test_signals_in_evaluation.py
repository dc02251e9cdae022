"""Ctrl-C and SIGTERM end an evaluation early; the resumed run makes up for it."""

import os
import signal

import pytest
import torch

from rlpyt.cli.resume import RequireRemainingSteps
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import run_context
from tests.cases import product_of
from tests.runners.test_minibatch_rl import N_ITR, B, T, rows_of, runner_for, unmeasured


def interrupted_in(itr, number=signal.SIGINT, Sampler=SerialSampler):
    """A sampler whose user loses patience during the evaluation of iteration ``itr``."""

    class Interrupted(Sampler):
        def evaluate_agent(self, i):
            if i == itr:
                os.kill(os.getpid(), number)
            return super().evaluate_agent(i)

    return Interrupted


class HalfWay(SerialSampler):
    """Honours ``should_stop`` after each of many episodes."""

    def evaluate_agent(self, itr):
        finished = []
        for i in range(50):
            if itr == 3 and i == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            if self.should_stop():
                break
            finished.append(self.TrajInfoCls(Return=1000.0 * i))
        self.evaluated = (itr, len(finished))
        return finished


def train_until_stopped(runner, run_dir, code):
    with (
        pytest.raises(SystemExit) as stop,
        run_context(run_dir, 0, "run", snapshot_mode="last"),
    ):
        runner.train()
    assert stop.value.code == code


def test_half_an_evaluation_is_neither_logged_nor_saved(tmp_path):
    runner = runner_for(MinibatchRlEval, HalfWay)
    train_until_stopped(runner, tmp_path / "run", 143)
    assert runner.itr == 3 and runner.sampler.evaluated == (3, 2)
    rows = rows_of(tmp_path / "run")
    assert [float(row["Diagnostics/CumSteps"]) for row in rows] == [0, 2 * T * B]
    assert {float(row["Diagnostics/TrajsInEval"]) for row in rows} == {50}
    assert torch.load(tmp_path / "run" / "params.pkl")["itr"] == 1


@pytest.mark.parametrize(
    "itr, Sampler",
    product_of(
        [3, N_ITR - 1],
        [SerialSampler, CpuSampler],
        fast=[(3, CpuSampler), (N_ITR - 1, SerialSampler)],
    ),
)
def test_the_resumed_run_makes_up_for_it_bit_for_bit(Sampler, itr, tmp_path):
    whole = runner_for(MinibatchRlEval, Sampler)
    with run_context(tmp_path / "a", 0, "run"):
        whole.train()
    first = runner_for(MinibatchRlEval, interrupted_in(itr, Sampler=Sampler))
    train_until_stopped(first, tmp_path / "b", 130)
    assert first.itr == itr
    checkpoint = tmp_path / "b" / "checkpoint"
    second = runner_for(
        MinibatchRlEval, Sampler, resume_from=checkpoint, hooks=[RequireRemainingSteps()]
    )
    with run_context(tmp_path / "b", 0, "run", resume=True):
        second.train()
    rows = [[*map(unmeasured, rows_of(tmp_path / name))] for name in "ab"]
    assert rows[0] == rows[1]
    a, b = whole.agent.state_dict(), second.agent.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    speeds = [float(row["Diagnostics/StepsPerSecond"]) for row in rows_of(tmp_path / "b")[1:]]
    assert max(speeds) < 1e6  # steps of before the interruption, over the time they took


def test_what_was_made_up_for_is_not_owed_again(tmp_path):
    first = runner_for(MinibatchRlEval, interrupted_in(N_ITR - 1))
    train_until_stopped(first, tmp_path / "run", 130)
    checkpoint = tmp_path / "run" / "checkpoint"
    second = runner_for(MinibatchRlEval, resume_from=checkpoint)
    with run_context(tmp_path / "run", 0, "run", resume=True):
        second.train()
        assert not second.state.evaluation_pending and second.before_evaluation is None


def test_the_runner_says_from_its_start_when_to_stop(tmp_path):
    runner = runner_for(MinibatchRl, checkpoint_dir=tmp_path / "c", n_itr=2)
    runner.sampler.should_stop = lambda: True
    runner.train()
    assert runner.sampler.should_stop() is False


@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_evaluation_before_training_ends_at_once(number, code, tmp_path):
    runner = runner_for(MinibatchRlEval, interrupted_in(0, number))
    train_until_stopped(runner, tmp_path / "run", code)
    assert not (tmp_path / "run" / "checkpoint").exists()
