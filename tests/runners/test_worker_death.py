"""After the death of a worker, the master saves the last complete iteration."""

import itertools
import os
import signal

import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.envs.vector.wrappers.standardize import StandardizeObservation
from rlpyt.errors import NonFiniteError, WorkerError
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv
from tests.runners.test_minibatch_rl import N_ITR, StopAfter, T, rows_of, runner_for


def killed_in(method, itr, Sampler):
    """A sampler whose worker is killed before this call."""

    class Killed(Sampler):
        pass

    def call(self, i):
        if i == itr:
            os.kill(self.workers[0].pid, signal.SIGKILL)
        return getattr(Sampler, method)(self, i)

    setattr(Killed, method, call)
    return Killed


def train_until_death(runner, run_dir):
    with pytest.raises(WorkerError) as died, run_context(run_dir, 0, "run"):
        runner.train()
    return died.value


@pytest.mark.parametrize("Sampler", [CpuSampler, GpuSampler])
def test_death_in_sampling_costs_the_iteration_and_the_environments(Sampler, tmp_path):
    first = runner_for(MinibatchRl, killed_in("obtain_samples", 3, Sampler))
    error = train_until_death(first, tmp_path)
    (note,) = error.__notes__
    assert note.startswith("Checkpoint after iteration 2 in ")
    saved = load_checkpoint(tmp_path / "checkpoint").state["agent"]
    untouched = runner_for(MinibatchRl, Sampler, hooks=[StopAfter(2)])
    untouched.train()
    own = untouched.agent.state_dict()
    assert all(torch.equal(own[k], saved[k]) for k in own)
    second = runner_for(MinibatchRl, Sampler, resume_from=tmp_path / "checkpoint")
    with run_context(tmp_path, 0, "run", resume=True):
        second.train()
    assert second.start_itr == 3 and len(rows_of(tmp_path)) == N_ITR // 2
    assert second.itr == N_ITR - 1


def test_death_in_an_evaluation_costs_nothing(tmp_path):
    whole = runner_for(MinibatchRlEval, CpuSampler)
    whole.train()
    first = runner_for(MinibatchRlEval, killed_in("evaluate_agent", 3, CpuSampler))
    train_until_death(first, tmp_path)
    second = runner_for(MinibatchRlEval, CpuSampler, resume_from=tmp_path / "checkpoint")
    with run_context(tmp_path, 0, "run", resume=True):
        second.train()
    a, b = whole.agent.state_dict(), second.agent.state_dict()
    assert second.start_itr == 4 and all(torch.equal(a[k], b[k]) for k in a)
    assert len(rows_of(tmp_path)) == 1 + N_ITR // 2


@pytest.mark.parametrize("itr, kept", [(0, 0), (3, 1)])
def test_what_is_saved_already_or_not_begun_is_not_saved_again(itr, kept, tmp_path):
    size = runner_for().sampler.batch_size
    runner = runner_for(
        MinibatchRl,
        killed_in("obtain_samples", itr, CpuSampler),
        checkpoint_interval_steps=3 * size,
    )
    error = train_until_death(runner, tmp_path)
    assert not getattr(error, "__notes__", [])
    assert len([*tmp_path.glob("checkpoint/checkpoint-*")]) == kept


def nan_after(n_steps):
    """Build CartPole whose reward is NaN in this step."""
    env, count = make(id="CartPole-v1"), itertools.count(1)
    step = env.step

    def spoiled(action):
        result = step(action)
        return result._replace(reward=float("nan")) if next(count) == n_steps else result

    env.step = spoiled
    return env


@pytest.mark.parametrize("Sampler", [SerialSampler, CpuSampler])
def test_a_nan_from_an_environment_keeps_the_last_iteration(Sampler, tmp_path):
    runner = runner_for(Sampler=Sampler)
    runner.sampler.EnvCls, runner.sampler.env_kwargs = nan_after, dict(n_steps=60)
    runner.sampler.max_decorrelation_steps = 0
    errors = pytest.raises((NonFiniteError, WorkerError), match="reward .*finite")
    with errors as caught, run_context(tmp_path, 0, "run"):
        runner.train()
    assert f"Checkpoint after iteration 2 in {tmp_path}" in "".join(caught.value.__notes__)


def test_an_agent_that_is_not_finite_is_not_saved(tmp_path):
    class Spoil(Hook):
        def on_iteration(self, runner, itr):
            if itr == 2:
                next(runner.agent.parameters()).data.fill_(float("nan"))

    runner = runner_for(hooks=[Spoil()])
    with pytest.raises((ArithmeticError, AssertionError)), run_context(tmp_path, 0, "run"):
        runner.train()
    assert not [*tmp_path.glob("checkpoint/checkpoint-*")]


def test_a_failing_hook_does_not_keep_others_from_ending(tmp_path):
    ended = []

    class Ends(Hook):
        def __init__(self, name):
            self.name = name

        def on_end(self, runner):
            ended.append(self.name)
            if self.name == "b":
                raise RuntimeError("no room for the report")

    runner = runner_for(Sampler=CpuSampler, n_itr=2, hooks=[Ends(name) for name in "abc"])
    with pytest.raises(RuntimeError, match="no room for the report"):
        runner.train()
    assert ended == ["a", "b", "c"] and not runner.sampler.workers


def standardized(**kwargs):
    return StandardizeObservation(
        SerialVectorEnv([FaultyEnv(rank=rank, **kwargs) for rank in (0, 4)])
    )


@pytest.mark.parametrize("Sampler", [SerialSampler, CpuSampler])
def test_running_statistics_of_environments_survive_a_failure(Sampler, tmp_path):
    fault = dict(at=3 * T + 9, victim=2, tally=str(tmp_path / "tally"))
    sampler = Sampler(standardized, fault, batch_T=T, batch_B=2, max_decorrelation_steps=0)
    runner = MinibatchRl(
        algo=A2C(), agent=CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8])),
        sampler=sampler, n_steps=10 * 2 * T, affinity=dict(n_workers=1, set_affinity=False),
        checkpoint_dir=tmp_path / "c",
    )  # fmt: skip
    with pytest.raises(Exception, match="told to fail") as failed:
        runner.train()
    assert any(note.startswith("Checkpoint after iteration 2") for note in failed.value.__notes__)
    ((known,),) = [
        own["statistics"] for own in load_checkpoint(tmp_path / "c").state["sampler"]["stations"]
    ]
    assert known["StandardizeObservation"]["0"]["count"] == pytest.approx(2 * 3 * T + 2, abs=40)


def test_a_failing_hook_costs_no_environment(tmp_path):
    class Fails(Hook):
        def on_iteration(self, runner, itr):
            if itr == 3:
                raise KeyError("tracker")

    with pytest.raises(KeyError):
        runner_for(hooks=[Fails()], checkpoint_dir=tmp_path / "c").train()
    resumed = runner_for(resume_from=tmp_path / "c")
    resumed.train()
    whole = runner_for()
    whole.train()
    own, other = resumed.agent.state_dict(), whole.agent.state_dict()
    assert resumed.start_itr == 4 and all(torch.equal(own[k], other[k]) for k in own)


def test_one_rank_saves_after_a_failure(tmp_path):
    runner = runner_for(
        SyncRl, Sampler=killed_in("obtain_samples", 3, CpuSampler), checkpoint_dir=tmp_path / "c",
        affinity=[dict(n_workers=1, set_affinity=False)],
    )  # fmt: skip
    with pytest.raises(WorkerError) as died:
        runner.train()
    assert any("Checkpoint after iteration 2" in note for note in died.value.__notes__)
