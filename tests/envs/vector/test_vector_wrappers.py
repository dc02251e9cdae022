"""Wrappers against slow definitions, over episodes that end, wait and begin anew."""

import csv

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import make_vec
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.envs.vector.wrappers import (
    ClipReward,
    EpisodeMonitor,
    ExtractField,
    FrameStack,
    ScaleReward,
    SignReward,
    StandardizeObservation,
    StandardizeReward,
    TimeAwareObservation,
    VectorWrapper,
    merge_statistics,
)
from rlpyt.utils.running import RunningMeanVar
from tests.envs.vector.vector_parts import SEEDS, CountGym, assert_same, oracle, run

WAIT = [lambda t, row: False, lambda t, row: row == 1 and t % 4 != 3]


def both(make, wait, T=25, **kwargs):
    """Return the results of a wrapped and a bare run, and the wrapper. Serial rows wait."""
    wrapped = make(oracle(**kwargs))
    return run(wrapped, T, wait=wait), run(oracle(**kwargs), T, wait=wait), wrapped


def by_step(seen):
    """(first, [(observation, reward, done, timeout, traj_done, rows, first of rows), ...])."""
    return seen[0], [seen[i : i + 7] for i in range(1, len(seen), 7)]


def waiting_before(steps, n=3):
    """Return the rows that wait at each step."""
    waiting = np.zeros(n, bool)
    for _, _, _, _, traj_done, rows, _ in steps:
        yield waiting.copy()
        waiting |= traj_done
        waiting[rows] = False


def test_a_bare_wrapper_changes_nothing():
    seen, expected, wrapped = both(VectorWrapper, WAIT[0])
    assert_same(seen, expected)
    assert wrapped.n == 3 and wrapped.horizon is None and wrapped.envs is wrapped.env.envs
    assert wrapped.spaces == oracle().spaces
    with pytest.raises(AttributeError, match="no attribute '_absent'"):
        _ = wrapped._absent


def test_foreign_environments_are_adapted():
    envs = VectorWrapper(gymnasium.vector.SyncVectorEnv([lambda: CountGym(length=4)] * 3))
    assert_same(run(envs), run(oracle(length=4)))


