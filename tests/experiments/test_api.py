"""``rlpyt.train`` and its relatives, custom classes by name, and the names of the package."""

import json
import os
import shlex
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.vector import make_vec
from rlpyt.errors import ConcurrentRunError, NonFiniteError
from rlpyt.experiments import rundir
from rlpyt.experiments.api import options_of
from rlpyt.experiments.registry import algorithm_named, base_algorithm, import_named
from rlpyt.experiments.settings import default_options, plain_fields
from rlpyt.models.mlp import MlpModel
from rlpyt.runners.hooks import Hook
from rlpyt.utils.checks import setting
from rlpyt.utils.logging.lock import RunDirectoryError
from rlpyt.utils.names import UnknownName
from tests.cli.test_commands import rlpyt_command
from tests.programs import run_script

HERE = __name__
SERIAL = dict(sampler=dict(kind="serial", batch_T=16, batch_B=2), progress=False)


@dataclass(eq=False)
class PenalizedPPO(PPO):
    """PPO with a penalty of large weights."""

    learning_rate: float = setting(7e-4, gt=0, doc="step size")
    penalty: float = setting(1e-4, ge=0, doc="weight of squared parameters")

    opt_info_fields = (*PPO.opt_info_fields, "squares")

    def loss(self, batch):
        loss, *others = super().loss(batch)
        squares = sum(p.square().sum() for p in self.agent.parameters())
        return loss + self.penalty * squares, *others, squares


class WideModel(torch.nn.Module):
    def __init__(self, observation_shape, output_size, width=32):
        super().__init__()
        self.body = MlpModel(observation_shape[0], [width])
        self.pi, self.v = torch.nn.Linear(width, output_size), torch.nn.Linear(width, 1)

    def forward(self, observation, prev_action, prev_reward):
        features = self.body(observation)
        return torch.softmax(self.pi(features), -1), self.v(features).squeeze(-1)


class WideAgent(CategoricalMlpAgent):
    ModelCls = WideModel


class FromScratch(RlAlgorithm):
    """Not a dataclass, as algorithms written for rlpyt (2019)."""

    def __init__(self, discount: float = 0.9, n_updates: int = 3, anything=None):
        self.discount, self.n_updates = discount, n_updates

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples, **kwargs):
        self.agent, self.batch_spec = agent, batch_spec

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        self.update_counter += self.n_updates
        return self.OptInfo()


def cartpole():
    return rlpyt.make("CartPole-v1")


def test_training_in_python_is_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--steps 320 --sampler.kind serial --sampler.batch-T 16 --sampler.batch-B 2"
    flags += " --no-video --eval-episodes 0 --algo.learning-rate 2e-3 --algo.epochs 1 --run-dir b"
    run = rlpyt.train(
        "ppo", "CartPole-v1", steps=320, learning_rate=2e-3, epochs=1, run_dir="a", video=False,
        eval_episodes=0, **SERIAL,
    )  # fmt: skip
    assert rlpyt_command("train", "ppo", "CartPole-v1", *flags.split()) == 0
    other = rlpyt.load("b")
    assert run.options == other.options
    pairs = zip(run.agent.state_dict().values(), other.agent.state_dict().values(), strict=True)
    assert all(torch.equal(x, y) for x, y in pairs)
    assert rlpyt.evaluate(run, 2) == rlpyt.evaluate("b", 2)
    assert repr(run) == f"Run({str(tmp_path / 'a')!r}: ppo on CartPole-v1, iteration 9)"


def leaving():
    """CartPole that changes the working directory late."""
    env = rlpyt.make("CartPole-v1")
    steps = iter(range(1000))
    step = env.step

    def step_and_leave(action):
        if next(steps) == 310:
            os.chdir("/")
        return step(action)

    env.step = step_and_leave
    return env


def test_a_working_directory_that_changes_late_does_not_lose_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = rlpyt.train("ppo", leaving, steps=640, epochs=1, run_dir="a", **SERIAL)
    assert run.itr == 19


def test_two_runs_of_the_same_second_get_different_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rundir.time, "strftime", lambda format: "now")
    for _ in range(2):
        rlpyt.train("ppo", "CartPole-v1", steps=64, **SERIAL)
    with pytest.raises(ValueError, match="minibatches"):  # fails to start
        rlpyt.train("ppo", "CartPole-v1", steps=64, minibatches=0, **SERIAL)
    names = ["ppo-CartPole-v1-now", "ppo-CartPole-v1-now-2"]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == names


