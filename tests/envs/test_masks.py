"""Masks of Gymnasium environments become a part of observations."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from rlpyt.envs.base import build_env
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.masks import ActionMaskObservation, VectorActionMask
from rlpyt.envs.vector.base import adapt
from rlpyt.envs.vector.make import make_vec
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.spaces.action_mask import checked_mask_sizes, has_mask, sample_valid
from rlpyt.testing import check_env
from rlpyt.utils.buffer import buffer_from_example
from tests.masked_env import SIZES, MaskedEnv

SOURCES = ["info", "method", "part", "components"]
gymnasium.register("Masked-v0", entry_point=MaskedEnv)


def walk(env, n=40):
    """Take random valid actions; yield (observation, done) after each call."""
    observation = env.reset()
    yield observation, False
    for _ in range(n):
        action = sample_valid(env.action_space, observation.action_mask)
        observation, _, done, info = env.step(action)
        assert "action_mask" not in info._fields
        yield observation, done
        if done:
            observation = env.reset()
            yield observation, False


@pytest.mark.parametrize("action", SIZES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_masks_becomes_a_part(source, action):
    env = GymEnvWrapper(MaskedEnv(source, action))
    env.seed(1)
    assert checked_mask_sizes(env.observation_space, env.action_space) == SIZES[action]
    name = "state" if source == "part" else "observation"
    for observation, done in walk(env):
        assert set(observation._fields) == {name, "action_mask"}
        assert env.observation_space.contains(observation)
        assert getattr(observation, name).shape == (3,)
        if not done:
            assert np.array_equal(observation.action_mask, np.concatenate(env.env.parts))


def test_a_terminal_observation_has_an_empty_mask_and_a_truncated_one_a_true_mask():
    env = GymEnvWrapper(MaskedEnv())
    env.seed(0)
    seen = set()
    observation = env.reset()
    for _ in range(60):
        action = sample_valid(env.action_space, observation.action_mask)
        observation, _, done, info = env.step(action)
        if done:
            seen.add(info.timeout)
            assert observation.action_mask.any() == info.timeout
            observation = env.reset()
    assert seen == {True, False}


def test_dict_observations_get_one_more_part():
    class Parts(MaskedEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Dict(a=self.vector, b=spaces.Discrete(3))

        def outputs(self):
            state, info = super().outputs()
            return {"a": state, "b": 2}, info

    env = GymEnvWrapper(Parts())
    observation = env.reset()
    assert observation._fields == ("a", "b", "action_mask")
    assert env.observation_space.contains(observation)
    assert observation._fields == env.observation_space.sample()._fields


def test_environments_without_masks_are_not_changed():
    env = GymEnvWrapper(MaskedEnv("none"))
    assert not has_mask(env.observation_space) and env.reset().shape == (3,)
    assert not has_mask(make("CartPole-v1").observation_space)
    box = MaskedEnv("none")
    box.action_space = spaces.Box(-1, 1, (2,))
    assert not has_mask(GymEnvWrapper(box).observation_space)


@pytest.mark.filterwarnings("ignore:.*Taxi")
def test_taxi_has_masks():
    env = make("Taxi-v3")
    env.seed(0)
    observation = env.reset()
    assert observation._fields == ("observation", "action_mask")
    assert observation.action_mask.shape == (6,) and 0 < observation.action_mask.sum() < 6
    assert env.step(0).env_info._fields == ("prob", "timeout")


class Hidden(gymnasium.Env):
    """Its code does not contain the key."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)
    key = "_".join(["action", "mask"])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {self.key: np.ones(2, np.int8)}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {self.key: np.ones(2, np.int8)}


gymnasium.register("Hidden-v0", entry_point=Hidden)


@pytest.mark.parametrize("kind", ["bare", "made", "wrapped", "sync", "async"])
def test_masks_are_found_wherever_the_code_makes_them(kind):
    if kind in ("sync", "async"):
        envs = adapt(dict(sync=SyncVectorEnv, **{"async": AsyncVectorEnv})[kind]([Hidden, Hidden]))
        try:
            assert envs.reset().action_mask.tolist() == [[1, 1], [1, 1]]
        finally:
            envs.close()
        return
    env = {"bare": Hidden, "made": lambda: gymnasium.make("Hidden-v0")}.get(kind)
    env = ActionMaskObservation(Hidden()) if env is None else env()
    assert GymEnvWrapper(env).reset().action_mask.tolist() == [1, 1]


