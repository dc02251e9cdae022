"""Env batches check the shape of every observation before numpy can broadcast it."""

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
B = 3


def plain(n):
    return np.zeros(n, np.float32)


def nested(n):
    return Outer(np.zeros(3, np.float32), Inner(np.zeros(n, np.float32), 1))


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
@pytest.mark.parametrize("make,path", [(plain, "observation"), (nested, "observation.inner.a")])
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
    env_batch._validation._steps_left = 10  # everything else is checked at some steps only
    message = rf"{path} has shape \((3, )?{n_later},?\), expected \((3, )?2,?\)"
    with pytest.raises(ValueError, match=message):
        env_batch.advance(step, step.action)
