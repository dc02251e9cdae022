"""The environment that fails as told does fail as told."""

import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.faulty import FaultError, FaultyEnv, UnpicklableError


def test_it_fails_where_and_when_told():
    with pytest.raises(FaultError, match="init"):
        FaultyEnv("raise", "init")
    env = FaultyEnv("raise", "reset", at=2)
    env.reset()
    with pytest.raises(FaultError, match="reset, call 2"):
        env.reset()
    env = FaultyEnv("exit", "step", at=3, length=9)
    env.reset()
    env.step(0), env.step(0)
    with pytest.raises(SystemExit, match="3"):
        env.step(0)


def test_an_exception_that_cannot_be_pickled():
    env = FaultyEnv("unpicklable", "step")
    env.reset()
    with pytest.raises(UnpicklableError, match="because this is a test") as caught:
        env.step(0)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(caught.value)


def test_nan_comes_from_the_given_step_on():
    env = FaultyEnv("nan", "step", at=2, length=9)
    env.reset()
    assert np.isfinite(env.step(0).reward)
    step = env.step(0)
    assert np.isnan(step.reward) and np.isnan(step.observation).all()


def test_hanging_lasts_as_long_as_told():
    env = FaultyEnv("hang", "step", hang_s=0.2)
    env.reset()
    start = time.monotonic()
    env.step(0)
    assert 0.2 <= time.monotonic() - start < 2


@pytest.mark.parametrize("fault, code", [("kill", -9), ("vanish", 3)])
def test_the_process_dies(fault, code):
    script = f"from tests.faulty import FaultyEnv; FaultyEnv({fault!r}, 'init'); print('alive')"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert child.returncode == code and not child.stdout


def test_one_victim_among_all_constructions(tmp_path):
    kwargs = dict(where="reset", victim=2, tally=tmp_path / "tally", length=4)
    envs = [FaultyEnv("raise", **kwargs) for _ in range(4)]
    for number, env in enumerate(envs):
        if number == 2:
            with pytest.raises(FaultError):
                env.reset()
        else:
            env.reset()


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="fault='explode'"):
        FaultyEnv("explode")
    with pytest.raises(ValueError, match="victim=1 needs tally"):
        FaultyEnv(victim=1)
