"""Sum tree over [T, B] leaves, to sample in proportion to priorities that change.

Every inner node holds the sum of its ``FANOUT`` children, up to a top level of at most ``TOP``
nodes. Few, wide levels suit array code: a batch of draws descends a level with a handful of
operations on short contiguous rows. Sums are always recomputed from the children, so that rounding
errors do not accumulate.

The library of each operation was chosen by measurement: torch sums along short rows and searches
them several times as fast as numpy, and numpy is faster in all else. Loops compiled by numba, where
it is installed, are several times as fast as either.
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
TOP = 4096  # largest number of nodes of the highest level, which is searched by bisection
UNDER_ONE = 1 - 2.0**-53


class Ticket(NamedTuple):
    """Leaves [n] that were drawn, the rows written by then, and the oldest row that was on."""

    leaves: Array
    written: int
    low: int  # moves without written where only some rows have leaves


class SumTree(Part):
    """Priorities of rows [T, B] in a ring, of which some are on (can be drawn).

    Args:
        T, B: rows and environments.
        off_backward: number of newest rows that are off, because the rows after them are missing.
        off_forward: number of oldest rows that are off once the ring is full, because the rows
            before them are overwritten.
        default_value: priority of new rows.
        enable_input_priorities: ``advance`` may be given values for new rows.
        input_priority_shift: number of rows by which the rows of these values are older.
        memory: allocates the arrays with other parts; None: allocate them now, in this process.
    """

    async_ = False
    _place: NDArray[np.int64]
    _default: NDArray[np.float64]
    _top: Array
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
            raise ValueError(f"{input_priority_shift=} must be below T={T}.")
        self.rng = np.random.default_rng(np.random.randint(2**31))  # of ``sample``
        self._latest: Ticket | None = None
        mine = memory is None
        memory = Memory(shared=self.async_) if memory is None else memory
        self._allocate_tree(memory)
        if mine:
            memory.commit(size=T * B)

    def _allocate_tree(self, memory: Memory) -> None:
        memory.request(self, "_place", (3,), np.int64)  # rows written, rows [low, high) are on
        memory.request(self, "_default", (1,), np.float64, fill=self._initial_default)
        width, self._n_levels = self.size, 1
        while True:
            width = -(-width // FANOUT)
            memory.request(self, f"_level_{self._n_levels - 1}", (width * FANOUT,), np.float64)
            if width <= TOP:
                break
            self._n_levels += 1
        memory.request(self, "_top", (width,), np.float64)
        if self.enable_input_priorities:
            memory.request(self, "_input", (self.T, self.B), np.float64, fill=self._initial_default)

    def _derive(self) -> None:
        self._levels = [getattr(self, f"_level_{i}") for i in range(self._n_levels)]  # leaves first
        self._children = [level.reshape(-1, FANOUT) for level in self._levels]
        self._parents = [*self._levels[1:], self._top]
        self._torch_top = torch.from_numpy(self._top)
        self.leaves = self._levels[0][: self.size]

    @property
    def default_value(self) -> float:
        """Return the priority of new rows; it can be set, for all processes that share the tree."""
        return float(self._default[0])

    @default_value.setter
    def default_value(self, value: float) -> None:
        check_range("default_value", value, 0.0, open_low=True)
        self._default[0] = value

    @property
    def priorities(self) -> Array:
        """Return the values of all leaves [T, B]; zero where they are off."""
        return np.asarray(self.leaves.reshape(self.T, self.B))

    @property
    def input_priorities(self) -> Array:
        """Return the values [T, B] that rows have when they are switched on."""
        return self._input

    @property
    def t(self) -> int:
        """Return where the next row is written."""
        return int(self._place[0]) % self.T

    @property
    def total(self) -> float:
        """Return the sum of all leaves."""
        return float(self._top.sum())

    @property
    def bytes_per_leaf(self) -> float:
        """Return the bytes per leaf, including its share of the sums."""
        own = float(sum(level.nbytes for level in (*self._levels, self._top)))
        return (own + (self._input.nbytes if self.enable_input_priorities else 0)) / self.size

    def reset(self) -> None:
        """Reset the tree to that of an empty ring."""
        self._place[:] = 0
        for level in (*self._levels, self._top):
            level[:] = 0
        if self.enable_input_priorities:
            self._input[:] = self.default_value
        self._latest = None

    def advance(self, T: int, priorities: Arrays | None = None) -> None:
        """Account for ``T`` rows written: switch complete rows on, and overwritten ones off.

        Args:
            T: rows written.
            priorities: [T, B], [B] or a number: values of the rows written, or of those
                ``input_priority_shift`` rows before; None: the default value. They take effect
                when the rows are switched on.

        Raises:
            ValueError: T exceeds the ring's rows; priorities came without
                ``enable_input_priorities``.
        """
        written = int(self._place[0]) + T
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
        """Account for ``n`` rows written, after which absolute rows [low, high) are on.

        Leaves where ``void`` [T, B] stay zero.
        """
        if n > self.T:
            raise ValueError(f"at most {self.T} rows fit into a ring of {self.T}, got {n}.")
        written, old_low, old_high = (int(x) for x in self._place)
        given = written  # first of the n rows that the values belong to
        if self.enable_input_priorities:
            oldest = written + n - self.T
            self._write_input(written, n, self.default_value, oldest)
            if priorities is not None:
                given -= self.input_priority_shift
                self._write_input(given, n, priorities, oldest)
        elif priorities is not None:
            raise ValueError(
                "priorities need a tree constructed with enable_input_priorities=True."
            )
        high = max(high, low)
        self._place[:] = written + n, low, high
        self._set_rows(old_low, min(low, old_high), on=False)
        self._set_rows(max(old_high, low), high, True, void)
        self._set_rows(max(given, low), min(given + n, old_high), True, void)  # rows on before

    def retreat(self, written: int, high: int) -> None:
        """Drop all rows but the first ``written``, and switch those from row ``high`` on off."""
        _, low, old_high = (int(x) for x in self._place)
        high = max(high, low)
        self._place[:] = written, low, high
        self._set_rows(high, old_high, on=False)

    def level(self, void: Array | None = None) -> None:
        """Set every row that is on to the default value; those where ``void`` [T, B] stay zero."""
        if self.enable_input_priorities:
            self._input[:] = self.default_value
        _, low, high = (int(x) for x in self._place)
        self._set_rows(low, high, True, void)

    def _write_input(self, start: int, n: int, values: Any, oldest: int) -> None:
        """Write values of those absolute rows [start, start + n) that are still stored."""
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
            nodes = np.array(leaves, np.int64)
            for level, parents in zip(self._levels, self._parents):
                compiled.sum_above(level, nodes, parents)
            return
        nodes = leaves
        for children, parents in zip(self._children, self._parents):
            nodes = nodes // FANOUT
            parents[nodes] = np.einsum("ij->i", children.take(nodes, 0))

    def sample(self, n: int, unique: bool = False) -> tuple[tuple[Array, Array], Array]:
        """Draw ``n`` leaves; return ((T_idxs, B_idxs), priorities), each [n].

        Args:
            n: number of leaves.
            unique: draw without replacement, each leaf in proportion among those left.

        Raises:
            ReplayNotReady: fewer leaves than that are above zero.
        """
        leaves = self.draw(n, unique, self.rng)
        self.ticket(leaves)
        return np.divmod(leaves, self.B), self.leaves.take(leaves)

    def draw(self, n: int, unique: bool, rng: np.random.Generator) -> Array:
        """Draw leaves [n] as ``sample`` does, from a given random stream."""
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
        # Few leaves hold most of the sum. Continue the sequence among the others by exponential
        # arrival times, which needs all leaves (Efraimidis & Spirakis 2006).
        others = np.setdiff1d(np.flatnonzero(self.leaves), drawn, assume_unique=True)
        if len(drawn) + len(others) < n:
            raise ReplayNotReady(
                f"{len(drawn) + len(others)} leaves are above zero, fewer than the {n} to be drawn."
            )
        arrival = rng.exponential(size=len(others)) / self.leaves[others]
        return np.concatenate([drawn, others[np.argsort(arrival)[: n - len(drawn)]]])

    def find(self, random_values: Array) -> Array:
        """Return the leaves at fractions [n] in [0, 1) of the total; never one that is zero.

        Raises:
            ReplayNotReady: all are zero.
        """
        ends = torch.cumsum(self._torch_top, 0).numpy()  # of the nodes' shares of the total
        if not ends[-1] > 0:
            zero = "all rows that can be drawn have priority zero. Use priorities of 1e-6 or more."
            raise ReplayNotReady(zero)
        rest = random_values * (ends[-1] * UNDER_ONE)
        node = ends.searchsorted(rest, "right")
        rest -= _start(ends, node, node)
        compiled = loops()
        if compiled is None:
            return self._descend(node, rest)
        for level in reversed(self._levels):
            compiled.descend(level, node, rest)
        return np.asarray(node)

    def _descend(self, node: Array, rest: Array) -> Array:
        """Return leaves below nodes [n] of the top level, by array operations."""
        rows = np.arange(0, len(rest) * FANOUT, FANOUT)
        for children in reversed(self._children):
            shares = torch.cumsum(torch.from_numpy(children.take(node, 0)), 1)
            row_ends: Array = shares.numpy()
            # Below the last end, so that the child found ends above where it starts.
            np.minimum(rest, row_ends[:, -1] * UNDER_ONE, out=rest)
            found = torch.searchsorted(shares, torch.from_numpy(rest)[:, None], right=True)
            child = found.numpy()[:, 0]
            rest -= _start(row_ends.reshape(-1), rows + child, child)
            node = node * FANOUT + child
        return np.asarray(node)

    def ticket(self, leaves: Array) -> Ticket:
        """Return a ticket for a later update of these leaves, which is the latest one from now."""
        self._latest = Ticket(leaves, int(self._place[0]), int(self._place[1]))
        return self._latest

    def update_batch_priorities(
        self, priorities: Arrays | None, ticket: Ticket | None = None
    ) -> None:
        """Set the leaves that were drawn.

        Args:
            priorities: [n] or a number.
            ticket: of the leaves; None: the latest one in this process. Leaves that have been
                overwritten or switched off since are skipped.

        Raises:
            RuntimeError: nothing has been drawn.
            ValueError: the number of priorities is not n.
        """
        ticket = ticket or self._latest
        if ticket is None:
            raise RuntimeError("nothing has been sampled, so there are no priorities to update.")
        leaves = ticket.leaves
        values = np.asarray(priorities, np.float64)
        if values.ndim and values.shape != leaves.shape:
            raise ValueError(
                f"priorities must be {leaves.shape}, one per sample, got {values.shape}."
            )
        written, low, high = self._place
        if (ticket.written, ticket.low) != (written, low):
            rows = ticket.written - 1 - (ticket.written - 1 - leaves // self.B) % self.T
            held = (rows >= low) & (rows < high)
            leaves = leaves[held]
            values = values[held] if values.ndim else values
        self.reconstruct(leaves, values)

    def reconstruct(self, tree_idxs: Array, values: Any) -> None:
        """Set leaves [n], and the sums above them."""
        self.leaves[tree_idxs] = values
        self._sum_above(tree_idxs)

    def propagate_diffs(self, tree_idxs: Array, diffs: Any, min_level: int = 1) -> None:
        """Add to leaves [n], and to the sums above them; ``min_level`` is not needed here."""
        np.add.at(self.leaves, tree_idxs, diffs)
        self._sum_above(np.asarray(tree_idxs))

    def reconstruct_advance(
        self, low_on_t: int, high_on_t: int, low_off_t: int, high_off_t: int
    ) -> None:
        """Switch rows [low_on_t, high_on_t) on and then rows [low_off_t, high_off_t) off."""
        self._set_rows(low_on_t, high_on_t, on=True)
        self._set_rows(low_off_t, high_off_t, on=False)

    def print_tree(self, level: int | None = None) -> None:
        """Print the sums of one level (0 the highest), or of all."""
        levels = [self._top, *reversed(self._levels)]
        for number, values in enumerate(levels):
            if level in (None, number):
                print(number, values)

    def state(self) -> dict[str, Any]:
        """Return the whole tree as arrays."""
        state = {"place": self._place, "top": self._top, "levels": list(self._levels)}
        if self.enable_input_priorities:
            state["input"] = self.input_priorities
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Load a tree saved by ``state``."""
        self._place[:], self._top[:] = state["place"], state["top"]
        for level, saved in zip(self._levels, state["levels"], strict=True):
            level[:] = saved
        if self.enable_input_priorities:
            self.input_priorities[:] = state["input"]
        self._latest = None


