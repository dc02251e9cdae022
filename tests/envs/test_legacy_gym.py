"""Environments of the old gym package; gym itself is not installed, its look is."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs.base import build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.legacy_gym import LegacyGymEnv, convert_space


def old_space(kind, **attributes):
    return type(kind, (), {"__module__": f"gym.spaces.{kind.lower()}", **attributes})()


BOX = old_space("Box", low=-np.ones(2, "f4"), high=np.ones(2, "f4"), shape=(2,), dtype=np.float32)


class OldEnv:
    """Four values, observation-only reset, seed method: gym up to 0.25."""

    __module__ = "gym.envs.classic_control"
    action_space = old_space("Discrete", n=3)
    observation_space = BOX

    def __init__(self, limit=2):
        self.limit, self.t, self.seeds, self.closed = limit, 0, [], False

    def seed(self, seed=None):
        self.seeds.append(seed)

    def reset(self):
        self.t = 0
        return np.zeros(2, "f4")

    def step(self, action):
        self.t += 1
        over = self.t == self.limit
        info = {"TimeLimit.truncated": action != 2} if over else {"TimeLimit.truncated": False}
        return np.full(2, 0.1, "f4"), 1.0, over, info

    def render(self, mode="human"):
        return mode

    def close(self):
        self.closed = True


class NewerEnv(OldEnv):
    """Five values, seed in reset: gym 0.26."""

    __module__ = "gym.envs.classic_control"
    seed = None

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(), {"first": True}

    def step(self, action):
        observation, reward, over, info = super().step(action)
        truncated = info.pop("TimeLimit.truncated")
        return observation, reward, over and not truncated, truncated, info


class OwnField(OldEnv):
    """The field that rlpyt's algorithms read; no wrapper of a time limit."""

    def step(self, action):
        *step, info = super().step(action)
        return *step, {"timeout": info["TimeLimit.truncated"]}


@pytest.mark.parametrize("OldCls", [OldEnv, NewerEnv, OwnField])
@pytest.mark.parametrize("last_action, timeout", [(0, True), (2, False)])
def test_either_signature_runs_and_tells_time_limits(OldCls, last_action, timeout):
    with pytest.warns(UserWarning, match="old gym package.*shimmy"):
        env = GymEnvWrapper(OldCls())
    env.seed(4)
    assert (env.reset() == 0).all()
    assert env.action_space.n == 3
    first, second = env.step(np.int64(0)), env.step(np.int64(last_action))
    assert (first.done, first.env_info.timeout) == (False, False)
    assert (second.done, second.env_info.timeout) == (True, timeout)
    env.reset()
    inner = env.env.env
    assert [s for s in inner.seeds if s is not None] == [4]
    env.close()
    assert inner.closed


@pytest.mark.filterwarnings("ignore:.* uses the old gym package")
def test_a_time_limit_that_only_last_steps_report_is_read_in_silence(recwarn):
    class Late(OldEnv):
        def step(self, action):
            *step, info = super().step(action)
            return *step, info if step[-1] else {}

    env = GymEnvWrapper(Late())
    env.reset()
    steps = [env.step(np.int64(0)), env.step(np.int64(0))]
    assert [step.env_info for step in steps] == [(False,), (True,)]
    assert not [w for w in recwarn if "env_info" in str(w.message)]


def test_factories_of_old_envs_work_as_EnvCls():
    with pytest.warns(UserWarning, match="old gym package"):
        env = build_env(OldEnv, dict(limit=5))
    assert env.limit == 5 and env.render() == "rgb_array"


def test_every_kind_of_space_is_converted():
    discrete = old_space("Discrete", n=4, start=2)
    assert convert_space(BOX) == gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    assert convert_space(discrete) == gymnasium.spaces.Discrete(4, start=2)
    nested = old_space(
        "Dict",
        spaces={
            "a": old_space("Tuple", spaces=(BOX, old_space("MultiBinary", n=3))),
            "b": old_space("MultiDiscrete", nvec=np.array([2, 5])),
        },
    )
    assert convert_space(nested) == gymnasium.spaces.Dict(
        a=gymnasium.spaces.Tuple((convert_space(BOX), gymnasium.spaces.MultiBinary(3))),
        b=gymnasium.spaces.MultiDiscrete([2, 5]),
    )


def test_an_unknown_space_is_named_with_its_path_and_shimmy():
    space = old_space("Dict", spaces={"a": old_space("Graph")})
    with pytest.raises(TypeError, match=r"observation_space\['a'\] .*Graph.*shimmy"):
        convert_space(space, "observation_space")


def test_missing_spaces_and_odd_steps_are_named():
    env = OldEnv()
    env.action_space = None
    with pytest.raises(AttributeError, match="OldEnv .*action_space"):
        LegacyGymEnv(env)
    env = OldEnv()
    env.step = lambda action: (1, 2, 3)
    with pytest.raises(TypeError, match=r"expected 4 or 5 values"):
        LegacyGymEnv(env).step(0)


@pytest.mark.parametrize("done", ["False", None, float("nan"), 2])
def test_a_done_that_is_neither_true_nor_false_is_refused(done):
    env = OldEnv()
    env.step = lambda action: (np.zeros(2, "f4"), 1.0, done, {})
    with pytest.raises(TypeError, match="done="):
        LegacyGymEnv(env).step(0)


PAIR = spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Dict(goal=spaces.Box(-1, 1, (3,)))])
OLD_PAIR = old_space("Tuple", spaces=(BOX, old_space("Dict", spaces={"goal": BOX})))


class PairEnv(OldEnv):
    """Gives observations that are a pair of an array and a dict, in float64."""

    def __init__(self, space, with_info):
        super().__init__()
        self.observation_space, self.with_info = space, with_info

    def reset(self):
        observation = np.full(2, 0.5), {"goal": np.full(3, 0.25)}
        return (observation, {"goal": 1}) if self.with_info else observation

    def step(self, action):
        return (np.zeros(2), {"goal": np.zeros(3)}), *super().step(action)[1:]


def without_class(space, with_info):
    env = PairEnv(space, with_info)
    names = ("reset", "step", "observation_space", "action_space")
    return SimpleNamespace(**{name: getattr(env, name) for name in names})


@pytest.mark.parametrize("with_info", [True, False])
@pytest.mark.parametrize("space", [PAIR, OLD_PAIR], ids=["gymnasium", "gym"])
@pytest.mark.parametrize("make", [PairEnv, without_class])
@pytest.mark.filterwarnings("ignore:PairEnv uses the old gym")
def test_an_observation_that_is_a_pair_is_not_taken_for_one_with_info(make, space, with_info):
    env = GymEnvWrapper(make(space, with_info))
    for _ in range(2):
        box, parts = env.reset()
        assert (box == 0.5).all() and (parts.goal == 0.25).all()
        env.step(0)
