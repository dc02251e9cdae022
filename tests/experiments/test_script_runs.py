"""Runs of scripts: loaded, evaluated and resumed from the descriptions of their parts."""

import functools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.envs.gym import make
from rlpyt.envs.vector import make_vec
from rlpyt.envs.vector.wrappers import StandardizeObservation
from rlpyt.experiments import script_runs
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import describe, rebuild
from tests.cli.test_commands import rlpyt_command
from tests.experiments.test_api import PenalizedPPO, WideModel, cartpole

T, B, N_ITR = 16, 2, 6


class NoteSteps(Hook):
    def __init__(self, every=1):
        self.every, self.steps = every, []

    def on_iteration(self, runner, itr):
        self.steps.append(runner.cum_steps)


def runner_for(Sampler=SerialSampler, Runner=MinibatchRl, n_itr=N_ITR, **kwargs):
    evaluation = dict(eval_n_envs=1, eval_max_steps=20) if Runner is MinibatchRlEval else {}
    sampler = Sampler(cartpole, {}, T, batch_B=B, eval_env_kwargs=evaluation and {}, **evaluation)
    algo = PenalizedPPO(penalty=1e-3, linear_lr_schedule=False, optim_kwargs=dict(betas=(0.9, 0.9)))
    agent = CategoricalMlpAgent(WideModel, model_kwargs=dict(width=np.int64(8)))
    return Runner(
        algo=algo, agent=agent, sampler=sampler, n_steps=n_itr * T * B, seed=3,
        affinity=dict(n_workers=1), log_interval_steps=2 * T * B, **kwargs,
    )  # fmt: skip


def trained(run_dir, **kwargs):
    runner = runner_for(**kwargs)
    with run_context(run_dir, 0, "script", snapshot_mode="last"):
        runner.train()
    return runner


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
def test_a_run_of_a_script_is_loaded_and_evaluated(Runner, tmp_path, capsys):
    runner = trained(tmp_path, Runner=Runner)
    run = rlpyt.load(tmp_path)
    assert run.name == "PenalizedPPO on cartpole" and run.options is None
    assert same(run.agent, runner.agent) and run.itr == N_ITR - 1
    assert len(run.evaluate(2).returns) == 2
    assert rlpyt_command("eval", str(tmp_path), "--episodes", "1") == 0
    assert "PenalizedPPO on cartpole: return" in capsys.readouterr().out


@pytest.mark.parametrize(
    "Sampler", [pytest.param(SerialSampler, marks=pytest.mark.slow), CpuSampler]
)
def test_a_resumed_script_is_the_uninterrupted_one(Sampler, tmp_path, capsys):
    whole = trained(tmp_path / "a", Sampler=Sampler)
    trained(tmp_path / "b", Sampler=Sampler, n_itr=3, hooks=[NoteSteps(every=2)])
    steps = str(N_ITR * T * B)
    assert rlpyt_command("resume", str(tmp_path / "b"), "--steps", steps) == 0
    assert same(rlpyt.load(tmp_path / "b").agent, whole.agent)
    rows = [(tmp_path / name / "progress.csv").read_text().splitlines() for name in "ab"]
    assert rows[1][0] == rows[0][0] and len(rows[1]) == len(rows[0]) + 1  # the end of 3 iterations
    status = rlpyt_command("status", str(tmp_path / "b"))
    assert status == 0 and f"of {steps} steps" in capsys.readouterr().out
    table = (tmp_path / "b" / "progress.csv").read_bytes()
    assert rlpyt_command("resume", str(tmp_path / "b")) == 2  # has all its steps
    assert rlpyt_command("resume", str(tmp_path / "b"), "--complete") == 0
    assert rlpyt_command("resume", str(tmp_path / "b"), "--steps", "64") == 2
    assert (tmp_path / "b" / "progress.csv").read_bytes() == table
    assert script_runs.ScriptRun(tmp_path / "b").trusted
    assert rlpyt_command("resume", str(tmp_path / "b"), "--device", "cpu") == 2
    assert "has its devices, ranks and sampler" in capsys.readouterr().err


def test_the_status_of_a_script_is_shown(tmp_path, capsys):
    trained(tmp_path, n_itr=N_ITR + 0.5)
    rlpyt_command("status", str(tmp_path))
    *_, said = capsys.readouterr().out.splitlines()
    assert said.startswith("PenalizedPPO on cartpole: 192 of 208 steps ")
    assert said.endswith(" complete")


