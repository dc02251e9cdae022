"""Copy and compare trees of arrays: observations, infos and batches."""

from typing import Any

import numpy as np

from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of, numpify_buffer

RTOL, ATOL = 1e-4, 1e-5  # float32 rounding under another order of summation


def copied(tree: Any) -> Any:
    """Copy a tree; leaves become numpy arrays."""
    return buffer_func(numpify_buffer(tree), np.array)


def row_of(tree: Any, b: int) -> Any:
    """Copy row b of every leaf [B, ...]."""
    return buffer_func(tree, lambda leaf: np.array(leaf[b]))


def stacked(rows: list[Any]) -> Any:
    """Stack trees of one structure to leaves [len(rows), ...]."""
    if isinstance(rows[0], tuple):
        parts = [stacked(list(part)) for part in zip(*[tuple(row) for row in rows], strict=True)]
        return rows[0]._make(parts) if hasattr(rows[0], "_make") else tuple(parts)
    return np.stack([np.asarray(row) for row in rows])


def layout_of(tree: Any) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """Return (path, shape, dtype) of every leaf, in order."""
    return [(path, leaf.shape, leaf.dtype) for path, leaf in _arrays(tree)]


def described(tree: Any) -> str:
    """Describe fields, dtypes and shapes of a record in one line."""
    leaves = [f"{path}: {dtype}{list(shape) or ''}" for path, shape, dtype in layout_of(tree)]
    text = ", ".join(leaves)
    return f"({text})" if text else f"fields {getattr(tree, '_fields', ())}"


def same_layout(a: Any, b: Any) -> bool:
    """Return True if two records have equal fields, shapes and dtypes."""
    fields = getattr(a, "_fields", ()), getattr(b, "_fields", ())
    return fields[0] == fields[1] and layout_of(a) == layout_of(b)


def equal(a: Any, b: Any) -> bool:
    """Return True if two trees are equal bit for bit."""
    return difference(a, b) is None


def difference(a: Any, b: Any, close: bool = False) -> str | None:
    """Describe the first difference of two trees, or return None. NaN equals NaN.

    Args:
        a, b: trees of numpy arrays, tensors or numbers.
        close: allow rounding differences of floating-point numbers.
    """
    fields, others = getattr(a, "_fields", None), getattr(b, "_fields", None)
    if fields != others:
        return f"fields {fields} and {others}"
    own, other = _arrays(a), _arrays(b)
    if len(own) != len(other):
        return f"{len(own)} leaves and {len(other)}"
    for (path, x), (_, y) in zip(own, other, strict=True):
        found = _leaf_difference(x, y, close)
        if found:
            return found if path == "buffer" else f"'{path}': {found}"
    return None


def _leaf_difference(x: Any, y: Any, close: bool) -> str | None:
    if x.shape != y.shape:
        return f"shape {x.shape} and {y.shape}"
    if x.dtype != y.dtype:
        return f"dtype {x.dtype} and {y.dtype}"
    if x.dtype.kind in "fc":
        rtol, atol = (RTOL, ATOL) if close else (0, 0)
        same = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
    else:
        same = x == y
    if same.all():
        return None
    index = [int(i) for i in np.argwhere(~same)[0]]
    return f"{x[tuple(index)]} and {y[tuple(index)]}" + (f" at {index}" if index else "")


def shares_memory(a: Any, b: Any) -> bool:
    """Return True if arrays of two trees may overlap in memory."""
    arrays = [[x for x in leaves_of(tree) if isinstance(x, np.ndarray)] for tree in (a, b)]
    return any(np.may_share_memory(x, y) for x in arrays[0] for y in arrays[1])


def non_finite(tree: Any) -> str | None:
    """Return the path of the first leaf with NaN or infinity, or None."""
    for path, array in _arrays(tree):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return path
    return None


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    """Return (path, numpy array) of every leaf, in order."""
    return [(path, np.asarray(leaf)) for path, leaf in _named_leaves(numpify_buffer(tree))]