def test_a_training_in_a_second_thread_is_refused(tmp_path):
    settings = dict(steps=64, **SERIAL)

    class Second(Hook):
        def on_start(self, runner):
            with ThreadPoolExecutor(1) as thread:
                second = thread.submit(
                    rlpyt.train, "ppo", "CartPole-v1", run_dir=tmp_path / "b", **settings
                )
            self.error = second.exception()

    second = Second()
    rlpyt.train("ppo", "CartPole-v1", run_dir=tmp_path / "a", hooks=[second], **settings)
    assert isinstance(second.error, ConcurrentRunError)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_parameters_that_are_nan_are_named_before_an_evaluation(tmp_path):
    run = rlpyt.train("a2c", "CartPole-v1", steps=64, batch_T=8, batch_B=2, run_dir=tmp_path)
    with torch.no_grad():
        run.agent.model.value.model[0].weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"value\.model\.0\.weight"):
        run.evaluate(1)


class InterruptRun(rlpyt.Hook):
    """Presses Ctrl-C."""

    def on_iteration(self, runner, itr):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("progress", [True, False])
def test_an_interrupted_run_says_how_to_resume_it_in_python(progress, tmp_path, capsys):
    small = dict(steps=32, batch_T=8, batch_B=2, run_dir=tmp_path)
    with pytest.raises(SystemExit):
        rlpyt.train("a2c", "CartPole-v1", hooks=[InterruptRun()], progress=progress, **small)
    (said,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("Resume with")]
    assert said == f"Resume with: rlpyt.train(..., run_dir={str(tmp_path)!r}, resume=True)"
    assert rlpyt.train("a2c", "CartPole-v1", resume=True, progress=progress, **small)


def test_classes_train_and_are_loaded_by_name(tmp_path):
    run = rlpyt.train(
        PenalizedPPO, cartpole, steps=64, agent=WideAgent, penalty=1e-3, run_dir=tmp_path / "run",
        **SERIAL,
    )  # fmt: skip
    loaded = rlpyt.load(tmp_path / "run")
    assert (run.options.algo_name, run.options.env) == (f"{HERE}:PenalizedPPO", f"{HERE}:cartpole")
    assert type(loaded.agent) is WideAgent and loaded.agent.model.pi.in_features == 32
    assert "squaresAverage" in (tmp_path / "run" / "progress.csv").read_text()
    resumed = rlpyt.train(
        PenalizedPPO, cartpole, steps=128, agent=WideAgent, run_dir=tmp_path / "run", resume=True,
        **SERIAL,
    )  # fmt: skip
    assert resumed.itr == 3


class EndsAt(Hook):
    """Stops training after the last iteration that ends within ``steps``."""

    def __init__(self, steps):
        self.steps = steps

    def on_iteration(self, runner, itr):
        if runner.cum_steps + runner.itr_batch_size > self.steps:
            runner.request_stop()


def test_a_resumed_run_keeps_its_seed_and_warns_of_another(tmp_path):
    whole, parts = (
        dict(run_dir=tmp_path / name, epochs=1, **SERIAL) for name in ("whole", "parts")
    )
    expected = rlpyt.train("ppo", "CartPole-v1", steps=128, seed=3, **whole)
    rlpyt.train("ppo", "CartPole-v1", steps=128, seed=3, hooks=[EndsAt(64)], **parts)
    with pytest.warns(UserWarning, match="seed must be 3, as in the run.* got 5") as caught:
        run = rlpyt.train("ppo", "CartPole-v1", steps=128, seed=5, resume=True, **parts)
    assert len([x for x in caught if "seed" in str(x.message)]) == 1
    found = run.agent.state_dict()
    for name, x in expected.agent.state_dict().items():
        assert torch.equal(x, found[name]), name
    config, params = (
        json.loads((tmp_path / "parts" / name).read_text())
        for name in ("config.json", "params.json")
    )
    assert [config["seed"], params["run_ID"], params["seed"], run.options.seed] == [3] * 4


class Idle(rlpyt.Hook):
    """Does nothing."""