def test_what_has_no_description_is_named(tmp_path, capsys):
    runner = runner_for(hooks=[SimpleNamespace(on_log=lambda runner, row: None)])
    with run_context(tmp_path, 0, "script"):
        runner.train()
    assert same(rlpyt.load(tmp_path).agent, runner.agent)  # needs agent and environment only
    assert rlpyt_command("resume", str(tmp_path), "--steps", "1000") == 2
    error = capsys.readouterr().err
    assert "hooks[0] cannot be rebuilt from its file: namespace(" in error
    assert f"Resume the run in its script: MinibatchRl(..., resume_from='{tmp_path}" in error


def test_gym_environments_can_be_filmed(tmp_path):
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B)
    runner = MinibatchRl(algo=A2C(), agent=CategoricalMlpAgent(), sampler=sampler, n_steps=T * B)
    with run_context(tmp_path, 0, "script"):
        runner.train()
    assert rlpyt.load(tmp_path).name == "A2C on CartPole-v1"
    assert rlpyt_command("record", str(tmp_path), "--max-steps", "3", "--gif") == 0
    assert (tmp_path / "video.gif").stat().st_size > 0


def test_command_line_runs_have_their_options_instead(tmp_path):
    rlpyt.train(
        "ppo", "CartPole-v1", steps=32, batch_T=T, batch_B=B, run_dir=tmp_path / "run",
        sampler=dict(kind="serial"), progress=False,
    )  # fmt: skip
    assert not (tmp_path / "run" / "parts.json").exists()


@pytest.mark.parametrize(
    "value",
    [
        None, 1.5, "text", [1, (2, "3")], {"a": {"b": (1,)}}, PPO, cartpole,
        functools.partial(make, id="CartPole-v1"),
    ],
    ids=["none", "float", "text", "list", "dictionary", "class", "function", "partial"],
)  # fmt: skip
def test_descriptions_survive_json(value):
    found = rebuild(json.loads(json.dumps(describe(value))), script_runs.find)
    if isinstance(value, functools.partial):
        assert (found.func, found.args, found.keywords) == (value.func, (), value.keywords)
    else:
        assert found == value


def test_parts_are_built_with_the_arguments_of_their_construction():
    hook = rebuild(describe(NoteSteps(every=4)), script_runs.find)
    assert type(hook) is NoteSteps and hook.every == 4
    curriculum = rebuild(describe(LearningProgress(7)), script_runs.find)
    assert type(curriculum) is LearningProgress and curriculum.n_tasks == 7


def test_a_script_without_a_guard_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "unguarded_script.py").write_text("runner = None\nrunner.train()\nclass Env: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"imported \(line 2\)"):
        script_runs.find("unguarded_script:Env")


@pytest.mark.parametrize("text", ["", "{}", '{"runner": 3}'])
def test_damaged_descriptions_are_named(text, tmp_path):
    (tmp_path / "parts.json").write_text(text)
    with pytest.raises(ValueError, match="description of a run"):
        rlpyt.load(tmp_path)


def test_parts_are_shown_with_the_arguments_of_their_construction():
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=T, batch_B=B)
    assert repr(sampler) == "SerialSampler(make, {'id': 'CartPole-v1'}, batch_T=16, batch_B=2)"
    assert repr(CategoricalMlpAgent()) == "CategoricalMlpAgent()"
    assert repr(A2C(learning_rate=1e-3)).startswith("A2C(discount=0.99, learning_rate=0.001")


def limited(max_episode_steps=9):
    return make(id="CartPole-v1", max_episode_steps=max_episode_steps)


NAMELESS = lambda max_episode_steps: limited(max_episode_steps)  # noqa: PLW0108
NAMELESS_MODEL = lambda **kwargs: WideModel(**kwargs)  # noqa: PLW0108


def trained_without_names(run_dir):
    sampler = SerialSampler(NAMELESS, dict(max_episode_steps=7), T, batch_B=B)
    agent = CategoricalMlpAgent(NAMELESS_MODEL, model_kwargs=dict(width=8))
    runner = MinibatchRl(algo=PPO(), agent=agent, sampler=sampler, n_steps=2 * T * B, seed=3)
    with run_context(run_dir, 0, "script", snapshot_mode="last"):
        runner.train()
    return runner


def test_parts_without_names_are_given_to_load(tmp_path):
    runner = trained_without_names(tmp_path)
    with pytest.raises(ValueError, match=r"sampler.EnvCls .*env=\.\.\.\)"):
        rlpyt.load(tmp_path)
    with pytest.raises(ValueError, match=r"agent.ModelCls .*, agent=\.\.\.\)"):
        rlpyt.load(tmp_path, env=limited)
    agent = CategoricalMlpAgent(WideModel, model_kwargs=dict(width=8))
    run = rlpyt.load(tmp_path, env=NAMELESS, agent=agent)
    assert run.agent is agent and same(run.agent, runner.agent)
    assert run.evaluate(1).lengths == (7,)  # with the arguments in the file


