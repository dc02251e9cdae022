"""Values of environments are checked against the record; mismatches are named."""

import itertools
import re
import traceback
import warnings
from collections import namedtuple
from contextlib import nullcontext
from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalLstmAgent, agent_for
from rlpyt.envs.base import EnvStep
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.errors import NonFiniteError, WorkerError
from rlpyt.processes.status import ROW
from rlpyt.samplers import step_checks
from rlpyt.samplers.batch_checks import check_final_observations
from rlpyt.samplers.buffer import env_examples
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import make_env_batch
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.policy_source import StepRecord
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.buffer import buffer_from_example, leaves_of
from rlpyt.utils.collections import namedarraytuple
from tests.samplers.trouble import (
    A_VICTIM,
    ALL,
    PARALLEL,
    B,
    EchoAgent,
    FaultyEnv,
    SerialSampler,
    T,
    faulty,
    run_into,
    turns,
)


class Bonus(CountEnv):
    """Trains a network of its own in every step."""

    def __init__(self, mode=nullcontext, **kwargs):
        super().__init__(**kwargs)
        self.mode, self.network = mode, torch.nn.Linear(1, 1)
        self.optimizer = torch.optim.SGD(self.network.parameters(), 0.1)

    def step(self, action):
        with self.mode():
            self.network(torch.ones(1)).sum().backward()
        self.optimizer.step()
        return super().step(action)