def test_a_run_that_is_resumed_without_its_hooks_warns(tmp_path):
    kwargs = dict(run_dir=tmp_path / "run", epochs=1, **SERIAL)
    rlpyt.train("ppo", "CartPole-v1", steps=64, hooks=[Idle()], **kwargs)
    with pytest.warns(UserWarning, match="hooks .*: Idle"):
        rlpyt.train("ppo", "CartPole-v1", steps=128, resume=True, **kwargs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rlpyt.train("ppo", "CartPole-v1", steps=192, resume=True, hooks=[Idle()], **kwargs)
    assert not [x for x in caught if "hooks" in str(x.message)]


def test_classes_are_named_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = "--steps 64 --no-video --eval-episodes 1 --algo.penalty 0.5 --sampler.kind serial"
    model = ["--agent.model-cls", f"{HERE}:WideModel", "--agent.model", '{"width": 8}']
    command = ["train", f"{HERE}:PenalizedPPO", f"{HERE}:cartpole", *flags.split(), *model]
    assert rlpyt_command(*command, "--run-dir", "a") == 0
    run = rlpyt.load("a")
    assert run.agent.model.pi.in_features == 8 and run.options.algo["penalty"] == 0.5
    agent = ["--agent", f"{HERE}:WideAgent", "--sampler.batch-T", "16"]
    command = ["train", f"{HERE}:FromScratch", "CartPole-v1", *flags.split()]
    command.remove("--algo.penalty"), command.remove("0.5")
    assert rlpyt_command(*command, *agent, "--algo.n-updates", "2", "--run-dir", "b") == 0
    assert rlpyt.load("b").options.algo == {"discount": 0.9, "n_updates": 2}
    assert rlpyt_command(*command, "--run-dir", "c") == 2


def test_the_command_finds_names_of_the_package(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None)
    monkeypatch.setattr(main, "__file__", "/usr/bin/rlpyt", raising=False)
    assert import_named("rlpyt:PPO", "algorithm") is PPO


def test_a_subclass_has_the_preset_except_for_what_it_declares():
    ppo = default_options("ppo", "CartPole-v1")
    own = default_options(f"{HERE}:PenalizedPPO", "CartPole-v1")
    assert base_algorithm(own.algo_name) == "ppo" and own.sampler == ppo.sampler
    assert own.algo == {**ppo.algo, "learning_rate": 7e-4, "penalty": 1e-4}
    assert base_algorithm(f"{HERE}:FromScratch") == ""
    assert [*plain_fields(FromScratch)] == ["discount", "n_updates"]


@pytest.mark.parametrize(
    "kwargs, error, message",
    [
        (dict(lr=1e-3), UnknownName, "'lr'; .*'learning_rate'"),
        (dict(n_envs=4), UnknownName, "'n_envs'; .*'batch_B'"),
        (dict(batch_size=64), UnknownName, "'batch_size'; .*'minibatches'"),
        (dict(batch_B="many"), TypeError, "batch_B='many'"),
        (dict(sampler=dict(kind="fast")), UnknownName, "sampler.kind 'fast'"),
        (dict(preset="none"), UnknownName, "preset 'none'"),
        (dict(algo=dict(epochs=2), epochs=3), ValueError, r"epochs is given twice: .* algo=dict"),
        (dict(batch_T=2, sampler=dict(batch_T=3)), ValueError, "batch_T is given twice"),
    ],
)
def test_wrong_settings_are_named(kwargs, error, message):
    with pytest.raises(error, match=message):
        options_of("ppo", "CartPole-v1", **kwargs)


def test_a_setting_of_several_parts_may_be_given_to_each_but_not_by_name_too():
    by_part = dict(sampler=dict(batch_T=3), algo=dict(batch_T=4))
    options = options_of("r2d1", "CartPole-v1", **by_part)
    assert (options.sampler.batch_T, options.algo["batch_T"]) == (3, 4)
    with pytest.raises(ValueError, match=r"batch_T is given twice: .* algo=dict\(batch_T=4\)"):
        options_of("r2d1", "CartPole-v1", batch_T=2, **by_part)


def test_settings_may_be_given_by_part():
    given = options_of("ppo", "CartPole-v1", algo=dict(epochs=2), agent=dict(hidden_sizes=[8]))
    assert given == options_of("ppo", "CartPole-v1", epochs=2, hidden_sizes=[8])


def test_flags_of_other_libraries_are_translated(capsys):
    flags = ["--lr", "1e-3", "--total-timesteps=1000", "--batch-size", "64"]
    assert rlpyt_command("train", "ppo", "CartPole-v1", *flags) == 2
    err = capsys.readouterr().err
    assert "--lr is called --algo.learning-rate in rlpyt." in err
    assert "--total-timesteps is called --steps in rlpyt." in err
    assert "--batch-size is called --algo.minibatches in rlpyt: the number of minibatches" in err
    assert (
        rlpyt_command("train", "td3", "Pendulum-v1", "--normalize-reward", "--buffer-size=9") == 2
    )
    err = capsys.readouterr().err
    assert "--algo.normalize-reward: normalize_reward is a setting of ppo, a2c, vtrace, " in err
    assert "--buffer-size is called --algo.replay-size in rlpyt." in err
    assert rlpyt_command("train", "ppo", "CartPole-v1", "--buffer-size", "9") == 2
    assert "--buffer-size: replay_size is a setting of dqn, " in capsys.readouterr().err


def test_an_algorithm_without_a_preset_asks_for_an_agent(capsys):
    assert rlpyt_command("train", f"{HERE}:FromScratch", "CartPole-v1", "--steps", "1") == 2
    assert "--agent rlpyt:CategoricalMlpAgent (discrete actions)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, message",
    [
        ("os:path", "^algorithm='os:path' .*standard module"),
        (f"{HERE}:Nothing", f"{HERE} .*'Nothing'"),
        (f"{HERE}:WideModel", "initialize and optimize_agent"),
        ("no_such_module:Algo", "'no_such_module'"),
        (PPO(), r"^algorithm=PPO\("),
    ],
)
def test_wrong_classes_are_named(name, message):
    with pytest.raises((ValueError, ImportError), match=message):
        options_of(name, "CartPole-v1")


