"""Indexing, one-hot and masked-mean helpers for numpy, like ``rlpyt.utils.tensor`` for torch."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def select_at_indexes(indexes: ArrayLike, array: ArrayLike) -> NDArray[Any]:
    """Select one entry along the dimension after those of ``indexes``: Q(s, a) from Q(s, .).

    Args:
        indexes: integers of any shape [*L], for example [T, B].
        array: [*L, n, *rest], any dtype; its leading dimensions match ``indexes``.

    Returns:
        [*L, *rest], a copy.

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
    flat = array.reshape(-1, *array.shape[dim:])
    picked: NDArray[Any] = flat[np.arange(len(flat)), indexes.ravel()]
    return picked.reshape(indexes.shape + array.shape[dim + 1 :])


def to_onehot(indexes: ArrayLike, dim: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Expand integers [...] in [0, dim) to one-hot vectors [..., dim].

    Args:
        indexes: integers of any shape.
        dim: number of values, the size of the new trailing dimension.
        dtype: dtype of the result; None keeps that of ``indexes``.

    Raises:
        ValueError: an index is outside [0, dim).
    """
    indexes = np.asarray(indexes)
    if indexes.size and (indexes.min() < 0 or indexes.max() >= dim):
        raise ValueError(
            f"indexes must be in [0, dim={dim}), got {indexes.min()} to {indexes.max()}."
        )
    onehot = np.zeros((*indexes.shape, dim), dtype=indexes.dtype if dtype is None else dtype)
    np.put_along_axis(onehot, indexes[..., None], 1, axis=-1)
    return onehot


def from_onehot(onehot: ArrayLike, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Convert one-hot vectors [..., n] to integers [...] (int64 unless ``dtype`` is given)."""
    return np.asarray(np.argmax(onehot, axis=-1), dtype=dtype)


def valid_mean(
    array: ArrayLike, valid: ArrayLike | None = None, axis: int | tuple[int, ...] | None = None
) -> Any:
    """Return the mean of valid entries, over all dimensions or ``axis``.

    Args:
        array: [*L, *rest] of numbers; invalid entries may be NaN.
        valid: [*L] bool or weights >= 0, matching the leading dimensions of ``array``;
            None means that all entries are valid.
        axis: dimension(s) to average over; None means all.

    Returns:
        The mean; 0 where no entry is valid.

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
    weight = np.broadcast_to(
        valid.reshape(valid.shape + (1,) * (array.ndim - valid.ndim)), array.shape
    )
    total = weight.sum(axis=axis)
    sum_ = (np.where(weight != 0, array, 0) * weight).sum(axis=axis)
    return sum_ / np.where(total == 0, 1, total)


def infer_leading_dims(
    array: NDArray[Any], dim: int
) -> tuple[int, int, tuple[int, ...], bool, bool]:
    """Infer the leading dimensions of [*data], [B, *data] or [T, B, *data].

    Args:
        array: array with up to two leading dimensions before its data dimensions.
        dim: number of data dimensions.

    Returns:
        ``T, B, shape, has_T, has_B``: sizes of the leading dimensions (1 where absent), the data
        shape, and whether each leading dimension is present.

    Raises:
        ValueError: the array has fewer than ``dim`` or more than ``dim + 2`` dimensions.
    """
    lead_dim = array.ndim - dim
    if lead_dim not in (0, 1, 2):
        raise ValueError(
            f"array of shape {array.shape} must have dim={dim} data dimensions after no leading "
            "dimensions, [B] or [T, B]."
        )
    T = array.shape[0] if lead_dim == 2 else 1
    B = array.shape[lead_dim - 1] if lead_dim else 1
    return T, B, array.shape[lead_dim:], lead_dim == 2, lead_dim >= 1
