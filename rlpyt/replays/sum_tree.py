"""Sum tree over [T, B] leaves, to sample in proportion to changing priorities.

Every inner node is the sum of its ``FANOUT`` children, up to a top level of at most ``TOP`` nodes.
Few, wide levels suit array code: a batch of draws descends a level with a few operations on short
contiguous rows. Sums are always recomputed from the children, so that rounding errors do not
accumulate.

The library of each operation was chosen by measurement: torch computes and searches cumulative sums
of short rows several times as fast as numpy, and numpy is faster for all other operations. Loops
compiled by numba, if it is installed, are several times as fast as both.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.memory import Memory, Part
from rlpyt.utils.buffer import Arrays
from rlpyt.utils.checks import check_range, whole_number

Array = NDArray[Any]

FANOUT = 16  # children of a node
TOP = 4096  # maximum number of nodes of the top level, which is searched by bisection
BELOW_ONE = 1 - 2.0**-53


class Ticket(NamedTuple):
    """Drawn leaves [n], with the number of rows written and the oldest row that was on."""

    leaves: Array
    written: int
    low: int  # can change while ``written`` does not, if only some rows have leaves


class SumTree(Part):
    """Priorities of rows [T, B] in a ring; only rows that are "on" can be drawn.

    Args:
        T, B: number of rows and environments.
        off_backward: number of newest rows that are off, because the rows after them are missing.
        off_forward: number of oldest rows that are off once the ring is full, because the rows
            before them are overwritten.
        default_value: priority of new rows.
        enable_input_priorities: True if ``advance`` accepts values of new rows.
        input_priority_shift: number of rows by which the rows of these values are older.
        memory: allocator shared with other parts; None: allocate now, in this process.
    """

    async_ = False
    _cursor: NDArray[np.int64]
    _default: NDArray[np.float64]
    _nodes: NDArray[np.float64]
    _input: Array

    def __init__(
        self,
        T: int,
        B: int,
        off_backward: int,
        off_forward: int,
        default_value: float = 1,
        enable_input_priorities: bool = False,
        input_priority_shift: int = 0,
        memory: Memory | None = None,
    ) -> None:
        check_range("default_value", default_value, 0.0, open_low=True)
        self.T, self.B = whole_number("T", T, 1), whole_number("B", B, 1)
        self.size = self.T * self.B
        self.off_backward, self.off_forward = off_backward, off_forward
        self._initial_default = default_value
        self.enable_input_priorities = enable_input_priorities
        self.input_priority_shift = whole_number("input_priority_shift", input_priority_shift, 0)
        if self.input_priority_shift >= self.T:
            raise ValueError(
                f"input_priority_shift must be below T={T}, got {input_priority_shift}."
            )
        self.rng = np.random.default_rng(np.random.randint(2**31))  # of ``sample``
        self.latest: Ticket | None = None
        owns_memory = memory is None
        memory = Memory(shared=self.async_) if memory is None else memory
        self._allocate_tree(memory)
        if owns_memory:
            memory.commit(size=T * B)

    def _allocate_tree(self, memory: Memory) -> None:
        memory.request(self, "_cursor", (3,), np.int64)  # written, low, high: [low, high) are on
        memory.request(self, "_default", (1,), np.float64, fill=self._initial_default)
        widths = [
            self.size
        ]  # of the levels, leaves first, rounded up to whole parents; then the top
        while len(widths) < 2 or widths[-1] > TOP:
            parents = -(-widths[-1] // FANOUT)
            widths[-1:] = parents * FANOUT, parents
        self._starts = np.cumsum([0, *widths])
        memory.request(self, "_nodes", (sum(widths),), np.float64)
        if self.enable_input_priorities:
            memory.request(self, "_input", (self.T, self.B), np.float64, fill=self._initial_default)

    def _derive(self) -> None:
        *self._levels, self._top = np.split(self._nodes, self._starts[1:-1])  # leaves first
        self._children = [level.reshape(-1, FANOUT) for level in self._levels]
        self._parents = [*self._levels[1:], self._top]
        self._torch_top = torch.from_numpy(self._top)
        self.leaves = self._levels[0][: self.size]

    @property
    def default_value(self) -> float:
        """Return the priority of new rows; setting it affects all processes with this tree."""
        return float(self._default[0])

    @default_value.setter
    def default_value(self, value: float) -> None:
        check_range("default_value", value, 0.0, open_low=True)
        self._default[0] = value

    @property
    def priorities(self) -> Array:
        """Return the values of all leaves [T, B]; those of rows that are off are zero."""
        return np.asarray(self.leaves.reshape(self.T, self.B))

    @property
    def input_priorities(self) -> Array:
        """Return the values [T, B] that rows have when they are switched on."""
        return self._input

    @property
    def t(self) -> int:
        """Return the index of the next row to write."""
        return int(self._cursor[0]) % self.T

    @property
    def total(self) -> float:
        """Return the sum of all leaves."""
        return float(self._top.sum())

    @property
    def bytes_per_leaf(self) -> float:
        """Return the bytes per leaf, including its share of the sums."""
        return (
            self._nodes.nbytes + (self._input.nbytes if self.enable_input_priorities else 0)
        ) / self.size

    def reset(self) -> None:
        """Reset the tree to an empty ring."""
        self._cursor[:] = 0
        self._nodes[:] = 0
        if self.enable_input_priorities:
            self._input[:] = self.default_value
        self.latest = None

    def advance(self, T: int, priorities: Arrays | None = None) -> None:
        """Account for ``T`` written rows: switch complete rows on, and overwritten ones off.

        Args:
            T: number of rows written.
            priorities: [T, B], [B] or a number: values of the rows written, or of the rows
                ``input_priority_shift`` before; None: the default value. They take effect when
                the rows are switched on.

        Raises:
            ValueError: T exceeds the ring's rows, or priorities are given without
                ``enable_input_priorities``.
        """
        written = int(self._cursor[0]) + T
        low = 0 if written < self.T else written - self.T + self.off_forward
        self.move(T, low, written - self.off_backward, priorities)

    def move(
        self,
        n: int,
        low: int,
        high: int,
        priorities: Arrays | None = None,
        void: Array | None = None,
    ) -> None:
        """Account for ``n`` written rows; afterwards absolute rows [low, high) are on.

        Leaves marked in ``void`` [T, B] stay zero.
        """
        if n > self.T:
            raise ValueError(f"n must be at most {self.T} for a ring of {self.T} rows, got {n}.")
        written, old_low, old_high = (int(x) for x in self._cursor)
        first = written  # first of the n rows to which the values belong
        if self.enable_input_priorities:
            oldest = written + n - self.T
            self._write_input(written, n, self.default_value, oldest)
            if priorities is not None:
                first -= self.input_priority_shift
                self._write_input(first, n, priorities, oldest)
        elif priorities is not None:
            raise ValueError(
                "the tree must be constructed with enable_input_priorities=True for priorities."
            )
        high = max(high, low)
        self._cursor[:] = written + n, low, high
        self._set_rows(old_low, min(low, old_high), on=False)
        self._set_rows(max(old_high, low), high, True, void)
        self._set_rows(max(first, low), min(first + n, old_high), True, void)  # already on

    def retreat(self, written: int, high: int) -> None:
        """Keep only the first ``written`` rows, and switch off rows from ``high``."""
        _, low, old_high = (int(x) for x in self._cursor)
        high = max(high, low)
        self._cursor[:] = written, low, high
        self._set_rows(high, old_high, on=False)

    def reset_priorities(self, void: Array | None = None) -> None:
        """Set every row that is on to the default value; rows in ``void`` [T, B] stay zero."""
        if self.enable_input_priorities:
            self._input[:] = self.default_value
        _, low, high = (int(x) for x in self._cursor)
        self._set_rows(low, high, True, void)

    def _write_input(self, start: int, n: int, values: Any, oldest: int) -> None:
        """Write the values of absolute rows [start, start + n) that are still stored."""
        first = max(0, oldest, start)
        rows = np.arange(first, start + n)
        if isinstance(values, np.ndarray) and values.ndim == 2:
            values = values[first - start :]
        self._input[rows % self.T] = values

    def _set_rows(self, start: int, stop: int, on: bool, void: Array | None = None) -> None:
        """Switch absolute rows on or off."""
        if stop <= start:
            return
        t = start % self.T
        first = min(stop - start, self.T - t)
        for low, high in ((t, t + first), (0, stop - start - first)):
            if high > low:
                begin, end = low * self.B, high * self.B
                value: Any = 0.0
                if on and self.enable_input_priorities:
                    value = self._input[low:high].reshape(-1)
                elif on:
                    value = self.default_value
                if on and void is not None:
                    value = np.where(void[low:high].reshape(-1), 0.0, value)
                self.leaves[begin:end] = value
                self._sum_range(begin, end)

    def _sum_range(self, begin: int, end: int) -> None:
        """Recompute the nodes above leaves [begin, end)."""
        for children, parents in zip(self._children, self._parents):
            begin, end = begin // FANOUT, -(-end // FANOUT)
            np.einsum("ij->i", children[begin:end], out=parents[begin:end])

    def _sum_above(self, leaves: Array) -> None:
        """Recompute the nodes above these leaves."""
        compiled = loops()
        if compiled is not None:
            compiled.sum_above(self._nodes, self._starts, np.asarray(leaves, np.int64))
            return
        nodes = leaves
        for children, parents in zip(self._children, self._parents):
            nodes = nodes // FANOUT
            parents[nodes] = np.einsum("ij->i", children.take(nodes, 0))

    def sample(self, n: int, unique: bool = False) -> tuple[tuple[Array, Array], Array]:
        """Draw ``n`` leaves; return ((T_idxs, B_idxs), priorities), each [n].

        Args:
            n: number of leaves.
            unique: True to draw without replacement.

        Raises:
            ReplayNotReady: too few leaves are above zero.
        """
        leaves = self.draw(n, unique, self.rng)
        self.ticket(leaves)
        return np.divmod(leaves, self.B), self.leaves.take(leaves)

    def draw(self, n: int, unique: bool, rng: np.random.Generator) -> Array:
        """Draw leaves [n] like ``sample``, with the given generator."""
        return self._draw_unique(n, rng) if unique else self.find(rng.random(n))

    def _draw_unique(self, n: int, rng: np.random.Generator) -> Array:
        """Draw without replacement: take the first occurrences in a sequence of draws."""
        drawn = np.empty(0, np.int64)
        for _ in range(4):
            drawn = np.concatenate([drawn, self.find(rng.random(2 * n))])
            _, first = np.unique(drawn, return_index=True)
            drawn = drawn[np.sort(first)]
            if len(drawn) >= n:
                return drawn[:n]
        # A few leaves dominate the sum. Draw from all other leaves by exponential arrival times
        # (Efraimidis & Spirakis 2006).
        others = np.setdiff1d(np.flatnonzero(self.leaves), drawn, assume_unique=True)
        available = len(drawn) + len(others)
        if available < n:
            raise ReplayNotReady(
                f"cannot draw {n} unique rows: only {available} leaves are above zero."
            )
        arrival = rng.exponential(size=len(others)) / self.leaves[others]
        return np.concatenate([drawn, others[np.argsort(arrival)[: n - len(drawn)]]])

    def find(self, random_values: Array) -> Array:
        """Return the nonzero leaves at fractions [n] in [0, 1) of the total.

        Raises:
            ReplayNotReady: all leaves are zero.
        """
        compiled, leaves = loops(), np.empty(len(random_values), np.int64)
        find = self._find if compiled is None else compiled.find
        if not find(self._nodes, self._starts, random_values, leaves) > 0:
            zero = "all rows that can be drawn have priority zero. Use priorities of 1e-6 or more."
            raise ReplayNotReady(zero)
        return leaves

    def _find(self, nodes: Array, starts: Array, random_values: Array, leaves: Array) -> float:
        """Do what ``Loops.find`` does, by array operations."""
        ends = torch.cumsum(self._torch_top, 0).numpy()  # cumulative sums of the top nodes
        total = float(ends[-1])
        if not total > 0:
            return total
        remainder = random_values * (total * BELOW_ONE)
        node = ends[:-1].searchsorted(remainder, "right")
        remainder -= _start(ends, node, node)
        rows = np.arange(0, len(remainder) * FANOUT, FANOUT)
        for children in reversed(self._children):
            shares = torch.cumsum(torch.from_numpy(children.take(node, 0)), 1)
            row_ends: Array = shares.numpy()
            # Stay below the last end, so that a child with a nonzero value is found.
            np.minimum(remainder, row_ends[:, -1] * BELOW_ONE, out=remainder)
            found = torch.searchsorted(shares, torch.from_numpy(remainder)[:, None], right=True)
            child = found.numpy()[:, 0]
            remainder -= _start(row_ends.reshape(-1), rows + child, child)
            node = node * FANOUT + child
        leaves[:] = node
        return total

    def ticket(self, leaves: Array) -> Ticket:
        """Return a ticket for a later update of these leaves, and remember it as the latest."""
        written, low, _ = self._cursor.tolist()
        self.latest = ticket = Ticket(leaves, written, low)
        return ticket

    def update_batch_priorities(
        self, priorities: Arrays | None, ticket: Ticket | None = None
    ) -> None:
        """Set the leaves that were drawn.

        Args:
            priorities: [n] or a number.
            ticket: ticket of the leaves; None: the latest one in this process. Leaves that have
                been overwritten or switched off since are skipped.

        Raises:
            RuntimeError: nothing has been drawn.
            ValueError: the number of priorities is not n.
        """
        ticket = ticket or self.latest
        if ticket is None:
            raise RuntimeError("nothing has been sampled, so there are no priorities to update.")
        leaves = ticket.leaves
        values = np.asarray(priorities, np.float64)
        if values.ndim and values.shape != leaves.shape:
            raise ValueError(
                f"priorities must be {leaves.shape}, one per sample, got {values.shape}."
            )
        written, low, high = self._cursor.tolist()
        if (ticket.written, ticket.low) != (written, low):
            rows = ticket.written - 1 - (ticket.written - 1 - leaves // self.B) % self.T
            still_on = (rows >= low) & (rows < high)
            leaves = leaves[still_on]
            values = values[still_on] if values.ndim else values
        self.reconstruct(leaves, values)

    def reconstruct(self, tree_idxs: Array, values: Any) -> None:
        """Set leaves [n] and update the sums above them."""
        self.leaves[tree_idxs] = values
        self._sum_above(tree_idxs)

    def propagate_diffs(self, tree_idxs: Array, diffs: Any, min_level: int = 1) -> None:
        """Add to leaves [n] and update the sums above them; ``min_level`` is not used."""
        np.add.at(self.leaves, tree_idxs, diffs)
        self._sum_above(np.asarray(tree_idxs))

    def reconstruct_advance(
        self, low_on_t: int, high_on_t: int, low_off_t: int, high_off_t: int
    ) -> None:
        """Switch rows [low_on_t, high_on_t) on, then rows [low_off_t, high_off_t) off."""
        self._set_rows(low_on_t, high_on_t, on=True)
        self._set_rows(low_off_t, high_off_t, on=False)

    def print_tree(self, level: int | None = None) -> None:
        """Print the sums of one level (0: the top), or of all levels."""
        levels = [self._top, *reversed(self._levels)]
        for number, values in enumerate(levels):
            if level in (None, number):
                print(number, values)

    def state(self) -> dict[str, Any]:
        """Return the whole tree as arrays."""
        state = {"place": self._cursor, "top": self._top, "levels": list(self._levels)}
        if self.enable_input_priorities:
            state["input"] = self.input_priorities
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Load a tree saved by ``state``."""
        self._cursor[:], self._top[:] = state["place"], state["top"]
        for level, saved in zip(self._levels, state["levels"], strict=True):
            level[:] = saved
        if self.enable_input_priorities:
            self.input_priorities[:] = state["input"]
        self.latest = None


