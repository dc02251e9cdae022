"""Whatever the source's autoreset mode, the stream is that of single environments in a loop."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as gym_wrappers

from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import UnsupportedVectorEnv, adapt
from rlpyt.envs.vector.gymnasium_vector import GymnasiumVectorEnv
from rlpyt.envs.vector.info import InfoReader
from rlpyt.envs.vector.partial_reset import try_partial_reset
from rlpyt.envs.vector.serial import SerialVectorEnv
from tests.envs.vector.vector_parts import SEEDS, CountGym, NativeCount, assert_same, oracle, run

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode
MODES = [NEXT_STEP, SAME_STEP, DISABLED]
ENDS = ["termination", "truncation", "both", "alternate"]


def sync(mode, n=3, copy=True, **kwargs):
    fns = [lambda: CountGym(**kwargs)] * n
    return SyncVectorEnv(fns, autoreset_mode=mode, copy=copy)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [sync, NativeCount])
def test_stream_equals_single_environments(kind, mode, end):
    envs = kind(mode=mode, n=len(SEEDS), end=end, length=4)
    seen = run(adapt(envs))
    assert_same(seen, run(oracle(end=end, length=4)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kwargs", [dict(length=1), dict(length=3, fixed=True)])
def test_stream_with_episodes_of_one_step_and_with_all_ending_at_once(mode, kwargs):
    seen = run(adapt(sync(mode, **kwargs)))
    assert_same(seen, run(oracle(**kwargs)))


@pytest.mark.parametrize("mode", MODES)
def test_sources_that_write_into_one_buffer(mode):
    assert_same(run(adapt(sync(mode, copy=False, length=4))), run(oracle(length=4)))


@pytest.mark.parametrize("mode", MODES)
def test_a_single_row(mode):
    seen = run(adapt(sync(mode, n=1, length=3)), seeds=[5])
    assert_same(seen, run(oracle(n=1, length=3), seeds=[5]))


@pytest.mark.parametrize("mode", MODES)
def test_reset_of_all_rows_at_once_is_that_of_each(mode):
    """Samplers call ``reset()`` where all rows have ended; no episode may be skipped by it."""
    envs = adapt(sync(mode, length=2, fixed=True))
    envs.seed(SEEDS)
    envs.reset()
    for episode in range(1, 4):
        for _ in range(2):
            info = envs.step(np.zeros(3, int)).env_info
        assert info.traj_done.all()
        np.testing.assert_array_equal(envs.reset(), [[s, episode, 0] for s in SEEDS])


@pytest.mark.parametrize("mode", MODES)
def test_async_workers(mode):
    envs = adapt(AsyncVectorEnv([lambda: CountGym(length=4)] * 2, autoreset_mode=mode))
    seen = run(envs, T=15, seeds=[5, 9])
    envs.close()
    assert_same(seen, run(oracle(n=2, length=4), T=15, seeds=[5, 9]))


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_wait_are_stepped_on_and_then_reset(mode):
    """The waiting row shows nothing but that it waits; the others are as ever."""

    def wait(t, row):
        return row == 1 and t % 6 != 5

    seen = run(adapt(sync(mode, length=4)), T=36, wait=wait)
    expected = run(oracle(length=4), T=36, wait=wait)
    assert len(seen) == len(expected)
    others = [0, 2]
    waiting, episode = False, -1
    for t in range(36):
        o, r, d, timeout, over, rows, first = seen[1 + 7 * t : 8 + 7 * t]
        o_, r_, d_, timeout_, over_ = expected[1 + 7 * t : 6 + 7 * t]
        for own, other in ((o, o_), (r, r_), (d, d_), (timeout, timeout_), (over, over_)):
            np.testing.assert_array_equal(own[others], other[others])
        if waiting:
            assert (r[1], d[1], timeout[1], over[1]) == (0, True, False, True)
        else:
            assert o[1, 2] > 0 and o[1, 1] > episode - 1
        waiting = waiting or bool(over[1])
        if 1 in rows:
            start = first[list(rows).index(1)]
            assert start[0] == SEEDS[1] and start[2] == 0 and start[1] > episode
            waiting, episode = False, start[1]
    assert episode > 1


@pytest.mark.parametrize("mode", MODES)
def test_a_row_can_be_reset_in_the_middle_of_its_episode(mode):
    envs = adapt(sync(mode, length=5, fixed=True))
    envs.seed(SEEDS)
    envs.reset()
    envs.step(np.zeros(3, int))
    np.testing.assert_array_equal(envs.reset_rows(np.array([2, 0])), [[14, 1, 0], [5, 1, 0]])
    np.testing.assert_array_equal(
        envs.step(np.zeros(3, int)).observation, [[5, 1, 1], [9, 0, 2], [14, 1, 1]]
    )


def test_cached_and_other_rows_reset_together():
    envs = adapt(sync(SAME_STEP, length=5))  # row 0 ends after 1 + (5 + 4) % 5 = 5 steps
    envs.seed(SEEDS)
    envs.reset()
    for _ in range(5):
        info = envs.step(np.zeros(3, int)).env_info
        if info.traj_done[0]:
            break
        envs.reset_rows(np.flatnonzero(info.traj_done))
    running = int(np.flatnonzero(~info.traj_done)[0])
    first = envs.reset_rows(np.array([0, running]))
    assert first[0].tolist() == [5, 1, 0]
    assert first[1, 0] == SEEDS[running] and first[1, 2] == 0


class Composed(gymnasium.Env):
    """Dict observation, Tuple action with a shifted Discrete, float64 inside."""

    observation_space = gymnasium.spaces.Dict(
        {
            "where": gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float64),
            "what": gymnasium.spaces.Discrete(20, start=2),
        }
    )
    action_space = gymnasium.spaces.Tuple(
        [gymnasium.spaces.Discrete(3, start=5), gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)]
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(np.zeros(2)), {}

    def step(self, action):
        self.t += 1
        which, force = action
        assert 5 <= which < 8
        return self._observe(force * which), 0.5, self.t == 3, False, {}

    def _observe(self, where):
        return {"where": np.asarray(where, np.float64), "what": 2 + self.t}


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations_and_tuple_actions(mode):
    envs = adapt(SyncVectorEnv([Composed] * 2, autoreset_mode=mode))
    single = SerialVectorEnv([GymEnvWrapper(Composed()) for _ in range(2)])
    space = envs.action_space
    actions = [[space.sample() for _ in range(2)] for _ in range(8)]
    for batch in (envs, single):
        batch.reset()
    for pair in actions:
        action = type(pair[0])(*(np.stack(part) for part in zip(*pair, strict=True)))
        own, other = envs.step(action), single.step(action)
        assert own.observation._fields == other.observation._fields
        for a, b in zip(own.observation, other.observation, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(own.done, other.done)
        rows = np.flatnonzero(own.done)
        for a, b in zip(envs.reset_rows(rows), single.reset_rows(rows), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mode", MODES)
def test_info_keys_are_those_of_the_step(mode):
    envs = adapt(sync(mode, length=4), info_keys=("t", "absent"))
    envs.seed(SEEDS)  # rows end at different times
    envs.reset()
    for _ in range(9):
        step = envs.step(np.zeros(3, int))
        np.testing.assert_array_equal(step.env_info.t, step.observation[:, 2])
        assert step.env_info._fields == ("timeout", "traj_done", "t", "absent")
        assert step.env_info.t.dtype == step.env_info.absent.dtype == np.float32
        assert not step.env_info.absent.any()
        envs.reset_rows(np.flatnonzero(step.env_info.traj_done))


def test_stateless_gymnasium_wrappers_are_stepped_through():
    envs = gym_wrappers.TransformObservation(sync(NEXT_STEP, length=4), lambda o: 2 * o)
    seen = run(adapt(envs))
    expected = run(oracle(length=4))
    for i, (own, other) in enumerate(zip(seen, expected, strict=True)):
        observed = i == 0 or (i - 1) % 7 in (0, 6)
        np.testing.assert_array_equal(own, 2 * other if observed else other)


def test_wrappers_that_lose_count_are_refused_with_ours_named():
    for wrapper, ours in (
        (gym_wrappers.NormalizeObservation, "StandardizeObservation"),
        (gym_wrappers.NormalizeReward, "StandardizeReward"),
        (gym_wrappers.RecordEpisodeStatistics, "EpisodeMonitor"),
    ):
        with pytest.raises(UnsupportedVectorEnv, match=ours):
            adapt(wrapper(sync(NEXT_STEP)))


@pytest.mark.parametrize("declared", [None, "Sometimes", 3])
def test_an_undeclared_or_unknown_mode_is_refused(declared):
    with pytest.raises(UnsupportedVectorEnv, match="autoreset"):
        adapt(NativeCount(3, NEXT_STEP, declared=declared))


def test_a_mode_declared_by_its_name_is_known():
    assert adapt(NativeCount(3, NEXT_STEP, declared="NextStep")).mode is NEXT_STEP


@pytest.mark.parametrize(
    ("mode", "declared"), [(NEXT_STEP, SAME_STEP), (SAME_STEP, NEXT_STEP), (SAME_STEP, DISABLED)]
)
def test_a_lie_about_the_mode_is_caught_at_the_first_end(mode, declared):
    with pytest.raises(UnsupportedVectorEnv, match="final_obs"):
        run(GymnasiumVectorEnv(NativeCount(3, mode, declared=declared), partial_reset=True))


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])
def test_a_source_that_ignores_the_mask_is_refused(mode):
    with pytest.raises(UnsupportedVectorEnv, match="does not support"):
        adapt(NativeCount(3, mode, honours=False, length=9, fixed=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("honours", [True, False])
def test_trying_finds_out_whether_the_mask_counts(mode, honours):
    assert try_partial_reset(NativeCount(3, mode, honours=honours, length=6)) is honours


def test_what_observations_do_not_show_is_not_guessed():
    class Blind(NativeCount):
        def step(self, actions):
            return (np.zeros((3, 3), np.float32), *super().step(actions)[1:])

        def reset(self, **kwargs):
            super().reset(**kwargs)
            return np.zeros((3, 3), np.float32), {}

    with pytest.raises(UnsupportedVectorEnv, match="Blind"):
        adapt(Blind(3, NEXT_STEP))
    GymnasiumVectorEnv(Blind(3, NEXT_STEP), partial_reset=True).reset()


def test_a_same_step_source_without_mask_serves_until_a_partial_reset_is_needed():
    assert_same(run(adapt(NativeCount(3, SAME_STEP, honours=False))), run(oracle()))
    envs = adapt(NativeCount(3, SAME_STEP, honours=False, length=1))
    envs.reset()
    envs.step(np.zeros(3, int))
    envs.step(np.zeros(3, int))  # rows wait; now the kept observations are gone
    envs.reset_rows(np.array([0]))  # ... and new ones there, as each step ended an episode
    with pytest.raises(UnsupportedVectorEnv, match="not known.*max_decorrelation_steps=0"):
        envs.reset_rows(np.array([0]))


def test_async_without_shared_memory_is_refused_where_it_ignores_actions():
    envs = AsyncVectorEnv([CountGym] * 2, shared_memory=False)
    with pytest.raises(UnsupportedVectorEnv, match="shared_memory"):
        adapt(envs)
    envs.close()
    envs = AsyncVectorEnv([CountGym] * 2, shared_memory=False, autoreset_mode=SAME_STEP)
    assert_same(run(adapt(envs), T=8, seeds=[5, 9]), run(oracle(n=2), T=8, seeds=[5, 9]))
    envs.close()


def test_the_same_options_are_never_given_twice():
    given = []

    class Watched(SyncVectorEnv):
        def reset(self, *, seed=None, options=None):
            given.append(options)
            return super().reset(seed=seed, options=options)

    envs = adapt(Watched([lambda: CountGym(length=3)] * 3))
    run(envs, T=12)
    masked = [options for options in given if options is not None]
    assert len({id(options) for options in masked}) == len(masked) > 3
    assert all(options == {} for options in masked)  # gymnasium takes the mask out


def test_sources_that_take_one_seed_get_the_first():
    class OneSeed(NativeCount):
        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.np_random, _ = gymnasium.utils.seeding.np_random(seed)
            return super().reset(options=options)

    envs = adapt(OneSeed(3, NEXT_STEP, length=3))
    envs.seed(SEEDS)
    envs.reset()
    assert envs.source.np_random.integers(1000) == np.random.default_rng(5).integers(1000)


def test_steps_need_a_reset_and_their_own_process(monkeypatch):
    envs = adapt(sync(NEXT_STEP))
    with pytest.raises(RuntimeError, match="Call reset"):
        envs.step(np.zeros(3, int))
    envs.reset()
    monkeypatch.setattr("os.getpid", lambda: 1)
    for call in (envs.reset, lambda: envs.step(np.zeros(3, int)), lambda: envs.reset_rows([0])):
        with pytest.raises(RuntimeError, match="child"):
            call()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda o, r, te, tr, i: (o[:2], r, te, tr, i), "observations"),
        (lambda o, r, te, tr, i: (o.tolist(), r, te, tr, i), "observations"),
        (lambda o, r, te, tr, i: (o, r[:, None], te, tr, i), "reward"),
        (lambda o, r, te, tr, i: (o, r, te.astype(float), tr, i), "terminated"),
        (lambda o, r, te, tr, i: (o, r, te, list(tr), i), "truncated"),
        (lambda o, r, te, tr, i: (o, r, te, tr, [{}] * 3), "info"),
    ],
)
def test_results_that_are_no_batches_are_named(changed, message):
    class Broken(NativeCount):
        def step(self, actions):
            return changed(*super().step(actions))

    envs = adapt(Broken(3, SAME_STEP))
    envs.reset()
    with pytest.raises(UnsupportedVectorEnv, match=message):
        envs.step(np.zeros(3, int))


class OneArray(CountGym):
    """Returns the same array at every step."""

    def reset(self, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.own = np.array(observation)
        return self.own, info

    def step(self, action):
        observation, *rest = super().step(action)
        self.own[...] = observation
        return self.own, *rest


class Categories(SyncVectorEnv):
    def step(self, actions):
        *results, info = super().step(actions)
        if "final_obs" in info and self.as_objects:
            info["final_obs"][:] = [np.array([1.5, 0]) for _ in range(self.num_envs)]
        elif "final_obs" in info:
            info["final_obs"] = np.full((self.num_envs, 2), 1.5)
        return *results, info


class CategoryGym(gymnasium.Env):
    observation_space = gymnasium.spaces.MultiDiscrete([3, 3])
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.array([1, 1]), {}

    def step(self, action):
        return np.array([1, 1]), 0.0, True, False, {}


@pytest.mark.parametrize("as_objects", [False, True])
def test_final_categories_that_are_floats_are_refused(as_objects):
    source = Categories([CategoryGym] * 2, autoreset_mode=SAME_STEP)
    source.as_objects = as_objects
    envs = adapt(source)
    envs.reset()
    with pytest.raises(UnsupportedVectorEnv, match="float64 in place of int64"):
        envs.step(np.zeros(2, np.int64))


class ResetsInPlace(OneArray):
    def reset(self, seed=None, options=None):
        before = getattr(self, "own", None)
        observation, info = super().reset(seed=seed, options=options)
        if before is not None:
            before[...] = observation
            self.own = before
        return self.own, info


@pytest.mark.parametrize("Env, said", [(CountGym, 0), (OneArray, 0), (ResetsInPlace, 1)])
@pytest.mark.parametrize("Vector", [SyncVectorEnv, AsyncVectorEnv])
def test_final_observations_that_a_reset_overwrites_are_said_once(Vector, Env, said, recwarn):
    envs = adapt(Vector([lambda: Env(length=3)] * 2, autoreset_mode=SAME_STEP))
    run(envs, seeds=SEEDS[:2])
    envs.close()
    assert sum("return copies" in str(w.message) for w in recwarn) == said


class NoneGym(gymnasium.Env):
    """Returns None as the observation of a reset, of the 2nd step, or of the 3rd and last one."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, where, space):
        self.where, self.observation_space = where, space

    def reset(self, seed=None, options=None):
        self.t = 0
        return self.observation_space.sample() if self.where != "reset" else None, {}

    def step(self, action):
        self.t += 1
        now = {"step": 2, "last": 3}.get(self.where) == self.t
        return None if now else self.observation_space.sample(), 0.0, self.t == 3, False, {}


