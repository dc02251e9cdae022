"""Classes, functions, arrays and paths as settings of runs, by object and by name."""

import functools
import importlib.machinery
import json
import os
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.vector import GaussianMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.traj_info import TrajInfo
from rlpyt.errors import DamagedFile
from rlpyt.experiments import run as run_module
from rlpyt.experiments.agents import use_saved_convolutions
from rlpyt.experiments.api import options_of
from rlpyt.experiments.build import build_algo, env_recipe
from rlpyt.experiments.options import read_options
from rlpyt.models import image_encoder
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils import checkpoint
from rlpyt.utils.checks import setting
from rlpyt.utils.logging.context import run_context
from tests.cli.test_commands import rlpyt_command

HERE = __name__
GOAL = np.array([0.5, 1.0], np.float32)
SERIAL = dict(kind="serial", batch_T=8, batch_B=2)
CPU = {**SERIAL, "kind": "cpu", "n_workers": 1}
FEW = dict(epochs=1, minibatches=1)  # updates
MODULE = f"""
from {HERE} import Reach
class Far(Reach):
    def __init__(self, length=7, **kwargs):
        super().__init__(length, **kwargs)
"""


class Reach(gymnasium.Env):
    """Steps to a goal, which is observed."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=4, goal=GOAL, path=Path("map")):
        assert isinstance(path, Path) and goal.dtype == np.float32
        self.length, self.goal = length, goal

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.goal, {}

    def step(self, action):
        self.t += 1
        return self.goal, 1.0, False, self.t >= self.length, {}


class Factory:
    """Object that makes environments when it is called."""

    def __init__(self, length):
        self.length = length

    def __call__(self, **kwargs):
        return Reach(self.length, **kwargs)

    @staticmethod
    def of_six_steps(**kwargs):
        return Reach(6, **kwargs)


class Net(torch.nn.Module):
    """Encoder of a vector."""

    def __init__(self, shape, output_size=3):
        super().__init__()
        self.linear, self.output_size = torch.nn.Linear(*shape, output_size), output_size

    def forward(self, observation):
        return self.linear(observation)


class Square(torch.nn.Module):
    """Nonlinearity."""

    def forward(self, x):
        return x.square()


class Descent(torch.optim.SGD):
    """Optimizer."""


@dataclass(eq=False)
class OnDescent(rlpyt.PPO):
    """Algorithm whose default optimizer is not of torch."""

    OptimCls: type[torch.optim.Optimizer] = setting(Descent, doc="optimizer")


def train(algo, env, /, run_dir, sampler=SERIAL, **settings):
    """Train for two batches; return the run and the warnings about its file."""
    settings |= FEW if algo == "ppo" else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = rlpyt.train(
            algo, env, steps=32, run_dir=run_dir, sampler=sampler, progress=False, **settings
        )
    return run, [str(w.message) for w in caught if "config.json" in str(w.message)]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A user's file in a directory that is not on the search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "far_env", raising=False)
    monkeypatch.syspath_prepend(tmp_path)  # restores the path that a file's directory is added to
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "far_env.py").write_text(MODULE)
    return "envs/far_env.py:Far"


@pytest.mark.parametrize(
    "name, length",
    [("class", 4), ("partial", 5), ("keywords", 4), ("static method", 6), ("file", 7)],
)
def test_environments_with_a_name_are_loaded_again(name, length, file, tmp_path):
    env = {
        "class": Reach,
        "partial": functools.partial(Reach, 5, goal=2 * GOAL),
        "keywords": functools.partial(Reach, path=Path("other")),
        "static method": Factory.of_six_steps,
        "file": file,
    }[name]
    run, warned = train("ppo", env, tmp_path / "run", env_args={})
    loaded = rlpyt.load(tmp_path / "run")
    assert not warned and run.evaluate(1).lengths == (length,)
    assert loaded.evaluate(2) == run.evaluate(2)


@pytest.mark.parametrize("name", ["lambda", "factory", "local"])
def test_environments_without_a_name_are_given_again(name, tmp_path):
    class Local(Reach):
        pass

    makers = {"lambda": lambda: Reach(5), "factory": Factory(5), "local": Local}
    env, path = makers[name], tmp_path / "run"
    run, warned = train("ppo", env, path, learning_rate=1e-3)
    assert len(warned) == 1 and "cannot describe env=<" in warned[0]
    assert f"rlpyt.load({str(path)!r}, env=...)" in warned[0]
    with pytest.raises(ValueError, match=r"rlpyt\.load\('.*run', env=\.\.\.\)"):
        rlpyt.load(path)
    assert rlpyt.load(path, env=env).evaluate(2) == run.evaluate(2)
    longer = dict(run_dir=path, sampler=SERIAL, progress=False, learning_rate=1e-3, resume=True)
    with pytest.warns(UserWarning, match="describe env"):
        assert rlpyt.train("ppo", env, steps=64, **longer).itr > run.itr
    assert rlpyt_command("resume", str(path), "--steps", "96") == 2


class Goals(TrajInfo):
    """Statistics that count steps with a reward."""

    def step(self, observation, action, reward, *others):
        super().step(observation, action, reward, *others)
        self.Goals = self.get("Goals", 0) + (reward > 0)


def test_an_environment_names_its_statistics(tmp_path):
    def make():
        return Reach(5)

    make.TrajInfoCls = Goals
    run, _ = train("ppo", make, tmp_path / "run")
    assert "GoalsAverage" in (tmp_path / "run" / "progress.csv").read_text().splitlines()[0]
    assert run.recipe.TrajInfoCls is Goals


class CountedReach(Reach):
    """Environment whose class names its statistics."""

    TrajInfoCls = Goals


def test_partials_and_registered_ids_have_the_statistics_of_their_class(monkeypatch):
    entry_point = f"{__name__}:CountedReach"
    for given in (CountedReach, entry_point):
        spec = gymnasium.envs.registration.EnvSpec("CountedReach-v0", given)
        monkeypatch.setitem(gymnasium.registry, spec.id, spec)
        assert env_recipe(spec.id).TrajInfoCls is Goals
    own = functools.partial(Reach, 5)
    own.TrajInfoCls = Goals
    for given in (functools.partial(CountedReach, 5), own):
        assert env_recipe(given).TrajInfoCls is Goals
    for given in (functools.partial(Reach, 5), "CartPole-v1"):
        assert env_recipe(given).TrajInfoCls is TrajInfo


class Noted(Reach):
    """Writes where it was made."""

    def __init__(self, file):
        super().__init__()
        with open(file, "a") as log:
            log.write(f"{os.getpid()}\n")


def test_training_with_workers_makes_no_environment_here(tmp_path):
    small = dict(steps=32, run_dir=tmp_path / "run", env_args={"file": str(tmp_path / "made")})
    rlpyt.train("ppo", Noted, **small, sampler=CPU, progress=False)
    made = {int(pid) for pid in (tmp_path / "made").read_text().split()}
    assert made and os.getpid() not in made


def test_what_is_needed_to_resume_only_is_said(tmp_path):
    _, (warned,) = train("ppo", Reach, tmp_path / "run", learning_rate=lambda progress: 1e-3)
    assert "To resume this run, give it again: rlpyt.train(..., algo={" in warned
    assert rlpyt.load(tmp_path / "run").evaluate(1).lengths


def test_values_reach_workers_and_are_written_with_their_names(file, tmp_path):
    goal, model = np.array([3.0, 4.0], np.float32), dict(nonlinearity=torch.nn.ReLU)
    run, warned = train(
        "PPO", file, tmp_path / "run", CPU, OptimCls=torch.optim.RMSprop,
        env_args=dict(goal=goal, path=Path("a") / "b", length=np.int64(3)),
        agent=dict(model=dict(**model, encoders={"observation": Net}), hidden_sizes=np.array([6])),
    )  # fmt: skip
    assert not warned
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["algo_name"] == "ppo" and config["env"] == file
    assert config["algo"]["OptimCls"] == "RMSprop"
    assert config["env_args"]["path"] == {"$path": "a/b"} and config["env_args"]["length"] == 3
    assert config["agent"]["model"]["encoders"] == {"observation": {"$name": f"{HERE}:Net"}}
    loaded = rlpyt.load(tmp_path / "run")
    assert loaded.evaluate(2) == run.evaluate(2)
    np.testing.assert_array_equal(loaded.env().reset(), goal)
    kinds = {type(module) for module in loaded.agent.model.modules()}
    assert {Net, torch.nn.ReLU} <= kinds
    params = json.loads((tmp_path / "run" / "params.json").read_text())
    assert params["name"] == f"ppo {file}"


def test_objects_without_a_name_reach_workers(tmp_path):
    class Own(rlpyt.PPO):
        pass

    model, path = dict(nonlinearity=lambda: torch.nn.ELU(0.5)), tmp_path / "run"
    run, warned = train(Own, lambda **kw: Reach(3, **kw), path, CPU, agent=dict(model=model))
    assert len(warned) == 1
    for name in ("algo_name=<class", "env=<function", "agent.model.nonlinearity=<function"):
        assert name in warned[0]
    assert "agent={'model': {'nonlinearity': ...}}, algo=..., env=...)" in warned[0]
    loaded = rlpyt.load(path, algo=Own, env=Factory(3), agent=dict(model=model))
    assert loaded.evaluate(2) == run.evaluate(2) and loaded.name == "Own on Factory"


def test_a_schedule_without_a_name_is_not_needed_to_load(tmp_path):
    options = options_of("ppo", Reach, algo=dict(learning_rate=lambda progress: 1e-3))
    with pytest.warns(UserWarning, match=r"algo\.learning_rate=<function.*algo=\{'learning_rate'"):
        options.write(tmp_path)
    assert "$missing" in read_options(tmp_path).algo["learning_rate"]


@pytest.mark.parametrize(
    "settings, place, value",
    [
        (dict(steps=np.int64(64)), "steps", 64),
        (dict(seed=np.uint32(7)), "seed", 7),
        (dict(batch_T=np.int32(8)), "sampler.batch_T", 8),
        (dict(sampler=dict(batch_B=np.float64(4))), "sampler.batch_B", 4),
        (dict(deterministic_acting=np.bool_(True)), "sampler.deterministic_acting", True),
        (dict(kind=np.str_("serial")), "sampler.kind", "serial"),
        (dict(epochs=np.array(2)), "algo.epochs", 2),
        (dict(discount=np.float32(0.5)), "algo.discount", 0.5),
        (dict(learning_rate=torch.tensor(0.25)), "algo.learning_rate", 0.25),
        (dict(normalize_advantage=np.bool_(False)), "algo.normalize_advantage", False),
        (dict(optim_kwargs=dict(betas=(np.float64(0.5), 0.9))), "algo.optim_kwargs",
         {"betas": (0.5, 0.9)}),
        (dict(hidden_sizes=np.array([8, 4])), "agent.hidden_sizes", (8, 4)),
        (dict(hidden_sizes=[np.int64(8)]), "agent.hidden_sizes", (8,)),
        (dict(memory_size=np.int16(3)), "agent.memory_size", 3),
        (dict(model=dict(sizes=[np.int64(1)])), "agent.model", {"sizes": [1]}),
        (dict(env_args=dict(length=3)), "env_args", {"length": 3}),
    ],
)  # fmt: skip
def test_numpy_numbers_are_settings(settings, place, value, tmp_path):
    options = options_of("ppo", Reach, **settings)
    options.write(tmp_path)
    read = read_options(tmp_path)
    *above, name = place.split(".")
    for given in (options, read):
        part = getattr(given, above[0]) if above else given
        found = part[name] if isinstance(part, dict) else getattr(part, name)
        described = {"betas": {"$tuple": [0.5, 0.9]}}
        assert found in ((value, described) if place == "algo.optim_kwargs" else (value,))
        assert type(found) is type(value)


def test_the_command_takes_names_of_classes(file, tmp_path):
    serial = "--sampler.kind serial --sampler.batch-T 8 --sampler.batch-B 2 --steps 16"
    flags = [*serial.split(), "--no-video", "--eval-episodes", "0"]
    for optimizer, nonlinearity in (("RMSprop", "SiLU"), (f"{HERE}:Descent", f"{HERE}:Square")):
        path = tmp_path / nonlinearity.replace(":", "-")
        command = ["train", "PPO", file, *flags, "--run-dir", str(path)]
        command += ["--algo.OptimCls", optimizer]
        command += ["--agent.model", json.dumps({"nonlinearity": nonlinearity})]
        assert rlpyt_command(*command) == 0
        run = rlpyt.load(path)
        assert run.options.algo["OptimCls"] == optimizer and run.options.algo_name == "ppo"
        kinds = [type(module).__name__ for module in run.agent.model.modules()]
        assert nonlinearity.rpartition(":")[2] in kinds and "Tanh" not in kinds


def test_an_algorithm_may_declare_an_optimizer_of_its_own():
    options = options_of(OnDescent, Reach)
    assert options.algo["OptimCls"] == f"{HERE}:Descent"
    assert build_algo(options).OptimCls is Descent


def test_objects_of_another_run_are_used_by_config(tmp_path):
    model = dict(encoders={"observation": functools.partial(Net, output_size=5)})
    flags = ["--sampler.kind", "serial", "--steps", "16", "--no-video", "--eval-episodes", "0"]
    train("ppo", functools.partial(Reach, 5), tmp_path / "a", agent=dict(model=model))
    command = ["train", "--config", str(tmp_path / "a"), *flags, "--run-dir", str(tmp_path / "b")]
    assert rlpyt_command(*command) == 0
    run = rlpyt.load(tmp_path / "b")
    assert run.evaluate(1).lengths == (5,)
    nets = [module for module in run.agent.model.modules() if type(module) is Net]
    assert [net.output_size for net in nets] == [5]


@pytest.mark.parametrize(
    "env, error, message",
    [
        (Reach(), TypeError, "own environments"),
        ("envs/none.py:Far", FileNotFoundError, "envs/none.py .*env="),
        ("envs/far_env.py:None", ValueError, "'None'"),
        (
            "envs/json.py:Far",
            ValueError,
            "module name json",
        ),
    ],
)
def test_other_environments_are_refused_by_name(env, error, message, file, tmp_path):
    (tmp_path / "envs" / "json.py").write_text(MODULE)
    with pytest.raises(error, match=message):
        options_of("ppo", env)


def test_a_refused_file_does_not_take_the_place_of_its_namesake(file, tmp_path, monkeypatch):
    """Workers import modules by name: the directory of the one in use is searched first."""
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "far_env.py").write_text(MODULE)
    (tmp_path / "others" / "more_envs.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "more_envs", raising=False)
    rlpyt.make(file)
    with pytest.raises(ValueError, match="module name far_env"):
        rlpyt.make("others/far_env.py:Far")
    found = importlib.machinery.PathFinder.find_spec("far_env")
    assert found.origin == str(tmp_path / "envs" / "far_env.py")
    rlpyt.make("others/more_envs.py:Far")  # its directory has a far_env, too
    rlpyt.make(file)
    found = importlib.machinery.PathFinder.find_spec("far_env")
    assert found.origin == str(tmp_path / "envs" / "far_env.py")


def test_a_module_of_the_current_directory_is_not_that_of_another(file, tmp_path, monkeypatch):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "far_env.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path / "envs")
    rlpyt.make("far_env:Far")
    monkeypatch.chdir(tmp_path / "others")
    with pytest.raises(ValueError, match="others/far_env.py, but .*envs/far_env.py"):
        rlpyt.make("far_env:Far")
    rlpyt.make("../envs/far_env.py:Far")  # the one that was imported, by its path


def test_a_file_of_a_package_is_imported_with_its_name(file, tmp_path):
    (tmp_path / "own_package_of_envs").mkdir()
    (tmp_path / "own_package_of_envs" / "__init__.py").touch()
    (tmp_path / "own_package_of_envs" / "far.py").write_text("from . import near\n" + MODULE)
    (tmp_path / "own_package_of_envs" / "near.py").touch()
    made = rlpyt.make("own_package_of_envs/far.py:Far")
    assert type(made.unwrapped).__module__ == "own_package_of_envs.far"


class Images(Reach):
    """Small images and continuous actions."""

    observation_space = gymnasium.spaces.Box(0, 255, (1, 16, 16), np.uint8)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        super().__init__(goal=np.zeros((1, 16, 16), np.float32))
        self.goal = self.goal.astype(np.uint8)


class Boxes(Images):
    """Small images and two actions."""

    action_space = gymnasium.spaces.Discrete(2)


class Pixels(torch.nn.Module):
    """Encoder of an image."""

    def __init__(self, shape, output_size=3):
        super().__init__()
        self.linear = torch.nn.Linear(int(np.prod(shape)), output_size)
        self.output_size = output_size

    def forward(self, image):
        return self.linear(image.flatten(-3).float() / 255)


class LazyNet(torch.nn.Sequential):
    """Encoder of a vector, with a layer that does not say how many inputs it has."""

    def __init__(self, shape, output_size=3):
        super().__init__(torch.nn.LazyLinear(output_size), torch.nn.Tanh())
        self.output_size = output_size


@pytest.mark.parametrize("encoder", [Net, LazyNet])
@pytest.mark.parametrize("algo, env", [("sac", Reach), ("td3", "Pendulum-v1")])
def test_critics_of_a_vector_have_custom_encoders_of_their_own(algo, env, encoder, tmp_path):
    settings = dict(agent=dict(model=dict(encoder=encoder)), algo=dict(min_steps_learn=8))
    run, warned = train(algo, env, tmp_path, **settings)
    assert not warned
    loaded = rlpyt.load(tmp_path)
    networks = (loaded.agent.model, loaded.agent.q_model)
    counts = [[type(x) for x in network.modules()].count(encoder) for network in networks]
    assert counts == [1, 2]
    assert loaded.evaluate(1) == run.evaluate(1)


@pytest.mark.parametrize("encoder", [Pixels, f"{HERE}:Pixels", {"kind": f"{HERE}:Pixels"}])
@pytest.mark.parametrize("algo, env", [("ppo", Boxes), ("rainbow", Boxes), ("ppo", Images)])
def test_images_alone_can_have_a_custom_encoder(algo, env, encoder, tmp_path):
    run, warned = train(algo, env, tmp_path, agent=dict(model=dict(encoder=encoder)))
    assert not warned
    loaded = rlpyt.load(tmp_path)
    assert [type(x) for x in loaded.agent.model.modules()].count(Pixels) == 1
    assert loaded.evaluate(2) == run.evaluate(2)


def test_another_network_than_the_saved_one_is_named_and_can_be_given(tmp_path):
    older = dict(channels=[2], kernel_sizes=[3], strides=[4], feature_size=4)
    model = dict(encoder=older, hidden_sizes=[4])
    run, _ = train("ppo", Images, tmp_path, agent=dict(model=model))
    agent = replace(run.options.agent, model={"hidden_sizes": [4]})
    replace(run.options, agent=agent).write(tmp_path)  # as if the default had been another one
    with pytest.raises(DamagedFile, match="ppo on .*Images .*network"):
        rlpyt.load(tmp_path)
    assert rlpyt.load(tmp_path, agent=dict(model=model)).evaluate(1) == run.evaluate(1)


def make_wrapped(env):
    return GymEnvWrapper(env())


def as_before(monkeypatch):
    """Give images of 16 to 35 pixels their former default network."""
    monkeypatch.setattr(image_encoder, "MIN_STRIDED_SIZE", image_encoder.MIN_NATURE_SIZE)


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_run_with_the_former_network_of_images_is_loaded_and_resumed(algo, tmp_path, monkeypatch):
    with monkeypatch.context() as former:
        as_before(former)
        run, _ = train(algo, Images, tmp_path)
    shapes = {name: x.shape for name, x in run.agent.model.state_dict().items()}
    assert (32, 16, 3, 3) in shapes.values() and (64, 32, 3, 3) not in shapes.values()
    loaded = rlpyt.load(tmp_path)
    assert loaded.evaluate(1) == run.evaluate(1)
    paths = []
    for module, name in ((checkpoint, "_read"), (run_module, "read_snapshot")):
        read = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, read=read: paths.append(a[0]) or read(*a))
    assert rlpyt_command("resume", str(tmp_path), "--steps", "64") == 0
    assert len(paths) == 2  # the checkpoint, then the agent for the evaluation at the end
    loaded = rlpyt.load(tmp_path)
    assert {name: x.shape for name, x in loaded.agent.model.state_dict().items()} == shapes
    assert loaded.itr == 3  # 64 steps
    other = tmp_path / "other"
    started, _ = train(algo, Images, other, init_from=str(tmp_path))
    assert {name: x.shape for name, x in started.agent.model.state_dict().items()} == shapes


def test_models_of_images_alone_keep_their_settings():
    agent = AtariFfAgent()
    use_saved_convolutions(agent, [np.zeros((16, 4, 3, 3)), np.zeros((32, 16, 3, 3))])
    assert "encoder" not in agent.model_kwargs


def test_a_script_with_the_former_network_of_images_is_resumed_by_command(tmp_path, monkeypatch):
    with monkeypatch.context() as former, run_context(tmp_path, 0, "n", snapshot_mode="last"):
        as_before(former)
        sampler = SerialSampler(make_wrapped, dict(env=Images), batch_T=8, batch_B=2)
        parts = dict(algo=PPO(**FEW), agent=GaussianMlpAgent(), sampler=sampler)
        MinibatchRl(**parts, n_steps=32, seed=0).train()
    assert rlpyt_command("resume", str(tmp_path), "--steps", "64") == 0
    shapes = [x.shape for x in rlpyt.load(tmp_path).agent.model.state_dict().values()]
    assert (32, 16, 3, 3) in shapes and (64, 32, 3, 3) not in shapes