def test_looking_for_masks_disturbs_neither_recorders_nor_random_numbers():
    class Draws(Hidden):
        def reset(self, **kwargs):
            np.random.rand()
            return super().reset(**kwargs)

    before = np.random.get_state()[1].copy()
    recorder = RecordEpisodeStatistics(Draws())
    resets, reset = [], recorder.reset
    recorder.reset = lambda **kwargs: (resets.append(kwargs), reset(**kwargs))[1]
    env = GymEnvWrapper(recorder)
    assert has_mask(env.observation_space) and not resets
    assert np.array_equal(np.random.get_state()[1], before)


def test_masks_are_added_once():
    with pytest.raises(ValueError, match="without 'action_mask'"):
        ActionMaskObservation(ActionMaskObservation(Hidden()))


FAULTS = {
    "missing": r"info\['action_mask'\] .*None",
    "short": r"action_mask .*Discrete\(6\), got shape \(5,\)",
    "values": "action_mask.* 0 or 1, got",
    "text": "action_mask.* 0 or 1, got",
    "object": "action_mask.* 0 or 1, got",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_invalid_masks_are_refused(fault):
    env = GymEnvWrapper(MaskedEnv(fault=fault, length=20))
    with pytest.raises((ValueError, TypeError), match=FAULTS[fault]):
        list(walk(env, 10))


@pytest.mark.parametrize("action", [spaces.Discrete(6), spaces.Box(-1, 1, (6,))])
def test_a_mask_that_reset_does_not_return_is_refused(action):
    class Late(MaskedEnv):
        def reset(self, **kwargs):
            observation, info = super().reset(**kwargs)
            info.pop("action_mask")
            return observation, info

        def step(self, action):
            info = {"action_mask": np.ones(6, np.int8)}
            return np.zeros(3, np.float32), 0.0, False, False, info

    late = Late()
    late.action_space = action
    env = GymEnvWrapper(late)
    env.reset()
    if isinstance(action, spaces.Box):  # it cannot be a mask of actions
        assert env.step(env.action_space.sample()).env_info._fields == ("action_mask", "timeout")
        return
    with pytest.raises(ValueError, match="step .*'action_mask'.* reset"):
        env.step(0)


class Sometimes(gymnasium.Env):
    """Returns a mask in the given steps, numbered from the first reset; episodes have 3 steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    autoreset_mode = AutoresetMode.NEXT_STEP

    def __init__(self, masked, others=None):
        self.masked, self.others, self.n = masked, others or {}, -1

    def observe(self):
        self.n += 1
        info = {"action_mask": np.ones(2, np.int8)} if self.n in self.masked else {}
        return np.zeros(1, np.float32), {**self.others, **info}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe()

    def step(self, action):
        self.t += 1
        observation, info = self.observe()
        return observation, 0.0, False, self.t == 3, info


def play(env, n):
    """Take steps, reset at the end of episodes."""
    actions = np.zeros(env.n, np.int64) if hasattr(env, "n") else 0
    env.reset()
    for _ in range(n):
        done = np.asarray(env.step(actions).done)
        if done.any():
            env.reset_rows(np.flatnonzero(done)) if done.ndim else env.reset()


@pytest.mark.parametrize("others", [{}, {"x": 1.0}])
@pytest.mark.parametrize(
    "masked,where",
    # The environment is tried out when it is built: observation 0 is that of a reset.
    [([3], "step"), ([4], "step"), ([4, 5, 6], "step"), ([5], "reset"), ([1], "reset")],
)
def test_a_mask_that_appears_later_is_refused(masked, where, others):
    env = GymEnvWrapper(Sometimes(masked, others))
    message = f"{where} .*'action_mask'.* reset"
    with pytest.raises(ValueError, match=message):
        play(env, 12)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("masked", [[2], [7, 8, 9], [4, 5], [5, 6]])
def test_a_mask_of_a_vector_environment_that_appears_later_is_refused(masked, mode):
    make = lambda: Sometimes(masked, {"x": 1.0})
    envs = adapt(SyncVectorEnv([make, make], autoreset_mode=mode))
    with pytest.raises(ValueError, match="of (step|reset) .*'action_mask'.* reset"):
        play(envs, 12)


@pytest.mark.parametrize("fault", ["floats", "ints"])
def test_zeros_and_ones_of_any_type_are_masks(fault):
    env = GymEnvWrapper(MaskedEnv(fault=fault))
    for observation, _ in walk(env, 20):
        assert env.observation_space.contains(observation)


def test_masked_environments_can_be_pickled():
    env = GymEnvWrapper(MaskedEnv())
    env.reset()
    assert pickle.loads(pickle.dumps(env)).reset().action_mask.shape == (6,)


def env_of(source):
    return lambda: MaskedEnv(source)


def vector_of(kind):
    if kind == "serial":
        return SerialVectorEnv([GymEnvWrapper(MaskedEnv()) for _ in range(3)])
    if kind in ("sync", "async"):
        return make_vec("Masked-v0", 3, vectorization_mode=kind)
    if kind == "method":
        return make_vec("Masked-v0", 3, vectorization_mode="sync", source="method")
    if kind == "own call async":
        return adapt(AsyncVectorEnv([env_of("method")] * 3))
    _, *source, mode = kind.split()
    source = {"method": "method", "call": "method", "components": "components"}.get(
        "".join(source), "info"
    )
    VectorCls = WithMethod if "method" in kind else SyncVectorEnv
    return adapt(VectorCls([env_of(source)] * 3, autoreset_mode=AutoresetMode[mode]))


class WithMethod(SyncVectorEnv):
    """Vector environments with a method of their own."""

    def action_masks(self):
        return np.stack([env.given() for env in self.envs])


VECTORS = [
    *("serial", "sync", "async", "method", "own SAME_STEP", "own NEXT_STEP", "own DISABLED"),
    *("own method NEXT_STEP", "own method DISABLED", "own call NEXT_STEP", "own call DISABLED"),
    *("own call async", "own components SAME_STEP", "own components NEXT_STEP"),
]


@pytest.mark.parametrize("kind", VECTORS)
def test_rows_of_vector_environments_equal_single_ones(kind):
    envs, singles = vector_of(kind), [GymEnvWrapper(MaskedEnv()) for _ in range(3)]
    try:
        seeds = [3, 4, 5]
        envs.seed(seeds)
        for env, seed in zip(singles, seeds, strict=True):
            env.seed(seed)
        observation, own = envs.reset(), [env.reset() for env in singles]
        fields = observation._fields
        assert set(fields) == {"observation", "action_mask"}
        for _ in range(40):
            for b in range(3):
                for name in fields:
                    assert np.array_equal(getattr(observation, name)[b], getattr(own[b], name))
            actions = buffer_from_example(envs.action_space.sample(), 3)
            for b in range(3):
                actions[b] = np.flatnonzero(own[b].action_mask)[0]
            observation, _, done, info = envs.step(actions)
            observation = type(observation)(*(leaf.copy() for leaf in observation))
            steps = [env.step(a) for env, a in zip(singles, actions, strict=True)]
            own = [step.observation for step in steps]
            assert done.tolist() == [step.done for step in steps]
            assert info.timeout.tolist() == [step.env_info.timeout for step in steps]
            for b in np.flatnonzero(done):
                for name in fields:  # the true final observation
                    assert np.array_equal(getattr(observation, name)[b], getattr(own[b], name))
                first = envs.reset_rows(np.array([b]))
                own[b] = singles[b].reset()
                for name in fields:
                    getattr(observation, name)[b] = getattr(first, name)[0]
    finally:
        envs.close()


@pytest.mark.parametrize("action", ["several", "bits"])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_masks_of_components_are_joined_in_vector_environments(mode, action):
    make = lambda: MaskedEnv("components", action)
    envs = adapt(SyncVectorEnv([make, make], autoreset_mode=mode))
    observation = envs.reset()
    for _ in range(8):
        parts = [np.concatenate(env.parts) for env in envs.source.unwrapped.envs]
        assert np.array_equal(observation.action_mask, parts)
        actions = [sample_valid(envs.action_space, mask) for mask in observation.action_mask]
        observation, _, done, _ = envs.step(np.stack(actions))
        if done.any():
            break
    assert done.any()


class OneArray(gymnasium.Env):
    """Writes all masks into one array; after the reset action 0 is valid, then action 2."""

    observation_space, action_space = spaces.Box(-1, 9, (1,), np.float32), spaces.Discrete(3)

    def __init__(self):
        self.mask = np.ones(3, np.int8)

    def observe(self):
        self.mask[:] = [1, 0, 0] if self.t == 0 else [0, 0, 1]
        return np.full(1, self.t, np.float32), {"action_mask": self.mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe()

    def step(self, action):
        self.t += 1
        observation, info = self.observe()
        return observation, 0.0, False, self.t == 2, info


gymnasium.register("OneArray-v0", entry_point=OneArray)


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_a_final_observation_keeps_its_mask(mode, adapted):
    if adapted:
        envs = adapt(SyncVectorEnv([OneArray, OneArray], autoreset_mode=mode))
    else:
        settings = dict(autoreset_mode=mode)
        envs = make_vec("OneArray-v0", 2, vectorization_mode="sync", vector_kwargs=settings)
    envs.reset()
    envs.step(np.zeros(2, np.int64))
    observation, _, _, info = envs.step(np.full(2, 2))
    assert info.timeout.all() and observation.observation.tolist() == [[2], [2]]
    assert observation.action_mask.tolist() == [[0, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize("cls", [SyncVectorEnv, WithMethod])
def test_a_method_without_masks_of_final_observations_is_refused(cls):
    with pytest.raises(ValueError, match="masks of final .*SAME_STEP"):
        adapt(cls([env_of("method")] * 2, autoreset_mode=AutoresetMode.SAME_STEP))


def test_vector_environments_that_lack_a_mask_are_refused():
    envs = adapt(SyncVectorEnv([lambda: MaskedEnv(fault="missing", length=20)] * 2))
    envs.reset()
    with pytest.raises(ValueError, match="'action_mask' of row 0"):
        for _ in range(5):
            mask = envs.source.env.envs[0].parts, envs.source.env.envs[1].parts
            envs.step(np.array([np.flatnonzero(parts[0])[0] for parts in mask]))


def test_fractions_in_masks_of_vector_environments_are_refused():
    class Half(Hidden):
        def reset(self, **kwargs):
            return np.zeros(1, np.float32), {"action_mask": np.array([1.0, 0.5])}

    envs = VectorActionMask(SyncVectorEnv([Half, Half]))
    with pytest.raises(ValueError, match="0 or 1, got 0.5"):
        envs.reset()


@pytest.mark.parametrize("source", SOURCES)
def test_the_conformance_check_takes_valid_actions(source):
    report = check_env(MaskedEnv, dict(source=source), skip=["time-limit", "gymnasium"])
    assert report.ok


def test_the_conformance_check_finds_a_mask_that_allows_nothing():
    from rlpyt.testing.report import ConformanceError

    with pytest.raises(ConformanceError, match="action_mask .*allow"):
        check_env(MaskedEnv, dict(fault="empty", fault_at=2, length=20))
    with pytest.raises(ConformanceError, match="action_mask .*allow"):
        check_env(MaskedEnv, dict(fault="final"))
    with pytest.raises(ConformanceError, match="0 or 1, got 3"):
        check_env(MaskedEnv, dict(fault="large", fault_at=2, length=20))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_conformance_check_reports_what_the_mask_is_not(fault):
    from rlpyt.testing.report import ConformanceError

    with pytest.raises(ConformanceError, match=FAULTS[fault]):
        check_env(MaskedEnv, dict(fault=fault, fault_at=2, length=20))


def test_build_env_adds_masks():
    assert build_env(MaskedEnv, {}).reset().action_mask.shape == (6,)