@pytest.mark.parametrize("splits", [[5, 1, 0, 7], [13]])
def test_moments_of_batches_are_those_of_all(splits):
    data = np.random.default_rng(0).normal(3.0, 2.0, (13, 2)).astype(np.float32)
    moments = RunningMeanVar((2,))
    for part in np.split(data, np.cumsum(splits)[:-1]):
        moments.update(part)
    np.testing.assert_allclose(moments.mean, data.mean(0, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(moments.var, data.var(0, dtype=float), rtol=1e-12)
    assert moments.count == 13
    again = RunningMeanVar((2,))
    again.load(moments.state())
    np.testing.assert_array_equal(again.var, moments.var)
    with pytest.raises(ValueError, match="shape"):
        RunningMeanVar((3,)).load(moments.state())


@pytest.mark.parametrize("wait", WAIT)
def test_observations_are_standardised_by_all_seen_until_then_each_once(wait):
    seen, bare, wrapped = both(lambda e: StandardizeObservation(e, clip=1.5), wait)
    first, steps = by_step(seen)
    data = [*bare[0]]

    def expect(raw):
        x = np.array(data, float)
        return np.clip((raw - x.mean(0)) / np.sqrt(x.var(0) + 1e-8), -1.5, 1.5)

    np.testing.assert_allclose(first, expect(bare[0]), rtol=1e-5, atol=1e-6)
    raw_steps = by_step(bare)[1]
    for own, raw, waiting in zip(steps, raw_steps, waiting_before(raw_steps), strict=True):
        data += [*raw[0][~waiting]]
        np.testing.assert_allclose(own[0], expect(raw[0]), rtol=1e-5, atol=1e-5)
        assert own[0].dtype == np.float32
        data += [*raw[6]]
        np.testing.assert_allclose(own[6], expect(raw[6]), rtol=1e-5, atol=1e-5)
        assert_same(own[1:6], raw[1:6])
    assert wrapped.moments[0].count == len(data)
    assert wrapped.observation_space.low.tolist() == [-1.5] * 3


@pytest.mark.parametrize("wait", WAIT)
def test_rewards_are_divided_by_the_spread_of_running_returns(wait):
    make = lambda e: StandardizeReward(e, discount=0.9, clip=3.0)
    seen, bare, wrapped = both(make, wait, life=2)
    returns, R = [], np.zeros(3)
    raw_steps = by_step(bare)[1]
    for own, raw, waiting in zip(
        by_step(seen)[1], raw_steps, waiting_before(raw_steps), strict=True
    ):
        R = 0.9 * R + raw[1]
        returns += [*R[~waiting]]
        var = np.var(returns)
        expected = raw[1] / (np.sqrt(var + 1e-8) if var > 1e-8 else 1.0)
        np.testing.assert_allclose(own[1], np.clip(expected, -3, 3), rtol=1e-5)
        assert own[1].dtype == np.float32
        R[raw[2]] = 0.0  # lost lives too
    assert wrapped.moments.count == len(returns)


def test_both_together_are_baselines_vec_normalize():
    """Its loop, written out; it begins with a ten-thousandth of standard data in its statistics."""
    make = lambda e: StandardizeReward(StandardizeObservation(e, clip=1.5), discount=0.9, clip=2.0)
    seen, bare, _ = both(make, WAIT[0], T=40)
    ob_rms, ret_rms, R = RunningMeanVar((3,), 1e-4), RunningMeanVar((), 1e-4), np.zeros(3)

    def filtered(ob):
        ob_rms(ob)
        return np.clip((ob - ob_rms.mean) / np.sqrt(ob_rms.var + 1e-8), -1.5, 1.5)

    filtered(bare[0])
    clipped = 0
    for t, (own, raw) in enumerate(zip(by_step(seen)[1], by_step(bare)[1], strict=True)):
        ob, reward, done = raw[:3]
        R = 0.9 * R + reward
        ret_rms(R)
        expected = np.clip(reward / np.sqrt(ret_rms.var + 1e-8), -2, 2)
        R[done] = 0.0
        shown, restarted = filtered(ob), filtered(raw[6]) if len(raw[6]) else raw[6]
        if t > 2:  # later the ten-thousandth is not seen any more
            np.testing.assert_allclose(own[0], shown, atol=2e-3)
            np.testing.assert_allclose(own[6], restarted, atol=2e-3)
            np.testing.assert_allclose(own[1], expected, atol=2e-3)
            clipped += np.sum(np.abs(own[0]) == 1.5) + np.sum(np.abs(own[1]) == 2.0)
    assert clipped


def test_running_returns_begin_anew_with_episodes_cut_short():
    envs = StandardizeReward(oracle(length=9, fixed=True))
    envs.reset()
    envs.step(np.zeros(3, int))
    envs.reset_rows(np.array([1]))
    assert envs.get_state()["own"]["return"].tolist() == [1, 0, 1]
    envs.reset()
    assert not envs.get_state()["own"]["return"].any()


def test_rewards_without_spread_stay():
    envs = StandardizeReward(make_vec("CartPole-v1", 4))
    envs.seed([1, 2, 3, 4])
    envs.reset()
    assert envs.step(np.zeros(4, int)).reward.tolist() == [1, 1, 1, 1]


def test_statistics_go_to_evaluation_and_stay_frozen_there():
    make = lambda: StandardizeReward(StandardizeObservation(oracle(length=4)))
    training, evaluation = make(), make()
    run(training)
    learnt = training.statistics()
    assert set(learnt) == {"StandardizeObservation", "StandardizeReward"}
    evaluation.load_statistics(learnt)
    evaluation.freeze()
    run(evaluation, seeds=[70, 80, 90])
    for own, other in (
        (evaluation.moments, training.moments),
        (evaluation.env.moments[0], training.env.moments[0]),
    ):
        np.testing.assert_array_equal(own.mean, other.mean)
        assert own.count == other.count
    count = evaluation.moments.count
    evaluation.freeze(False)
    run(evaluation, T=1)
    assert evaluation.moments.count == count + 3


def test_statistics_are_copies_and_named_from_the_inside_out():
    envs = StandardizeObservation(StandardizeObservation(oracle(), clip=2.0))
    envs.reset()
    learnt = envs.statistics()
    assert set(learnt) == {"StandardizeObservation", "StandardizeObservation_2"}
    learnt["StandardizeObservation"]["0"]["mean"][:] = 77
    assert not (envs.env.moments[0].mean == 77).any()
    envs.load_statistics(learnt)
    assert (envs.env.moments[0].mean == 77).all()
    inner = StandardizeObservation(oracle())
    inner.load_statistics(learnt)  # the outer one's are passed over
    with pytest.raises(ValueError, match="StandardizeReward"):
        StandardizeReward(oracle()).load_statistics(learnt)


def test_statistics_of_workers_merge_into_those_of_one():
    def learn(seeds):
        envs = StandardizeObservation(oracle(n=len(seeds)))
        run(envs, T=9, seeds=seeds)
        return envs.statistics()

    unused = StandardizeObservation(oracle()).statistics()
    merged = merge_statistics([unused, learn(SEEDS[:1]), learn(SEEDS[1:])])
    whole = learn(SEEDS)
    assert set(merged) == set(whole)
    own, expected = (x["StandardizeObservation"]["0"] for x in (merged, whole))
    assert own["count"] == expected["count"]
    np.testing.assert_allclose(own["mean"], expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(own["var"], expected["var"], rtol=1e-12)


def test_constant_moments_are_used_and_kept():
    envs = StandardizeObservation(oracle(), constant_moments=(1.0, 4.0))
    seen, bare = run(envs), run(oracle())
    np.testing.assert_allclose(seen[1], np.clip((bare[1] - 1) / 2, -10, 10), rtol=1e-6)
    assert envs.statistics() == {}
    envs = StandardizeReward(oracle(), constant_var=4.0, clip=1e9)
    np.testing.assert_allclose(run(envs)[2], run(oracle())[2] / 2, rtol=1e-6)


class Dicts(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        {
            "where": gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float32),
            "what": gymnasium.spaces.Discrete(20),
            "seen": gymnasium.spaces.Box(0, 255, (1, 2), np.uint8),
        }
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), 1.0, self.t == 3, False, {}

    def _observe(self):
        return {
            "where": np.full(2, self.t, np.float32),
            "what": self.t,
            "seen": np.full((1, 2), self.t, np.uint8),
        }


def dicts(n=2):
    return SerialVectorEnv([GymEnvWrapper(Dicts()) for _ in range(n)])


def test_composed_observations_are_standardised_where_they_are_real_numbers():
    envs = StandardizeObservation(dicts())
    envs.reset()
    step = envs.step(np.zeros(2, int))
    assert step.observation.what.tolist() == [1, 1] and step.observation.seen.max() == 1
    np.testing.assert_allclose(step.observation.where, 1.0)  # 0, 0, 1, 1: mean 1/2, std 1/2
    assert envs.observation_space.contains(envs.observation_space.sample())
    assert set(envs.statistics()["StandardizeObservation"]) == {"2"}  # in order of keys
    with pytest.raises(ValueError, match="floating-point"):
        StandardizeObservation(ExtractField(dicts(), "what"))


def test_fields_are_extracted():
    envs = ExtractField(dicts(), "where")
    assert envs.observation_space.shape == (2,)
    assert envs.reset().tolist() == [[0, 0], [0, 0]]
    assert envs.step(np.zeros(2, int)).observation.tolist() == [[1, 1], [1, 1]]
    assert envs.reset_rows(np.array([1])).tolist() == [[0, 0]]
    envs = ExtractField(dicts(), ["seen", "what"])
    assert envs.observation_space.names == ("seen", "what")
    assert envs.reset()._fields == ("seen", "what")
    with pytest.raises(ValueError, match="key='there' .*'where'"):
        ExtractField(dicts(), "there")
    with pytest.raises(ValueError, match="must be a field"):
        ExtractField(oracle(), "where")


@pytest.mark.parametrize("padding", ["zero", "repeat"])
@pytest.mark.parametrize("new_axis", [False, True])
def test_frames_are_stacked_and_forgotten_at_resets(padding, new_axis):
    make = lambda e: FrameStack(e, 3, new_axis, padding)
    seen, bare, wrapped = both(make, WAIT[0], length=5)
    history = {}

    def begin(rows, first):
        for i, o in zip(rows, first, strict=True):
            history[i] = [o if padding == "repeat" else 0 * o] * 2 + [o]
        return [history[i][-3:] for i in rows]

    shape = (-1, 3, 3) if new_axis else (-1, 9)
    np.testing.assert_array_equal(seen[0], np.reshape(begin(range(3), bare[0]), shape))
    for own, raw in zip(by_step(seen)[1], by_step(bare)[1], strict=True):
        for i in range(3):
            history[i].append(raw[0][i])
        stacked = np.reshape([history[i][-3:] for i in range(3)], shape)
        np.testing.assert_array_equal(own[0], stacked)  # final ones as well
        np.testing.assert_array_equal(own[6], np.reshape(begin(raw[5], raw[6]), shape))
    assert wrapped.observation_space.shape == shape[1:]


def test_images_stack_along_channels_and_keep_their_dtype():
    envs = FrameStack(ExtractField(dicts(), "seen"), 2)
    assert envs.observation_space.dtype == np.uint8 and envs.observation_space.shape == (2, 2)
    envs.reset()
    assert envs.step(np.zeros(2, int)).observation[0].tolist() == [[0, 0], [1, 1]]
    with pytest.raises(ValueError, match="new_axis"):
        FrameStack(ExtractField(dicts(), "what"))
    assert FrameStack(ExtractField(dicts(), "what"), 2, new_axis=True).reset().shape == (2, 2)
    with pytest.raises(ValueError, match="Extract"):
        FrameStack(dicts())
    with pytest.raises(ValueError, match="padding"):
        FrameStack(oracle(), padding="mirror")


def test_time_is_appended():
    seen, bare, wrapped = both(lambda e: TimeAwareObservation(e, scale=0.5), WAIT[0])
    for i, raw in enumerate(bare):
        if i == 0 or i % 7 in (0, 1):  # the counting environment says the time itself
            np.testing.assert_array_equal(seen[i][:, :3], raw)
            np.testing.assert_array_equal(seen[i][:, 3], raw[:, 2] / 2)
            assert seen[i].dtype == np.float32
    assert wrapped.observation_space.shape == (4,)
    with pytest.raises(ValueError, match="vector"):
        TimeAwareObservation(dicts())


def test_rewards_are_scaled_clipped_or_only_signs():
    bare = by_step(run(oracle()))[1]
    for make, expected in (
        (lambda e: ScaleReward(e, 0.1), lambda r: r * 0.1),
        (lambda e: ClipReward(e, -1, 2.5), lambda r: np.clip(r, -1, 2.5)),
        (SignReward, np.sign),
        (lambda e: SignReward(ScaleReward(e, 0.1)), np.sign),
    ):
        for own, raw in zip(by_step(run(make(oracle())))[1], bare, strict=True):
            np.testing.assert_allclose(own[1], expected(raw[1]), rtol=1e-6)
            assert own[1].dtype == np.float32
    with pytest.raises(ValueError, match="high"):
        ClipReward(oracle(), 1, 0)
    with pytest.raises(ValueError, match="scale"):
        ScaleReward(oracle(), 0)


def test_the_environments_own_reward_stays_known():
    envs = SignReward(ScaleReward(oracle(), 0.5))
    envs.seed(SEEDS)
    envs.reset()
    envs.step(np.zeros(3, int))
    info = envs.step(np.zeros(3, int)).env_info
    assert info._fields == ("timeout", "traj_done", "action", "raw_reward")
    assert info.raw_reward.max() == 2


@pytest.mark.parametrize("wait", WAIT)
def test_episodes_are_monitored(wait, tmp_path):
    file = tmp_path / "episodes.csv"
    make = lambda e: EpisodeMonitor(e, keep=4, filename=file, info_keys=("action",))
    seen, bare, wrapped = both(make, wait, life=2)
    assert_same(seen, bare)
    expected, total, length = [], np.zeros(3), np.zeros(3, int)
    raw_steps = by_step(bare)[1]
    for t, (raw, waiting) in enumerate(zip(raw_steps, waiting_before(raw_steps), strict=True)):
        total, length = total + raw[1], length + 1
        for i in np.flatnonzero(raw[4] & ~waiting):
            expected.append((float(total[i]), int(length[i]), int(i), (i + t) % 3))
        total[raw[5]], length[raw[5]] = 0.0, 0
    keys = ("return", "length", "row", "action")
    assert [tuple(e[k] for k in keys) for e in wrapped.episodes] == expected[-4:]
    assert wrapped.n_episodes == len(expected)
    assert all(episode["seconds"] >= 0 for episode in wrapped.episodes)
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [(float(r["return"]), int(r["length"])) for r in rows] == [e[:2] for e in expected]


def test_several_monitors_write_to_one_file_under_one_head(tmp_path):
    file = tmp_path / "episodes.csv"
    first, second = (EpisodeMonitor(oracle(length=2), filename=file) for _ in range(2))
    run(first, T=3), run(second, T=3)
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == first.n_episodes + second.n_episodes > 4
    with pytest.raises(ValueError, match=r"must have the columns .*'action'"):
        EpisodeMonitor(oracle(), filename=file, info_keys=("action",))


def test_a_chain_resumes_exactly():
    def make():
        envs = EpisodeMonitor(oracle(length=4))
        envs = FrameStack(TimeAwareObservation(envs), 2)
        return StandardizeReward(StandardizeObservation(envs))

    envs, again = make(), make()
    run(envs, T=7, wait=lambda t, row: row == 1)
    again.set_state(envs.get_state())

    def go_on(envs):
        seen = []
        for t in range(12):
            step = envs.step(np.full(3, t % 3))
            seen += [np.array(x) for x in (*step[:3], *step.env_info)]
            seen.append(envs.reset_rows(np.flatnonzero(step.env_info.traj_done)[: 2 + t % 2]))
        episodes = [{**episode, "seconds": 0} for episode in envs.episodes]
        return seen, episodes

    own, expected = go_on(again), go_on(envs)
    assert_same(own[0], expected[0])
    assert own[1] == expected[1]
    assert VectorWrapper(make_vec("Pendulum-v1", 2)).get_state() is None


def test_custom_wrappers_have_a_known_state_if_they_save_it():
    class Fades(VectorWrapper):
        def _begin(self, observation, rows):
            self.steps = getattr(self, "steps", np.zeros(self.n))
            self.steps[rows] = 0
            return observation

        def _follow(self, step):
            self.steps += 1
            return step._replace(reward=step.reward / self.steps)

    class Saved(Fades):
        def _get_own(self):
            return {"steps": self.steps.copy()}

        def _set_own(self, state):
            self.steps = state["steps"].copy()

    envs, saved, again = Fades(oracle()), Saved(oracle()), Saved(oracle())
    run(envs, T=3), run(saved, T=3)
    assert envs.get_state() is None and StandardizeObservation(envs).get_state() is None
    again.set_state(saved.get_state())
    action = np.zeros(3, np.int64)
    assert (again.step(action).reward == saved.step(action).reward).all()


def test_no_rows_begin_nothing():
    envs = StandardizeObservation(FrameStack(TimeAwareObservation(EpisodeMonitor(oracle())), 2))
    envs.reset()
    count = envs.moments[0].count
    assert envs.reset_rows(np.array([], int)).shape == (0, 8)
    assert envs.moments[0].count == count


def test_closing_reaches_the_inside():
    closed = []
    envs = VectorWrapper(VectorWrapper(oracle()))
    envs.env.env.close = lambda: closed.append(1)
    envs.close()
    assert closed == [1]
