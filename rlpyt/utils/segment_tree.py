"""Arrays that know the sum, or the smallest, of any stretch of them in logarithmic time.

One entry at a time, for loops of your own. Replays draw whole batches from
`rlpyt.replays.sum_tree.SumTree`, by array operations.
"""

import operator
from collections.abc import Callable
from typing import Any

from rlpyt.utils.checks import check_range, whole_number


class SegmentTree:
    """``tree[i] = value`` and ``tree[i]``, and reductions over stretches.

    Both take O(log capacity). Entries are the identity at first.

    Args:
        capacity: number of entries, at least 1 (a power of two or not).
        operation: associative, of two values: ``operator.add``, ``min``.
        identity_element: which it leaves the other value as it is with: 0 for sums.
    """

    def __init__(
        self, capacity: int, operation: Callable[[Any, Any], Any], identity_element: Any
    ) -> None:
        self.capacity = whole_number("capacity", capacity, 1)
        self.operation, self.identity_element = operation, identity_element
        self._width = 1 << (self.capacity - 1).bit_length()  # the power of two that holds them
        # Node i has children 2 i and 2 i + 1; the entries are the last half.
        self._nodes = [identity_element] * (2 * self._width)

    def __len__(self) -> int:
        return self.capacity

    def __getitem__(self, i: int) -> Any:
        return self._nodes[self._width + self._place(i)]

    def __setitem__(self, i: int, value: Any) -> None:
        nodes, node = self._nodes, self._width + self._place(i)
        nodes[node] = value
        while node > 1:
            node //= 2
            nodes[node] = self.operation(nodes[2 * node], nodes[2 * node + 1])

    def _place(self, i: int) -> int:
        place = i + self.capacity if i < 0 else i
        if not 0 <= place < self.capacity:
            raise IndexError(f"entry {i} of a tree of {self.capacity}.")
        return place

    def reduce(self, start: int = 0, end: int | None = None) -> Any:
        """operation(A[start], operation(A[start + 1], ... A[end - 1])); bounds as of slices."""
        start, end, _ = slice(start, end).indices(self.capacity)
        left = right = self.identity_element
        low, high = self._width + start, self._width + max(start, end)
        while low < high:
            if low % 2:  # a right child: its parent would reach too far
                left = self.operation(left, self._nodes[low])
                low += 1
            if high % 2:
                high -= 1
                right = self.operation(self._nodes[high], right)
            low, high = low // 2, high // 2
        return self.operation(left, right)


class SumTree(SegmentTree):
    """Numbers of at least 0 with the sum of any stretch, to draw entries in proportion to them.

    Args:
        capacity: number of entries.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, operator.add, 0.0)

    def __setitem__(self, i: int, value: float) -> None:
        check_range("value", value, 0.0)
        super().__setitem__(i, value)

    def sum(self, start: int = 0, end: int | None = None) -> float:
        """A[start] + ... + A[end - 1]; bounds as of slices."""
        return float(self.reduce(start, end))

    def find_prefixsum_index(self, prefixsum: float) -> int:
        """The highest i with A[0] + ... + A[i - 1] <= prefixsum, whose own entry is above zero.

        With ``prefixsum`` uniform in [0, sum()), entries are drawn in proportion to their values.

        Raises:
            ValueError: prefixsum is below zero, or not below ``sum()``.
        """
        total = self._nodes[1]
        if not 0 <= prefixsum < total:
            raise ValueError(f"prefixsum={prefixsum} must lie in [0, {total}), the sum of all.")
        node = 1
        while node < self._width:
            node *= 2
            if prefixsum >= self._nodes[node] and self._nodes[node + 1] > 0:
                prefixsum -= self._nodes[node]
                node += 1
        return node - self._width


class MinTree(SegmentTree):
    """Numbers with the smallest of any stretch; infinity where none was set.

    Args:
        capacity: number of entries.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, min, float("inf"))

    def min(self, start: int = 0, end: int | None = None) -> float:
        """The smallest of A[start], ..., A[end - 1]; bounds as of slices."""
        return float(self.reduce(start, end))
