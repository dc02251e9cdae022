"""Rows [T, B] of a tree of arrays, laid out so that reading a row touches memory once.

Small leaves (numbers, short vectors) lie side by side in one record per row: a batch of random
rows then costs one cache miss for each row, not one for each row and leaf. Large leaves (images)
have arrays of their own, and are read only where they are wanted.
"""

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import is_namedarraytuple, is_namedtuple, namedarraytuple_like

SMALL_BYTES = 512  # leaves up to this size go into the record
WORD = 8  # bytes: records begin at words, so that every view of them is one that torch takes


class Records(Part):
    """[T, B] rows of a tree.

    Attributes:
        tree: the tree with leaves [T, B, ...]: views that can be read and written.
        numbers: the tree with each leaf's number instead, which is how ``Cut`` is asked for parts.
        row_bytes: what one row of one environment takes.
    """

    block: NDArray[np.uint8]

    def __init__(self, example: Any, T: int, B: int, memory: Memory) -> None:
        """Plan rows like ``example``, a tree of arrays or numbers without leading dimensions."""
        leaves = [example_array(leaf) for leaf in leaves_of(example)]
        counter = iter(range(len(leaves)))
        self.numbers = _number(example, counter)
        self.T, self.B = T, B
        self.specs = [(leaf.dtype.str, leaf.shape) for leaf in leaves]
        self.small = [i for i, leaf in enumerate(leaves) if leaf.nbytes <= SMALL_BYTES]
        self.names = [str(i) if i in self.small else None for i in range(len(leaves))]
        # The widest first, so that every leaf begins where its dtype may.
        order = sorted(self.small, key=lambda i: -leaves[i].dtype.itemsize)
        offsets, end = {}, 0
        for i in order:
            offsets[i], end = end, end + leaves[i].nbytes
        self.record = np.dtype(
            {
                "names": [name for name in self.names if name],
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
        self.tree = buffer_func(self.numbers, self.leaves.__getitem__)
        if os.environ.get("RLPYT_DEBUG"):
            self._poison_unwritten()

    def _poison_unwritten(self) -> None:
        """Fill fresh memory with NaN and extremes, so that unwritten rows cannot pass for data."""
        if self.block.any():
            return
        for leaf in self.leaves:
            if leaf.dtype.kind == "f":
                leaf[...] = np.nan
            elif leaf.dtype.kind in "iu":
                leaf[...] = np.iinfo(leaf.dtype).max

    def cut(self, idxs: NDArray[Any]) -> "Cut":
        """Copy rows at ``idxs`` (t * B + b, of any shape; beyond the ends they wrap)."""
        return Cut(self, idxs)


class Cut:
    """Copies of some rows; gives out parts of them.

    Args:
        rows: where from.
        idxs: [K, ...] integers; plane k of the cut is the rows idxs[k].
    """

    def __init__(self, rows: Records, idxs: NDArray[Any]) -> None:
        self.rows, self.idxs = rows, idxs
        taken = rows.flat_records.take(idxs, 0, mode="wrap")  # idxs.shape + (record,)
        self.records = taken.view(rows.record)[..., 0]

    def __call__(self, numbers: Any, k: Any) -> Any:
        """Plane k (or planes, if a slice) of the leaves in ``numbers``, numpy arrays.

        ``numbers`` is a part of ``rows.numbers``. Small leaves are views of the cut, of which those
        in different planes do not overlap; they can be written to.
        """
        if type(numbers) is int:
            return self.leaf(numbers, k)
        return buffer_func(numbers, self.leaf, k)

    def leaf(self, number: int, k: Any) -> Any:
        """Plane k of one leaf."""
        name = self.rows.names[number]
        if name is None:
            return self.rows.flat_leaves[number].take(self.idxs[k], 0, mode="wrap")
        return self.records[name][k]


def example_array(leaf: Any) -> NDArray[Any]:
    """An example's leaf as an array.

    Raises:
        TypeError: it is not numeric.
    """
    array = leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"a replay cannot hold {leaf!r} (dtype {array.dtype}); the example's leaves must be "
            "numbers, booleans or arrays of them."
        )
    return array


def _number(example: Any, counter: Any) -> Any:
    """The example with a number for each leaf, and namedarraytuples for named tuples."""
    if example is None:
        return None
    if is_namedtuple(example) or is_namedarraytuple(example):
        cls = namedarraytuple_like(example)
        return cls._make(_number(field, counter) for field in tuple(example))
    return next(counter)


Structure = list[tuple[str, tuple[int, ...], Any]]


def describe(tree: Any, skip: int = 0, path: str = "") -> Structure:
    """(path, shape without ``skip`` leading dimensions, dtype) of every leaf, in order."""
    if tree is None:
        return []
    if is_namedtuple(tree) or is_namedarraytuple(tree):
        pairs = zip(tree._fields, tuple(tree))
        return [x for name, f in pairs for x in describe(f, skip, f"{path}.{name}".lstrip("."))]
    array = example_array(tree)
    return [(path, array.shape[skip:], array.dtype)]


def check_alike(
    tree: Any, structure: Structure, name: str, leading: tuple[str, ...] = ("T", "B")
) -> None:
    """Compare a tree with the dimensions ``leading`` in front with what an example looked like.

    Raises:
        TypeError, ValueError: leaves, shapes or dtypes differ; the message names the leaf.
    """
    given = describe(tree, skip=len(leading))
    if [path for path, _, _ in given] != [path for path, _, _ in structure]:
        raise TypeError(
            f"{name} has the leaves {[path for path, _, _ in given]}; the replay was made for "
            f"{[path for path, _, _ in structure]}."
        )
    for (path, shape, dtype), (_, own_shape, own_dtype) in zip(given, structure):
        leaf = f"{name}.{path}".rstrip(".")
        if shape != own_shape:
            raise ValueError(f"{leaf} is {[*leading, *shape]}; the example had {list(own_shape)}.")
        if not np.can_cast(dtype, own_dtype, "same_kind"):
            raise TypeError(
                f"{leaf} is {dtype}; the example had {own_dtype}, which would not hold its "
                "values. Give an example as the sampler records it."
            )
