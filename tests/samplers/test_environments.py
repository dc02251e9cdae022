"""Environments of a sampler: what their constructors warn of is said once."""

import contextlib
import functools
import random
import signal
import threading
import time
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent, JointMlpAgent
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.layers import missing_seed
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.base import adapt
from rlpyt.envs.vector.make import make_vec
from rlpyt.samplers import environments
from rlpyt.samplers.buffer import env_examples
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import make_env_batch
from rlpyt.samplers.environments import close_quietly, has_generator, try_environment
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox

OLD = dict(EnvCls=make, env_kwargs=dict(id="Pendulum-v0"), batch_T=2, batch_B=2)
EVALUATION = dict(
    eval_env_kwargs=dict(id="Pendulum-v0"), eval_n_envs=2, eval_max_steps=4, eval_max_trajectories=1
)
NOT_AVAILABLE = "'Pendulum-v0' is no longer available"


def test_the_environments_of_one_process_warn_once():
    with pytest.warns(UserWarning, match=NOT_AVAILABLE) as caught:
        sampler = SerialSampler(**OLD, **EVALUATION)
        sampler.initialize(MujocoFfAgent(), seed=0)
        sampler.shutdown()
    assert len(caught) == 1


@pytest.mark.slow  # three processes import torch
def test_the_environments_of_all_workers_warn_once(capfd):
    sampler = CpuSampler(**OLD, **EVALUATION)
    sampler.start_method = "spawn"  # a fork server has the stderr of another test
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.initialize(MujocoFfAgent(), affinity=dict(n_workers=2), seed=0)
    sampler.shutdown()
    assert capfd.readouterr().err.count(NOT_AVAILABLE) == 1


class Talkative(CountEnv):
    def __init__(self, said):
        super().__init__()
        warnings.warn(f"made with {said}", stacklevel=1)


def test_environments_with_other_arguments_warn_too():
    def dicts(*said):
        return [dict(said=x) for x in said]

    sampler = SerialSampler(
        Talkative, dicts("a", "b", "a", "b"), batch_T=2, batch_B=4,
        eval_env_kwargs=dicts("b", "d", "d"), eval_n_envs=3, eval_max_steps=9,
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampler.initialize(CategoricalMlpAgent(), seed=0)
        sampler.shutdown()
    assert [str(w.message)[-1] for w in caught] == ["a", "b", "d"]


def station_warnings(rank, env_kwargs, **kwargs):
    sampler = SerialSampler(CountEnv, env_kwargs, batch_T=2, batch_B=4, **kwargs)
    sampler.seed, sampler.examples = 0, None
    specs = sampler._env_worker_specs(2, rank, world_size=2, traj_info_kwargs={})
    return [own for spec in specs for own in spec.env_warns]


def test_the_first_rank_shows_the_warnings_of_equal_environments():
    different = [dict(x=np.zeros(2)), dict(x=np.zeros(2)), dict(x=1), dict(x=1.0)]
    assert station_warnings(0, dict(x=1)) == [True, False, False, False]
    assert station_warnings(1, dict(x=1)) == [False] * 4
    for rank in range(2):
        assert station_warnings(rank, different) == [True, True, True, False]


class Image(gymnasium.Env):
    """Episodes of four steps; ``dtype`` is that of the images, whose space is uint8."""

    observation_space = gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, dtype="uint8", part=False):
        self.dtype, self.part, self.t = dtype, part, 0
        if part:
            self.observation_space = gymnasium.spaces.Dict(image=self.observation_space)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def observe(self):
        image = np.ones((1, 36, 36), self.dtype)
        return dict(image=image) if self.part else image

    def step(self, action):
        self.t += 1
        return self.observe(), 1.0, False, self.t == 4, {}


class Unseeded(Image):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize("part", [False, True])
def test_the_first_observation_of_every_environment_is_checked(part):
    second = [dict(part=part), dict(part=part, dtype="float32")]
    for env_kwargs in (second, second[1]):
        agent = CategoricalMlpAgent()
        sampler = SerialSampler(Image, env_kwargs, batch_T=2, batch_B=2)
        with pytest.raises(ValueError, match="^observation.* (is|has dtype) float32,"):
            sampler.initialize(agent, seed=0)
        sampler.shutdown()


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_the_first_observations_of_vector_environments_are_checked(dtype):
    def make_vec(num_envs):
        envs = [lambda: Image(dtype)] * num_envs
        return gymnasium.vector.SyncVectorEnv(envs, copy=False)

    make_vec.batched = True
    source = make_vec(2)
    source.reset = lambda **kwargs: (np.ones((2, 1, 36, 36), dtype), {})
    if dtype == "uint8":
        env_examples(adapt(source))
        return
    with pytest.raises(ValueError, match=r"observation .*float32, .* uint8\."):
        make_env_batch([adapt(source)], CollectorContext()).reset(
            np.zeros((2, 1, 36, 36), np.float32), range(2)
        )