class Local(PPO):
    """PPO by another name."""


def test_algorithms_are_named_in_any_case_or_by_their_class():
    class Unnamed(PPO):
        pass

    for given in ("PPO", "Ppo", rlpyt.PPO, "ppo"):
        assert options_of(given, "CartPole-v1") == options_of("ppo", "CartPole-v1")
    assert algorithm_named("SAC-V") == "sac_v"
    assert algorithm_named(rlpyt.CategoricalDQN) == "catdqn"
    assert algorithm_named(Local) == f"{HERE}:Local"
    assert algorithm_named(Unnamed) is Unnamed
    for given in (Local, Unnamed):
        options = options_of(given, "CartPole-v1")
        assert options.sampler == options_of("ppo", "CartPole-v1").sampler
        assert base_algorithm(options.algo_name) == "ppo"


def test_every_name_of_the_package_loads():
    assert {"train", "load", "evaluate", "make", "PPO", "CpuSampler"} <= set(rlpyt.__all__)
    for name in rlpyt.__all__:
        assert getattr(rlpyt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        rlpyt.Nothing  # noqa: B018


def test_importing_the_package_loads_no_heavy_library():
    code = "import rlpyt, sys; print({'torch', 'numpy', 'gymnasium'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_script_trains_with_its_own_classes(tmp_path):
    script = tmp_path / "own.py"
    script.write_text(
        "import rlpyt\n"
        "def env():\n    return rlpyt.make('CartPole-v1')\n"
        "if __name__ == '__main__':\n"
        "    run = rlpyt.train('ppo', env, steps=64, batch_T=16, batch_B=2, run_dir='run')\n"
        "    print(run.options.env, len(run.evaluate(2).returns))\n"
    )
    done = run_script(script, directory=tmp_path)
    assert done.stdout.rstrip().endswith("own:env 2"), done.stderr


def test_the_length_of_batches_is_the_samplers_where_sequences_need_memory():
    for algo in ("dqn", "sac"):
        options = options_of(algo, "CartPole-v1", batch_T=2)
        assert options.sampler.batch_T == 2
        assert options.algo["batch_T"] != 2
    with pytest.raises(ValueError, match="batch_T .*several"):
        options_of("r2d1", "CartPole-v1", batch_T=2)


FLOAT32 = [  # the last: exported in the fast tests, too; an export takes seconds
    ("ppo", "CartPole-v1", dict(memory="gtrxl", memory_size=8, normalize_observation=True), False),
    ("vtrace", "Pendulum-v1", {}, True),
    ("sac", "CartPole-v1", {}, False),
    ("sac", "Pendulum-v1", dict(memory="gru", memory_size=8), True),
    ("td3", "Pendulum-v1", {}, False),
    ("rainbow", "CartPole-v1", {}, False),
    ("iqn", "CartPole-v1", {}, False),
    ("r2d1", "CartPole-v1", {}, False),
]


@pytest.mark.parametrize(
    "algo, env, agent, export",
    [
        *FLOAT32,
        *(pytest.param(*x[:3], True, marks=pytest.mark.slow) for x in FLOAT32 if not x[3]),
    ],
)
def test_training_is_in_float32_whatever_the_default_dtype_of_torch_is(
    algo, env, agent, export, tmp_path
):
    sampler = dict(kind="serial", batch_T=16, batch_B=4)
    replay = {} if algo in ("ppo", "vtrace") else dict(min_steps_learn=64)
    replay |= dict(replay_ratio=8) if algo in ("sac", "td3", "rainbow", "iqn") else {}
    torch.set_default_dtype(torch.float64)
    try:
        kwargs = dict(steps=192, progress=False, sampler=sampler, agent=agent, **replay)
        run = rlpyt.train(algo, env, run_dir=tmp_path / "run", **kwargs)
        assert torch.get_default_dtype() == torch.float64
        observation = gymnasium.make(env).reset()[0]
        run.act(observation)
        if export:
            run.export(tmp_path / "policy.pt2", steps=3)
    finally:
        torch.set_default_dtype(torch.float32)
    networks = [x for x in vars(run.agent).values() if isinstance(x, torch.nn.Module)]
    assert networks
    assert all(x.dtype == torch.float32 for net in networks for x in net.parameters())


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_the_default_dtype_of_torch_changes_no_noise(algo, tmp_path):
    kwargs = dict(steps=48, min_steps_learn=32, batch_size=16, replay_ratio=16, hidden_sizes=[8])
    kwargs |= dict(progress=False, sampler=dict(kind="serial"))
    states = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            run = rlpyt.train(algo, "Pendulum-v1", run_dir=tmp_path / str(dtype), **kwargs)
        finally:
            torch.set_default_dtype(torch.float32)
        states.append(run.agent.state_dict())
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch):
    there = tmp_path / "deleted"
    there.mkdir()
    monkeypatch.chdir(there)
    there.rmdir()
    for run_dir in ("relative", tmp_path / "run"):
        with pytest.raises(RunDirectoryError, match="working directory was deleted"):
            rlpyt.train("ppo", "CartPole-v1", steps=64, run_dir=run_dir)


