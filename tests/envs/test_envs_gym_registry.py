"""Ids: which environment they mean, and what is said when there is none."""

import builtins
import sys
import warnings

import gymnasium
import pytest

from rlpyt.envs.gym import make
from rlpyt.envs.gym_registry import current_id
from rlpyt.errors import WorkerError
from rlpyt.processes.call import run_in_child


@pytest.mark.parametrize(
    "env_id, current, settings",
    [
        ("Hopper-v3", "Hopper-v5", {}),
        ("HalfCheetah-v2", "HalfCheetah-v5", {}),
        ("Pendulum-v0", "Pendulum-v1", {}),
        ("LunarLander-v2", "LunarLander-v3", {}),
        ("PongNoFrameskip-v4", "ALE/Pong-v5", dict(frameskip=1, repeat_action_probability=0.0)),
        ("Pong-v0", "ALE/Pong-v5", dict(frameskip=(2, 5), repeat_action_probability=0.25)),
        (
            "SpaceInvaders-ramDeterministic-v4",
            "ALE/SpaceInvaders-v5",
            dict(frameskip=4, repeat_action_probability=0.0, obs_type="ram"),
        ),
    ],
)
def test_old_ids_resolve_to_the_current_version_with_a_warning(env_id, current, settings):
    with pytest.warns(UserWarning, match=f"'{env_id}' .*'{current}'"):
        assert current_id(env_id) == (current, settings)


@pytest.mark.parametrize("env_id", ["CartPole-v0", "CartPole-v1", "Hopper-v4", "ALE/Pong-v5"])
def test_ids_that_run_are_left_alone(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current_id(env_id) == (env_id, {})


def test_old_ids_run():
    with pytest.warns(UserWarning, match="'InvertedPendulum-v5'"):
        env = make("InvertedPendulum-v2")
    assert env.spec.id == "InvertedPendulum-v5"
    with pytest.warns(UserWarning, match="'ALE/Pong-v5'"):
        env = make("PongNoFrameskip-v4", obs_type="grayscale")
    assert env.reset().shape == (210, 160) and env.unwrapped._frameskip == 1


def test_checker_is_off_by_default():
    assert "PassiveEnvChecker" not in str(make("CartPole-v1").env)
    assert "PassiveEnvChecker" in str(make("CartPole-v1", disable_env_checker=False).env)
    assert make(id="CartPole-v1", max_episode_steps=7).horizon == 7
    assert make(gymnasium.spec("CartPole-v1")).horizon == 500


@pytest.mark.parametrize(
    "env_id, nearest",
    [
        ("Brekout-v5", "ALE/Breakout-v5"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPol-v1", "'CartPole-v1"),
        ("Pendulm-v1", "'Pendulum-v1"),
        ("ALE/Pnog-v5", "ALE/Pong"),
    ],
)
def test_unknown_ids_get_the_nearest_and_the_extras(env_id, nearest):
    with pytest.raises(ValueError, match=rf"'{env_id}'; .*{nearest}.*\[atari,minatar\]"):
        make(env_id)
    with pytest.raises(ValueError, match="nearest: none"):
        make("Zyxwvutsrq-v1")
    with pytest.raises(ValueError, match="nearest: .*Pendulum-v1"):
        make("Pendulum-v77")


@pytest.mark.parametrize("env_id", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_missing_atari_says_what_to_install(env_id, monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)  # import ale_py now raises
    saved = dict(gymnasium.registry)
    for known in [k for k in saved if "Pong" in k]:
        monkeypatch.delitem(gymnasium.registry, known)
    with pytest.raises(ImportError, match=r"ale_py\. .*\[atari\]'"):
        make(env_id)


def test_missing_mujoco_says_what_to_install(monkeypatch):
    real_import = builtins.__import__

    def no_mujoco(name, *args, **kwargs):
        if name.partition(".")[0] == "mujoco":
            raise ImportError("no module named mujoco")
        return real_import(name, *args, **kwargs)

    for module in [m for m in sys.modules if "mujoco" in m]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", no_mujoco)
    with pytest.raises(ImportError, match=r"'Ant-v5' .*\[mujoco\]'"):
        make("Ant-v5")


def test_a_worker_says_that_it_does_not_know_what_the_script_registers():
    gymnasium.register("OfThisProcess-v0", entry_point=f"{__name__}:Nothing")
    try:
        with pytest.raises(WorkerError, match="'module:OfThisProcess-v0'") as e:
            run_in_child(make, "OfThisProcess-v0")
    finally:
        del gymnasium.registry["OfThisProcess-v0"]
    assert "Workers do not run the script" in str(e.value)