def test_environments_that_take_no_seed_are_named_once():
    with pytest.warns(UserWarning, match="Unseeded.reset .*seed") as caught:
        sampler = SerialSampler(
            Unseeded,
            {},
            batch_T=2,
            batch_B=2,
            eval_env_kwargs={},
            eval_n_envs=1,
            eval_max_steps=4,
            eval_max_trajectories=1,
        )
        sampler.initialize(CategoricalMlpAgent(), seed=0)
        sampler.evaluate_agent(0)
        sampler.shutdown()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for env in (make("CartPole-v1"), CountEnv(), GymEnvWrapper(Image())):
            assert missing_seed(env) is None


def test_layers_without_a_seed_are_found_below_wrappers():
    class Drops(gymnasium.Wrapper):
        def reset(self):
            return self.env.reset()

    class Old(Unseeded):
        def seed(self, seed):
            pass

    limited = gymnasium.wrappers.TimeLimit(Unseeded(), 5)
    assert "Unseeded" in missing_seed(GymEnvWrapper(limited))[0]
    assert "Drops" in missing_seed(GymEnvWrapper(Drops(Image())))[0]
    assert missing_seed(GymEnvWrapper(Old())) is None


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_factory_that_returns_one_object_is_refused(wrapped):
    """All rows would step it."""
    env = gymnasium.make("CartPole-v1") if wrapped else CountEnv()
    sampler = SerialSampler(lambda: env, {}, batch_T=2, batch_B=2)
    with pytest.raises(ValueError, match="env 1: EnvCls .*new environment"):
        sampler.initialize(CategoricalMlpAgent(), seed=0)


def test_a_close_that_does_not_return_is_said(monkeypatch, capsys):
    monkeypatch.setattr(environments, "CLOSE_S", 0.05)

    class Slow:
        def close(self):
            time.sleep(0.3)

    close_quietly([Slow(), CountEnv()])
    said = capsys.readouterr().err
    assert said.count("close()") == 1 and "close() of Slow has not returned" in said


def test_a_close_that_never_returns_is_interrupted(monkeypatch):
    monkeypatch.setattr(environments, "GIVE_UP_S", 0.05)
    handler, closed = signal.getsignal(signal.SIGALRM), []

    class Stuck:
        def close(self):
            try:
                threading.Event().wait()
            except Exception:
                closed.append("no exception that an environment would catch")

    close_quietly([Stuck(), SimpleNamespace(close=lambda: closed.append("the next"))])
    assert closed == ["the next"] and signal.getsignal(signal.SIGALRM) is handler
    thread = threading.Thread(target=close_quietly, args=([SimpleNamespace(close=closed.clear)],))
    thread.start()  # as a training that is not in the main thread
    thread.join()
    assert closed == []


def pendulum(bound=2.0):
    env = gymnasium.make("Pendulum-v1")
    return GymEnvWrapper(
        gymnasium.wrappers.RescaleAction(env, np.float32(-bound), np.float32(bound))
    )


@pytest.mark.parametrize("evaluates", [False, True])
@pytest.mark.parametrize("bounds", [(2, 2, 2), (2, 5, 3)])
def test_other_bounds_of_actions_are_said_once(bounds, evaluates, recwarn):
    given = [dict(bound=bound) for bound in bounds]
    more = dict(env_kwargs=given)
    if evaluates:
        more = {**EVALUATION, "env_kwargs": given[0], "eval_env_kwargs": given[1]}
    sampler = SerialSampler(EnvCls=pendulum, batch_T=2, batch_B=3, **more)
    sampler.initialize(MujocoFfAgent(), seed=0)
    sampler.shutdown()
    said = [str(w.message) for w in recwarn if "must have the bounds" in str(w.message)]
    assert len(said) == (bounds[1] != 2)


