"""Environments that a configuration may name."""

import json
import sys

import pytest
import torch

import rlpyt
from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.options import RunOptions

MODULE = """
import functools
import os
from os import system
from gymnasium.envs.classic_control import CartPoleEnv

class OwnEnv(CartPoleEnv): pass
class NoEnv: pass
class Forwarding:
    def __getattr__(self, name): return getattr(CartPoleEnv(), name)

def make_env(**kwargs): return CartPoleEnv()
make_rendering = functools.partial(make_env, render_mode="rgb_array")
hidden = functools.partial(functools.partial(system), "true")
lower = "".lower
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module below the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("factories_of_a_test", "code"):  # one has the name of a standard module
        (tmp_path / f"{name}.py").write_text(MODULE)
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield "factories_of_a_test"
    for name in ("factories_of_a_test", "code"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "name", ["OwnEnv", "CartPoleEnv", "Forwarding", "make_env", "make_rendering"]
)
def test_environment_classes_and_functions_of_the_user_are_taken(module, name):
    assert env_recipe(f"{module}:{name}").EnvCls is getattr(sys.modules[module], name)


def test_a_users_module_may_have_the_name_of_a_standard_one(module):
    assert env_recipe("code:make_env").EnvCls.__module__ == "code"


@pytest.mark.parametrize("name", ["system", "hidden", "lower", "os", "number", "NoEnv"])
def test_other_objects_of_a_users_module_are_refused_as_environments(module, name):
    with pytest.raises(ValueError, match="environment class"):
        env_recipe(f"{module}:{name}")


@pytest.mark.parametrize(
    "env_id",
    [
        *("os:system", "posix:system", "subprocess:Popen", "builtins:exec", "this:x"),
        *("torch:load", "numpy:load", "importlib:import_module", "pytest:main"),
        *("gymnasium.envs.registration:load_env_creator", "rlpyt.envs.atari.games:import_extra"),
        "rlpyt.utils.launching.exp_launcher:run_experiments",
    ],
)
def test_functions_of_libraries_are_refused(env_id):
    with pytest.raises(ValueError, match="environment class"):
        env_recipe(env_id)
    assert "this" not in sys.modules  # those of the standard library unimported


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_only_environment_classes_of_installed_packages_are_accepted(folder, tmp_path, monkeypatch):
    name, own = f"package_in_{folder[:4]}", f"own_beside_{folder[:4]}"
    package = tmp_path / folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(package.parent), str(tmp_path), *sys.path])
    (tmp_path / f"{own}.py").write_text(
        f"""
import functools
from {name} import OwnEnv, make_env
partly = functools.partial(make_env, size=3)
def make(**kwargs): return make_env(**kwargs)
"""
    )
    for env_id in (f"{name}:OwnEnv", f"{own}:OwnEnv", f"{own}:make"):
        assert env_recipe(env_id).EnvCls.__name__ in ("OwnEnv", "make")
    for made in ("make_env", "make_rendering", "NoEnv", "Forwarding"):
        with pytest.raises(ValueError, match="environment class"):
            env_recipe(f"{name}:{made}")
    for made in ("make_env", "partly"):
        with pytest.raises(ValueError, match="installed packages"):
            env_recipe(f"{own}:{made}")


@pytest.mark.parametrize(
    "env_id",
    [
        *("gymnasium:make", "gymnasium:make_vec", "rlpyt.envs.gym:make"),
        *(f"rlpyt.envs.vector:{name}" for name in ("make_vec", "make_atari_vec", "make_envpool")),
    ],
)
def test_functions_known_to_make_environments_are_taken(env_id):
    assert env_recipe(env_id).EnvCls.__name__ == env_id.partition(":")[2]


@pytest.mark.parametrize("name", ["make", "make_gym", "make_gymnasium"])
def test_functions_of_envpool_are_taken(name):
    pytest.importorskip("envpool")
    assert env_recipe(f"envpool:{name}").EnvCls.__name__ == name


def test_a_run_directory_does_not_run_a_command(tmp_path):
    RunOptions(algo_name="ppo", env="CartPole-v1").write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"env": "os:system", "env_args": {"command": f"touch {tmp_path}/executed"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    torch.save({"agent_state_dict": {}, "itr": 0}, tmp_path / "params.pkl")
    with pytest.raises(ValueError, match="not an environment"):
        rlpyt.load(tmp_path)
    assert not (tmp_path / "executed").exists()
