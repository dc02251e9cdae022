"""Functions of ``rlpyt.utils.tensor`` for numpy arrays and lists, without torch."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def select_at_indexes(indexes: ArrayLike, array: ArrayLike) -> NDArray[Any]:
    """Select entries of an array [*L, n, *rest] at indexes [*L], as a copy [*L, *rest].

    Raises:
        ValueError: the leading dimensions of ``array`` are not the shape of ``indexes``.
    """
    indexes, array = np.asarray(indexes), np.asarray(array)
    dim = indexes.ndim
    if array.ndim <= dim or array.shape[:dim] != indexes.shape:
        raise ValueError(
            f"array of shape {array.shape} must have shape {indexes.shape} + (n, ...), "
            "the shape of indexes plus the dimension to select from."
        )
    wide = np.expand_dims(indexes, tuple(range(dim, array.ndim)))
    return np.take_along_axis(array, wide, dim).squeeze(dim)


def to_onehot(indexes: ArrayLike, dim: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Expand integers [...] to one-hot vectors [..., dim], of the same dtype unless one is given.

    Raises:
        ValueError: an index is outside [0, dim).
    """
    indexes = np.asarray(indexes)
    if indexes.size and (indexes.min() < 0 or indexes.max() >= dim):
        raise ValueError(
            f"indexes must be in [0, dim={dim}), got {indexes.min()} to {indexes.max()}."
        )
    onehot: NDArray[Any] = indexes[..., None] == np.arange(dim)
    return onehot.astype(indexes.dtype if dtype is None else dtype)


def from_onehot(onehot: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Convert one-hot vectors [..., n] to integers [...] (int64 unless ``dtype`` is given)."""
    return np.asarray(np.argmax(onehot, axis=-1), dtype=dtype)


def valid_mean(
    array: ArrayLike, valid: ArrayLike | None = None, axis: int | tuple[int, ...] | None = None
) -> Any:
    """Return the mean of valid entries, over all dimensions or ``axis``; 0 where none is valid.

    Args:
        array: [*L, *rest]; invalid entries may be NaN.
        valid: [*L] bool or weights >= 0; None means that all entries are valid.
        axis: dimension(s) to average over; None means all.

    Raises:
        ValueError: the shape of ``valid`` does not match the leading dimensions of ``array``.
    """
    array = np.asarray(array)
    if valid is None:
        return array.mean(axis=axis)
    valid = np.asarray(valid)
    if valid.shape != array.shape[: valid.ndim]:
        raise ValueError(
            f"valid of shape {valid.shape} must match the leading dimensions of array, "
            f"whose shape is {array.shape}."
        )
    valid = np.expand_dims(valid, tuple(range(valid.ndim, array.ndim)))
    weight = np.broadcast_to(valid, array.shape)
    total = weight.sum(axis=axis)
    sum_ = (np.where(weight != 0, array, 0) * weight).sum(axis=axis)
    return sum_ / np.where(total == 0, 1, total)


def infer_leading_dims(
    array: NDArray[Any], dim: int
) -> tuple[int, int, tuple[int, ...], bool, bool]:
    """Infer ``T, B, shape, has_T, has_B`` of [*shape], [B, *shape] or [T, B, *shape].

    Raises:
        ValueError: the array has fewer than ``dim`` or more than ``dim + 2`` dimensions.
    """
    lead_dim = array.ndim - dim
    if lead_dim not in (0, 1, 2):
        raise ValueError(
            f"array of shape {array.shape} must have dim={dim} data dimensions after no leading "
            "dimensions, [B] or [T, B]."
        )
    T, B = (1, 1, *array.shape[:lead_dim])[-2:]
    return T, B, array.shape[lead_dim:], lead_dim == 2, lead_dim >= 1
