import gymnasium

from rlpyt.envs.gym import make
from rlpyt.envs.layers import find_wrapper, wrappers_of
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.envs.vector.wrappers import EpisodeMonitor, StandardizeReward


def names(env):
    return [type(layer).__name__ for layer in wrappers_of(env)]


def test_single_environments_are_seen_through():
    env = make("CartPole-v1")
    found = names(env)
    assert found[0] == "GymEnvWrapper" and found[-1] == "CartPoleEnv" and "TimeLimit" in found
    limit = find_wrapper(env, "TimeLimit")
    assert isinstance(limit, gymnasium.wrappers.TimeLimit)
    assert find_wrapper(env, "FrameStack") is None


def test_batches_are_too():
    envs = StandardizeReward(EpisodeMonitor(SerialVectorEnv([CountEnv(), CountEnv()])))
    assert names(envs) == ["StandardizeReward", "EpisodeMonitor", "SerialVectorEnv"]
    assert find_wrapper(envs, "EpisodeMonitor") is envs.env
    assert names(CountEnv()) == ["CountEnv"]


def test_layers_are_found_by_class_too():
    envs = StandardizeReward(EpisodeMonitor(SerialVectorEnv([CountEnv()])))
    assert find_wrapper(envs, EpisodeMonitor) is envs.env
    assert find_wrapper(envs.env, StandardizeReward) is None
