"""Which rows to replay, and with what weight."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.memory import Memory
from rlpyt.replays.ring import Ring
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.checks import check_range

Array = NDArray[Any]

REDRAWS = 32  # before rows are drawn from a list of the valid ones


@dataclass(frozen=True)
class PrioritySettings:
    """Prioritised replay (Schaul et al. 2016, section 3.3)."""

    alpha: float = 0.6  # how much priorities matter; 0 is uniform
    beta: float = 0.4  # how much importance weights correct; 1 is fully
    default_priority: float = 1.0  # of new samples; the greatest that the loss gives, usually
    unique: bool = False  # a batch holds no row twice
    input_priorities: bool = False  # new samples bring priorities
    input_priority_shift: int = 0  # ... which are those of rows so much older

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0.0)
        check_range("beta", self.beta, 0.0, 1.0)
        check_range("default_priority", self.default_priority, 0.0, open_low=True)


class Pick(NamedTuple):
    """Chosen rows; with priorities, what names them, and their weights.

    ``idxs`` [N] are t * B + b, and wrap: beyond the ring's end it begins anew.
    """

    idxs: Array
    ticket: Any = None
    is_weights: Array | None = None


class UniformSelection:
    """Every valid row is as likely as any other; void ones are never chosen.

    Args:
        ring: the rows.
        every: begin at each such row only (where recurrent states are stored).
        settings: none are needed.
        memory: none is needed.
    """

    bytes_per_row = 0.0

    def __init__(self, ring: Ring, every: int, settings: Any, memory: Memory) -> None:
        self.ring, self.every = ring, every

    def prepare(self, n: int, priorities: Any) -> None:
        """Check the priorities that came with ``n`` rows of new samples.

        Raises:
            TypeError: there are any.
        """
        if priorities is not None:
            raise TypeError("a uniform replay takes no priorities; use a prioritised one.")

    def advance(self, valid: Callable[[], tuple[int, int]], n: int, priorities: Any) -> None:
        """``n`` rows have been written; rows ``valid()`` can be chosen now."""

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """The newest rows are gone; rows ``valid()`` can be chosen now."""

    def pick(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Pick:
        """Choose ``n`` rows with replacement.

        Raises:
            ReplayNotReady: there is no valid row.
        """
        every, ring = self.every, self.ring
        low, high = beginnings(valid, every)
        if high <= low:
            raise not_ready(ring)
        B, first = ring.B, low * every % ring.T
        size = (high - low) * B
        chosen = (rng.random(n) * size).astype(np.int64)  # a third of rng.integers
        idxs: Array = _spread(chosen, B, every) + first * B
        if not ring.has_void:
            return Pick(idxs)
        void = ring.void.reshape(-1)
        for _ in range(REDRAWS):
            again = void[idxs % void.size].nonzero()[0]
            if not len(again):
                return Pick(idxs)
            chosen = (rng.random(len(again)) * size).astype(np.int64)
            idxs[again] = _spread(chosen, B, every) + first * B
        left = np.flatnonzero(~ring.void[np.arange(low, high) * every % ring.T])
        if not len(left):
            raise not_ready(ring)
        chosen = left[(rng.random(n) * len(left)).astype(np.int64)]
        return Pick(_spread(chosen, B, every) + first * B)

    def update(self, priorities: Any, ticket: Any) -> None:
        """There are no priorities here.

        Raises:
            TypeError: always.
        """
        raise TypeError("a uniform replay has no priorities to update; use a prioritised one.")

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Nothing."""


class PrioritizedSelection:
    """Rows are drawn in proportion to priority ** alpha, and weighted against it by beta.

    Arguments are those of ``UniformSelection``; the tree has one row of leaves for every
    ``every``-th row.
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
        """What one transition takes."""
        return self.tree.bytes_per_leaf / self.every

    def prepare(self, n: int, priorities: Any) -> Array | None:
        """Leaves for the priorities that came with ``n`` rows of new samples, None for none.

        Of priorities [n, B], those of the rows that can be chosen are taken.

        Raises:
            TypeError: they were not announced.
            ValueError: they are not finite, or negative, or of another shape than [n, B] and [B].
        """
        if priorities is None:
            return None
        if not self.settings.input_priorities:
            raise TypeError(
                "samples came with priorities; construct the replay with input_priorities=True."
            )
        leaves, B = self._leaves(priorities), self.ring.B
        if leaves.shape not in ((), (B,), (n, B)):
            raise ValueError(
                f"priorities of new samples are {list(leaves.shape)}; due are [T, B] = [{n}, {B}] "
                f"or [B] = [{B}]."
            )
        return leaves[-self.ring.written % self.every :: self.every] if leaves.ndim > 1 else leaves

    def advance(self, valid: Callable[[], tuple[int, int]], n: int, priorities: Any) -> None:
        """``n`` rows have been written; rows ``valid()`` can be chosen now."""
        every, written = self.every, self.ring.written
        rows = -(-written // every) - -(-(written - n) // every)
        self.tree.move(rows, *beginnings(valid(), every), priorities, self.void)

    @property
    def void(self) -> Array | None:
        """Return the leaves whose priority stays zero, [T / every, B]; ``None``: none."""
        return self.ring.void[:: self.every] if self.ring.has_void else None

    def retreat(self, valid: Callable[[], tuple[int, int]]) -> None:
        """The newest rows are gone; rows ``valid()`` can be chosen now."""
        _, high = beginnings(valid(), self.every)
        self.tree.retreat(-(-self.ring.written // self.every), high)

    def pick(self, n: int, valid: tuple[int, int], rng: np.random.Generator) -> Pick:
        """Draw ``n`` rows.

        Raises:
            ReplayNotReady: there is no row to draw, or too few for a batch without repetition.
        """
        tree = self.tree
        low, high = beginnings(valid, self.every)
        if high <= low:
            raise not_ready(self.ring)
        leaves, priorities = tree.draw(n, self.settings.unique, rng)
        weights = (priorities / priorities.min()) ** -self.beta
        idxs = _spread(leaves, tree.B, self.every)
        return Pick(idxs, tree.ticket(leaves), weights.astype(np.float32))

    def update(self, priorities: Any, ticket: Any) -> None:
        """Set the priorities [B] of the rows that the ticket names, as far as still held."""
        self.tree.update_batch_priorities(self._leaves(priorities), ticket)

    def _leaves(self, priorities: Any) -> Array:
        """Priorities to the alpha, checked."""
        array = np.asarray(priorities, np.float64)
        if array.size and not (array.min() >= 0 and array.max() < np.inf):  # NaN is in neither
            wrong = array[~((array >= 0) & (array < np.inf))]
            raise ValueError(
                f"priorities must be finite and not negative; {wrong.size} of {array.size} are "
                f"not, the first is {wrong[0]}."
            )
        return np.asarray(array**self.settings.alpha)

    def state(self) -> dict[str, Any]:
        """Priorities and beta."""
        return {"tree": self.tree.state(), "beta": self.beta}

    def load(self, state: dict[str, Any]) -> None:
        """Go on with what ``state`` gave."""
        self.tree.load(state["tree"])
        self.beta = state["beta"]


def beginnings(valid: tuple[int, int], every: int) -> tuple[int, int]:
    """Rows [low, high) that are multiples of ``every``, counted in such."""
    return -(-valid[0] // every), -(-valid[1] // every)


def _spread(idxs: Array, B: int, every: int) -> Array:
    """From places j * B + b among every ``every``-th rows to places t * B + b among all."""
    return idxs if every == 1 else idxs + (every - 1) * B * (idxs // B)


def not_ready(ring: Ring) -> ReplayNotReady:
    """The error when nothing can be chosen."""
    return ReplayNotReady(
        f"{ring.written} rows of {ring.B} environments have been written, of which {ring.T} can be "
        "held, and none has all that a sample needs before and after it yet; sample later "
        "(min_steps_learn), or shorter sequences."
    )
