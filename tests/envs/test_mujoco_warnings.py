"""Warnings that MuJoCo gives for every model are shown once, by the main process."""

import warnings

import pytest

from rlpyt.envs.gym import make
from rlpyt.processes.call import run_in_child

mujoco = pytest.importorskip("mujoco")


def said_twice():
    """Return the output of the same warning for two models."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        make("InvertedPendulum-v5").close()
        for _ in range(2):
            mujoco.get_mju_user_warning()("something is wrong")
            mujoco.get_mju_user_warning()("something is deprecated")  # in a model of Gymnasium
            with warnings.catch_warnings():  # makes Python forget which warnings it has shown
                warnings.simplefilter("default")
    return [str(one.message) for one in caught if "something" in str(one.message)]


def test_warnings_of_models_are_said_once_and_not_in_children():
    assert said_twice() == ["MuJoCo: something is wrong"]
    assert run_in_child(said_twice) == []
