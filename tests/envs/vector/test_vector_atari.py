"""ale_py's native batches, really played; both autoreset modes give one stream."""

import warnings

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.random import RandomAgent
from rlpyt.envs.atari.atari_env import AtariTrajInfo
from rlpyt.envs.vector import UnsupportedVectorEnv, adapt, make_atari_vec, make_vec
from rlpyt.envs.vector.atari import AtariVector
from rlpyt.samplers.serial.sampler import SerialSampler

pytest.importorskip("ale_py")
from ale_py.vector_env import AtariVectorEnv

SEEDS = [3, 8]
SETTINGS = dict(num_threads=1, img_height=24, img_width=20, noop_max=6, reward_clipping=False)


def breakout(n=2, mode="NextStep", **kwargs):
    return AtariVectorEnv("breakout", n, autoreset_mode=mode, **{**SETTINGS, **kwargs})


def play(envs, T, seeds=SEEDS, wait=lambda t, row: False):
    envs.seed(seeds)
    seen, rng = [envs.reset().copy()], np.random.default_rng(0)
    due = np.zeros(envs.n, bool)
    for t in range(T):
        step = envs.step(rng.integers(4, size=2)[: envs.n])
        seen.append([np.array(x) for x in (*step[:3], *step.env_info)])
        due |= step.env_info.traj_done
        rows = np.array([i for i in np.flatnonzero(due) if not wait(t, i)], int)
        due[rows] = False
        seen.append([rows, envs.reset_rows(rows).copy()])
    return seen


