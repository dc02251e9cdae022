"""Copies and comparisons of observations, infos and batches, in words."""

from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of

RTOL, ATOL = 1e-4, 1e-5  # what rounding may do to float32 in another order of summation


def copied(tree: Any) -> Any:
    """The same tree in memory of its own, leaves numpy."""
    return buffer_func(tree, lambda leaf: np.array(_as_numpy(leaf)))


def row_of(tree: Any, b: int) -> Any:
    """Row b of every leaf [B, ...], copied."""
    return buffer_func(tree, lambda leaf: np.array(leaf[b]))


def stacked(rows: list[Any]) -> Any:
    """Rows of one structure as one tree of leaves [len(rows), ...]."""
    if isinstance(rows[0], tuple):
        parts = [stacked(list(part)) for part in zip(*[tuple(row) for row in rows], strict=True)]
        return rows[0]._make(parts) if hasattr(rows[0], "_make") else tuple(parts)
    return np.stack([np.asarray(row) for row in rows])


def layout_of(tree: Any) -> list[tuple[str, tuple[int, ...], np.dtype[Any]]]:
    """(path, shape, dtype) of every leaf, in order."""
    return [
        (path, np.shape(_as_numpy(leaf)), np.asarray(_as_numpy(leaf)).dtype)
        for path, leaf in _named_leaves(tree)
    ]


def equal(a: Any, b: Any) -> bool:
    """Whether two trees are the same, bit for bit."""
    return difference(a, b) is None


def difference(a: Any, b: Any, close: bool = False) -> str | None:
    """Say where two trees differ first; ``None`` if they do not. NaN equals NaN.

    Args:
        a, b: trees of numpy arrays, tensors or numbers.
        close: let floating-point numbers differ by rounding.
    """
    fields, others = getattr(a, "_fields", None), getattr(b, "_fields", None)
    if fields != others:
        return f"fields {fields} and {others}"
    own, other = _named_leaves(a), _named_leaves(b)
    if len(own) != len(other):
        return f"{len(own)} leaves and {len(other)}"
    for (path, x), (_, y) in zip(own, other, strict=True):
        found = _leaf_difference(np.asarray(_as_numpy(x)), np.asarray(_as_numpy(y)), close)
        if found:
            return found if path == "buffer" else f"'{path}': {found}"
    return None


def _leaf_difference(x: Any, y: Any, close: bool) -> str | None:
    if x.shape != y.shape:
        return f"shape {x.shape} and {y.shape}"
    if x.dtype != y.dtype:
        return f"dtype {x.dtype} and {y.dtype}"
    if (x == y).all():
        return None
    floats = x.dtype.kind in "fc"
    if close and floats:
        wrong = ~np.isclose(x, y, rtol=RTOL, atol=ATOL, equal_nan=True)
    else:
        wrong = (x != y) & ~(np.isnan(x) & np.isnan(y)) if floats else x != y
    if not wrong.any():
        return None
    where = [int(i) for i in np.argwhere(wrong)[0]]
    at = f" at {where}" if where else ""
    return f"{x[tuple(where)]} and {y[tuple(where)]}{at}"


def flattened(state: Any, path: str = "") -> dict[str, Any]:
    """Entries of a state, dictionaries in it taken apart: {"model.weight": tensor, ...}."""
    if not isinstance(state, dict):
        return {path: state}
    parts = [flattened(value, f"{path}.{name}".lstrip(".")) for name, value in state.items()]
    return {name: value for part in parts for name, value in part.items()}


def shares_memory(a: Any, b: Any) -> bool:
    """Whether a leaf of one tree lies in memory of the other."""
    return any(
        np.may_share_memory(x, y)
        for x in leaves_of(a)
        for y in leaves_of(b)
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
    )


def finite(tree: Any) -> str | None:
    """Say which leaf is not finite; ``None`` if all are."""
    for path, leaf in _named_leaves(tree):
        array = np.asarray(_as_numpy(leaf))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return path
    return None


def _as_numpy(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf
