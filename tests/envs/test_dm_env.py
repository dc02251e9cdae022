"""Environments of dm_env keep the contract, and their episodes end as their discounts say."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation

from rlpyt.envs.dm_env import DmEnv, space_of
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.testing import check_env

dm_env = pytest.importorskip("dm_env")
specs = pytest.importorskip("dm_env.specs")


class Guess(dm_env.Environment):
    """Episodes of three steps, whose reward is for the action that was shown."""

    def __init__(self, seed=None, last_discount=0.0, discount=1.0):
        self.rng, self.last_discount, self.t = np.random.RandomState(seed), last_discount, 0
        self.discount = discount

    def reset(self):
        self.t = 0
        return dm_env.restart(self._observe())

    def step(self, action):
        self.action_spec().validate(action)
        reward = float(action == self.shown)
        self.t += 1
        if self.t == 3:
            return dm_env.TimeStep(
                dm_env.StepType.LAST, reward, self.last_discount, self._observe()
            )
        return dm_env.transition(reward, self._observe(), self.discount)

    def _observe(self):
        self.shown = self.rng.randint(3)
        return {"shown": self.shown, "where": [np.ones((1, 2)) * self.t, True]}

    def observation_spec(self):
        where = [specs.BoundedArray((1, 2), float, 0, [3, 4]), specs.Array((), bool)]
        return {"shown": specs.DiscreteArray(3), "where": where}

    def action_spec(self):
        return specs.DiscreteArray(3)


def make():
    return DmEnv(Guess)


def make_unlimited():
    return DmEnv(lambda seed: Guess(seed, last_discount=1.0))


def test_specs_become_spaces():
    env = make()
    assert env.action_space == spaces.Discrete(3)
    where = env.observation_space["where"]
    assert where[0] == spaces.Box(np.zeros((1, 2)), np.array([[3.0, 4.0]]), dtype=np.float64)
    assert where[1] == spaces.Box(0, 1, (), np.int8)
    assert space_of(specs.Array((2,), np.uint8), "x") == spaces.Box(0, 255, (2,), np.uint8)
    assert space_of(specs.Array((2,), np.float32), "x") == spaces.Box(-np.inf, np.inf, (2,))


@pytest.mark.parametrize("factory", [make, make_unlimited])
def test_adapted_environments_keep_the_contract(factory):
    assert check_env(factory, skip=["time-limit"]).ok


def test_a_last_discount_of_zero_terminates_and_another_truncates():
    for factory, ends in ((make, (True, False)), (make_unlimited, (False, True))):
        env = factory()
        observation, _ = env.reset(seed=1)
        steps = [env.step(observation["shown"]), env.step(0), env.step(0)]
        assert [step[2:4] for step in steps] == [(False, False)] * 2 + [ends]
        assert steps[0][1] == 1.0


@pytest.mark.parametrize(
    "discounts, named",
    [((0.9, 0.0), 0.9), ((0.0, 1.0), 0.0), ((1.0, 0.5), 0.5), ((1.0, 1.0), None)],
)
def test_a_discount_without_effect_is_named_once(discounts, named):
    env = DmEnv(lambda seed: Guess(seed, discounts[1], discounts[0]))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            env.reset(seed=1)
            assert [env.step(0)[2] for _ in range(3)] == [False, False, discounts[1] == 0]
    assert [f"discount of {named}" in str(w.message) for w in said] == [True] * (named is not None)


def test_reset_with_a_seed_repeats_an_episode():
    env = GymEnvWrapper(make())
    episodes = []
    for seed in (5, 2**40 + 5, 6):
        env.seed(seed)
        episodes.append([env.reset().shown, *(env.step(0).observation.shown for _ in range(8))])
    assert episodes[0] == episodes[1] != episodes[2]


def test_wrappers_of_gymnasium_may_lie_around_the_adapter():
    space = spaces.Discrete(3)
    env = GymEnvWrapper(TransformObservation(make(), lambda x: x["shown"], space))
    env.seed(5)
    plain = make().reset(seed=5)[0]
    assert env.reset() == plain["shown"]


def test_what_has_no_space_is_named():
    with pytest.raises(TypeError, match=r"observation\['name'\]"):
        space_of({"name": specs.StringArray(())}, "observation")
    with pytest.raises(TypeError, match="environment of dm_env"):
        DmEnv(lambda seed: None)