class Strange(gymnasium.Env):
    """Environment that replaces its action space, or draws and pays what it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2))

    def __init__(self, rng=None, reward=1.0, replaced=2):
        self.rng, self.reward, self.replaced = rng, reward, replaced

    def reset(self, *, seed=None, options=None):
        self.action_space = gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(self.replaced))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, False, False, {}


@pytest.mark.parametrize(
    "kwargs, said",
    [
        (dict(replaced=5), "action_space was .*2.* is .*5"),
        (dict(reward=1e9 + 1), "reward .*1e.09.* 64 apart"),
        (dict(rng=np.random.default_rng(0)), "env_kwargs .*generator"),
        (dict(rng=[np.random.RandomState(0)]), "env_kwargs .*generator"),
        ([dict(rng=np.random.default_rng(i)) for i in range(2)], None),
        ({}, None),
    ],
)
def test_what_agents_cannot_follow_is_said(kwargs, said):
    caught = contextlib.nullcontext() if said is None else pytest.warns(UserWarning, match=said)
    with warnings.catch_warnings(), caught as found:
        warnings.simplefilter("error" if said is None else "always")
        sampler = SerialSampler(Strange, kwargs, batch_T=2, batch_B=2)
        sampler.initialize(JointMlpAgent(), seed=0)
        sampler.obtain_samples(0)
        sampler.obtain_samples(1)
        sampler.shutdown()
    assert said is None or len(found) == 1


def test_a_generator_bound_to_a_function_is_found():
    assert has_generator(functools.partial(Strange, np.random.default_rng(0)), {})
    assert has_generator(Strange, dict(rng=dict(a=(random.Random(0),))))
    assert not has_generator(functools.partial(Strange, reward=0.5), dict(rng=None))


class Choices(CountEnv):
    """Environment with these numbers of choices, alone or in a Dict."""

    def __init__(self, nvec, nested):
        super().__init__()
        space = gymnasium.spaces.MultiDiscrete(nvec)
        self._action_space = GymSpaceWrapper(
            gymnasium.spaces.Dict(a=space) if nested else space, 0, "action"
        )

    def step(self, action):
        return super().step(0)


@pytest.mark.parametrize("nested", [False, True])
def test_other_numbers_of_choices_are_refused(nested):
    given = [dict(nvec=nvec, nested=nested) for nvec in ([2, 3], [3, 2])]
    sampler = SerialSampler(EnvCls=Choices, batch_T=2, batch_B=2, env_kwargs=given)
    with pytest.raises(ValueError, match="env 1: action_space must be that of the sampler's first"):
        sampler.initialize(JointMlpAgent(), seed=0)


@pytest.mark.parametrize("factory,more", [(make, {}), (make_vec, {"num_envs": 2})])
def test_what_an_agent_is_tried_out_with_is_the_same_in_every_run(factory, more):
    """An agent may keep statistics of all observations that it acts for."""
    kwargs = {"id": "CartPole-v1", **more}
    first, second = (try_environment(factory, kwargs, in_child=False) for _ in range(2))
    np.testing.assert_array_equal(first.observation, second.observation)


class OwnSampling(CountEnv):
    """A space that samples by a method of the environment, which cannot be sent to a process."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()  # as an emulator or a window
        self.action_space.sample = self.sample_action

    def sample_action(self):
        return np.int64(1)


def test_spaces_may_sample_by_methods_of_the_environment():
    sampler = CpuSampler(OwnSampling, {}, batch_T=2, batch_B=1, max_decorrelation_steps=3)
    try:
        sampler.initialize(CategoricalMlpAgent(), seed=0, affinity=dict(n_workers=1))
        samples, _ = sampler.obtain_samples(0)
        assert samples.env.reward.shape == (2, 1)
    finally:
        sampler.shutdown()


class NewSpaces(CountEnv):
    """Its spaces are new objects at each access, which seed themselves from numpy's generator."""

    @property
    def action_space(self):
        return IntBox(0, 2)


def test_new_spaces_at_each_access_are_no_change_by_the_environment():
    sampler = SerialSampler(NewSpaces, {}, batch_T=2, batch_B=1, max_decorrelation_steps=0)
    with warnings.catch_warnings(action="error", category=UserWarning):
        sampler.initialize(CategoricalMlpAgent(), seed=0)
        sampler.obtain_samples(0)
    sampler.shutdown()
