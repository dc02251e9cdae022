"""Batched CartPole goes through the episodes of single ones, seed by seed."""

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.vector import UnsupportedVectorEnv, adapt, make_vec
from rlpyt.envs.vector.cartpole import CartPoleVector

SEEDS = [11, 0, 7, 123456789]


def batch(n=4, **kwargs):
    return adapt(gymnasium.make_vec("CartPole-v1", n, **kwargs))


def test_trajectories_are_those_of_single_environments():
    envs = batch(max_episode_steps=30)
    singles = [gymnasium.make("CartPole-v1", max_episode_steps=30) for _ in SEEDS]
    envs.seed(SEEDS)
    first = [env.reset(seed=seed)[0] for env, seed in zip(singles, SEEDS, strict=True)]
    np.testing.assert_array_equal(envs.reset(), first)
    rng, ends = np.random.default_rng(0), {"terminated": 0, "truncated": 0}
    for _ in range(400):
        action = rng.integers(2, size=len(SEEDS))
        observation, reward, done, info = envs.step(action)
        expected = [env.step(int(a)) for env, a in zip(singles, action, strict=True)]
        np.testing.assert_allclose(observation, [e[0] for e in expected], rtol=1e-5, atol=1e-6)
        assert reward.tolist() == [e[1] for e in expected]
        assert done.tolist() == info.traj_done.tolist() == [e[2] or e[3] for e in expected]
        assert info.timeout.tolist() == [e[3] and not e[2] for e in expected]
        ends["terminated"] += sum(e[2] for e in expected)
        ends["truncated"] += int(info.timeout.sum())
        rows = np.flatnonzero(done)
        fresh = [singles[i].reset()[0] for i in rows]
        np.testing.assert_array_equal(envs.reset_rows(rows), np.reshape(fresh, (-1, 4)))
    assert min(ends.values()) >= 4


def test_waiting_leaves_starts_and_other_rows_as_they_are():
    envs, prompt = batch(n=2), batch(n=2)
    for e in (envs, prompt):
        e.seed([1, 2])
        e.reset()
    starts, expected = [], []
    for t in range(150):
        action = np.zeros(2, int)
        step = envs.step(action)
        if step.env_info.traj_done[0] and t % 5 == 0:  # row 0 waits for it
            starts.append(envs.reset_rows(np.array([0]))[0])
        if step.env_info.traj_done[1]:
            envs.reset_rows(np.array([1]))
        other = prompt.step(action)
        np.testing.assert_array_equal(step.observation[1], other.observation[1])
        for i in np.flatnonzero(other.done):
            first = prompt.reset_rows(np.array([i]))[0]
            if i == 0:
                expected.append(first)
    assert len(starts) > 5
    np.testing.assert_array_equal(starts, expected[: len(starts)])


def test_resumes_exactly():
    envs, again = batch(), batch()
    assert envs.get_state() is None
    envs.seed(SEEDS)
    envs.reset()

    def play(envs, T):
        seen = []
        for t in range(T):
            step = envs.step((np.arange(len(SEEDS)) + t) % 2)
            rows = np.flatnonzero(step.env_info.traj_done)[:2]  # at times one is left to wait
            seen += [np.array(x) for x in (*step[:3], envs.reset_rows(rows))]
        return seen

    play(envs, 40)
    again.set_state(envs.get_state())
    for own, other in zip(play(again, 60), play(envs, 60), strict=True):
        np.testing.assert_array_equal(own, other)


def test_rewards_of_sutton_and_barto():
    envs = batch(n=1, sutton_barto_reward=True)
    envs.seed([3])
    envs.reset()
    rewards = []
    while not rewards or rewards[-1] == 0:
        rewards.append(envs.step(np.zeros(1, int)).reward[0])
    assert rewards[-1] == -1


def test_made_by_make_vec_with_its_horizon():
    envs = make_vec("CartPole-v1", 3)
    assert isinstance(envs, CartPoleVector) and envs.horizon == 500 and envs.n == 3


def test_wrapped_it_is_refused():
    with pytest.raises(UnsupportedVectorEnv, match="wrappers"):
        adapt(gymnasium.wrappers.vector.ClipReward(gymnasium.make_vec("CartPole-v1", 2), 0, 1))
