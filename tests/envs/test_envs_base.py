"""The environment contract and the door through which samplers build environments."""

import types

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.base import Env, EnvInfo, EnvLayer, EnvSpaces, EnvStep, build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import BanditEnv
from rlpyt.spaces.int_box import IntBox


class OneState(Env):
    def __init__(self, n=2):
        self._action_space = IntBox(low=0, high=n)
        self._observation_space = IntBox(low=0, high=1)

    def reset(self):
        return np.int32(0)

    def step(self, action):
        return EnvStep(np.int32(0), 1.0, True, EnvInfo())


def test_records_have_rlpyts_fields():
    assert EnvStep._fields == ("observation", "reward", "done", "env_info")
    assert EnvSpaces._fields == ("observation", "action")
    assert not EnvInfo()  # an empty env_info is falsy


def test_a_minimal_env_has_spaces_and_harmless_defaults():
    env = OneState(n=5)
    assert env.spaces == (env.observation_space, env.action_space)
    assert env.spaces.action.n == 5
    assert env.horizon is None and env.get_state() is None
    env.close()
    with pytest.raises(NotImplementedError, match="OneState"):
        env.set_state({})


def test_default_seed_makes_spaces_draw_the_same():
    envs = [OneState(n=1000), OneState(n=1000)]
    for env in envs:
        env.seed(3)
    first, second = ([env.action_space.sample() for _ in range(5)] for env in envs)
    assert first == second


class Random(OneState):
    seeds = ()

    def seed(self, seed):
        self.seeds = (*self.seeds, seed)


class Wrapping(Env):
    """Keeps an environment under another name, and forwards what its classes do not define."""

    action_space = property(lambda self: self.inner.action_space)
    observation_space = property(lambda self: self.inner.observation_space)

    def __init__(self, env):
        self.inner = env

    def __getattr__(self, name):
        return getattr(self.__dict__["inner"], name)


class PlainLayer(Env):
    """Has an environment, and forwards nothing."""

    def __init__(self, env):
        self.env, (self._observation_space, self._action_space) = env, env.spaces


class SeedingItself(EnvLayer):
    action_space = property(lambda self: self.env.action_space)
    observation_space = property(lambda self: self.env.observation_space)

    def __init__(self, env):
        self.env = env

    def seed(self, seed):
        super().seed(seed)
        self.env.seed(seed + 1)


@pytest.mark.parametrize("outer", [Wrapping, PlainLayer])
def test_wrappers_without_a_seed_method_seed_the_environment_inside_once(outer):
    inner = Random()
    outer(Wrapping(inner)).seed(3)
    assert inner.seeds == (3,)


def test_wrappers_that_seed_the_environment_inside_do_so_alone():
    inner = Random()
    SeedingItself(inner).seed(3)
    assert inner.seeds == (4,)


def test_wrappers_around_what_cannot_be_seeded_seed_their_spaces():
    class Simulator:
        observation_space = action_space = IntBox(0, 1000)

    env = Wrapping(Simulator())
    env.seed(3)
    assert env.action_space.sample() == np.random.default_rng(3).integers(1000, dtype="int32")


@pytest.mark.parametrize("missing", ["action_space", "observation_space"])
def test_a_missing_space_is_named(missing):
    env = OneState()
    delattr(env, f"_{missing}")
    with pytest.raises(AttributeError, match=f"OneState .*{missing}"):
        getattr(env, missing)
    with pytest.raises(AttributeError, match=rf"OneState .*{missing} \(worker 3\)"):
        build_env(lambda: env, {}, "worker 3")


def test_build_env_passes_kwargs_and_wraps_bare_gymnasium():
    assert build_env(BanditEnv, dict(means=(1.0, 2.0))).means == (1.0, 2.0)
    wrapped = build_env(gymnasium.make, dict(id="CartPole-v1"))
    assert isinstance(wrapped, GymEnvWrapper) and wrapped.horizon == 500


@pytest.mark.parametrize(
    "EnvCls, message",
    [
        (OneState(), "got <.*OneState.*worker 7"),
        ("CartPole-v1", r"'CartPole-v1' \(worker 7\).*rlpyt.envs.gym.make"),
        (lambda: None, "returned None .*worker 7"),
        (lambda: OneState, "class OneState"),
        (lambda: types.SimpleNamespace(reset=print), "method step"),
    ],
)
def test_build_env_explains_what_is_no_environment(EnvCls, message):
    with pytest.raises(TypeError, match=message):
        build_env(EnvCls, {}, "worker 7")


def test_a_batch_without_its_number_of_rows_hints_at_batched():
    class Rows:
        def __init__(self, num_envs):
            pass

    with pytest.raises(TypeError, match=r"'num_envs' \(worker 7\).*Rows.batched"):
        build_env(Rows, {}, "worker 7")
