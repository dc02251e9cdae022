"""EnvPool really played: batches equal single pools left to reset by themselves."""

import numpy as np
import pytest

from rlpyt.envs.vector import UnsupportedVectorEnv, adapt, make_envpool
from rlpyt.envs.vector.envpool import EnvPoolVector

SEEDS = [4, 19, 7]


@pytest.fixture(autouse=True, scope="module")
def installed():
    pytest.importorskip("envpool")  # a second, which collecting the tests does not need


def pool(task="CartPole-v1", n=3, **kwargs):
    import envpool

    return envpool.make_gymnasium(task, num_envs=n, **kwargs)


def alone(seed, actions, task="CartPole-v1", **kwargs):
    """Yield a single environment's (observation, reward, terminated, truncated, next first)."""
    env = pool(task, n=1, seed=[seed], **kwargs)
    yield env.reset()[0][0]
    for action in actions:
        o, r, terminated, truncated, _ = env.step(np.array([action]))
        first = None
        if terminated[0] or truncated[0]:
            first = env.step(np.array([0]))[0][0]  # it resets by itself, whatever the action
        yield o[0], r[0], terminated[0], truncated[0], first


@pytest.mark.filterwarnings("ignore:.*precision")  # of the bare pools
def test_stream_equals_single_environments():
    actions = np.random.default_rng(0).integers(2, size=(300, 3))
    singles = [list(alone(s, actions[:, i], max_episode_steps=20)) for i, s in enumerate(SEEDS)]
    envs = adapt(pool(seed=42, max_episode_steps=20))
    envs.seed(SEEDS)
    np.testing.assert_array_equal(envs.reset(), [single[0] for single in singles])
    ends, timeouts = 0, 0
    for t, action in enumerate(actions):
        observation, reward, done, info = envs.step(action)
        expected = [single[1 + t] for single in singles]
        np.testing.assert_array_equal(observation, [e[0] for e in expected])
        assert reward.tolist() == [e[1] for e in expected] and reward.dtype == np.float32
        assert done.tolist() == info.traj_done.tolist() == [e[2] or e[3] for e in expected]
        assert info.timeout.tolist() == [e[3] for e in expected]
        rows = np.flatnonzero(done)
        first = np.array([expected[i][4] for i in rows], np.float32).reshape(-1, 4)
        np.testing.assert_array_equal(envs.reset_rows(rows), first)
        ends, timeouts = ends + len(rows), timeouts + int(info.timeout.sum())
    assert ends > timeouts > 5


def test_rows_that_wait_start_anew_and_leave_others_alone():
    envs, prompt = (EnvPoolVector(pool(n=2, seed=SEEDS[:2])) for _ in range(2))
    envs.reset(), prompt.reset()
    starts = 0
    for t in range(200):
        action = np.array([t % 2, t % 3 % 2])
        step, other = envs.step(action), prompt.step(action)
        np.testing.assert_array_equal(step.observation[1], other.observation[1])
        if step.env_info.traj_done[0]:
            assert step.done[0] and not step.env_info.timeout[0]
            if t % 5 == 0:
                assert (np.abs(envs.reset_rows(np.array([0]))) <= 0.05).all()
                starts += 1
        for row in np.flatnonzero(other.done):
            fresh = prompt.reset_rows(np.array([row]))
            if row == 1:
                np.testing.assert_array_equal(envs.reset_rows(np.array([1])), fresh)
    assert starts > 3


def test_seeds_make_the_pool_anew_only_where_needed():
    made = pool(seed=SEEDS)
    envs = EnvPoolVector(made)
    envs.seed(SEEDS)
    first = envs.reset()
    assert envs.source is made
    envs.seed(SEEDS)
    np.testing.assert_array_equal(envs.reset(), first)
    assert envs.source is not made
    envs.seed([1, 2, 3])
    assert not np.array_equal(envs.reset(), first)
    assert envs.step(np.zeros(3, int)).reward.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (np.array([0, 1]), ValueError),  # unchecked: the process aborts
        (np.array([0, 1, 2]), ValueError),
        (np.array([0, 1, -1]), ValueError),
        (np.array([0.0, 1.0, 1.0]), TypeError),
    ],
)
def test_wrong_actions_never_reach_native_code(action, error):
    envs = EnvPoolVector(pool())
    envs.reset()
    with pytest.raises(error, match="action"):
        envs.step(action)


