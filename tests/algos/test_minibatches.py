"""Minibatches cover a batch once, in the same order for all leaves."""

import numpy as np
import pytest
import torch

from rlpyt.algos.minibatches import split_environments, split_steps
from rlpyt.utils.collections import namedarraytuple

Inner = namedarraytuple("Inner", ["a", "b"])
Batch = namedarraytuple("Batch", ["x", "inner", "missing"])
T, B = 5, 6


def batch_of():
    steps = torch.arange(T * B).reshape(T, B)
    return Batch(steps, Inner(steps[..., None] * torch.ones(3), -steps), None)


@pytest.mark.parametrize("size", [1, 7, 10, 30])
def test_steps_are_covered_once(size):
    np.random.seed(0)
    parts = list(split_steps(batch_of(), size))
    assert len(parts) == T * B // size
    for part in parts:
        assert part.x.shape == (size,) and part.inner.a.shape == (size, 3) and part.missing is None
        assert torch.equal(part.inner.a, part.x[:, None].expand(size, 3).float())
        assert torch.equal(part.inner.b, -part.x)
    seen = torch.cat([part.x for part in parts])
    assert len(seen.unique()) == len(seen) and not torch.equal(seen, seen.sort().values)


@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_environments_stay_whole_and_keep_their_state(size):
    np.random.seed(0)
    state = torch.arange(B)[None, :, None].expand(2, B, 4)
    seen = []
    for part, own in split_environments(batch_of(), state, size):
        columns = part.x[0]  # row 0 numbers the environments
        assert torch.equal(part.x, columns + B * torch.arange(T)[:, None])
        assert torch.equal(own, columns[None, :, None].expand(2, size, 4))
        seen += columns.tolist()
    assert len(seen) == B - B % size == len(set(seen))
    assert all(own is None for _, own in split_environments(batch_of(), None, size))