BOX, SCALAR = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Box(-1, 1, ())


@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP, DISABLED])
@pytest.mark.parametrize("where", ["reset", "step", "last"])
@pytest.mark.parametrize("space", [BOX, SCALAR, gymnasium.spaces.Discrete(3)])
def test_none_as_an_observation_is_refused_by_name(space, where, mode):
    makers = [lambda: NoneGym("", space), lambda: NoneGym(where, space)]
    envs = adapt(SyncVectorEnv(makers, autoreset_mode=mode))
    final = where == "last" and mode is SAME_STEP
    said = "final_obs of .* is None" if final else "environment 1 of .* the observation None, exp"
    with pytest.raises(UnsupportedVectorEnv, match=said):
        envs.reset()
        for _ in range(3):
            envs.step(np.zeros(2, np.int64))


def test_errors_of_an_environment_are_raised_as_they_are():
    def fails(*args, **kwargs):
        raise ValueError("from the environment")

    source = SyncVectorEnv([lambda: NoneGym("", BOX)] * 2, autoreset_mode=SAME_STEP)
    source.envs[1].reset = fails
    with pytest.raises(ValueError, match="^from the environment$"):
        adapt(source).reset()


def test_a_final_observation_of_another_shape_is_refused():
    class Short(SyncVectorEnv):
        def step(self, actions):
            *results, info = super().step(actions)
            if "final_obs" in info:
                info["final_obs"][:] = [np.zeros(1, np.float32)] * 2
            return *results, info

    envs = adapt(Short([lambda: NoneGym("", BOX)] * 2, autoreset_mode=SAME_STEP))
    envs.reset()
    with pytest.raises(UnsupportedVectorEnv, match=r"float32 of shape \(1,\), expected .*\(2,\)"):
        for _ in range(3):
            envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize(
    ("example", "value", "held"),
    [(0, 0.5, False), (np.uint8(0), 300, False), (False, 2, False), (0, 3.0, True), (0.0, 2, True)],
)
def test_info_that_its_example_cannot_hold_is_refused(example, value, held):
    reader = InfoReader(2, {"key": example})
    assert reader.read({"key": np.array([1, 0])})[0].tolist() == [1, 0]
    if held:
        assert reader.read({"key": np.array([1, value])})[0].tolist() == [1, value]
    else:
        with pytest.raises(ValueError, match=rf"'key' must be .* got {value}.*info_keys="):
            reader.read({"key": np.array([1, value])})


@pytest.mark.parametrize("lives", [np.array([3, 3]), None, "three", {"p1": 3}], ids=str)
def test_lives_of_another_kind_are_left_alone(lives):
    class TwoPlayers(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {"lives": lives}

        def step(self, action):
            return np.zeros(2, np.float32), 0.0, False, False, {"lives": lives}

    envs = adapt(SyncVectorEnv([TwoPlayers] * 2))
    envs.reset()
    for _ in range(3):
        assert not envs.step(np.zeros(2, int)).done.any()


def test_none_in_info_is_zero_as_in_single_environments():
    class Sometimes(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.t = 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.t += 1
            x = None if self.t == 2 else float(self.t)
            return np.zeros(2, np.float32), 0.0, False, False, {"x": x}

    envs = adapt(SyncVectorEnv([Sometimes] * 2), info_keys=("x",))
    envs.reset()
    found = [envs.step(np.zeros(2, int)).env_info.x.tolist() for _ in range(3)]
    assert found == [[1.0, 1.0], [0.0, 0.0], [3.0, 3.0]]