def test_an_empty_run_directory_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="run_dir.*must not be empty"):
        rlpyt.train("ppo", "CartPole-v1", steps=32, run_dir="", **SERIAL)
    for flags in ((), ("--resume", "auto")):
        assert rlpyt_command("train", "ppo", "CartPole-v1", "--run-dir", "", *flags) == 2
        assert "--run-dir" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_run_directories_have_names_that_a_file_system_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunDirectoryError, match="at most 255 bytes, got 300 for nnn"):
        rlpyt.train("ppo", "CartPole-v1", steps=32, run_dir="n" * 300, **SERIAL)
    assert not [*tmp_path.iterdir()]
    for name, whole in (("E" * 220, True), ("E" * 240, False)):
        options = default_options("ppo", "CartPole-v1").updated({"env": f"module:{name}"})
        with rundir.run_directory(options, None) as path:
            assert path.exists() and (name in path.name) is whole


def test_commands_to_copy_quote_their_paths(tmp_path, capsys, monkeypatch):
    path = tmp_path / "my runs" / "a'b"
    (path / "checkpoint" / "checkpoint-0").mkdir(parents=True)
    with pytest.raises(SystemExit), rundir.showing_how_to_resume(path):
        raise SystemExit(143)
    command = capsys.readouterr().out.partition("Resume with: ")[2]
    assert shlex.split(command)[-2:] == ["resume", str(path)]
    with pytest.raises(FileExistsError) as error:
        rlpyt.train("ppo", "CartPole-v1", run_dir=path, **SERIAL)
    assert f"rlpyt resume {shlex.quote(str(path))})" in str(error.value)


def two_cartpoles():
    return make_vec("CartPole-v1", num_envs=2)


def test_a_run_of_vector_environments_is_evaluated_in_a_single_one(tmp_path):
    path = tmp_path / "run"
    run = rlpyt.train("ppo", two_cartpoles, steps=32, minibatches=2, run_dir=path, **SERIAL)
    with pytest.raises(ValueError, match=r"two_cartpoles makes 2\..*rlpyt.load\(.*env=") as error:
        run.evaluate(1)
    assert "--eval-interval-steps" in str(error.value)
    assert rlpyt.load(path, env="CartPole-v1").evaluate(1).lengths[0] > 0


class Overwrites(gymnasium.Env):
    """Changes the actions that it is given."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def reset(self, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        action[...] = 1
        return self.observation_space.sample(), 0.0, False, False, {}


def test_the_previous_action_is_the_one_that_was_chosen(tmp_path):
    settings = dict(agent=dict(memory="lstm", hidden_sizes=[4]), minibatches=2, steps=32)
    run = rlpyt.train("ppo", Overwrites, run_dir=tmp_path / "run", **settings, **SERIAL)
    chosen = run.act(np.zeros(2, np.float32))
    before = chosen.copy()
    chosen[...] = 1 - before
    assert np.array_equal(run._prev_action, before)
