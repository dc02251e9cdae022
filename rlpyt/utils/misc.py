"""Helpers that serve numpy and torch alike: minibatch indexes, allocation, sequences with wrap."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray


def iterate_mb_idxs(
    data_length: int, minibatch_size: int, shuffle: bool = False, drop_last: bool = True
) -> Iterator[slice | NDArray[np.int64]]:
    """Yield indexes of minibatches that together go over the data once.

    Args:
        data_length: number of elements.
        minibatch_size: elements per minibatch, at most ``data_length``.
        shuffle: draw a new order from numpy's global generator (seeded by `set_seed`); yields
            index arrays [minibatch_size] int64. Otherwise yields slices, in order.
        drop_last: leave out what remains when the size does not divide the length; False yields
            it as a last, smaller minibatch.

    Raises:
        ValueError: ``minibatch_size`` is below 1 or above ``data_length``.
    """
    if not 1 <= minibatch_size <= data_length:
        raise ValueError(
            f"minibatch_size={minibatch_size} must lie in [1, data_length={data_length}]; "
            "take fewer minibatches or a larger batch."
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
    """Return uninitialised memory: a tensor for a torch dtype (or None), else a numpy array."""
    if dtype is None or isinstance(dtype, torch.dtype):
        return torch.empty(shape, dtype=dtype)
    return np.empty(shape, dtype=dtype)


def extract_sequences(
    array_or_tensor: Any, T_idxs: ArrayLike | torch.Tensor, B_idxs: ArrayLike | torch.Tensor, T: int
) -> Any:
    """Copy out sequences of length ``T`` which start at the given places and wrap at the end.

    Args:
        array_or_tensor: [T_max, B_max, ...], numpy or torch.
        T_idxs: [n] integers, where each sequence starts in time.
        B_idxs: [n] integers, which environment each sequence is from.
        T: length of the sequences, at most T_max.

    Returns:
        [T, n, ...], numpy or torch as the input.

    Raises:
        ValueError: ``T`` exceeds T_max, so that a sequence would run into itself.
    """
    T_max = len(array_or_tensor)
    if T_max < T:
        raise ValueError(f"T={T} is longer than the {T_max} time steps in array_or_tensor.")
    t = (np.asarray(T_idxs) + np.arange(T)[:, None]) % T_max  # [T, n]
    b = np.asarray(B_idxs)
    if isinstance(array_or_tensor, torch.Tensor):
        device = array_or_tensor.device
        return array_or_tensor[torch.from_numpy(t).to(device), torch.as_tensor(b, device=device)]
    return array_or_tensor[t, b]
