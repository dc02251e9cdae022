"""Segment trees: range sum and minimum in O(log n).

They access one entry at a time, for custom loops. Replays draw batches by array operations from
`rlpyt.replays.sum_tree.SumTree`.
"""

import operator
from collections.abc import Callable
from typing import Any

from rlpyt.utils.checks import check_range, whole_number


class SegmentTree:
    """Array with reductions over ranges; assignments and reductions take O(log capacity).

    Args:
        capacity: number of entries, at least 1; need not be a power of two.
        operation: associative function of two values, such as ``operator.add`` or ``min``.
        identity_element: initial value of entries, neutral in `operation`: 0 for sums.
    """

    def __init__(
        self, capacity: int, operation: Callable[[Any, Any], Any], identity_element: Any
    ) -> None:
        self.capacity = whole_number("capacity", capacity, 1)
        self.operation, self.identity_element = operation, identity_element
        self._width = 1 << (self.capacity - 1).bit_length()  # capacity rounded up to a power of two
        # Node i has children 2 i and 2 i + 1; the entries are the last half.
        self._nodes = [identity_element] * (2 * self._width)

    def __len__(self) -> int:
        return self.capacity

    def __getitem__(self, i: int) -> Any:
        return self._nodes[self._width + self._index(i)]

    def __setitem__(self, i: int, value: Any) -> None:
        nodes, node = self._nodes, self._width + self._index(i)
        nodes[node] = value
        while node > 1:
            node //= 2
            nodes[node] = self.operation(nodes[2 * node], nodes[2 * node + 1])

    def _index(self, i: int) -> int:
        index = i + self.capacity if i < 0 else i
        if not 0 <= index < self.capacity:
            raise IndexError(f"index {i} is out of range for a tree of {self.capacity} entries.")
        return index

    def reduce(self, start: int = 0, end: int | None = None) -> Any:
        """Return operation(A[start], operation(A[start + 1], ... A[end - 1])); slice bounds."""
        start, end, _ = slice(start, end).indices(self.capacity)
        left = right = self.identity_element
        low, high = self._width + start, self._width + max(start, end)
        while low < high:
            if low % 2:  # a right child: its parent would include entries before the range
                left = self.operation(left, self._nodes[low])
                low += 1
            if high % 2:
                high -= 1
                right = self.operation(self._nodes[high], right)
            low, high = low // 2, high // 2
        return self.operation(left, right)


class SumTree(SegmentTree):
    """Segment tree of sums of non-negative numbers, to draw entries in proportion to their values.

    Args:
        capacity: number of entries.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, operator.add, 0.0)

    def __setitem__(self, i: int, value: float) -> None:
        check_range("value", value, 0.0)
        super().__setitem__(i, value)

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """Return A[start] + ... + A[end - 1], with slice bounds."""
        return float(self.reduce(start, end))

    def find_prefixsum_index(self, prefixsum: float) -> int:
        """Return the highest i with A[0] + ... + A[i - 1] <= prefixsum and A[i] > 0.

        With ``prefixsum`` uniform in [0, sum()), entries are drawn in proportion to their values.

        Raises:
            ValueError: ``prefixsum`` is not in [0, sum()).
        """
        total = self._nodes[1]
        if not 0 <= prefixsum < total:
            raise ValueError(f"prefixsum must be in [0, {total}), the total sum, got {prefixsum}.")
        node = 1
        while node < self._width:
            node *= 2
            if prefixsum >= self._nodes[node] and self._nodes[node + 1] > 0:
                prefixsum -= self._nodes[node]
                node += 1
        return node - self._width


class MinTree(SegmentTree):
    """Segment tree of minima; entries are initially infinity.

    Args:
        capacity: number of entries.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, min, float("inf"))

    def min(self, start: int = 0, end: int | None = None) -> float:
        """Return the minimum of A[start], ..., A[end - 1], with slice bounds."""
        return float(self.reduce(start, end))