def test_wrong_atari_and_continuous_actions():
    envs = EnvPoolVector(pool("Pong-v5", n=2))
    envs.reset()
    with pytest.raises(ValueError, match=r"row 1 is 99, .*\[0, 6\)"):
        envs.step(np.array([0, 99]))
    envs = EnvPoolVector(pool("Pendulum-v1", n=2))
    envs.reset()
    with pytest.raises(ValueError, match="row 0"):
        envs.step(np.array([[np.nan], [0.0]], np.float32))
    envs.step(np.array([[2.0], [-2.0]], np.float32))


def test_pools_that_cannot_be_batches_are_refused():
    import envpool

    with pytest.raises(UnsupportedVectorEnv, match="batch_size=2 .*num_envs=3"):
        adapt(pool(batch_size=2))
    with pytest.raises(UnsupportedVectorEnv, match="make_gymnasium"):
        adapt(envpool.make_dm("CartPole-v1", num_envs=2))


def test_steps_need_a_reset_and_their_own_process(monkeypatch):
    envs = adapt(pool())
    with pytest.raises(RuntimeError, match="Call reset"):
        envs.step(np.zeros(3, int))
    envs.reset()
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(RuntimeError, match="child"):
        envs.step(np.zeros(3, int))


def test_lives_and_scores_of_atari():
    keys = ("lives", "reward", "elapsed_step")
    envs = make_envpool(
        "Breakout-v5", 2, seeds=[1, 2], life_loss=True, info_keys=keys, reward_clip=True
    )
    envs.reset()
    rng, lost, games = np.random.default_rng(0), 0, 0
    lives = np.full(2, 5)
    while games < 1:
        step = envs.step(rng.integers(4, size=2))
        info = step.env_info
        assert (step.reward == np.sign(info.reward)).all()
        alive = ~info.traj_done
        assert (step.done[alive] == (info.lives < lives)[alive]).all()
        lost += int((step.done & alive).sum())
        assert (info.lives[info.traj_done] == 0).all()
        games += int(info.traj_done.sum())
        lives = info.lives.copy()
        rows = np.flatnonzero(info.traj_done)
        envs.reset_rows(rows)
        lives[rows] = 5
    assert lost >= 4


def test_termination_at_the_time_limit_is_told_apart_in_atari_alone():
    """EnvPool says truncated when both happen; its Atari info knows better."""
    seen = {}
    envs = make_envpool("Breakout-v5", 1, seeds=[1])
    envs.reset()
    rng = np.random.default_rng(0)
    actions = [rng.integers(4, size=1) for _ in range(1000)]
    length = next(t for t, a in enumerate(actions) if envs.step(a).done[0]) + 1
    for limit in (length, length - 1):
        envs = make_envpool("Breakout-v5", 1, seeds=[1], max_episode_steps=limit)
        envs.reset()
        for action in actions[:limit]:
            step = envs.step(action)
        seen[limit] = (bool(step.done[0]), bool(step.env_info.timeout[0]))
    assert seen == {length: (True, False), length - 1: (True, True)}


def test_factory(recwarn):
    envs = make_envpool("CartPole-v1", 2, seeds=[2**40 + 3, 1])
    assert envs.horizon == 500 and envs.n == 2 and not recwarn
    with pytest.raises(ValueError, match="CartPole-v1"):
        make_envpool("CartPole-v9", 2)
    with pytest.raises(TypeError, match="num_envs"):
        make_envpool("CartPole-v1")
