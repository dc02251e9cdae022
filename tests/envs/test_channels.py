"""Pictures [H, W, C] that come as [C, H, W]."""

import doctest

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import ReshapeObservation

from rlpyt.envs import channels
from rlpyt.envs.channels import ChannelsFirst, looks_channels_last
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.vector.make import make_vec
from rlpyt.experiments.build import env_recipe

H, W, C = 5, 4, 3


class Pictures(gymnasium.Env):
    """Pictures whose pixels are numbered, plus ten for each step."""

    action_space = spaces.Discrete(2)

    def __init__(self, shape=(H, W, C), dtype="uint8"):
        low, high = np.zeros(shape, dtype), np.full(shape, 255).astype(dtype)
        low[..., 0] = -2 if dtype == "float32" else 0
        self.observation_space = spaces.Box(low, high, dtype=np.dtype(dtype).type)
        self.numbers = np.arange(np.prod(shape)).reshape(shape).astype(dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.numbers, {}

    def step(self, action):
        self.t += 1
        return self.numbers + np.array(10 * self.t, self.numbers.dtype), 1.0, False, False, {}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry.copy())
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    gymnasium.register("Pictures-v0", Pictures, max_episode_steps=9)


def test_images_are_transposed_only_if_requested_or_detected():
    turned = (C, H, W)
    for given, shape in {False: (H, W, C), True: turned, None: turned}.items():
        env = make("Pictures-v0", channels_first=given)
        observation = env.reset()
        assert observation.shape == env.observation_space.shape == shape
        assert observation.flags.c_contiguous
    for shape in [(C, H, W), (4, 4, 4), (4, 6, 4)]:
        assert make("Pictures-v0", shape=shape, channels_first=None).reset().shape == shape
    assert make("Pictures-v0", shape=(4, 6, 5), channels_first=True).reset().shape == (5, 4, 6)
    assert make("Pictures-v0").reset().shape == (H, W, C)  # as it is, unless asked


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float32"])
def test_pixels_bounds_and_dtype_are_transposed(dtype):
    plain, env = (make("Pictures-v0", dtype=dtype, channels_first=c) for c in (False, True))
    expected, observation = plain.reset(), env.reset()
    for _ in range(3):
        assert observation.dtype == expected.dtype == env.observation_space.dtype
        for c in range(C):
            assert (observation[c] == expected[..., c]).all()
        expected, observation = plain.step(0).observation, env.step(0).observation
    space, before = env.observation_space, plain.observation_space
    assert (space.low == before.low.transpose(2, 0, 1)).all()
    assert (space.high == before.high.transpose(2, 0, 1)).all()
    assert space.contains(space.sample()) and space.contains(space.null_value())
    assert env.horizon == 9


def test_observations_that_are_not_images_are_refused_or_unchanged():
    with pytest.raises(ValueError, match="channels_first .*CartPole"):
        make("CartPole-v1", channels_first=True)
    assert make("CartPole-v1", channels_first=None).reset().shape == (4,)
    for space in (spaces.Discrete(3), spaces.Dict(a=spaces.Box(0, 1, (5, 5, 2)))):
        assert not looks_channels_last(space)


def test_a_saved_state_is_restored_through_the_wrapper():
    def in_pictures():
        env = gymnasium.make("CartPole-v1", disable_env_checker=True)
        return GymEnvWrapper(ChannelsFirst(ReshapeObservation(env, (2, 2, 1))))

    env, other = in_pictures(), in_pictures()
    env.reset()
    env.step(0)
    other.set_state(env.get_state())
    for action in (1, 0, 0):
        seen, again = env.step(action).observation, other.step(action).observation
        assert seen.shape == (1, 2, 2) and (seen == again).all()


def test_batches_accept_the_wrapper():
    batch = make_vec("Pictures-v0", 2, wrappers=[ChannelsFirst])
    assert batch.observation_space.shape == (C, H, W)


def test_the_command_line_transposes_images_by_default():
    for args, shape in [({}, (C, H, W)), ({"channels_first": False}, (H, W, C))]:
        recipe = env_recipe("Pictures-v0", args)
        assert recipe.make().reset().shape == shape
    assert env_recipe("CartPole-v1").make().reset().shape == (4,)


def test_examples_in_docstrings_run():
    results = doctest.testmod(channels)
    assert results.attempted and not results.failed