class AsyncSumTree(SumTree):
    """Sum tree whose leaves, sums and cursor are in shared memory.

    The caller must hold a lock: a process that writes (``advance``, ``update_batch_priorities``)
    excludes all others; several may sample at the same time.
    """

    async_ = True


def _start(ends: Array, place: Array, number: Array) -> Array:
    """Return where intervals begin: at the end of the previous one, or at zero for the first."""
    return np.asarray(ends.take(place - 1) * (number > 0))


class Loops(NamedTuple):
    """Inner loops of the tree, compiled by numba; equivalent to the array operations.

    Both take ``nodes``, all levels in one array, leaves first, and ``starts``, where each level
    begins and the last one ends.

    Attributes:
        find: (nodes, starts, random_values, leaves): write the leaves at fractions [n] of the total
            into ``leaves`` [n], and return the total. If it is not above zero, write nothing.
        sum_above: (nodes, starts, leaves): recompute the sums above ``leaves`` [n].
    """

    find: Callable[[Any, Any, Any, Any], float]
    sum_above: Callable[[Any, Any, Any], None]


@functools.cache
def loops() -> Loops | None:
    """Return the compiled loops, or None without numba (``rlpyt[fast]``).

    Compiling takes seconds, once per machine.
    """
    try:
        from numba import njit
    except ImportError:
        return None
    compile_ = njit(cache=True, nogil=True)
    return Loops(compile_(_find_loop), compile_(_sum_above_loop))


def _find_loop(nodes: Any, starts: Any, random_values: Any, leaves: Any) -> float:
    top = len(starts) - 2
    ends = np.empty(starts[top + 1] - starts[top])
    total = 0.0
    for i in range(len(ends)):
        total += nodes[starts[top] + i]
        ends[i] = total
    if not total > 0:
        return total
    for i in range(len(random_values)):
        value = random_values[i] * (total * BELOW_ONE)
        node, high = 0, len(ends) - 1
        while node < high:  # the first node whose end is above the value
            middle = (node + high) // 2
            if ends[middle] > value:
                high = middle
            else:
                node = middle + 1
        if node > 0:
            value -= ends[node - 1]
        for level in range(top - 1, -1, -1):
            base = starts[level] + node * FANOUT
            child = FANOUT
            while child == FANOUT:
                # Without a branch per child, the processor works on several draws at once.
                child, start, end = 0, 0.0, 0.0
                for k in range(FANOUT):
                    end += nodes[base + k]
                    beyond = value >= end
                    child += beyond
                    start = end if beyond else start
                if child == FANOUT:  # a rounding error beyond the last end
                    if not start > 0:
                        child = 0
                    value = start * BELOW_ONE
            value -= start
            node = node * FANOUT + child
        leaves[i] = node
    return total


def _sum_above_loop(nodes: Any, starts: Any, leaves: Any) -> None:
    width = 1
    for level in range(len(starts) - 2):
        width *= FANOUT
        for i in range(len(leaves)):
            parent = leaves[i] // width
            first = starts[level] + parent * FANOUT
            total = 0.0
            for k in range(first, first + FANOUT):
                total += nodes[k]
            nodes[starts[level + 1] + parent] = total
