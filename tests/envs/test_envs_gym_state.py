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


@pytest.mark.parametrize("n_steps", [0, 1, 2])  # the checker compares successive steps
def test_an_environment_with_gymnasiums_checker_continues(n_steps):
    env, fresh = (GymEnvWrapper(gymnasium.make("CartPole-v1")) for _ in range(2))
    env.seed(3)
    env.reset()
    run(env, [0] * n_steps)
    fresh.set_state(env.get_state())
    assert run(fresh, [0] * 20) == run(env, [0] * 20)


def test_before_the_first_reset():
    env, fresh = make("CartPole-v1"), make("CartPole-v1")
    fresh.set_state(env.get_state())
    with pytest.raises(gymnasium.error.ResetNeeded):
        fresh.step(0)


def test_unknown_layers_have_no_state():
    assert make("FrozenLake-v1").get_state() is None
    normalised = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    assert GymEnvWrapper(normalised).get_state() is None


class Drifts(gymnasium.Env):
    """Of a user's own, with a state that it tells."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.seen = np.zeros(2), (0, "begun")
        return self.at.astype(np.float32), {}

    def step(self, action):
        self.at = self.at + self.np_random.normal(size=2) + action
        self.seen = (self.seen[0] + 1, "on its way")
        return self.at.astype(np.float32), float(self.seen[0]), False, self.seen[0] > 5, {}

    def get_state(self):
        return {"at": self.at, "seen": self.seen}

    def set_state(self, state):
        self.at, self.seen = state["at"], state["seen"]


class Means(Drifts):
    """With methods of these names that are something else."""

    def get_state(self, name):
        return self.at

    def set_state(self, qpos, qvel):
        pass


class Opaque(Drifts):
    """Its state fits into no checkpoint."""

    def get_state(self):
        return object()


def test_custom_environments_define_two_methods_for_their_state():
    def wrapped(cls):
        return GymEnvWrapper(gymnasium.wrappers.ClipReward(cls(), -1, 3))

    env, fresh = wrapped(Drifts), wrapped(Drifts)
    env.seed(4)
    env.reset()
    run(env, [0, 1, 1])
    fresh.set_state(pack(env.get_state()))
    assert run(fresh, [1, 0, 1, 1, 0] * 3) == run(env, [1, 0, 1, 1, 0] * 3)
    for cls in (Means, Opaque):
        other = wrapped(cls)
        other.reset()
        assert other.get_state() is None


class DividedBySteps:
    """A custom wrapper with a state, the number of steps, by which it divides rewards."""

    def reset(self, **kwargs):
        self.steps = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.steps += 1
        observation, reward, *others = self.env.step(action)
        return observation, reward / self.steps, *others


class ClipReward(DividedBySteps, gymnasium.Wrapper):
    """One with the name of one of Gymnasium's."""


class Forwarding(DividedBySteps):
    """One of no library, which forwards attributes."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)


TimeLimit = type("TimeLimit", (ClipReward,), {"__module__": __name__})


@pytest.mark.parametrize("wrapper", [ClipReward, TimeLimit, Forwarding])
@pytest.mark.parametrize("make_env", [Drifts, lambda: gymnasium.make("CartPole-v1")])
def test_custom_wrappers_have_no_known_state(make_env, wrapper):
    env = GymEnvWrapper(wrapper(make_env()))
    env.reset()
    env.step(np.int64(1))
    assert env.get_state() is None


def test_a_state_of_another_env_is_refused():
    env = make("CartPole-v1")
    env.reset()
    with pytest.raises(ValueError, match=r"PendulumEnv.*CartPoleEnv"):
        make("Pendulum-v1").set_state(env.get_state())
    clipped = GymEnvWrapper(gymnasium.wrappers.ClipReward(gymnasium.make("CartPole-v1"), 0, 1))
    with pytest.raises(ValueError, match="ClipReward"):
        clipped.set_state(env.get_state())


@pytest.mark.parametrize(
    ("env_id", "place", "name", "value"),
    [
        ("CartPole-v1", "wrappers", "step", 1),
        ("CartPole-v1", "wrappers", "_elapsed_steps", "x"),
        ("CartPole-v1", "simulator", "tau", 0.5),
        ("CartPole-v1", "simulator", "state", {}),
        ("HalfCheetah-v5", "plain", "frame_skip", 10**9),  # one step would take hours
        ("HalfCheetah-v5", "plain", "model", None),
    ],
)
def test_only_what_is_saved_can_be_set(env_id, place, name, value):
    env = make(env_id)
    env.reset()
    state = env.get_state()
    places = {"wrappers": state["wrappers"][0], "simulator": state["simulator"]}
    places.get(place, state["simulator"].get("plain"))[name] = value
    with pytest.raises(ValueError, match=f"must not set {name}="):
        env.set_state(state)