def assert_same(seen, expected):
    for own, other in zip(seen, expected, strict=True):
        for a, b in zip(own, other, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("limit", [40, 108000])  # truncation soon, or games to their end
def test_both_modes_and_single_games_give_the_same_stream(limit):
    T = 40 if limit == 40 else 260
    kwargs = dict(max_num_frames_per_episode=limit)
    seen = play(AtariVector(breakout(mode="NextStep", **kwargs), life_loss=True), T)
    same = play(AtariVector(breakout(mode="SameStep", **kwargs), life_loss=True), T)
    assert_same(seen, same)
    alone = play(AtariVector(breakout(n=1, mode="NextStep", **kwargs)), T, seeds=SEEDS[:1])
    for own, single in zip(seen[1::2], alone[1::2], strict=True):
        np.testing.assert_array_equal(own[0][:1], single[0])  # observations of row 0
    steps = seen[1::2]
    timeouts, ends = (sum(int(step[i].sum()) for step in steps) for i in (3, 4))
    assert ends >= 2 and (timeouts == ends if limit == 40 else timeouts == 0)
    assert all(step[1].dtype == np.float32 for step in steps)


def test_first_observation_has_one_frame_and_the_final_one_four():
    envs = AtariVector(breakout(mode="SameStep", max_num_frames_per_episode=40, noop_max=1))
    for entry in play(envs, 20)[1:]:
        if len(entry) == 2:
            assert not entry[1][:, :3].any() and all(o[3].any() for o in entry[1])
        elif entry[4].any():
            assert entry[0][entry[4]].all(axis=0).any()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_row_that_waited_starts_a_new_game(mode):
    envs = AtariVector(breakout(mode=mode, max_num_frames_per_episode=40), ("lives",))

    def wait(t, row):
        return row == 0 and t % 7 != 6

    seen = play(envs, 60, wait=wait)
    starts = [entry[1][list(entry[0]).index(0)] for entry in seen[2::2] if 0 in entry[0]]
    assert len(starts) > 2 and all(not s[:3].any() and s[3].any() for s in starts)
    for step in seen[1::2]:
        assert (step[1][step[4]] == 0).all() or not step[4][0]


def test_a_lost_life_ends_the_return_and_not_the_game():
    envs = AtariVector(breakout(mode="SameStep"), ("lives", "episode_frame_number"), True)
    lost, frame, lives = 0, 0, 5
    envs.seed(SEEDS)
    envs.reset()
    rng = np.random.default_rng(0)
    while lost < 3:
        step = envs.step(rng.integers(4, size=2))
        info = step.env_info
        if step.done[0] and not info.traj_done[0]:
            lost += 1
            assert info.lives[0] == lives - 1 and not info.timeout[0]
        assert info.episode_frame_number[0] > frame  # one game all the time
        frame, lives = info.episode_frame_number[0], info.lives[0]
        envs.reset_rows(np.flatnonzero(info.traj_done))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_life_loss_info_is_refused_as_soon_as_it_shows(mode):
    envs = AtariVector(breakout(mode=mode, life_loss_info=True))
    with pytest.raises(UnsupportedVectorEnv, match="life_loss=True"):
        play(envs, 300)


@pytest.mark.timeout(20)  # unchecked, ale_py would wait for ever and ignore signals
@pytest.mark.parametrize(
    ("action", "error"),
    [
        (np.array([0, 99]), ValueError),
        (np.array([-1, 0]), ValueError),
        (np.array([0, 0, 0]), ValueError),
        (np.array([0.0, 1.0]), TypeError),
    ],
)
def test_wrong_actions_never_reach_native_code(action, error):
    envs = AtariVector(breakout())
    envs.reset()
    with pytest.raises(error, match="action"):
        envs.step(action)
    envs.step(np.array([0, 1], np.int32))


def test_continuous_actions():
    envs = AtariVector(breakout(continuous=True))
    envs.reset()
    with pytest.raises(ValueError, match="row 1"):
        envs.step(np.array([[0, 0, 0], [0, np.nan, 0]], np.float32))
    envs.step(np.array([[1, 0, 0], [0, 0, 1]], np.float64))


def test_batches_smaller_than_the_number_of_games_are_refused():
    with pytest.raises(UnsupportedVectorEnv, match="batch_size=1 .*num_envs=2"):
        adapt(breakout(batch_size=1))


def test_disabled_mode_does_not_exist_there():
    with pytest.raises(ValueError, match="autoreset"):
        breakout(mode="Disabled")


def test_a_child_process_is_refused(monkeypatch):
    envs, unused = adapt(breakout()), adapt(breakout())
    envs.reset()
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(RuntimeError, match="child"):
        unused.reset()  # its threads did not come along: ale_py would wait for them for ever
    with pytest.raises(RuntimeError, match="child"):
        envs.step(np.zeros(2, int))


def test_seeds_decide_and_long_ones_fit():
    def frames(seeds):
        envs = AtariVector(breakout(noop_max=30), {"frame_number": 0})
        return np.concatenate([entry[0] for entry in play(envs, 5, seeds)[1::2]])

    np.testing.assert_array_equal(frames([2**40 + 1, 7]), frames([2**40 + 1, 7]))
    np.random.seed(5)  # unseeded games follow numpy, not the operating system
    first = AtariVector(breakout(noop_max=30)).reset()
    np.random.seed(5)
    np.testing.assert_array_equal(AtariVector(breakout(noop_max=30)).reset(), first)


def test_wrapped_games_are_stepped_through_the_wrapper():
    envs = adapt(gymnasium.wrappers.vector.TransformReward(breakout(), lambda r: r + 1.5))
    assert isinstance(envs, AtariVector)
    rewards = np.array([step[1] for step in play(envs, 20)[1::2]])
    assert rewards.dtype == np.float32 and np.min(rewards) == 1.5


def test_rewards_are_those_of_the_id_and_scores_are_kept():
    """Single environments are the model: make does not clip, AtariEnv does and tells the score."""
    rewards = []
    for mode in (None, "sync"):
        envs = make_vec("ALE/MsPacman-v5", 2, vectorization_mode=mode)
        envs.seed([0, 1])
        rewards.append({float(x) for step in play(envs, 250)[1::2] for x in step[1]})
    assert max(rewards[0]) == max(rewards[1]) == 10.0
    sampler = SerialSampler(
        make_atari_vec, dict(game="ms_pacman", horizon=200, noop_max=0), batch_T=201, batch_B=1,
        max_decorrelation_steps=0, TrajInfoCls=AtariTrajInfo,
    )  # fmt: skip
    sampler.initialize(RandomAgent(), seed=0)
    samples, (info, *_) = sampler.obtain_samples(0)
    sampler.shutdown()
    assert samples.env.reward.max() == 1.0 and info.GameScore == info.Return >= 10.0


@pytest.mark.parametrize("id, kwargs", [("Pong-v4", {}), ("ALE/Pong-v5", dict(obs_type="ram"))])
def test_what_the_native_form_cannot_do_is_made_one_by_one(id, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        envs = make_vec(id, 2, **kwargs)
    assert not isinstance(envs, AtariVector)
    envs.reset()
    envs.close()


def test_factories():
    envs = make_atari_vec("Breakout", 2, info_keys=("lives",), horizon=50, **SETTINGS)
    assert envs.horizon == 50 and envs.observation_space.shape == (4, 24, 20)
    steps = play(envs, 60)[1::2]
    ended = [t for t, step in enumerate(steps) if step[4][0]]
    assert ended[0] + 1 <= 50
    assert isinstance(make_vec("ALE/Breakout-v5", 2), AtariVector)
    with pytest.raises(ValueError, match="life_loss=True"):
        make_atari_vec("breakout", 2, episodic_life=True)
    with pytest.raises(ValueError, match="pong"):
        make_atari_vec("pingpong", 2)
