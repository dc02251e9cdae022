"""Env batches check the shape of every observation before numpy can broadcast it."""

import copy
import itertools
from collections import namedtuple

import numpy as np
import pytest

from rlpyt.envs.base import EnvStep
from rlpyt.envs.vector.base import vector_info
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import ListEnvBatch, VectorEnvBatch
from rlpyt.samplers.policy_source import StepRecord
from rlpyt.utils.buffer import buffer_from_example

Outer, Inner = namedtuple("Outer", ["left", "inner"]), namedtuple("Inner", ["a", "b"])
Pair = namedtuple("Pair", ["a", "b"])
B = 3


def plain(n):
    return np.zeros(n, np.float32)


def nested(n):
    return Outer(np.zeros(3, np.float32), Inner(np.zeros(n, np.float32), 1))


def pair(n):
    return Pair(np.zeros(3, np.float32), np.zeros(n, np.int8))


class Fixed:
    """Gives observations of two numbers, from the third step on of as many as it is told."""

    def __init__(self, make, n_later):
        self.make, self.n_later, self.n_steps = make, n_later, 0

    def step(self, action):
        self.n_steps += 1
        observation = self.make(2 if self.n_steps < 3 else self.n_later)
        return EnvStep(observation, 1.0, False, None)


class FixedBatch(Fixed):
    n = B

    def step(self, action):
        rows = buffer_from_example(super().step(action).observation, B)
        no = np.zeros(B, bool)
        return EnvStep(rows, np.ones(B, np.float32), no, vector_info()(no, no))


@pytest.mark.parametrize("n_later", [1, 3])
@pytest.mark.parametrize(
    "make,path",
    [(plain, "observation"), (pair, "observation.b"), (nested, "observation.inner.a")],
)
@pytest.mark.parametrize("Batch,Env", [(ListEnvBatch, Fixed), (VectorEnvBatch, FixedBatch)])
def test_the_shape_of_every_leaf_is_checked_in_every_step(Batch, Env, make, path, n_later):
    envs = [Env(make, n_later)] + ([Env(make, 2) for _ in range(B - 1)] if Env is Fixed else [])
    env_batch = Batch(envs, CollectorContext())
    info = None if Env is Fixed else vector_info()(np.bool_(0), np.bool_(0))
    step = buffer_from_example(
        StepRecord(make(2), np.int64(0), np.float32(0), np.bool_(0), info, None), B
    )
    for _ in range(2):
        env_batch.advance(step, step.action)
    env_batch._validated = itertools.repeat(False)  # everything else is checked at some steps only
    message = rf"{path} has shape \((3, )?{n_later},?\), expected \((3, )?2,?\)"
    with pytest.raises(ValueError, match=message):
        env_batch.advance(step, step.action)


class Given:
    """Gives these observations, one at each step."""

    def __init__(self, *observations):
        self.observations = iter(observations)

    def step(self, action):
        return EnvStep(next(self.observations), 1.0, False, None)


def recorded_by(*observations):
    """Yield copies of the record of one environment after each step."""
    env_batch = ListEnvBatch([Given(*observations)], CollectorContext())
    step = buffer_from_example(
        StepRecord(observations[0], np.int64(0), np.float32(0), np.bool_(0), None, None), 1
    )
    for _ in observations:
        env_batch._validated = itertools.repeat(env_batch._step is None)
        env_batch.advance(step, step.action)
        yield copy.deepcopy(step.observation[0])


def test_observations_of_another_dtype_are_converted_from_any_step_on():
    vectors = [np.array([k, 0.5]) for k in range(5)]
    given = [vectors[0].astype(np.float32), vectors[1], vectors[2].astype(np.float32), [3, 0.5]]
    for vector, record in zip(vectors, recorded_by(*given)):
        assert record.dtype == np.float32
        np.testing.assert_array_equal(record, vector)


def test_parts_of_another_dtype_are_converted_from_any_step_on():
    given = [Pair(np.float32([k, 1]), np.int8([k])) for k in range(4)]
    given[2] = Pair(given[2].a.astype(np.float64), given[2].b.astype(bool))
    for k, record in enumerate(recorded_by(*given)):
        np.testing.assert_array_equal(record.a, [k, 1])
        np.testing.assert_array_equal(record.b, [k if k != 2 else 1])


def test_a_conversion_that_loses_digits_is_refused_in_the_step_that_needs_it():
    records = recorded_by(np.array([1, 2]), np.array([3, 4]), np.array([0.5, 0.5]))
    assert [next(records).tolist(), next(records).tolist()] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="observation .*float64, .*int64"):
        next(records)


def test_strided_and_read_only_observations_are_recorded():
    reverse, constant = np.arange(3, dtype=np.float32)[::-1], np.float32([4, 5, 6])
    constant.flags.writeable = False
    records = recorded_by(np.zeros(3, np.float32), reverse, constant)
    assert [record.tolist() for record in records] == [[0, 0, 0], [2, 1, 0], [4, 5, 6]]
