"""Natively batched environments in every layout: the same batches as single ones."""

from itertools import product

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.gym import make
from rlpyt.envs.vector import adapt, make_vec
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.envs.vector.wrappers import StandardizeObservation
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import EchoAgent, ForgetfulEchoAgent, ShapedCountEnv
from tests.samplers.test_matrix import (
    EVALUATION,
    KINDS,
    RESETS,
    SAMPLERS,
    CountingInfo,
    assert_same,
    collect,
    described,
    start,
)

EVERY = [SerialSampler, *SAMPLERS]


def pairs(**kwargs):
    """Batches of two rows, made by a plain function."""
    return SerialVectorEnv([ShapedCountEnv(**kwargs), ShapedCountEnv(**kwargs)])


def whole(num_envs, **kwargs):
    """Make as many rows as the worker has."""
    return SerialVectorEnv([ShapedCountEnv(**kwargs) for _ in range(num_envs)])


whole.batched = True


def without_spares(batches):
    """``env_info`` of batches begins with the two fields that all have."""
    return [
        (samples._replace(env=samples.env._replace(env_info=None)), i) for samples, i in batches
    ]


EVERY_KIND = [*product(EVERY, KINDS)]


@pytest.mark.parametrize(
    "SamplerCls, kind, EnvCls",
    [(*case, (pairs, whole)[i % 2]) for i, case in enumerate(EVERY_KIND)],
)
def test_batches_of_vector_environments_are_those_of_single_ones(SamplerCls, kind, EnvCls):
    kwargs = dict(env_kwargs=dict(kind=kind), max_decorrelation_steps=0)
    single = collect(SerialSampler, EchoAgent(), **kwargs)
    batched = collect(SamplerCls, EchoAgent(), EnvCls=EnvCls, **kwargs)
    assert_same(without_spares(single), without_spares(batched))
    for (a, _), (b, _) in zip(single, batched, strict=True):
        assert np.array_equal(a.env.env_info.timeout, b.env.env_info.timeout)
        assert np.array_equal(a.env.env_info.traj_done, b.env.env_info.traj_done)


@pytest.mark.parametrize("SamplerCls", EVERY)
def test_waiting_rows_of_a_batch_record_nothing_and_start_afresh(SamplerCls):
    kwargs = dict(env_kwargs={}, max_decorrelation_steps=0, mid_batch_reset=False)
    batches = collect(SamplerCls, EchoAgent(), EnvCls=whole, **kwargs)
    for samples, _ in batches:
        for b in range(samples.env.done.shape[1]):
            last = int(np.argmax(samples.env.done[:, b]))
            assert samples.env.done[last:, b].all() and not samples.env.done[:last, b].any()
            assert samples.env.observation[: last + 1, b, 2].tolist() == list(range(last + 1))
            assert not samples.env.observation[last + 1 :, b].any()
            assert not samples.env.reward[last + 1 :, b].any()
            assert not samples.agent.action[last + 1 :, b].any()


@pytest.mark.parametrize("mid_batch_reset", RESETS, ids=["reset", "wait"])
def test_decorrelated_batches_are_the_same_in_every_layout(mid_batch_reset):
    kwargs = dict(env_kwargs={}, EnvCls=whole, mid_batch_reset=mid_batch_reset)
    serial = collect(SerialSampler, ForgetfulEchoAgent(), **kwargs)
    started = serial[0][0].env.observation[0, :, 1:]
    assert len(np.unique(started, axis=0)) > 1
    for SamplerCls in SAMPLERS:
        assert_same(serial, collect(SamplerCls, ForgetfulEchoAgent(), **kwargs))


class PlainInfo(CountingInfo):
    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, _WithAction(action))


class _WithAction:
    def __init__(self, action):
        self.action = action


@pytest.mark.parametrize("SamplerCls", EVERY)
def test_evaluation_and_own_traj_infos_over_batches(SamplerCls):
    def run(SamplerCls, EnvCls):
        sampler = start(
            SamplerCls, EchoAgent(), EnvCls=EnvCls, TrajInfoCls=PlainInfo, env_kwargs={},
            max_decorrelation_steps=0, **EVALUATION,
        )  # fmt: skip
        try:
            evaluations = [described(sampler.evaluate_agent(itr)) for itr in range(2)]
            return evaluations, described(sampler.obtain_samples(0)[1])
        finally:
            sampler.shutdown()

    assert run(SamplerCls, whole) == run(SerialSampler, ShapedCountEnv)


@pytest.mark.parametrize("SamplerCls", EVERY)
def test_batched_cartpole_is_cartpole(SamplerCls):
    def run(SamplerCls, EnvCls):
        agent = agent_for(make("CartPole-v1").spaces)
        kwargs = dict(env_kwargs=dict(id="CartPole-v1"), max_decorrelation_steps=0, n_batches=8)
        return collect(SamplerCls, agent, EnvCls=EnvCls, **kwargs)

    single, batched = run(SerialSampler, make), run(SamplerCls, make_vec)
    assert any(samples.env.done.any() for samples, _ in single)
    for (a, _), (b, _) in zip(single, batched, strict=True):
        assert np.array_equal(a.agent.action, b.agent.action)
        assert np.array_equal(a.env.done, b.env.done)
        assert np.allclose(a.env.observation, b.env.observation, atol=1e-5)


def test_a_batch_that_does_not_fit_is_refused():
    def triples(**kwargs):
        return SerialVectorEnv([ShapedCountEnv() for _ in range(3)])

    with pytest.raises(ValueError, match="num_envs .* 4"):
        start(SerialSampler, EchoAgent(), EnvCls=triples, env_kwargs={})


