import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.vector import CategoricalLstmAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.errors import ConcurrentRunError, NonFiniteError, itr_of
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.parts import SmallMlp

T, B = 16, 3
N_ITR = 8


def runner_for(
    Runner=MinibatchRl, Sampler=SerialSampler, algo=None, batch_B=B, n_itr=N_ITR, **kwargs
):
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    sampler = Sampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=T,
        batch_B=batch_B,
        **(evaluation if Runner is MinibatchRlEval else {}),
    )
    return Runner(
        algo=algo or PPO(minibatches=4, epochs=2, gae_lambda=0.95),
        agent=CategoricalPgAgent(ModelCls=SmallMlp),
        sampler=sampler,
        n_steps=n_itr * T * batch_B,
        **{
            "seed": 4,
            "log_interval_steps": 2 * T * batch_B,
            "affinity": dict(n_workers=1),
            **kwargs,
        },
    )


def rows_of(run_dir):
    with open(run_dir / "progress.csv") as file:
        return list(csv.DictReader(file))


def unmeasured(row):
    """Return the columns that depend neither on the clock nor on the machine's use."""
    measured = ("Time", "PerSecond", "CpuCores", "Memory")
    return {name: cell for name, cell in row.items() if not any(x in name for x in measured)}


class TrainsAnother(Hook):
    """Trains another agent in the first iteration, without a run of its own."""

    def on_iteration(self, runner, itr):
        if itr == 0:
            runner_for(n_itr=3, log_interval_steps=1).train()


def test_a_training_inside_another_one_writes_nothing_to_its_run(tmp_path):
    with run_context(tmp_path, 0, "outer"):
        runner_for(n_itr=4, hooks=[TrainsAnother()]).train()
    assert [row["Diagnostics/Iteration"] for row in rows_of(tmp_path)] == ["1", "3"]
    assert load_checkpoint(tmp_path / "checkpoint").state["itr"] == 3
    assert len([*(tmp_path / "checkpoint").glob("checkpoint-*")]) == 1


def test_a_second_thread_cannot_train_meanwhile():
    class Second(Hook):
        def on_start(self, runner):
            with ThreadPoolExecutor(1) as thread:
                self.error = thread.submit(runner_for(n_itr=1).train).exception()

    second = Second()
    runner_for(n_itr=1, hooks=[second]).train()
    assert isinstance(second.error, ConcurrentRunError)
    with ThreadPoolExecutor(1) as thread:  # afterwards it can
        thread.submit(runner_for(n_itr=1).train).result()


class StopAfter(Hook):
    def __init__(self, itr):
        self.itr = itr

    def on_iteration(self, runner, itr):
        if itr == self.itr:
            runner.request_stop()


@pytest.mark.parametrize(
    "Runner, Sampler",
    [
        (MinibatchRl, SerialSampler),
        *(
            (MinibatchRlEval, Sampler)
            for Sampler in (SerialSampler, CpuSampler, AlternatingSampler)
        ),
        # The same training loop, without evaluations.
        pytest.param(MinibatchRl, CpuSampler, marks=pytest.mark.slow),
        pytest.param(MinibatchRl, AlternatingSampler, marks=pytest.mark.slow),
    ],
)
def test_resumed_run_is_the_uninterrupted_one_bit_for_bit(Runner, Sampler, tmp_path):
    kwargs = dict(batch_B=4) if Sampler is AlternatingSampler else {}
    if Runner is MinibatchRlEval and Sampler is SerialSampler:  # rows without evaluation, too
        kwargs = dict(log_interval_steps=2 * T * B, eval_interval_steps=4 * T * B)
    whole = runner_for(Runner, Sampler, **kwargs)
    with run_context(tmp_path / "a", 0, "whole"):
        whole.train()
    first = runner_for(Runner, Sampler, hooks=[StopAfter(4)], **kwargs)
    with run_context(tmp_path / "b", 0, "half"):
        first.train()
    assert first.itr == 4
    kwargs.update(seed=99, resume_from=tmp_path / "b" / "checkpoint")
    second = runner_for(Runner, Sampler, **kwargs)
    with run_context(tmp_path / "b", 0, "half", resume=True):
        second.train()
    a, b = whole.agent.state_dict(), second.agent.state_dict()
    assert all(torch.equal(a[k], b[k]) for k in a)
    old, new = rows_of(tmp_path / "a"), rows_of(tmp_path / "b")
    assert len(old) == len(new) == N_ITR // 2 + (Runner is MinibatchRlEval)
    assert [*map(unmeasured, old)] == [*map(unmeasured, new)]


@pytest.mark.parametrize("Sampler", [SerialSampler, GpuSampler])
def test_recurrent_run_resumes_bit_for_bit(Sampler, tmp_path):
    def run(**kwargs):
        algo = PPO(minibatches=3, epochs=2, normalize_reward=True)
        runner = runner_for(Sampler=Sampler, algo=algo, **kwargs)
        runner.agent = CategoricalLstmAgent(model_kwargs=dict(hidden_sizes=[8], lstm_size=8))
        runner.train()
        return runner

    whole = run()
    run(checkpoint_dir=tmp_path / "c", hooks=[StopAfter(3)])
    resumed = run(resume_from=tmp_path / "c", checkpoint_dir=tmp_path / "d")
    a, b = whole.agent.state_dict(), resumed.agent.state_dict()
    assert resumed.start_itr == 4 and all(torch.equal(a[k], b[k]) for k in a)


def test_progress_has_the_documented_columns_in_order(tmp_path):
    with run_context(tmp_path / "run", 0, "columns", snapshot_mode="last"):
        runner_for().train()
    names = list(rows_of(tmp_path / "run")[0])
    diagnostics = [
        *("NewCompletedTrajs", "StepsInTrajWindow", "Iteration", "CumTime (s)", "CumSteps"),
        *("CumCompletedTrajs", "CumUpdates", "StepsPerSecond", "UpdatesPerSecond"),
        *("ReplayRatio", "CumReplayRatio"),
        *("SamplingTime (s)", "OptimizingTime (s)", "LoggingTime (s)"),
        *("SamplerStepsPerSecond", "OptimizerUpdatesPerSecond", "CpuCores", "Memory (MB)"),
        *("LearningRate", "RatioClip"),
    ]
    assert names[: len(diagnostics)] == [f"Diagnostics/{n}" for n in diagnostics]
    keys = ["Length", "Return", "NonzeroRewards", "DiscountedReturn"]
    keys += ["loss", "gradNorm", "entropy", "perplexity"]
    keys += ["piLoss", "vLoss", "explainedVariance", "approxKL", "clipFraction"]
    stats = [k + s for k in keys for s in ("Average", "Std", "Median", "Min", "Max")]
    assert names[len(diagnostics) :] == stats
    last = rows_of(tmp_path / "run")[-1]
    assert float(last["Diagnostics/CumSteps"]) == N_ITR * T * B
    assert float(last["Diagnostics/CumUpdates"]) == N_ITR * 8
    assert float(last["Diagnostics/ReplayRatio"]) == 2
    snapshot = torch.load(tmp_path / "run" / "params.pkl")
    assert snapshot["itr"] == N_ITR - 1 and snapshot["cum_steps"] == N_ITR * T * B
    fresh = SmallMlp()
    fresh.load_state_dict(snapshot["agent_state_dict"])
    assert (tmp_path / "run" / "debug.log").read_text()


