"""Helpers for numpy and torch: minibatch indexes, allocation, sequences with wraparound."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray


def iterate_mb_idxs(
    data_length: int, minibatch_size: int, shuffle: bool = False, drop_last: bool = True
) -> Iterator[slice | NDArray[np.int64]]:
    """Yield indexes of minibatches for one pass over the data.

    Args:
        data_length: number of elements.
        minibatch_size: elements per minibatch, at most ``data_length``.
        shuffle: draw a new order from numpy's global generator (seeded by `set_seed`) and yield
            index arrays [minibatch_size] int64. Otherwise yield slices, in order.
        drop_last: drop the remainder if ``minibatch_size`` does not divide ``data_length``;
            if False, yield it as a last, smaller minibatch.

    Raises:
        ValueError: ``minibatch_size`` is below 1 or above ``data_length``.
    """
    if not 1 <= minibatch_size <= data_length:
        raise ValueError(
            f"minibatch_size={minibatch_size} must be in [1, data_length={data_length}]. "
            "Use fewer minibatches or a larger batch."
        )
    end = data_length - data_length % minibatch_size if drop_last else data_length
    slices = (
        slice(start, min(start + minibatch_size, data_length))
        for start in range(0, end, minibatch_size)
    )
    if not shuffle:
        return slices
    order = np.random.permutation(data_length)
    return (order[part] for part in slices)


def zeros(shape: int | Sequence[int], dtype: Any) -> Any:
    """Return zeros: a tensor for a torch dtype (or None), a numpy array for a numpy dtype."""
    if dtype is None or isinstance(dtype, torch.dtype):
        return torch.zeros(shape, dtype=dtype)
    return np.zeros(shape, dtype=dtype)


def empty(shape: int | Sequence[int], dtype: Any) -> Any:
    """Return uninitialized memory: a tensor for a torch dtype (or None), else a numpy array."""
    if dtype is None or isinstance(dtype, torch.dtype):
        return torch.empty(shape, dtype=dtype)
    return np.empty(shape, dtype=dtype)


def extract_sequences(
    array_or_tensor: Any, T_idxs: ArrayLike | torch.Tensor, B_idxs: ArrayLike | torch.Tensor, T: int
) -> Any:
    """Copy sequences of length ``T`` that start at the given indexes and wrap at the end.

    Args:
        array_or_tensor: [T_max, B_max, ...], numpy or torch.
        T_idxs: [n] integers, time index of each sequence's start.
        B_idxs: [n] integers, environment index of each sequence.
        T: length of the sequences, at most T_max.

    Returns:
        [T, n, ...], numpy or torch like the input.

    Raises:
        ValueError: ``T`` exceeds T_max, so that a sequence would overlap itself.
    """
    T_max = len(array_or_tensor)
    if T_max < T:
        raise ValueError(f"T must be at most the {T_max} time steps in array_or_tensor, got {T}.")
    t = (np.asarray(T_idxs) + np.arange(T)[:, None]) % T_max  # [T, n]
    b = np.asarray(B_idxs)
    if isinstance(array_or_tensor, torch.Tensor):
        device = array_or_tensor.device
        return array_or_tensor[torch.from_numpy(t).to(device), torch.as_tensor(b, device=device)]
    return array_or_tensor[t, b]