class AsyncSumTree(SumTree):
    """Sum tree in shared memory: all processes see its leaves, sums and cursor.

    A process that writes (``advance``, ``update_batch_priorities``) must be alone, and none may
    write while another samples; the lock is the replay's.
    """

    async_ = True


def _start(ends: Array, place: Array, number: Array) -> Array:
    """Return where shares begin: at the end of the one before, or at zero for the first."""
    return np.asarray(ends.take(place - 1) * (number > 0))


class Loops(NamedTuple):
    """Inner loops of the tree, compiled by numba; they compute what the array operations do.

    Attributes:
        descend: (level, node, rest): replace nodes [n] by those of their children, on the level
            below, under which ``rest`` [n] falls, and ``rest`` by what is left of it there.
        sum_above: (level, node, parents): replace nodes [n] of a level by their parents, and
            recompute the sums of these.
    """

    descend: Callable[[Any, Any, Any], None]
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
    return Loops(compile_(_descend_loop), compile_(_sum_above_loop))


def _descend_loop(level: Any, node: Any, rest: Any) -> None:
    for i in range(len(node)):
        base, sought = node[i] * FANOUT, rest[i]
        start, child = 0.0, -1
        while child < 0:
            start = 0.0
            for k in range(FANOUT):
                end = start + level[base + k]
                if sought < end:
                    child = k
                    break
                start = end
            if child < 0:  # a rounding beyond the last end
                if not start > 0:
                    child = 0
                sought = start * UNDER_ONE
        node[i] = base + child
        rest[i] = sought - start


def _sum_above_loop(level: Any, node: Any, parents: Any) -> None:
    for i in range(len(node)):
        parent = node[i] // FANOUT
        total = 0.0
        for k in range(parent * FANOUT, (parent + 1) * FANOUT):
            total += level[k]
        parents[parent] = total
        node[i] = parent
