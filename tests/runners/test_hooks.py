"""Ready-made hooks, and what is written when a hook stops a run."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.gym import make
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.hooks import Hook, KeepBest, StopAtReturn, TimeLimit
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.logging.progress_csv import read_progress
from tests.parts import SmallMlp
from tests.runners.test_minibatch_rl import B, StopAfter, T, rows_of, runner_for, unmeasured

RUN = dict(log_interval_steps=3 * T * B)  # rows after iterations 2, 5 and 7


def iterations(run_dir, column="Diagnostics/Iteration"):
    return [int(row[column]) for row in rows_of(run_dir)]


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
@pytest.mark.parametrize("last", [4, 5])
def test_the_iteration_that_stops_a_run_has_a_row(Runner, last, tmp_path):
    with run_context(tmp_path, 0, "stop", snapshot_mode="last"):
        runner_for(Runner, hooks=[StopAfter(last)], **RUN).train()
    first = [0] if Runner is MinibatchRlEval else []
    rows = rows_of(tmp_path)
    assert iterations(tmp_path) == first + ([2, 4] if last == 4 else [2, 5])
    assert int(rows[-1]["Diagnostics/CumSteps"]) == (last + 1) * T * B
    assert rows[-1]["ReturnAverage"] != "nan" or Runner is MinibatchRl
    snapshot = torch.load(tmp_path / "params.pkl", weights_only=True)
    assert snapshot["itr"] == last


class Columns(Hook):
    """Set a column in every third iteration."""

    def on_iteration(self, runner, itr):
        if itr % 3 == 0:
            logger.record_tabular("hook/of itr", float("nan") if itr == 6 else itr)
            logger.record_tabular("text", f"after {itr}")


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
def test_a_resumed_run_deletes_that_row_and_is_the_uninterrupted_one(Runner, tmp_path):
    dirs = tmp_path / "whole", tmp_path / "stopped"
    with run_context(dirs[0], 0, "whole"):
        whole = runner_for(Runner, hooks=[Columns()], **RUN)
        whole.train()
    with run_context(dirs[1], 0, "stopped"):
        runner_for(Runner, hooks=[StopAfter(3), Columns()], **RUN).train()
    assert iterations(dirs[1])[-1] == 3
    with run_context(dirs[1], 0, "stopped", resume=True):
        resumed = runner_for(Runner, hooks=[Columns()], resume_from=dirs[1] / "checkpoint", **RUN)
        resumed.train()
    rows = [[*map(unmeasured, rows_of(run_dir))] for run_dir in dirs]
    assert rows[0] == rows[1]
    states = whole.agent.state_dict(), resumed.agent.state_dict()
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


@pytest.mark.parametrize("Runner", [AsyncRl, AsyncRlEval])
def test_asynchronous_runs_write_the_last_row_once(Runner, tmp_path):
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    sampler = AsyncSerialSampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=T,
        batch_B=B,
        **(evaluation if Runner is AsyncRlEval else {}),
    )
    parts = dict(algo=VTrace(), agent=CategoricalPgAgent(ModelCls=SmallMlp), sampler=sampler)
    with run_context(tmp_path, 0, "async"):
        Runner(**parts, n_steps=8 * T * B, seed=4, hooks=[StopAfter(4)], **RUN).train()
    seen = iterations(tmp_path, "Diagnostics/SamplerIteration")
    assert seen[-1] == 4 and seen.count(4) == 1


class Rows(Hook):
    """Rows of these returns, as if they were written."""

    def __init__(self, hook, returns):
        self.hook, self.returns = hook, [*returns]
        self.stopped_at = None

    def request_stop(self):
        self.stopped_at = self.stopped_at or self.n

    def play(self):
        for n, return_ in enumerate(self.returns):
            self.n = n
            self.hook.on_log(self, {"ReturnAverage": return_})
        return self.stopped_at


@pytest.mark.parametrize(
    "window, returns, stops",
    [(1, [1, 4.9, 5], 2), (2, [9, 0, 4, 6], 3), (2, [0, 9, math.nan, 1], 3), (2, [5], None)],
)
def test_a_run_stops_at_its_return(window, returns, stops):
    assert Rows(StopAtReturn(5, window), returns).play() == stops


def test_hooks_check_their_arguments():
    with pytest.raises(TypeError, match="return_='high'"):
        StopAtReturn("high")
    with pytest.raises(ValueError, match="window=0"):
        StopAtReturn(1, 0)
    with pytest.raises(ValueError, match="seconds=-1"):
        TimeLimit(-1)


def hook_with(*methods, base=object):
    return type("Mine", (base,), dict.fromkeys(methods, lambda self, *args: None))()


@pytest.mark.parametrize(
    "hook,said",
    [
        (hook_with("on_iterations", base=Hook), "on_iterations; .*'on_iteration'"),
        (hook_with("on_step", "on_log"), "Mine .*got on_step"),
        (hook_with("iteration", base=Hook), " iteration; .*'on_iteration'"),
        (hook_with("write"), "Mine .*on_start or on_iteration .*none"),
    ],
)
def test_a_hook_that_would_do_nothing_is_refused(hook, said):
    with pytest.raises(TypeError, match=said):
        runner_for(hooks=[hook])
    runner_for(hooks=[hook_with("on_log", "write", "_on_step"), hook_with("play", base=Hook)])


def test_a_run_ends_after_its_time_with_a_checkpoint(tmp_path):
    with run_context(tmp_path, 0, "time"):
        runner = runner_for(hooks=[TimeLimit(0)], **RUN)
        runner.train()
    assert runner.state.itr == runner.saved_itr == 0 and iterations(tmp_path) == [0]
    runner_for(hooks=[TimeLimit(1e6)], n_itr=2).train()


def test_a_run_ends_at_its_return(tmp_path):
    with run_context(tmp_path, 0, "return"):
        runner = runner_for(MinibatchRlEval, hooks=[StopAtReturn(1)], **RUN)
        runner.train()
    assert runner.state.itr == 0 and iterations(tmp_path) == [0, 0]


def test_a_resumed_run_continues_the_window_of_returns(tmp_path):
    parts = dict(checkpoint_dir=tmp_path / "checkpoint", checkpoint_interval_steps=T * B)

    def last_iteration(n_itr, resume):
        resumed = dict(resume_from=tmp_path / "checkpoint") if resume else {}
        with run_context(tmp_path, 0, "window", resume=resume, snapshot_mode="last"):
            hooks = [StopAtReturn(-1e9, window=3)]  # at the third row
            runner = runner_for(hooks=hooks, n_itr=n_itr, **parts, **resumed, **RUN)
            runner.train()
        returns = read_progress(tmp_path)["ReturnAverage"]
        return runner.state.itr, np.isfinite(returns).sum()

    assert 0 < last_iteration(4, resume=False)[1] < 3
    end, n_rows = last_iteration(99, resume=True)
    assert n_rows == 3
    assert last_iteration(99, resume=True)[0] == end + 1  # reached before


class Returns(Hook):
    """Replace the returns of rows, before other hooks see them."""

    def __init__(self, returns):
        self.returns = iter(returns)

    def on_log(self, runner, row):
        row["ReturnAverage"] = next(self.returns)


def test_the_best_agent_of_a_game_is_that_of_its_score(tmp_path):
    class Scores(Hook):
        def on_log(self, runner, row):
            row["GameScoreAverage"] = -row["ReturnAverage"]

    hooks = [Returns([3.0, 1.0, 2.0]), Scores(), KeepBest()]
    with run_context(tmp_path, 0, "best"):
        runner_for(MinibatchRl, hooks=hooks, n_itr=3).train()
    best = torch.load(tmp_path / "best.pkl", weights_only=True)
    assert best["return_"] == -1.0  # the second row


def test_the_best_agent_is_kept(tmp_path):
    agents = {}

    class Copy(Hook):
        def on_log(self, runner, row):
            agents[runner.state.itr] = {k: v.clone() for k, v in runner.agent.state_dict().items()}

    def run(returns, **kwargs):
        hooks = [Returns(returns), Copy(), KeepBest()]
        runner_for(
            MinibatchRlEval, hooks=[*hooks, *kwargs.pop("more", [])], **RUN, **kwargs
        ).train()
        return torch.load(tmp_path / "best.pkl", weights_only=True)

    with run_context(tmp_path, 0, "best"):
        best = run([math.nan, 3.0, 2.5], more=[StopAfter(5)])
    assert (best["itr"], best["cum_steps"], best["return_"]) == (2, 3 * T * B, 3.0)
    assert all(torch.equal(v, agents[2][k]) for k, v in best["agent_state_dict"].items())
    resume = dict(resume_from=tmp_path / "checkpoint")
    with run_context(tmp_path, 0, "best", resume=True):
        assert run([2.9], **resume)["itr"] == 2
    with run_context(tmp_path, 0, "best", resume=True):
        runner = runner_for(MinibatchRlEval, hooks=[KeepBest()], n_itr=2)
        runner.train()  # a new run does not compare with an older one
    assert torch.load(tmp_path / "best.pkl", weights_only=True)["return_"] != 3.0


def test_the_best_agent_of_a_run_with_other_ranks_is_known_by_its_steps(tmp_path):
    """Iterations of another number of ranks have other numbers."""
    with run_context(tmp_path, 0, "best"):
        runner_for(MinibatchRl, hooks=[Returns([3.0]), KeepBest()], n_itr=1).train()
        best = torch.load(tmp_path / "best.pkl", weights_only=True)
        for itr, steps, known in ((80, T * B, True), (0, T * B + 1, False)):
            torch.save({**best, "itr": itr, "cum_steps": steps}, tmp_path / "best.pkl")
            runner = SimpleNamespace(
                start_itr=1, _eval=False, cum_steps=T * B, state=SimpleNamespace(itr=0)
            )
            (keep := KeepBest()).on_start(runner)
            assert (keep.return_ == 3.0) == known


def test_returns_of_training_and_of_evaluations_are_not_compared(tmp_path):
    cases = [(MinibatchRl, 9.0, 1), (MinibatchRlEval, 3.0, 2), (MinibatchRl, 1.0, 3)]
    for i, (Runner, return_, n_itr) in enumerate(cases):
        resume = dict(resume_from=tmp_path / "checkpoint") if i else {}
        hooks = [Returns([return_] * 9), KeepBest()]
        with (
            run_context(tmp_path, 0, "mixed", resume=i > 0),
            warnings.catch_warnings(record=True) as w,
        ):
            warnings.simplefilter("always")
            runner_for(Runner, hooks=hooks, n_itr=n_itr, **resume).train()
        assert len([x for x in w if "do not compare them" in str(x.message)]) == min(i, 1)
        assert torch.load(tmp_path / "best.pkl", weights_only=True)["return_"] == return_


def test_a_hook_of_an_earlier_run_keeps_the_best_agent_of_the_next(tmp_path):
    keep = KeepBest()
    for name, return_ in (("first", 3.0), ("second", 2.0)):
        with run_context(tmp_path / name, 0, name):
            runner_for(MinibatchRl, hooks=[Returns([return_]), keep], n_itr=1).train()
        best = torch.load(tmp_path / name / "best.pkl", weights_only=True)
        assert best["return_"] == return_


def test_the_best_agent_needs_a_directory_and_survives_a_full_disk(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="KeepBest .*directory"):
        runner_for(hooks=[KeepBest()], n_itr=1).train()

    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr("rlpyt.runners.hooks.write_snapshot", full)
    with run_context(tmp_path, 0, "full"), pytest.warns(UserWarning, match="best.pkl"):
        runner_for(MinibatchRlEval, hooks=[KeepBest()], n_itr=1).train()
    assert logger.get_snapshot_dir() is None


class Fails(Hook):
    """Raises after an iteration, if told to, and when the run ends."""

    def __init__(self, first=None):
        self.first = first

    def on_iteration(self, runner, itr):
        if self.first is not None and itr == 1:
            raise self.first

    def on_end(self, runner):
        raise OSError("second")


@pytest.mark.parametrize("first", [ValueError("first"), KeyboardInterrupt("first")])
def test_an_error_of_on_end_does_not_hide_the_one_that_ended_the_run(first):
    with pytest.raises(type(first), match="first") as caught:
        runner_for(hooks=[Fails(first)]).train()
    assert "While the run ended: OSError: second" in caught.value.__notes__


def test_an_error_of_on_end_alone_is_raised():
    try:
        raise LookupError  # that is being handled: a new try after a failure
    except LookupError:
        with pytest.raises(OSError, match="second"):
            runner_for(hooks=[Fails()]).train()
