"""Shuffled minibatches of a batch: of its steps, or of whole environments for recurrent agents."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import NamedArrayTuple


def split_steps(batch: NamedArrayTuple, size: int) -> Iterator[Any]:
    """Yield all steps of a batch once, in random order, in minibatches.

    Args:
        batch: tree of tensors [T, B, ...], such as the inputs of a loss.
        size: number of steps of a minibatch; a remainder of T * B is left out.

    Yields:
        The same tree, leaves [size, ...].
    """
    first = leaves_of(batch)[0]
    n = first.shape[0] * first.shape[1]
    order = torch.from_numpy(np.random.permutation(n)).to(first.device)
    shuffled = buffer_func(batch, lambda x: x.flatten(0, 1).index_select(0, order))
    for start in range(0, n - size + 1, size):
        yield shuffled[start : start + size]


def split_environments(batch: NamedArrayTuple, state: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield all environments of a batch once, in random order, in minibatches of whole columns.

    Args:
        batch: tree of tensors [T, B, ...].
        state: recurrent state before the first step, leaves [N, B, ...], or ``None``.
        size: number of environments of a minibatch; a remainder of B is left out.

    Yields:
        The batch, leaves [T, size, ...], and the state, leaves [N, size, ...].
    """
    first = leaves_of(batch)[0]
    B = first.shape[1]
    order = torch.from_numpy(np.random.permutation(B)).to(first.device)
    for start in range(0, B - size + 1, size):
        columns = order[start : start + size]
        yield batch[:, columns], buffer_func(state, lambda x, columns=columns: x[:, columns])