def test_evaluation_row_comes_before_training_and_counts_episodes(tmp_path):
    with run_context(tmp_path / "run", 0, "eval"):
        runner_for(MinibatchRlEval).train()
    rows = rows_of(tmp_path / "run")
    assert [float(r["Diagnostics/CumSteps"]) for r in rows] == [
        i * 2 * T * B for i in range(N_ITR // 2 + 1)
    ]
    assert all(float(r["Diagnostics/TrajsInEval"]) == 4 for r in rows)
    assert list(rows[0])[:3] == [
        f"Diagnostics/{n}" for n in ("StepsInEval", "TrajsInEval", "CumEvalTime")
    ]


def test_training_and_evaluation_have_columns_and_intervals_of_their_own(tmp_path):
    batch = T * B
    intervals = dict(log_interval_steps=2 * batch, eval_interval_steps=3 * batch)
    runner = runner_for(MinibatchRlEval, n_itr=12, **intervals)
    with run_context(tmp_path / "eval", 0, "run"):
        runner.train()
    rows = rows_of(tmp_path / "eval")
    steps = [int(row["Diagnostics/CumSteps"]) // batch for row in rows]
    assert steps == [0, 2, 3, 4, 6, 8, 9, 10, 12]
    evaluated = [s for s, row in zip(steps, rows) if row["ReturnAverage"] != "nan"]
    assert evaluated == [0, 3, 6, 9, 12] and runner.recent_return == float(
        rows[-1]["ReturnAverage"]
    )
    assert [row["Diagnostics/TrajsInEval"] for row in rows] == [
        "4" if s in evaluated else "0" for s in steps
    ]
    # The same training without evaluation.
    plain = runner_for(n_itr=12, log_interval_steps=2 * batch)
    with run_context(tmp_path / "plain", 0, "run"):
        plain.train()
    expected = {
        row["Diagnostics/CumSteps"]: row["ReturnAverage"] for row in rows_of(tmp_path / "plain")
    }
    found = {row["Diagnostics/CumSteps"]: row["Training/ReturnAverage"] for row in rows}
    assert {steps: found[steps] for steps in expected} == expected
    assert sum(x != "nan" for x in expected.values()) > 3
    assert len(list(rows[0])) == len(set(rows[0]))


def test_a_run_has_ten_rows_unless_an_interval_is_given(tmp_path):
    for n_itr, given, expected in [(25, None, 13), (7, None, 7), (25, 10 * T * B, 3)]:
        runner = runner_for(n_itr=n_itr, log_interval_steps=given)
        path = tmp_path / f"{n_itr}-{given}"
        with run_context(path, 0, "run"):
            runner.train()
        assert len(rows_of(path)) == expected
    assert runner_for(n_itr=10**6, log_interval_steps=None).log_interval_steps == 100_000


def test_hooks_hear_of_everything(tmp_path):
    heard = []

    class Listener(Hook):
        def on_start(self, runner):
            heard.append("start")

        def on_iteration(self, runner, itr):
            heard.append(itr)
            assert runner.cum_steps == (itr + 1) * T * B and runner.steps_per_second > 0

        def on_log(self, runner, row):
            heard.append(row["Diagnostics/Iteration"])

        def on_end(self, runner):
            heard.append("end")

    with run_context(tmp_path / "run", 0, "hooks"):
        runner_for(n_itr=4, hooks=[Listener()]).train()
    assert heard == ["start", 0, 1, 1, 2, 3, 3, "end"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_learns_inside_the_callers_grad_mode(mode):
    learnt = []
    for context in (contextlib.nullcontext(), mode()):
        runner = runner_for()
        with context:
            runner.train()
        learnt.append(runner.agent.model.state_dict())
    plain, inside = learnt
    assert all(torch.equal(inside[name], value) for name, value in plain.items())


def test_training_needs_no_logger_directory(tmp_path):
    runner = runner_for(n_itr=2, checkpoint_dir=tmp_path / "c")
    runner.train()
    assert [p.name for p in (tmp_path / "c").iterdir()]


class Diverges(PPO):
    def loss(self, batch):
        loss, *others = super().loss(batch)
        return loss * float("nan" if self.update_counter == 19 else 1), *others


def test_a_loss_that_is_not_finite_names_algorithm_iteration_and_update():
    runner = runner_for(algo=Diverges(minibatches=4, epochs=2))
    message = "^Diverges, iteration 2, update 19: .*nan"
    with pytest.raises(NonFiniteError, match=message) as caught:
        runner.train()
    assert itr_of(caught.value) == 2 and caught.value.__cause__ is None


def test_subclass_hooks_of_old_code_are_called(tmp_path):
    class OldStyle(MinibatchRl):
        def initialize_logging(self):
            super().initialize_logging()
            self.extra = 0

        def store_diagnostics(self, itr, traj_infos, opt_info):
            super().store_diagnostics(itr, traj_infos, opt_info)
            self.extra += len(opt_info.loss)

        def get_itr_snapshot(self, itr):
            return {**super().get_itr_snapshot(itr), "extra": self.extra}

    with run_context(tmp_path / "run", 0, "old", snapshot_mode="last"):
        runner_for(OldStyle).train()
    assert torch.load(tmp_path / "run" / "params.pkl")["extra"] == N_ITR * 8


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(n_itr=0), ValueError, "n_steps=0"),
        (dict(seed=-1), ValueError, "seed=-1"),
        (dict(seed=1.5), TypeError, "^seed=1.5 "),
        (dict(log_interval_steps=-1), ValueError, "log_interval_steps=-1"),
        (dict(checkpoint_interval_steps=-3), ValueError, "checkpoint_interval_steps=-3"),
        (dict(checkpoint_interval_steps="1e5"), TypeError, "checkpoint_interval_steps='1e5'"),
    ],
)
def test_bad_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        runner_for(**kwargs)


