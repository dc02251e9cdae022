"""Selection of the rows to replay, and their importance-sampling weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.batch import with_is_weights
from rlpyt.replays.memory import Memory
from rlpyt.replays.ring import Ring
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.buffer import Arrays
from rlpyt.utils.checks import check_range
from rlpyt.utils.collections import NamedArrayTuple

Array = NDArray[Any]

REDRAWS = 32  # attempts to redraw void rows before listing all valid ones


@dataclass(frozen=True)
class PrioritySettings:
    """Settings of prioritized replay (Schaul et al. 2016, section 3.3)."""

    alpha: float = 0.6  # exponent of priorities; 0: uniform sampling
    beta: float = 0.4  # exponent of importance weights; 1: full correction
    default_priority: float = 1.0  # priority of new samples; usually the largest possible
    unique: bool = False  # draw no row twice in a batch
    input_priorities: bool = False  # new samples come with priorities
    input_priority_shift: int = 0  # number of rows by which the rows of these are older

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0.0)
        check_range("beta", self.beta, 0.0, 1.0)
        check_range("default_priority", self.default_priority, 0.0, open_low=True)


class UniformSelection:
    """Uniform selection of valid rows, with replacement; void rows are never drawn.

    Args:
        ring: cursor of the replay.
        row_stride: draw only rows that are multiples of it (those with a recurrent state).
        settings: not used.
        memory: not used.
    """

    bytes_per_row = 0.0

    def __init__(self, ring: Ring, row_stride: int, settings: Any, memory: Memory) -> None:
        self.ring, self.row_stride = ring, row_stride

    def prepare(self, n: int, priorities: Arrays | None) -> None:
        """Check that ``n`` rows of new samples have no priorities.

        Raises:
            TypeError: priorities are given.
        """
        if priorities is not None:
            raise TypeError(
                "samples of a uniform replay must not have priorities. Use a prioritized replay."
            )

    def advance(
        self, valid: Callable[[], tuple[int, int]], n: int, priorities: Arrays | None
    ) -> None:
        """Account for ``n`` written rows; rows ``valid()`` can now be drawn."""

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """Account for dropped newest rows; rows ``valid()`` can now be drawn."""

    def drop(self, rows: Array, b: int) -> None:
        """Never draw these absolute rows of environment b again; the ring marks them as void."""

    def draw(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``n`` rows.

        Returns:
            [n] integers t * B + b, which may exceed the size and are then wrapped.

        Raises:
            ReplayNotReady: there is no valid row.
        """
        row_stride, ring = self.row_stride, self.ring
        low, high = multiples(valid, row_stride)
        if high <= low:
            raise not_ready_error(ring)
        B, first = ring.B, low * row_stride % ring.T
        size = (high - low) * B
        chosen = (rng.random(n) * size).astype(np.int64)  # three times as fast as rng.integers
        idxs = _to_row_idxs(chosen, B, row_stride)
        idxs += first * B
        if not ring.has_void:
            return idxs
        void = ring.void.reshape(-1)
        for _ in range(REDRAWS):
            again = void[idxs % void.size].nonzero()[0]
            if not len(again):
                return idxs
            chosen = (rng.random(len(again)) * size).astype(np.int64)
            idxs[again] = _to_row_idxs(chosen, B, row_stride) + first * B
        left = np.flatnonzero(~ring.void[np.arange(low, high) * row_stride % ring.T])
        if not len(left):
            raise not_ready_error(ring)
        chosen = left[(rng.random(n) * len(left)).astype(np.int64)]
        return _to_row_idxs(chosen, B, row_stride) + first * B

    def weigh(self, batch: NamedArrayTuple, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the batch unchanged: uniform draws need no weights."""
        return batch

    def weigh_rows(self, batch: NamedArrayTuple, idxs: Array) -> Any:
        """Return what ``weigh`` returns, for rows t * B + b."""
        return batch

    def update(self, priorities: Arrays | None, ticket: Any) -> None:
        """Raise an error, because rows have no priorities.

        Raises:
            TypeError: always.
        """
        raise TypeError("a uniform replay has no priorities to update. Use a prioritized replay.")

    def state(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Load nothing."""


class PrioritizedSelection:
    """Selection in proportion to priority ** alpha, with importance weights of exponent beta.

    The sum tree has one row of leaves for every ``row_stride``-th row. Arguments are those of
    ``UniformSelection``; ``settings`` and ``memory`` are used.
    """

    def __init__(
        self, ring: Ring, row_stride: int, settings: PrioritySettings, memory: Memory
    ) -> None:
        self.ring, self.row_stride, self.settings = ring, row_stride, settings
        self.beta = settings.beta
        self.tree = SumTree(
            T=ring.T // row_stride,
            B=ring.B,
            off_backward=0,
            off_forward=0,
            default_value=settings.default_priority**settings.alpha,
            enable_input_priorities=settings.input_priorities,
            input_priority_shift=settings.input_priority_shift,
            memory=memory,
        )

    @property
    def bytes_per_row(self) -> float:
        """Return the bytes of priorities per transition."""
        return self.tree.bytes_per_leaf / self.row_stride

    @property
    def void(self) -> Array | None:
        """Return the mask [T / row_stride, B] of leaves that stay zero, or None."""
        return self.ring.void[:: self.row_stride] if self.ring.has_void else None

    def prepare(self, n: int, priorities: Arrays | None) -> Array | None:
        """Convert priorities of ``n`` rows of new samples to values of leaves; None stays None.

        Of priorities [n, B], use only the rows that can be drawn.

        Raises:
            TypeError: the replay was constructed without ``input_priorities``.
            ValueError: priorities are negative or not finite, or their shape is not [n, B] or [B].
        """
        if priorities is None:
            return None
        if not self.settings.input_priorities:
            raise TypeError(
                "samples have priorities. Construct the replay with input_priorities=True."
            )
        leaves, B = self._leaves(priorities), self.ring.B
        if leaves.shape not in ((), (B,), (n, B)):
            raise ValueError(
                f"priorities of new samples must be [T, B] = [{n}, {B}] or [B] = [{B}], got "
                f"{list(leaves.shape)}."
            )
        return (
            leaves[-self.ring.written % self.row_stride :: self.row_stride]
            if leaves.ndim > 1
            else leaves
        )

    def advance(
        self, valid: Callable[[], tuple[int, int]], n: int, priorities: Arrays | None
    ) -> None:
        """Account for ``n`` written rows; rows ``valid()`` can now be drawn."""
        row_stride, written = self.row_stride, self.ring.written
        rows = -(-written // row_stride) - -(-(written - n) // row_stride)
        self.tree.move(rows, *multiples(valid(), row_stride), priorities, self.void)

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """Account for dropped newest rows; rows ``valid()`` can now be drawn."""
        _, high = multiples(valid(), self.row_stride)
        self.tree.retreat(-(-self.ring.written // self.row_stride), high)

    def drop(self, rows: Array, b: int) -> None:
        """Never draw these absolute rows of environment b again."""
        starts = rows[rows % self.row_stride == 0] // self.row_stride
        self.tree.reconstruct(starts % self.tree.T * self.tree.B + b, 0.0)

    def draw(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``n`` rows, [n] integers t * B + b.

        Raises:
            ReplayNotReady: there is no row to draw, or too few for a batch of unique rows.
        """
        low, high = multiples(valid, self.row_stride)
        if high <= low:
            raise not_ready_error(self.ring)
        leaves = self.tree.draw(n, self.settings.unique, rng)
        return _to_row_idxs(leaves, self.tree.B, self.row_stride)

    def weigh(self, batch: NamedArrayTuple, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the batch of these rows with importance weights and a ticket.

        w_i = (p_i / min_j p_j)^-beta
        """
        return self.weigh_rows(batch, T_idxs * self.ring.B + B_idxs)

    def weigh_rows(self, batch: NamedArrayTuple, idxs: Array) -> Any:
        """Return what ``weigh`` returns, for rows t * B + b."""
        leaves = _to_leaves(idxs, self.ring.B, self.row_stride)
        priorities = self.tree.leaves.take(leaves, mode="wrap")
        weights = (priorities / priorities.min()) ** -self.beta
        weights = torch.from_numpy(weights.astype(np.float32))
        return with_is_weights(batch, weights, self.tree.ticket(leaves))

    def update(self, priorities: Arrays | None, ticket: Any) -> None:
        """Set the priorities [B] of a ticket's rows (None: the latest) that are still stored."""
        self.tree.update_batch_priorities(self._leaves(priorities), ticket)
        ticket = ticket or self.tree.latest
        if ticket is not None and self.ring.has_void:  # void since they were drawn
            drawn = ticket.leaves
            void = self.ring.void[:: self.row_stride].reshape(-1)[drawn]
            self.tree.reconstruct(drawn[void], 0.0)

    def _leaves(self, priorities: Arrays | None) -> Array:
        """Check priorities and return them to the power of alpha."""
        array = np.asarray(priorities, np.float64)
        if array.size and not (array.min() >= 0 and array.max() < np.inf):  # false for NaN too
            wrong = array[~((array >= 0) & (array < np.inf))]
            raise ValueError(
                f"priorities must be finite and not negative, got {wrong.size} of {array.size} "
                f"invalid; the first is {wrong[0]}."
            )
        return np.asarray(array**self.settings.alpha)

    def state(self) -> dict[str, Any]:
        """Return priorities and beta."""
        return {"tree": self.tree.state(), "beta": self.beta}

    def load(self, state: dict[str, Any]) -> None:
        """Load priorities and beta saved by ``state``."""
        self.tree.load(state["tree"])
        self.beta = state["beta"]


def multiples(rows: tuple[int, int], row_stride: int) -> tuple[int, int]:
    """Return the range of quotients of the multiples of ``row_stride`` in rows [low, high)."""
    return -(-rows[0] // row_stride), -(-rows[1] // row_stride)


def _to_row_idxs(idxs: Array, B: int, row_stride: int) -> Array:
    """Convert indices j * B + b of rows t = j * row_stride to indices t * B + b."""
    return idxs if row_stride == 1 else idxs + (row_stride - 1) * B * (idxs // B)


def _to_leaves(idxs: Array, B: int, row_stride: int) -> Array:
    """Do the reverse of ``_to_row_idxs``."""
    return idxs if row_stride == 1 else idxs - (row_stride - 1) * B * (idxs // (B * row_stride))


def not_ready_error(ring: Ring) -> ReplayNotReady:
    """Return the error for a replay without valid rows."""
    return ReplayNotReady(
        f"no row can be sampled yet: {ring.written} rows of {ring.B} environments have been "
        f"written to {ring.T} rows, and none has all rows before and after it that a sample needs. "
        "Sample later (min_steps_learn), or sample shorter sequences."
    )
