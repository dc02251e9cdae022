"""Rows [T, B] of a tree of arrays, in a layout that makes reading random rows fast.

Small leaves (numbers, short vectors) are stored together in one record per row, so that a batch of
random rows costs one cache miss per row instead of one per row and leaf. Each large leaf (image)
has its own array, and is read only when it is needed.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of
from rlpyt.utils.collections import (
    NamedArrayTuple,
    is_namedarraytuple,
    is_namedtuple,
    namedarraytuple_like,
)

SMALL_BYTES = 512  # size of the largest leaf that is stored in the record
WORD = 8  # bytes; records are aligned to words, so that torch accepts every view of them


class RowStore(Part):
    """Rows [T, B] of a tree of arrays.

    Args:
        example: one row, a tree of arrays or numbers without leading dimensions.
        T, B: number of rows and environments.
        memory: allocator of the arrays.

    Attributes:
        tree: tree with leaves [T, B, ...], writable views.
        keys: the same tree with the key of each leaf in a ``RowBatch``: the name of its field in
            the record, or the number of a large leaf.
        row_bytes: bytes per row of one environment.
    """

    block: NDArray[np.uint8]

    def __init__(self, example: NamedArrayTuple, T: int, B: int, memory: Memory) -> None:
        leaves = [example_array(leaf) for leaf in leaves_of(example)]
        self.T, self.B = T, B
        self.specs = [(leaf.dtype.str, leaf.shape) for leaf in leaves]
        self.small = [i for i, leaf in enumerate(leaves) if leaf.nbytes <= SMALL_BYTES]
        keys = [str(i) if i in self.small else i for i in range(len(leaves))]
        self.keys = _with_leaves(example, iter(keys))
        # Widest dtypes first, so that every leaf is aligned to its dtype.
        order = sorted(self.small, key=lambda i: -leaves[i].dtype.itemsize)
        offsets, end = {}, 0
        for i in order:
            offsets[i], end = end, end + leaves[i].nbytes
        self.record = np.dtype(
            {
                "names": [str(i) for i in self.small],
                "formats": [self.specs[i] for i in self.small],
                "offsets": [offsets[i] for i in self.small],
                "itemsize": max(WORD, -(-end // WORD) * WORD),
            }
        )
        memory.request(self, "block", (T, B, self.record.itemsize), np.uint8)
        large = [i for i in range(len(leaves)) if i not in self.small]
        for i in large:
            memory.request(self, f"large_{i}", (T, B, *leaves[i].shape), leaves[i].dtype)
        self.row_bytes = self.record.itemsize + sum(leaves[i].nbytes for i in large)

    def _derive(self) -> None:
        records = self.block.view(self.record)[..., 0]  # [T, B]
        self.leaves = [
            records[str(i)] if i in self.small else getattr(self, f"large_{i}")
            for i in range(len(self.specs))
        ]
        self.flat_records = self.block.reshape(-1, self.record.itemsize)
        self.flat_leaves = {
            i: self.leaves[i].reshape(-1, *self.specs[i][1])
            for i in range(len(self.specs))
            if i not in self.small
        }
        self.tree = buffer_func(self.keys, lambda key: self.leaves[int(key)])
        if os.environ.get("RLPYT_DEBUG"):
            self._poison_unwritten()

    def _poison_unwritten(self) -> None:
        """Fill new memory with NaN and extreme values to expose reads of unwritten rows."""
        if self.block.any():
            return
        for leaf in self.leaves:
            if leaf.dtype.kind == "f":
                leaf[...] = np.nan
            elif leaf.dtype.kind in "iu":
                leaf[...] = np.iinfo(leaf.dtype).max

    def read(self, idxs: NDArray[Any]) -> "RowBatch":
        """Copy the rows at ``idxs`` (t * B + b, of any shape, wrapped at the ends)."""
        return RowBatch(self, idxs)

    def state(self, rows: int) -> dict[str, Any]:
        """Return the first ``rows`` rows, without copying them."""
        n = rows * self.B
        large = {str(i): leaf[:n] for i, leaf in self.flat_leaves.items()}
        return {"records": self.flat_records[:n], "large": large}

    def load(self, state: dict[str, Any]) -> None:
        """Load rows saved by ``state``."""
        self.flat_records[: len(state["records"])] = state["records"]
        for i, leaf in state["large"].items():
            self.flat_leaves[int(i)][: len(leaf)] = leaf


class RowBatch:
    """Copies of some rows, read together.

    Args:
        store: store to read from.
        idxs: [K, ...] integers t * B + b; plane k of the batch contains the rows ``idxs[k]``.

    Attributes:
        records: [K, ...] records with the small leaves; ``records[k][key]`` is a writable view of
            plane k of one of them. Planes do not overlap.
        adjacent: two planes; the second contains the rows directly after those of the first.
        stacks: observations of the ``adjacent`` planes, cached by the frame storage.
    """

    adjacent: tuple[int, ...] = ()
    stacks: tuple[Any, Any] | None = None

    def __init__(self, store: RowStore, idxs: NDArray[Any]) -> None:
        self.store, self.idxs = store, idxs
        taken = store.flat_records.take(idxs, 0, mode="wrap")  # idxs.shape + (record,)
        self.records = np.ndarray(idxs.shape, store.record, taken)  # faster than view()

    def __call__(self, keys: Any, k: Any) -> Any:
        """Return plane k (or a slice of planes) of some leaves, as a tree of writable arrays.

        Args:
            keys: part of ``RowStore.keys``.
            k: plane or slice.
        """
        if type(keys) is str:
            return self.records[k][keys]
        if type(keys) is int:
            return self.store.flat_leaves[keys].take(self.idxs[k], 0, mode="wrap")
        return buffer_func(keys, self, k)


def example_array(leaf: Any) -> NDArray[Any]:
    """Return a leaf of an example as an array.

    Raises:
        TypeError: the leaf is not numeric.
    """
    array = leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"leaves of the example must be numbers, booleans or arrays, got {leaf!r} (dtype "
            f"{array.dtype})."
        )
    return array


def _with_leaves(example: NamedArrayTuple, leaves: Iterator[Any]) -> Any:
    """Return the example with these leaves, and namedarraytuples for named tuples."""
    if example is None:
        return None
    if is_namedtuple(example) or is_namedarraytuple(example):
        cls = namedarraytuple_like(example)
        return cls._make(_with_leaves(field, leaves) for field in tuple(example))
    return next(leaves)


Structure = list[tuple[str, tuple[int, ...], Any]]


def describe(tree: Any, skip: int = 0, path: str = "") -> Structure:
    """Return (path, shape without ``skip`` leading dimensions, dtype) of every leaf, in order."""
    if tree is None:
        return []
    if is_namedtuple(tree) or is_namedarraytuple(tree):
        pairs = zip(tree._fields, tuple(tree))
        return [x for name, f in pairs for x in describe(f, skip, f"{path}.{name}".lstrip("."))]
    array = example_array(tree)
    return [(path, array.shape[skip:], array.dtype)]


def check_structure(
    tree: Arrays | None, structure: Structure, name: str, leading: tuple[str, ...] = ("T", "B")
) -> None:
    """Compare a tree with ``leading`` dimensions with the structure of an example.

    Raises:
        TypeError: leaves or dtypes differ; the message names the leaf.
        ValueError: a shape differs.
    """
    given = describe(tree, skip=len(leading))
    if [path for path, _, _ in given] != [path for path, _, _ in structure]:
        raise TypeError(
            f"{name} must have the leaves {[path for path, _, _ in structure]} of the example, "
            f"got {[path for path, _, _ in given]}."
        )
    for (path, shape, dtype), (_, expected_shape, expected_dtype) in zip(given, structure):
        leaf = f"{name}.{path}".rstrip(".")
        if shape != expected_shape:
            raise ValueError(
                f"{leaf} must be {[*leading, *expected_shape]}, as in the example, got "
                f"{[*leading, *shape]}."
            )
        if not np.can_cast(dtype, expected_dtype, "same_kind"):
            raise TypeError(
                f"{leaf} must have the dtype {expected_dtype} of the example, got {dtype}. "
                "Construct the replay with an example as the sampler records it."
            )