def test_a_checkpoint_interval_of_zero_is_none(tmp_path):
    runner = runner_for(checkpoint_interval_steps=0, checkpoint_dir=tmp_path)
    runner.train()
    assert len([*tmp_path.glob("checkpoint-*")]) == 1  # at the end


def test_less_than_a_batch_is_one_iteration_with_a_warning(tmp_path):
    runner = runner_for()
    runner.n_steps = 47
    with (
        run_context(tmp_path, 0, "short"),
        pytest.warns(UserWarning, match="n_steps=47 .*48 steps"),
    ):
        runner.train()
    assert [row["Diagnostics/CumSteps"] for row in rows_of(tmp_path)] == ["48"]


def test_the_end_of_training_is_logged_only_where_training_has_ended(tmp_path):
    class Failing(Hook):
        def on_iteration(self, runner, itr):
            raise RuntimeError("a hook failed")

    for name, hooks in (("complete", []), ("failed", [Failing()])):
        with contextlib.suppress(RuntimeError), run_context(tmp_path / name, 0, name):
            runner_for(n_itr=1, hooks=hooks).train()
        logged = (tmp_path / name / "debug.log").read_text()
        assert ("Training complete." in logged) == (name == "complete")


def test_a_runner_knows_when_learning_begins_before_startup():
    assert runner_for().min_itr_learn == 0


def test_resuming_from_another_run_says_what_differs(tmp_path):
    runner_for(n_itr=1, checkpoint_dir=tmp_path / "c").train()
    other = runner_for(batch_B=4, resume_from=tmp_path / "c")
    with pytest.raises(ValueError, match="batch_B .*3 .*checkpoint .*4"):
        other.train()
    with pytest.raises(CheckpointError):
        runner_for(resume_from=tmp_path / "nowhere").train()


def test_environments_without_state_start_anew_on_resume(tmp_path):
    class Opaque(CountEnv):
        def get_state(self):
            return None

    def run(**kwargs):
        sampler = SerialSampler(EnvCls=Opaque, env_kwargs={}, batch_T=T, batch_B=B)
        agent = CategoricalPgAgent(ModelCls=SmallMlp, model_kwargs=dict(inputs=3, actions=3))
        runner = MinibatchRl(
            algo=PPO(), agent=agent, sampler=sampler, n_steps=4 * T * B, seed=1, **kwargs
        )
        runner.train()
        return runner

    run(checkpoint_dir=tmp_path / "c", hooks=[StopAfter(1)])
    resumed = run(resume_from=tmp_path / "c", checkpoint_dir=tmp_path / "d")
    assert resumed.itr == 3 and resumed.start_itr == 2


class LateState(CountEnv):
    """Has no state before its first reset."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        del self._t

    def reset(self):
        self._t = 0
        return super().reset()


def test_environments_are_asked_for_their_state_after_their_first_reset(tmp_path):
    def run(Runner=MinibatchRlEval, **kwargs):
        evaluation = dict(eval_n_envs=2, eval_max_steps=40, eval_max_trajectories=4)
        sampler = SerialSampler(LateState, {}, batch_T=T, batch_B=B, **evaluation)
        agent = CategoricalPgAgent(ModelCls=SmallMlp, model_kwargs=dict(inputs=3, actions=3))
        settings = dict(n_steps=6 * T * B, seed=1, log_interval_steps=2 * T * B, **kwargs)
        runner = Runner(algo=PPO(), agent=agent, sampler=sampler, **settings)
        runner.train()
        return runner.agent.state_dict()

    whole = run()
    run(checkpoint_dir=tmp_path / "c", hooks=[StopAfter(2)])
    resumed = run(resume_from=tmp_path / "c", checkpoint_dir=tmp_path / "d")
    assert all(torch.equal(x, resumed[name]) for name, x in whole.items())


SCRIPT = """
import sys
from tests.runners.test_minibatch_rl import *
from pathlib import Path
with run_context(Path({run!r}), 0, "signal"):
    runner = runner_for(Sampler=CpuSampler, n_itr=10**6, hooks=[Announce()])
    runner.train()
"""


class Announce(Hook):
    def on_iteration(self, runner, itr):
        if itr == 1:
            print("running", flush=True)


@pytest.mark.slow  # fast: samplers/test_ends.py, cli/test_commands.py
@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_saves_a_checkpoint_and_exits(number, code, tmp_path):
    script = SCRIPT.format(run=str(tmp_path / "run"))
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines = iter(process.stdout.readline, "running\n")
    list(lines)
    os.killpg(process.pid, number)  # as a terminal does: workers get it too
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    stopped = [line for line in out.splitlines() if "Stopped by signal" in line]
    assert len(stopped) == 1 and "checkpoint saved" in stopped[0]
    checkpoints = str(tmp_path / "run" / "checkpoint")
    assert f"Resume with MinibatchRl(..., resume_from={checkpoints!r}).\n" in out
    assert "Traceback" not in err
    resumed = runner_for(
        Sampler=CpuSampler, resume_from=tmp_path / "run" / "checkpoint", n_itr=10**6,
        hooks=[StopAfter(np.inf)],
    )  # fmt: skip
    resumed.hooks.append(StopAtOnce())
    resumed.train()
    assert resumed.start_itr >= 2


@pytest.mark.parametrize("interval", [1, 2])
def test_a_run_that_a_hook_stops_evaluates_its_last_agent_once(interval, tmp_path):
    """Also if a row without an evaluation is due at this iteration."""
    with run_context(tmp_path, 0, "stopped"):
        runner_for(
            MinibatchRlEval, n_itr=9, hooks=[StopAfter(2)], log_interval_steps=interval * T * B,
            eval_interval_steps=4 * T * B,
        ).train()  # fmt: skip
    rows = [(row["Diagnostics/Iteration"], row["ReturnAverage"]) for row in rows_of(tmp_path)]
    assert [itr for itr, return_ in rows if return_ not in ("", "nan")] == ["0", "2"]


class StopAtOnce(Hook):
    def on_iteration(self, runner, itr):
        runner.request_stop()


class Interrupt(Hook):
    def on_iteration(self, runner, itr):
        if itr == 1:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_says_how_to_resume_it(tmp_path, capsys):
    directory = tmp_path / "checkpoints"
    with pytest.raises(SystemExit) as ended:
        runner_for(n_itr=10**6, checkpoint_dir=directory, hooks=[Interrupt()]).train()
    assert ended.value.code == 130
    out = capsys.readouterr().out
    said = r"Stopped by signal after iteration 1, \d+\.\d s later: checkpoint saved"
    assert len(re.findall(said, out)) == 1
    assert f"Resume with MinibatchRl(..., resume_from={str(directory)!r}).\n" in out
    resumed = runner_for(resume_from=directory, n_itr=10**6, hooks=[StopAtOnce()])
    resumed.train()
    assert resumed.start_itr == 2


class NoteThreads(Hook):
    def __init__(self):
        self.found = set()

    def on_iteration(self, runner, itr):
        self.found.add(torch.get_num_threads())


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_networks_train_with_one_thread_unless_a_number_is_given(two_threads, monkeypatch):
    def threads_of(**affinity):
        hook = NoteThreads()
        runner = runner_for(n_itr=1, hooks=[hook], affinity=dict(n_workers=1, **affinity))
        runner.train()
        assert torch.get_num_threads() == affinity.get("master_torch_threads", 2)
        return hook.found

    assert threads_of() == {1}
    monkeypatch.setattr("rlpyt.runners.runner.SMALL_NETWORK", 10)
    assert threads_of() == {2}
    monkeypatch.undo()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads_of() == {2}
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert threads_of(master_torch_threads=2) == {2}


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(algo=PPO(minibatches=1000)), "minibatches=1000"),
        (dict(affinity=dict(n_workers=1, cuda_idx=99)), "cuda_idx"),
    ],
)
def test_settings_are_checked_before_anything_starts(change, message, monkeypatch):
    runner = runner_for(Sampler=CpuSampler, **change)
    monkeypatch.setattr(runner.sampler, "initialize", lambda **_: pytest.fail("started"))
    with pytest.raises(ValueError, match=message):
        runner.train()


def test_runners_of_2019_may_use_the_progress_bar():
    class OldStyle(MinibatchRl):
        def log_diagnostics(self, *args, **kwargs):
            self.pbar.stop()
            super().log_diagnostics(*args, **kwargs)
            self.pbar.update(1)

    runner_for(OldStyle, n_itr=2).train()
