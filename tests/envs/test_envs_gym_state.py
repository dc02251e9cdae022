"""Saved mid-episode, a fresh environment goes on bit for bit."""

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.state import pack


def run(env, actions):
    """Step through the actions with resets; everything seen, as bytes."""
    seen = []
    for action in actions:
        observation, reward, done, info = env.step(action)
        seen.append(
            (observation.tobytes(), reward, done, tuple(np.asarray(i).tobytes() for i in info))
        )
        if done:
            seen.append(env.reset().tobytes())
    return seen


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPole-v1",
        "Pendulum-v1",
        "Acrobot-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Ant-v5",  # its reward reads body positions from before the step
        "HalfCheetah-v5",
        "Humanoid-v5",
        "Reacher-v5",
        "Pusher-v5",
    ],
)
def test_a_restored_env_goes_on_bit_for_bit(env_id):
    env, fresh = (make(env_id, max_episode_steps=40) for _ in range(2))
    env.seed(3)
    actions = [env.action_space.sample() for _ in range(57)]
    env.reset()
    run(env, actions[:7])
    state = env.get_state()
    pack(state)  # raises unless plain
    expected = run(env, actions[7:])  # 50 steps and at least one reset
    fresh.set_state(state)
    assert run(fresh, actions[7:]) == expected
    fresh.set_state(state)  # the state was not used up
    assert run(fresh, actions[7:]) == expected


def test_a_seed_not_yet_used_is_part_of_the_state():
    env, fresh = make("CartPole-v1"), make("CartPole-v1")
    env.reset()
    env.seed(9)
    fresh.set_state(env.get_state())
    assert (fresh.reset() == env.reset()).all()


def test_before_the_first_reset():
    env, fresh = make("CartPole-v1"), make("CartPole-v1")
    fresh.set_state(env.get_state())
    with pytest.raises(gymnasium.error.ResetNeeded):
        fresh.step(0)


def test_unknown_layers_tell_no_state():
    assert make("FrozenLake-v1").get_state() is None
    normalised = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    assert GymEnvWrapper(normalised).get_state() is None


def test_a_state_of_another_env_is_refused():
    env = make("CartPole-v1")
    env.reset()
    with pytest.raises(ValueError, match=r"CartPoleEnv.*PendulumEnv"):
        make("Pendulum-v1").set_state(env.get_state())
    clipped = GymEnvWrapper(gymnasium.wrappers.ClipReward(gymnasium.make("CartPole-v1"), 0, 1))
    with pytest.raises(ValueError, match="ClipReward"):
        clipped.set_state(env.get_state())