class Forgetful(SerialVectorEnv):
    def get_state(self):
        return None


def standardized(num_envs, **kwargs):
    return StandardizeObservation(Forgetful([ShapedCountEnv(**kwargs) for _ in range(num_envs)]))


standardized.batched = True


@pytest.mark.parametrize("SamplerCls", [SerialSampler, *SAMPLERS[:2]])
def test_statistics_are_saved_and_frozen_in_evaluation(SamplerCls):
    def sampler():
        return start(
            SamplerCls, ForgetfulEchoAgent(), EnvCls=standardized, env_kwargs={}, eval_n_envs=2,
            eval_max_steps=200,
        )  # fmt: skip

    first, second = sampler(), sampler()
    try:
        for itr in range(3):
            first.obtain_samples(itr)
        before = first.state_dict()["stations"][0]["statistics"]
        first.evaluate_agent(0)
        state = first.state_dict()
        assert not second.load_state_dict(state)  # new episodes, but what was learnt is kept
        learnt = second.state_dict()["stations"][0]["statistics"]
        for a, b, c in zip(
            numbers(before), numbers(state["stations"][0]["statistics"]), numbers(learnt)
        ):
            assert np.array_equal(a, b) and np.array_equal(a, c)
        assert max(float(np.max(x)) for x in numbers(before)) > 0
    finally:
        first.shutdown()
        second.shutdown()


def numbers(tree):
    if isinstance(tree, dict):
        return [x for key in sorted(tree) for x in numbers(tree[key])]
    if isinstance(tree, list | tuple):
        return [x for item in tree for x in numbers(item)]
    return [np.asarray(tree)]


def test_rows_without_random_steps_begin_with_their_first_observation():
    from rlpyt.utils.seed import stream

    kwargs = dict(env_kwargs=dict(id="CartPole-v1"), EnvCls=make_vec, max_decorrelation_steps=12)
    for seed in range(100):  # one in which a row draws no steps at all
        drawn = [int(stream(seed, "decorrelation", b).integers(13)) for b in range(4)]
        if 0 in drawn:
            break
    sampler = SerialSampler(batch_T=2, batch_B=4, **kwargs)
    sampler.initialize(agent_for(make("CartPole-v1").spaces), seed=seed)
    samples, _ = sampler.obtain_samples(0)
    begun = samples.env.observation[0].abs().max(-1).values <= 0.05  # how CartPole begins
    b = drawn.index(0)
    assert begun[b] and not samples.env.done[0, b]
    assert samples.env.prev_reward[0, b] == samples.agent.prev_action[0, b] == 0


def lives(num_envs):
    return SerialVectorEnv([ShapedCountEnv(life=2, length=9) for _ in range(num_envs)])


lives.batched = True


def test_games_of_a_batch_cannot_wait_for_the_end_of_the_batch():
    sampler = start(
        SerialSampler, EchoAgent(), EnvCls=lives, env_kwargs={}, mid_batch_reset=False,
        max_decorrelation_steps=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="lost a life"):
        sampler.obtain_samples(0)


def test_random_steps_stay_within_bounds_that_exclude_zero():
    def make_bounded(num_envs):
        return gymnasium.vector.SyncVectorEnv([Bounded] * num_envs)

    make_bounded.batched = True
    sampler = SerialSampler(EnvCls=make_bounded, env_kwargs={}, batch_T=2, batch_B=2)
    sampler.initialize(agent_for(adapt(make_bounded(1)).spaces), seed=0)
    sampler.obtain_samples(0)


class Bounded(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(10, 14, (1,), np.float32)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("SamplerCls", EVERY)
def test_a_state_of_another_kind_of_sampler_begins_new_episodes(SamplerCls):
    saved = start(SerialSampler, EchoAgent(), EnvCls=standardized, env_kwargs={})
    saved.obtain_samples(0)
    state = saved.state_dict()
    other = start(SamplerCls, EchoAgent(), EnvCls=standardized, env_kwargs={})
    try:
        assert not other.load_state_dict(state)
        other.obtain_samples(0)
    finally:
        other.shutdown()


class Wrong(SerialVectorEnv):
    """From its 70th step on some part of what it gives has another shape or kind."""

    batched = True
    t = 0

    def __init__(self, num_envs, part, value):
        super().__init__([ShapedCountEnv() for _ in range(num_envs)])
        self.wrong = {part: value}

    def step(self, action):
        self.t += 1
        return super().step(action)._replace(**self.wrong if self.t > 69 else {})


@pytest.mark.parametrize(
    "part, value, message",
    [
        ("reward", np.zeros(99, np.float32), r"reward .*\(99,\), .*\(4,\)"),
        ("reward", np.zeros(1, np.float32), r"reward .*\(1,\), .*\(4,\)"),
        ("done", np.zeros((4, 1), bool), r"done .*\(4, 1\), .*\(4,\)"),
        ("observation", np.zeros((4, 7)), r"observation .*\(4, 7\), .*\(4, 3\)"),
    ],
)
def test_wrong_shapes_of_batches_are_named(part, value, message):
    kwargs = dict(part=part, value=value)
    sampler = SerialSampler(Wrong, kwargs, batch_T=64, batch_B=4, max_decorrelation_steps=0)
    sampler.initialize(EchoAgent(), seed=1)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        for itr in range(4):
            sampler.obtain_samples(itr)
    assert "while stepping environment 0" in caught.value.__notes__[0]
    sampler.shutdown()