LIES = {
    "observation shape": r"observation has shape \(7,\), .*\(3,\)",
    "observation of one": r"observation has shape \(1,\), .*\(3,\)",
    "observation number": r"observation has shape \(\), .*\(3,\)",
    "observation complex": r"observation .*\(3,\) .*complex64",
    "observation text": r"observation .*str \('left'\), .*\(3,\)",
    "observation none": "observation is None",
    "reward none": "reward is None",
    "reward text": r"reward .*str \('1.5'\)",
    "reward array": r"reward .*\(3,\) .*float64",
    "reward of one": r"reward .*\(1,\)",
    "done none": "done is None",
    "done text": r"done .*str \('False'\)",
    "done array": r"done .*\(2,\) .*bool",
    "info dict": "env_info .*dict",
    "three parts": "step .*3 values, .*4",
    "five parts": "step .*5 values, .*4.*GymEnvWrapper",
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_of_the_first_step_are_refused_at_the_door(lie):
    with pytest.raises((ValueError, TypeError), match=LIES[lie]) as caught:
        env_examples(FaultyEnv(lie))
    by_space = "FaultyEnv's observation_space expects this" in str(caught.value)
    assert by_space == lie.startswith("observation")


@pytest.mark.parametrize("lie", LIES)
def test_lies_that_come_later_are_noticed_within_a_batch_or_so(lie):
    sampler = faulty(SerialSampler, lie, at=8, sampler=dict(batch_T=32))
    with pytest.raises((ValueError, TypeError), match=LIES[lie]) as caught:
        for itr in range(3):
            sampler.obtain_samples(itr)
    (note,) = caught.value.__notes__
    assert "while stepping environment 0, FaultyEnv" in note and "iteration 0" in note
    sampler.shutdown()


@pytest.mark.parametrize(
    "lie,SamplerCls",
    turns(["observation shape", "reward none", "done array", "info dict"], PARALLEL),
)
def test_lies_are_named_wherever_they_are_told(lie, SamplerCls, tmp_path):
    tally = str(tmp_path / "tally")
    with pytest.raises(WorkerError, match=LIES[lie]) as caught:
        run_into(SamplerCls, lie, at=8, n_batches=40, victim=A_VICTIM, tally=tally)
    assert "while stepping environment" in str(caught.value)


@pytest.mark.parametrize("lie", ["observation none", "observation of one", "observation text"])
def test_lies_of_reset_are_named_at_once(lie):
    with pytest.raises((ValueError, TypeError), match=f"^observation after reset{LIES[lie][11:]}"):
        env_examples(FaultyEnv(lie, "reset"))
    sampler = faulty(SerialSampler, lie, "reset", at=4)
    with pytest.raises((ValueError, TypeError), match="^observation after reset") as caught:
        for itr in range(10):
            sampler.obtain_samples(itr)
    assert "while resetting environment " in caught.value.__notes__[0]
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", ALL)
def test_not_finite_numbers_are_named_with_environment_and_step(SamplerCls):
    sampler = faulty(SamplerCls, "nan", at=T + 3)  # every environment, in step 2 of iteration 1
    sampler.obtain_samples(0)
    with pytest.raises((NonFiniteError, WorkerError)) as caught:
        sampler.obtain_samples(1)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(r"(observation|reward) must be finite, got nan", said)
    assert "while stepping environment " in said and "iteration 1, step 2 of the batch" in said
    sampler.shutdown()


NAN_NOW = ("observation", "lasting")


class NotFinite(CountEnv):
    """Gives one number that is not finite, where it is told to, in its 4th step or 2nd reset."""

    def __init__(self, where, number=np.nan, **kwargs):
        super().__init__(length=7, end="truncation", fixed=True, **kwargs)
        self.where, self.number, self.n_steps, self.n_resets = where, np.float32(number), 0, 0

    def reset(self):
        self.n_resets += 1
        return self._with(super().reset(), self.where == "reset" and self.n_resets == 2)

    def step(self, action):
        step, self.n_steps = super().step(action), self.n_steps + 1
        now = self.n_steps == 4 or (self.n_steps > 4 and self.where == "lasting")
        reward = float(self.number) if now and self.where == "reward" else step.reward
        final = self.where == "final" and step.env_info.timeout
        observation = self._with(step.observation, final or (now and self.where in NAN_NOW))
        return step._replace(observation=observation, reward=reward)

    def _with(self, observation, now):
        return np.array([observation[0], self.number, 0], np.float32) if now else observation


@pytest.mark.parametrize("number", [np.nan, -np.inf])
@pytest.mark.parametrize(
    "where,said",
    [
        ("reward", "reward must be finite.*stepping environment 0.*step 3 of the batch"),
        ("observation", r"observation .* index \[1\].*stepping environment 0.*step 3 of the batch"),
        ("lasting", "observation must be.*stepping environment 0.*step 3 of the batch"),
        ("reset", "observation must be.*resetting environment 0.*step 6 of the batch"),
        ("final", "final observation of a truncated.*stepping environment 0.*step 6 of the batch"),
    ],
)
def test_the_step_or_reset_that_gave_a_not_finite_number_is_named(where, said, number):
    env_kwargs = dict(where=where, number=number)
    sampler = SerialSampler(NotFinite, env_kwargs, batch_T=9, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(EchoAgent(), seed=1, bootstrap_value=True)
    with pytest.raises(NonFiniteError) as caught:
        sampler.obtain_samples(0)
    assert re.search(said, f"{caught.value} {caught.value.__notes__}")
    assert str(np.float32(number)) in str(caught.value)
    sampler.shutdown()


def evaluating(SamplerCls, CollectorCls=None):
    eval_env_kwargs = [dict(where=""), dict(where="reward")]  # the second, in step 3 of 7
    sampler = SamplerCls(
        NotFinite, dict(where=""), batch_T=2, batch_B=2, eval_n_envs=2, eval_max_steps=40,
        eval_env_kwargs=eval_env_kwargs, **({"CollectorCls": CollectorCls} if CollectorCls else {}),
    )  # fmt: skip
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
    return sampler


@pytest.mark.parametrize("SamplerCls", ALL)
@pytest.mark.filterwarnings("ignore:n_workers=")
def test_a_return_of_evaluation_that_is_not_finite_is_named(SamplerCls):
    sampler = evaluating(SamplerCls)
    with pytest.raises((NonFiniteError, WorkerError)) as caught:
        sampler.evaluate_agent(0)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "the Return of an evaluation episode, which ended in this step, must be finite" in said
    assert "evaluation environment 1, " in said and "step 6 of the evaluation" in said
    sampler.shutdown()


def test_an_error_that_follows_from_nan_names_the_nan():
    class Strict(NotFinite):
        def step(self, action):
            assert self.n_steps < 6  # as an environment refuses what an agent answers NaN with
            return super().step(action)

    sampler = SerialSampler(
        Strict, dict(where="observation"), batch_T=9, batch_B=2, max_decorrelation_steps=0
    )
    sampler.initialize(EchoAgent(), seed=1)
    with pytest.raises(NonFiniteError, match="observation .*finite") as caught:
        sampler.obtain_samples(0)
    assert isinstance(caught.value.__cause__, AssertionError)
    sampler.shutdown()


def test_vector_environments_are_checked_for_finite_numbers_too():
    def make(num_envs):
        return SerialVectorEnv([NotFinite("reward" if i == 1 else "") for i in range(num_envs)])

    make.batched = True
    sampler = SerialSampler(make, {}, batch_T=9, batch_B=3, max_decorrelation_steps=0)
    sampler.initialize(EchoAgent(), seed=1)
    with pytest.raises(NonFiniteError, match="reward .*finite") as caught:
        sampler.obtain_samples(0)
    assert "environment 1" in caught.value.__notes__[0]
    sampler.shutdown()


class Lenient(CpuResetCollector):
    check_finite = False


def test_a_collector_may_let_numbers_pass_that_are_not_finite():
    sampler = SerialSampler(
        NotFinite,
        dict(where="reward", number=-np.inf),
        batch_T=9,
        batch_B=2,
        CollectorCls=Lenient,
        max_decorrelation_steps=0,
    )
    sampler.initialize(EchoAgent(), seed=1)
    samples, _ = sampler.obtain_samples(0)
    assert samples.env.reward[3, 0] == -np.inf
    sampler.shutdown()
    sampler = evaluating(SerialSampler, Lenient)
    assert np.isnan([info.Return for info in sampler.evaluate_agent(0)]).any()
    sampler.shutdown()


def test_env_info_may_hold_nan():
    class Info(CountEnv):
        def step(self, action):
            step = super().step(action)
            return step._replace(env_info=Noted(np.nan, step.done))

    sampler = SerialSampler(Info, {}, batch_T=9, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(EchoAgent(), seed=1)
    samples, _ = sampler.obtain_samples(0)
    assert np.isnan(np.asarray(samples.env.env_info.note)).all()
    sampler.shutdown()


Noted = namedtuple("Noted", ["note", "traj_done"])


@pytest.mark.parametrize("lie", ["observation of one", "done none"])
def test_broadcast_observations_and_void_dones_are_noticed_at_their_step(lie):
    sampler = faulty(SerialSampler, lie, at=6, sampler=dict(batch_T=32))
    with pytest.raises((ValueError, TypeError), match=LIES[lie]) as caught:
        sampler.obtain_samples(0)
    assert "step 5 of the batch" in caught.value.__notes__[0]
    sampler.shutdown()


def test_infos_that_hold_no_numbers_are_refused():
    for lie in ("info text", "info lambda"):
        sampler = faulty(SerialSampler, lie, at=8)
        with pytest.raises((ValueError, TypeError)) as caught:
            for itr in range(3):
                sampler.obtain_samples(itr)
        assert "iteration 1, step 2" in caught.value.__notes__[0]
        sampler.shutdown()


@pytest.mark.parametrize("lie", ["observation float64", "reward scalar array", "done number"])
def test_what_loses_nothing_is_taken(lie):
    honest, lying = (faulty(SerialSampler, fault) for fault in ("none", lie))
    for itr in range(3):
        batches = honest.obtain_samples(itr)[0], lying.obtain_samples(itr)[0]
        for own, other in zip(*map(leaves_of, batches), strict=True):
            assert np.array_equal(own, other)
    honest.shutdown()
    lying.shutdown()


def test_infos_with_other_fields_are_fitted_with_a_warning():
    for lie in ("info more", "info fewer"):
        sampler = faulty(SerialSampler, lie, at=3)
        with pytest.warns(UserWarning, match="env_info .*fields"):
            sampler.obtain_samples(0)
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", ALL)
def test_an_array_that_an_environment_writes_anew_is_no_fault(SamplerCls):
    honest, reusing = (
        faulty(SamplerCls, fault, sampler=dict(batch_T=7, eval_n_envs=2, eval_max_steps=40))
        for fault in ("none", "reuse")
    )
    for itr in range(3):
        batches = honest.obtain_samples(itr)[0], reusing.obtain_samples(itr)[0]
        for own, other in zip(*map(leaves_of, batches), strict=True):
            assert np.array_equal(own, other)
        returns = [[i["Return"] for i in s.evaluate_agent(itr)] for s in (honest, reusing)]
        assert returns[0] == returns[1] != []
    honest.shutdown()
    reusing.shutdown()


class Uneven(CountEnv):
    """The environments of seeded rank 0 and of the others have different spaces."""

    made = 0

    def __init__(self, kind):
        super().__init__()
        type(self).made += 1
        if self.made > 2:
            space = FloatBox(0.0, 1.0, shape=(4,))
            setattr(self, f"_{kind}_space", space)


@pytest.mark.parametrize("kind", ["observation", "action"])
def test_environments_of_different_spaces_are_refused(kind, monkeypatch):
    monkeypatch.setattr(Uneven, "made", 0)
    sampler = SerialSampler(Uneven, dict(kind=kind), batch_T=T, batch_B=B)
    with pytest.raises(ValueError, match=rf"env 1: {kind}_space .*4"):
        sampler.initialize(EchoAgent(), seed=1)


def test_close_looks_come_often_at_first_and_at_least_every_64_steps():
    validated = itertools.islice(step_checks.validated_steps(), 400)
    at = [step for step, now in enumerate(validated) if now]
    assert at == [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]


Parts = namedtuple("Parts", ["left", "right"])


def test_records_are_checked_field_by_field():
    record = namedarraytuple("Parts", Parts._fields)(np.zeros((2, 3)), np.zeros((2,), np.int64))
    step_checks.check_observation(Parts(np.zeros(3), 1), record)
    for observation, message in [
        (Parts(np.zeros(2), 1), r"observation.left .*\(2,\), .*\(3,\)"),
        (Parts(np.zeros(3), 1.5), "observation.right .*float64, .*int64"),
        (np.zeros(3), r"observation .*\(3,\).*\('left', 'right'\)"),
        ({"left": 0}, "observation is a dict"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            step_checks.check_observation(observation, record)


def test_gymnasiums_pair_of_reset_is_explained():
    with pytest.raises(TypeError, match="reset.*GymEnvWrapper"):
        step_checks.check_observation((np.zeros(3), {}), np.zeros((2, 3)))


def test_explaining_leaves_other_errors_alone():
    record = StepRecord(np.zeros((2, 3)), None, np.zeros(2), np.zeros(2, bool), None, None)
    step_checks.explain(EnvStep(np.zeros(3), 1.0, False, None), record)
    with pytest.raises(TypeError, match="reward is None"):
        step_checks.explain(EnvStep(np.zeros(3), None, False, None), record)


def test_checks_say_nothing_in_ordinary_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = faulty(SerialSampler, "none")
        for itr in range(30):
            sampler.obtain_samples(itr)
        sampler.shutdown()


class Categories(gymnasium.Env):
    """Returns one category outside its space, in a reset or at a step."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Dict(
        kind=gymnasium.spaces.Discrete(3, start=1), pair=gymnasium.spaces.MultiDiscrete([2, 4])
    )

    def __init__(self, part="kind", value=4, at=7):
        self.part, self.value, self.at, self.n = part, value, at, -1

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        return self.observe(), 0.0, False, self.t == 5, {}

    def observe(self):
        self.n += 1
        outside = self.n == self.at
        kind = self.value if outside and self.part == "kind" else 2
        pair = [0, self.value] if outside and self.part == "pair" else [1, 3]
        return dict(kind=kind, pair=np.array(pair))


def counting(inner):
    """Adapt an environment; count observations from the first one after that."""
    env = GymEnvWrapper(inner)  # it is reset once, to look for masks of actions
    inner.n = -1
    return env


def make_categories(**kwargs):
    return counting(Categories(**kwargs))


@pytest.mark.parametrize(
    "part,value,at,where",
    [
        ("kind", 4, 7, "step"),
        ("kind", 0, 3, "step"),
        ("pair", 4, 8, "step"),
        ("kind", 9, 6, "reset"),
    ],
)
@pytest.mark.parametrize("SamplerCls", [SerialSampler, GpuSampler])
def test_categories_outside_their_space_are_named(SamplerCls, part, value, at, where):
    sampler = SamplerCls(
        EnvCls=make_categories, env_kwargs=dict(part=part, value=value, at=at), batch_T=12,
        batch_B=2, max_decorrelation_steps=0,
    )  # fmt: skip
    agent = agent_for(make_categories().spaces)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=1)
    try:
        with pytest.raises((ValueError, WorkerError)) as caught:
            for itr in range(2):
                sampler.obtain_samples(itr)
    finally:
        sampler.shutdown()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert f"observation.{part} must be an element of" in text and "got" in text
    assert str(value) in text and where in text


ODD_VALUES = [
    np.full((1, 4, 4), 300, np.int64),
    np.full((1, 4, 4), 300, np.uint16),
    np.full((1, 4, 4), -1, np.int8),
    np.full((1, 4, 4), 0.5),
]


class OddOnce(gymnasium.Env):
    """Returns one observation of another dtype, alone, in a Dict or in a nested Dict."""

    action_space = gymnasium.spaces.Discrete(2)
    image = gymnasium.spaces.Box(0, 255, (1, 4, 4), np.uint8)

    def __init__(self, value, within):
        self.value, self.within, self.n = value, within, -1
        self.observation_space = self.wrapped(self.image, gymnasium.spaces.Dict)

    def wrapped(self, x, kind=dict):
        for name in self.within:
            x = kind({name: x, "other": gymnasium.spaces.Discrete(2) if kind is not dict else 1})
        return x

    def reset(self, *, seed=None, options=None):
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        self.n += 1
        plain = np.full((1, 4, 4), 7, np.uint8)
        return self.wrapped(self.value if self.n == 6 else plain)  # not validated completely


@pytest.mark.parametrize("value", ODD_VALUES)
@pytest.mark.parametrize("within", [(), ("image",), ("image", "inner")])
def test_a_single_image_of_another_dtype_is_named(value, within):
    sampler = SerialSampler(
        EnvCls=lambda: counting(OddOnce(value, within)), batch_T=12, batch_B=1,
        max_decorrelation_steps=0,
    )  # fmt: skip
    sampler.initialize(agent_for(GymEnvWrapper(OddOnce(value, within)).spaces), seed=1)
    with pytest.raises(ValueError, match=f"dtype {value.dtype}, .*uint8"):
        sampler.obtain_samples(0)
    sampler.shutdown()


@pytest.mark.parametrize("value", ODD_VALUES)
def test_images_of_another_dtype_in_a_vector_environment_are_named(value):
    def make():
        return SerialVectorEnv([GymEnvWrapper(OddOnce(value, ("image",))) for _ in range(2)])

    sampler = SerialSampler(EnvCls=make, batch_T=12, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(agent_for(GymEnvWrapper(OddOnce(value, ("image",))).spaces), seed=1)
    with pytest.raises(ValueError, match=f"dtype {value.dtype}, .*uint8"):
        sampler.obtain_samples(0)
    sampler.shutdown()


class OddCategory(OddOnce):
    """Returns a float in place of a category once."""

    def __init__(self):
        super().__init__(2.7, ())
        self.observation_space = gymnasium.spaces.Discrete(4)

    def observe(self):
        self.n += 1
        return self.value if self.n == 6 else 2


def test_a_single_float_in_place_of_a_category_is_named():
    sampler = SerialSampler(
        EnvCls=lambda: counting(OddCategory()), batch_T=12, batch_B=1, max_decorrelation_steps=0
    )
    sampler.initialize(agent_for(GymEnvWrapper(OddCategory()).spaces), seed=1)
    with pytest.raises(ValueError, match=r"observation .*float64, .*\bint"):
        sampler.obtain_samples(0)
    sampler.shutdown()


class Bounded(gymnasium.Env):
    """Returns a number beyond its bound from observation ``at`` on; episodes have 5 steps."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(
            np.float32([0, -np.inf]), np.float32([4.1, np.inf]), dtype=np.float32
        ),
        free=gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32),
        bits=gymnasium.spaces.MultiBinary(3),
        count=gymnasium.spaces.Box(0, 5, (1,), np.int64),
    )
    parts: ClassVar = {}

    def __init__(self, at=0, value=4.2, index=0):
        self.at, self.value, self.index, self.n = at, value, index, -1

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        return self.observe(), 0.0, False, self.t == 5, {}

    def observe(self):
        self.n += 1
        place = np.float32([1, 1e6])
        if self.n >= self.at:
            place[self.index] = self.value
        usual = dict(bits=np.int8([0, 1, 0]), count=np.array([5]))
        return dict(place=place, free=np.float32([1e6]), **{**usual, **self.parts})


def make_bounded(**kwargs):
    return counting(Bounded(**kwargs))


def sample_bounded(make, n_itr=3, **kwargs):
    sampler = SerialSampler(
        EnvCls=make, env_kwargs=kwargs, batch_T=12, batch_B=2, max_decorrelation_steps=0,
        eval_n_envs=2, eval_max_steps=20,
    )  # fmt: skip
    sampler.initialize(agent_for(make_bounded().spaces), seed=1)
    for itr in range(n_itr):
        sampler.obtain_samples(itr)
        sampler.evaluate_agent(itr)
    sampler.shutdown()


def two_bounded(**kwargs):
    return SerialVectorEnv([make_bounded(**kwargs), make_bounded(**kwargs)])


@pytest.mark.parametrize("make", [make_bounded, two_bounded])
@pytest.mark.parametrize("at,where", [(0, "resetting"), (1, "stepping"), (3, "stepping")])
def test_an_observation_outside_its_bounds_is_reported_once(make, at, where):
    with pytest.warns(UserWarning) as caught:
        sample_bounded(make, at=at)
    (text,) = [str(w.message) for w in caught if "must be in" in str(w.message)]
    assert "observation.place must be in [0, 4.1], the bounds of its space, got 4.2 at" in text
    assert f"while {where} environment 0" in text and "Correct the space" in text


@pytest.mark.parametrize(
    "part,value,bounds", [("bits", [0, 2, 0], "[0, 1]"), ("count", [6], "[0, 5]")]
)
def test_whole_numbers_outside_their_bounds_are_reported(part, value, bounds, monkeypatch):
    dtype = Bounded.observation_space[part].dtype
    monkeypatch.setattr(Bounded, "parts", {part: np.array(value, dtype)})
    with pytest.warns(UserWarning) as caught:
        sample_bounded(make_bounded, at=10**6)
    (text,) = [str(w.message) for w in caught if "must be in" in str(w.message)]
    assert f"observation.{part} must be in {bounds}, the bounds of its space, got" in text


@pytest.mark.parametrize("warns", [True, False])
def test_processes_with_copies_of_an_environment_do_not_report_it(warns):
    context = CollectorContext(warns=warns)
    env_batch = make_env_batch([make_bounded()], context)
    observation = buffer_from_example(env_examples(make_bounded())["observation"], 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env_batch.reset(observation, [0])
    assert len(caught) == warns and not context.warns


@pytest.mark.parametrize(
    "value,index", [(4.1, 0), (np.float32(4.1) * (1 + 1e-6), 0), (-1e-6, 0), (-1e7, 1)]
)
def test_rounded_bounds_and_infinite_ones_are_not_reported(value, index):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_bounded(make_bounded, n_itr=1, value=value, index=index)


def test_rows_that_wait_for_a_reset_are_not_outside_of_bounds():
    class Away(Bounded):
        observation_space = gymnasium.spaces.Box(2, 3, (1,), np.float32)

        def observe(self):
            return np.float32([2.5])

    env_batch = make_env_batch([GymEnvWrapper(Away()) for _ in range(2)], CollectorContext())
    examples = env_examples(GymEnvWrapper(Away()))
    step = buffer_from_example(StepRecord(*(examples.get(name) for name in StepRecord._fields)), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env_batch.reset(step.observation, [1])
        env_batch.hold([0])
        env_batch.advance(step, step.action)


class LateNan(torch.nn.GRU):
    """A memory whose state is NaN from the third step on."""

    n_calls = 0

    def forward(self, x, state=None):
        output, state = super().forward(x, state)
        type(self).n_calls += 1
        return output, state * float("nan" if self.n_calls > 3 else "1")


def test_a_memory_that_gives_nan_is_named_with_module_and_step():
    LateNan.n_calls = 0
    env_kwargs = dict(id="CartPole-v1")
    sampler = SerialSampler(make, env_kwargs, batch_T=8, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(CategoricalLstmAgent(model_kwargs=dict(memory=LateNan)), seed=0)
    message = r"dist_info.prob' .*LateNan, module 'core.memory'"
    with pytest.raises(NonFiniteError, match=message) as info:
        sampler.obtain_samples(0)
    sampler.shutdown()
    assert "step 3 of the batch" in "".join(info.value.__notes__)


def test_an_agent_whose_action_is_nan_is_named_not_the_environment():
    env_kwargs = dict(id="Pendulum-v1")
    sampler = SerialSampler(make, env_kwargs, batch_T=4, batch_B=2, max_decorrelation_steps=0)
    agent = agent_for(make("Pendulum-v1").spaces)
    sampler.initialize(agent, seed=0)
    sampler.obtain_samples(0)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            parameter.fill_(torch.nan)
    with pytest.raises(NonFiniteError, match="action .*finite.* agent"):
        sampler.obtain_samples(1)
    sampler.shutdown()


@pytest.mark.parametrize("bootstrap_value", [True, False])
def test_an_agent_without_a_value_cannot_bootstrap(bootstrap_value):
    class NoValue(CategoricalLstmAgent):
        value = None

    sampler = SerialSampler(CountEnv, {}, batch_T=2, batch_B=2)
    if not bootstrap_value:
        sampler.initialize(NoValue(), seed=0)
    else:
        with pytest.raises(TypeError, match="NoValue .*value.*bootstrap"):
            sampler.initialize(NoValue(), seed=0, bootstrap_value=True)
    sampler.shutdown()


def test_final_observations_that_are_numbers_are_checked_too():
    context = CollectorContext()
    with pytest.raises(NonFiniteError, match="final observation .* got nan"):
        check_final_observations(np.array([0, np.nan], np.float32), [4, 7], context)
    assert context.progress[ROW] == 7


@pytest.mark.parametrize("Sampler", [SerialSampler, PARALLEL[0]])
def test_an_environment_that_trains_is_told_how(Sampler):
    def collect(**env_kwargs):
        sampler = Sampler(Bonus, env_kwargs, batch_T=T, batch_B=B, max_decorrelation_steps=0)
        sampler.initialize(EchoAgent(), seed=0)
        try:
            sampler.obtain_samples(0)
        finally:
            sampler.shutdown()

    collect(mode=partial(torch.inference_mode, False))
    with pytest.raises(Exception, match="grad") as caught:
        collect()
    text = "".join(traceback.format_exception(caught.value))
    assert "torch.inference_mode(False)" in text
