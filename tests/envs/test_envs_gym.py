"""Gymnasium environments behind rlpyt's interface."""

import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs import gym, gym_schema
from rlpyt.envs.gym import EnvInfoWrapper, GymEnvWrapper, make


class Scripted(gymnasium.Env):
    """Returns what it is told, and keeps the actions and seeds it was given."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, steps=(), action_space=None, observation_space=None):
        self.script = list(steps)
        self.actions, self.seeds = [], []
        self.action_space = action_space or self.action_space
        self.observation_space = observation_space or self.observation_space

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.actions.append(action)
        return (
            self.script.pop(0) if self.script else (np.zeros(2, np.float32), 0.0, False, False, {})
        )


OBS = np.zeros(2, np.float32)


def test_the_stream_equals_gymnasiums_own():
    plain, env = (
        gymnasium.make("CartPole-v1", max_episode_steps=20),
        make("CartPole-v1", max_episode_steps=20),
    )
    env.seed(5)
    expected, observation = plain.reset(seed=5)[0], env.reset()
    ends = set()
    for action in np.random.default_rng(0).integers(2, size=300):
        assert (observation == expected).all()
        expected, reward, terminated, truncated, _ = plain.step(int(action))
        step = env.step(action)
        assert step.env_info._fields == ("timeout",)
        assert step[1:] == (reward, terminated or truncated, (truncated and not terminated,))
        assert type(step.reward) is float and type(step.done) is bool
        observation = step.observation
        if step.done:
            ends.add(step.env_info.timeout)
            assert (observation == expected).all()  # the true final observation
            expected, observation = plain.reset()[0], env.reset()
    assert ends == {True, False}


@pytest.mark.parametrize(
    "terminated, truncated, done, timeout",
    [(0, 0, False, False), (1, 0, True, False), (0, 1, True, True), (1, 1, True, False)],
)
@pytest.mark.parametrize("info", [{}, {"x": 1.0}])
def test_done_and_timeout(terminated, truncated, done, timeout, info):
    row = (OBS, 1, np.bool_(terminated), np.bool_(truncated), info)
    env = GymEnvWrapper(Scripted([row] * 3))
    env.reset()
    for _ in range(3):  # the first step builds the structure, later ones use it
        step = env.step(np.int64(0))
        assert step.done is done and step.env_info.timeout is timeout
        assert step.env_info._fields == (*info, "timeout")


def test_info_may_come_and_go():
    rows = [(OBS, 0.0, False, False, info) for info in ({"x": 1.5}, {}, {"x": 2.5, "new": 1})]
    env = GymEnvWrapper(Scripted(rows))
    env.reset()
    assert env.step(0).env_info == (1.5, False)
    assert env.step(0).env_info == (0.0, False)
    with pytest.warns(UserWarning, match="'new' was absent"):
        assert env.step(0).env_info == (2.5, False)
    assert env.step(0).env_info == (0.0, False)


def test_two_kinds_of_envs_live_in_one_process():
    one = GymEnvWrapper(Scripted([(OBS, 0.0, False, False, {"x": 1})]))
    two = GymEnvWrapper(Scripted([(OBS, 0.0, False, False, {"y": 1.0, "z": 2})]))
    for env in (one, two):
        env.reset()
    assert one.step(0).env_info._fields == ("x", "timeout")
    assert two.step(0).env_info._fields == ("y", "z", "timeout")


def test_info_example_fills_missing_entries():
    rows = [(OBS, 0.0, False, False, info) for info in ({}, {"late": 3.0})]
    env = GymEnvWrapper(EnvInfoWrapper(Scripted(rows), {"late": -1.0}))
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.step(0).env_info == (-1.0, False)
        assert env.step(0).env_info == (3.0, False)
    assert isinstance(make("CartPole-v1", info_example={"late": -1.0}).env, EnvInfoWrapper)


def test_info_example_fills_those_of_the_old_interface():
    rows = [(OBS, 0.0, False, info) for info in ({}, {"late": 3.0})]
    env = GymEnvWrapper(EnvInfoWrapper(Scripted(rows), {"late": -1.0}))
    env.reset()
    assert [env.step(0).env_info.late for _ in range(2)] == [-1.0, 3.0]


def test_composite_spaces_become_named_tuples_and_back():
    inner = Scripted(
        [({"a": OBS, "b": 1}, 0.0, False, False, {})],
        action_space=spaces.Dict({"u": spaces.Discrete(2, start=5), "v": spaces.Box(-1, 1, (2,))}),
        observation_space=spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(4)}),
    )
    inner.reset = lambda: ({"a": OBS, "b": 2}, {})
    env = GymEnvWrapper(inner)
    assert env.reset().b == 2
    action = env.action_space.sample()
    observation = env.step(action).observation
    assert observation._fields == ("a", "b") and observation.b == 1
    given = inner.actions[0]
    assert given["u"] == action.u + 5 and (given["v"] == action.v).all()


@pytest.mark.parametrize("start", [0, 7])
def test_discrete_actions_count_from_zero(start):
    inner = Scripted(action_space=spaces.Discrete(3, start=start))
    env = GymEnvWrapper(inner)
    env.reset()
    env.step(np.array([2, 0])[0])
    assert inner.actions == [2 + start] and inner.action_space.contains(inner.actions[0])
    assert env.action_space.n == 3


def test_seed_counts_for_the_next_reset_only_and_for_the_spaces():
    inner = Scripted()
    env = GymEnvWrapper(inner)
    inner.seeds.clear()  # it was reset to see whether it has masks
    env.reset()
    env.seed(11)
    samples = [env.action_space.sample() for _ in range(8)]
    env.reset()
    env.reset()
    assert inner.seeds == [None, 11, None]
    env.seed(11)
    assert [env.action_space.sample() for _ in range(8)] == samples


def test_attributes_of_the_inner_env_are_forwarded():
    env = make("CartPole-v1")
    assert env.unwrapped.gravity == 9.8 and env.spec.id == "CartPole-v1" and env.horizon == 500
    assert GymEnvWrapper(Scripted()).horizon is None
    limited = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.TimeLimit(Scripted(), 30), 40)
    assert GymEnvWrapper(limited).horizon == 30  # without a registered id
    assert "CartPole" in repr(env)
    with pytest.raises(AttributeError):
        _ = env.no_such_thing
    env.reset()
    assert isinstance(pickle.loads(pickle.dumps(env)), GymEnvWrapper)


def test_float64_reaches_the_agent_as_float32():
    env = make("InvertedPendulum-v5")
    assert env.observation_space.dtype == np.float32
    assert env.reset().dtype == np.float32
    step = env.step(env.action_space.sample())
    assert step.observation.dtype == np.float32 and type(step.reward) is float
    assert "reward_survive" in step.env_info._fields


@pytest.mark.parametrize("reward", [None, "1.0", [1.0, 2.0], {}])
def test_a_reward_that_is_no_number_is_named(reward):
    env = GymEnvWrapper(Scripted([(OBS, reward, False, False, {})]))
    env.reset()
    message = r"Scripted.*step\(\) .*reward "
    with pytest.raises(TypeError, match=message):
        env.step(0)


def test_a_missing_info_is_empty():
    env = GymEnvWrapper(Scripted([(OBS, 1.0, False, False, info) for info in (None, {}, None)]))
    env.env.reset = lambda seed=None: (OBS, None)
    assert env.reset() is OBS
    assert [env.step(0).env_info for _ in range(3)] == [(False,)] * 3
    env = GymEnvWrapper(Scripted([(OBS, 1.0, False, False, info) for info in ({"x": 2.0}, None)]))
    env.reset()
    assert [env.step(0).env_info for _ in range(2)] == [(2.0, False), (0.0, False)]
    env = GymEnvWrapper(Scripted([(OBS, 1.0, False, None)]))  # of the old interface
    env.reset()
    assert env.step(0).env_info == (False,)


@pytest.mark.parametrize("info", [[], [1], "text", 3])
def test_an_info_that_is_no_dict_is_named(info):
    for step in ((OBS, 1.0, False, False, info), (OBS, 1.0, False, info)):
        env = GymEnvWrapper(Scripted([step]))
        env.reset()
        with pytest.raises(TypeError, match=r"Scripted.*step\(\) .*info="):
            env.step(0)
    env = GymEnvWrapper(Scripted())
    env.env.reset = lambda seed=None: (OBS, info)
    with pytest.raises(TypeError, match=r"Scripted.*reset\(\) .*info="):
        env.reset()


def test_an_observation_of_two_numbers_may_be_a_tuple():
    env = GymEnvWrapper(Scripted([((0.5, 0.25), 1.0, False, False, {})]))
    env.env.reset = lambda seed=None: (0.5, 1)
    assert env.reset().tolist() == [0.5, 1] and env.step(0).observation.tolist() == [0.5, 0.25]


def test_invalid_steps_and_observations_are_named():
    env = GymEnvWrapper(Scripted([None]))
    env.reset()
    with pytest.raises(TypeError, match=r"step\(\) .*None.*\(observation, reward"):
        env.step(0)
    inner = Scripted()
    inner.reset = lambda: None
    with pytest.raises(TypeError, match=r"reset\(\) .*None"):
        GymEnvWrapper(inner).reset()


def test_objects_that_are_not_environments_are_refused():
    for given in (Scripted, "CartPole-v1", None):
        with pytest.raises(TypeError, match="environment, got"):
            GymEnvWrapper(given)
    with pytest.raises(TypeError, match="needs the id"):
        make()
    for name in ("action_space", "observation_space"):
        inner = Scripted()
        setattr(inner, name, None)
        with pytest.raises(AttributeError, match=f"Scripted .*{name}"):
            GymEnvWrapper(inner)


def test_errors_of_the_inner_env_pass_unchanged():
    inner = Scripted()
    inner.step = lambda action: (_ for _ in ()).throw(ValueError("from inside"))
    env = GymEnvWrapper(inner)
    with pytest.raises(ValueError, match="from inside"):
        env.step(0)


def test_schema_names_are_the_same_objects():
    for name in ("GymEnvWrapper", "EnvInfoWrapper", "infill_info", "make"):
        assert getattr(gym_schema, name) is getattr(gym, name)


@pytest.mark.parametrize("value", ["False", None, float("nan"), 2, np.zeros(2, bool)])
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_ends_that_are_neither_true_nor_false_are_refused(name, value):
    flags = (value, False) if name == "terminated" else (False, value)
    env = GymEnvWrapper(Scripted([(OBS, 0.0, *flags, {})]))
    env.reset()
    with pytest.raises(TypeError, match=f"{name}="):
        env.step(0)


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, np.int64(1), np.array([True])])
def test_ends_may_be_any_kind_of_boolean(value):
    env = GymEnvWrapper(Scripted([(OBS, 0.0, False, value, {})]))
    env.reset()
    step = env.step(0)
    assert step.done is True and step.env_info.timeout is True
