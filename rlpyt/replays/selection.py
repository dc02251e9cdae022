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

REDRAWS = 32  # of void rows, before all others are listed


@dataclass(frozen=True)
class PrioritySettings:
    """Settings of prioritized replay (Schaul et al. 2016, section 3.3)."""

    alpha: float = 0.6  # how much priorities matter; 0 is uniform
    beta: float = 0.4  # how much importance weights correct; 1 is fully
    default_priority: float = 1.0  # of new samples; usually the largest that the loss returns
    unique: bool = False  # draw no row twice in a batch
    input_priorities: bool = False  # new samples come with priorities
    input_priority_shift: int = 0  # ... of rows that are so much older

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0.0)
        check_range("beta", self.beta, 0.0, 1.0)
        check_range("default_priority", self.default_priority, 0.0, open_low=True)


class UniformSelection:
    """Uniform selection of valid rows, with replacement; void rows are never drawn.

    Args:
        ring: cursor of the replay.
        every: draw multiples of it only (the rows with a recurrent state).
        settings: not used.
        memory: not used.
    """

    bytes_per_row = 0.0

    def __init__(self, ring: Ring, every: int, settings: Any, memory: Memory) -> None:
        self.ring, self.every = ring, every

    def prepare(self, n: int, priorities: Arrays | None) -> None:
        """Check the priorities that came with ``n`` rows of new samples.

        Raises:
            TypeError: there are any.
        """
        if priorities is not None:
            raise TypeError("a uniform replay takes no priorities. Use a prioritized one.")

    def advance(
        self, valid: Callable[[], tuple[int, int]], n: int, priorities: Arrays | None
    ) -> None:
        """Account for ``n`` rows written; rows ``valid()`` can be drawn now."""

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """Account for the newest rows dropped; rows ``valid()`` can be drawn now."""

    def draw(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``n`` rows.

        Returns:
            [n] integers, t * B + b; they wrap beyond the end of the ring.

        Raises:
            ReplayNotReady: there is no valid row.
        """
        every, ring = self.every, self.ring
        low, high = multiples(valid, every)
        if high <= low:
            raise not_ready(ring)
        B, first = ring.B, low * every % ring.T
        size = (high - low) * B
        chosen = (rng.random(n) * size).astype(np.int64)  # takes a third of rng.integers' time
        idxs = _spread(chosen, B, every)
        idxs += first * B
        if not ring.has_void:
            return idxs
        void = ring.void.reshape(-1)
        for _ in range(REDRAWS):
            again = void[idxs % void.size].nonzero()[0]
            if not len(again):
                return idxs
            chosen = (rng.random(len(again)) * size).astype(np.int64)
            idxs[again] = _spread(chosen, B, every) + first * B
        left = np.flatnonzero(~ring.void[np.arange(low, high) * every % ring.T])
        if not len(left):
            raise not_ready(ring)
        chosen = left[(rng.random(n) * len(left)).astype(np.int64)]
        return _spread(chosen, B, every) + first * B

    def weigh(self, batch: NamedArrayTuple, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the batch of these rows unchanged: uniform draws need no weights."""
        return batch

    def update(self, priorities: Arrays | None, ticket: Any) -> None:
        """Refuse priorities.

        Raises:
            TypeError: always.
        """
        raise TypeError("a uniform replay has no priorities to update. Use a prioritized one.")

    def state(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Load nothing."""


class PrioritizedSelection:
    """Selection in proportion to priority ** alpha, with importance weights of exponent beta.

    Arguments are those of ``UniformSelection``, with settings. The sum tree has one row of leaves
    for every ``every``-th row.
    """

    def __init__(self, ring: Ring, every: int, settings: PrioritySettings, memory: Memory) -> None:
        self.ring, self.every, self.settings = ring, every, settings
        self.beta = settings.beta
        self.tree = SumTree(
            T=ring.T // every,
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
        return self.tree.bytes_per_leaf / self.every

    @property
    def void(self) -> Array | None:
        """Return the leaves [T / every, B] whose priority stays zero; None if there are none."""
        return self.ring.void[:: self.every] if self.ring.has_void else None

    def prepare(self, n: int, priorities: Arrays | None) -> Array | None:
        """Return leaves for the priorities that came with ``n`` rows of new samples, or None.

        Of priorities [n, B], those of the rows that can be drawn are taken.

        Raises:
            TypeError: the replay was constructed without ``input_priorities``.
            ValueError: priorities are not finite, negative, or of another shape than [n, B], [B].
        """
        if priorities is None:
            return None
        if not self.settings.input_priorities:
            raise TypeError(
                "samples came with priorities. Construct the replay with input_priorities=True."
            )
        leaves, B = self._leaves(priorities), self.ring.B
        if leaves.shape not in ((), (B,), (n, B)):
            raise ValueError(
                f"priorities of new samples must be [T, B] = [{n}, {B}] or [B] = [{B}], got "
                f"{list(leaves.shape)}."
            )
        return leaves[-self.ring.written % self.every :: self.every] if leaves.ndim > 1 else leaves

    def advance(
        self, valid: Callable[[], tuple[int, int]], n: int, priorities: Arrays | None
    ) -> None:
        """Account for ``n`` rows written; rows ``valid()`` can be drawn now."""
        every, written = self.every, self.ring.written
        rows = -(-written // every) - -(-(written - n) // every)
        self.tree.move(rows, *multiples(valid(), every), priorities, self.void)

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """Account for the newest rows dropped; rows ``valid()`` can be drawn now."""
        _, high = multiples(valid(), self.every)
        self.tree.retreat(-(-self.ring.written // self.every), high)

    def draw(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``n`` rows, [n] integers t * B + b.

        Raises:
            ReplayNotReady: there is no row to draw, or too few for a batch without repetition.
        """
        low, high = multiples(valid, self.every)
        if high <= low:
            raise not_ready(self.ring)
        leaves = self.tree.draw(n, self.settings.unique, rng)
        return _spread(leaves, self.tree.B, self.every)

    def weigh(self, batch: NamedArrayTuple, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the batch of these rows with importance weights and a ticket.

        w_i = (p_i / min_j p_j)^-beta
        """
        leaves = (T_idxs if self.every == 1 else T_idxs // self.every) * self.tree.B
        leaves += B_idxs
        priorities = self.tree.leaves.take(leaves, mode="wrap")
        weights = (priorities / priorities.min()) ** -self.beta
        weights = torch.from_numpy(weights.astype(np.float32))
        return with_is_weights(batch, weights, self.tree.ticket(leaves))

    def update(self, priorities: Arrays | None, ticket: Any) -> None:
        """Set the priorities [B] of the rows of a ticket (None: the latest), where still stored."""
        self.tree.update_batch_priorities(self._leaves(priorities), ticket)

    def _leaves(self, priorities: Arrays | None) -> Array:
        """Return priorities to the alpha, checked."""
        array = np.asarray(priorities, np.float64)
        if array.size and not (array.min() >= 0 and array.max() < np.inf):  # false for NaN too
            wrong = array[~((array >= 0) & (array < np.inf))]
            raise ValueError(
                f"priorities must be finite and not negative; {wrong.size} of {array.size} are "
                f"not, the first is {wrong[0]}."
            )
        return np.asarray(array**self.settings.alpha)

    def state(self) -> dict[str, Any]:
        """Return priorities and beta."""
        return {"tree": self.tree.state(), "beta": self.beta}

    def load(self, state: dict[str, Any]) -> None:
        """Load priorities and beta saved by ``state``."""
        self.tree.load(state["tree"])
        self.beta = state["beta"]


def multiples(rows: tuple[int, int], every: int) -> tuple[int, int]:
    """Return the multiples of ``every`` in rows [low, high), as a range of quotients."""
    return -(-rows[0] // every), -(-rows[1] // every)


def _spread(idxs: Array, B: int, every: int) -> Array:
    """Turn indices j * B + b of every ``every``-th row into indices t * B + b of all rows."""
    return idxs if every == 1 else idxs + (every - 1) * B * (idxs // B)


def not_ready(ring: Ring) -> ReplayNotReady:
    """Return the error for a replay from which nothing can be drawn."""
    return ReplayNotReady(
        f"{ring.written} rows of {ring.B} environments have been written, of which {ring.T} can be "
        "stored, and none has all rows before and after it that a sample needs. Sample later "
        "(min_steps_learn), or sample shorter sequences."
    )