def test_the_environment_of_a_script_can_be_replaced(tmp_path):
    trained(tmp_path)
    limit = dict(max_episode_steps=5)
    for env in (limited, "CartPole-v1", f"{__name__}:limited"):
        run = rlpyt.load(tmp_path, env=env, env_args=limit)
        assert run.evaluate(2).lengths == (5, 5)
    assert rlpyt.load(tmp_path, env=limited).evaluate(1).lengths == (9,)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (dict(agent=dict(model={})), TypeError, "^agent "),
        (dict(learning_rate=1), UnknownName, "'learning_rate'"),
        (dict(env=3), TypeError, "^env "),
    ],
)
def test_other_settings_of_a_script_are_refused(tmp_path, settings, error, message):
    trained(tmp_path)
    with pytest.raises(error, match=message):
        rlpyt.load(tmp_path, **settings)


def trained_in(run_dir, EnvCls, env_kwargs, **kwargs):
    """Train in these environments; return the loaded run."""
    sampler = SerialSampler(EnvCls, env_kwargs, T, batch_B=B, **kwargs)
    agent = CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
    runner = MinibatchRl(algo=PPO(), agent=agent, sampler=sampler, n_steps=4 * T * B, seed=3)
    with run_context(run_dir, 0, "script", snapshot_mode="last"):
        runner.train()
    return rlpyt.load(run_dir)


def limits(first=3, second=4):
    return make(id="CartPole-v1", max_episode_steps=first + second)


@pytest.mark.parametrize(
    ("eval_env_kwargs", "length"), [(None, 5), ({}, 7), ([dict(first=2)] * 2, 6)]
)
def test_agents_are_evaluated_with_the_arguments_of_evaluation(tmp_path, eval_env_kwargs, length):
    settings = dict(eval_env_kwargs=eval_env_kwargs, eval_n_envs=2, eval_max_steps=20)
    run = trained_in(tmp_path, limits, [dict(first=1), dict(first=5)], **settings)
    assert run.evaluate(2).lengths == (length, length)


@pytest.mark.parametrize(
    ("EnvCls", "env_kwargs", "name"),
    [
        (functools.partial(limits, 3), {}, "PPO on limits"),
        (make, [dict(id="CartPole-v1")] * 2, "PPO on CartPole-v1"),
    ],
)
def test_runs_are_named_by_their_environments(tmp_path, EnvCls, env_kwargs, name):
    assert trained_in(tmp_path, EnvCls, env_kwargs).name == name


def limited_by(num_envs):
    return make(id="CartPole-v1", max_episode_steps=num_envs)


def test_a_single_environment_keeps_an_argument_of_that_name(tmp_path):
    run = trained_in(tmp_path, limited_by, dict(num_envs=5))
    assert run.evaluate(2).lengths == (5, 5)


def standardized(num_envs, id="CartPole-v1"):
    return StandardizeObservation(make_vec(id, num_envs))


standardized.batched = True


@pytest.mark.parametrize(
    ("EnvCls", "env_kwargs"),
    [(make_vec, dict(id="CartPole-v1")), (make_vec, dict(id="CartPole-v1", num_envs=B))],
)
def test_agents_of_vector_environments_act_in_one_row(tmp_path, EnvCls, env_kwargs, capsys):
    run = trained_in(tmp_path, EnvCls, env_kwargs)
    alone = rlpyt.load(tmp_path, env=make, env_args=dict(id="CartPole-v1"))
    assert run.evaluate(4).lengths == alone.evaluate(4).lengths
    if "num_envs" not in env_kwargs:  # it is of the agent alone
        assert run.export(tmp_path / "policy.pt2") < 1e-6
    assert rlpyt_command("eval", str(tmp_path), "--episodes", "2") == 0
    assert "over 2 episodes" in capsys.readouterr().out


def test_statistics_of_vector_environments_are_those_of_training(tmp_path):
    run = trained_in(tmp_path, standardized, {})
    (worker,) = load_checkpoint(tmp_path / "checkpoint").state["sampler"]["stations"]
    saved = worker["statistics"][0]["StandardizeObservation"]["0"]
    env, alone = run.env(), make_vec("CartPole-v1", 1)
    for _ in range(2):  # frozen
        env.seed(5)
        alone.seed([5])
        expected = (alone.reset()[0] - saved["mean"]) / np.sqrt(saved["var"])
        np.testing.assert_allclose(env.reset(), expected, rtol=1e-4)
    shutil.rmtree(tmp_path / "checkpoint")
    assert run.evaluate(1).lengths  # with those of the time when the agent was loaded
    with pytest.raises(CheckpointError):
        rlpyt.load(tmp_path)
