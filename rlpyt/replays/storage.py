"""Storage of the rows of a replay, with whole observations.

A storage owns the rows of the samples, the n-step targets stored with them, and the final
observations of truncated episodes. It writes rows and returns observations; which rows is decided
by the ring and the selection. ``replays.frame_storage`` stores observations frame by frame.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.ring import Ring
from rlpyt.replays.rows import RowBatch, RowStore, check_alike, describe, example_array
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

Slices = list[tuple[slice, slice]]
Stored = namedarraytuple("Stored", ["samples", "extra", "own"])

MIN_SLOTS = 64
MIN_EPISODE_STEPS = 40  # shortest truncated episodes that the default capacity has room for


class FullStorage:
    """Storage of whole observations, which may be one array or a tree of arrays.

    Args:
        example: one step without leading dimensions: a tree with the fields observation, action,
            reward, done, and any others.
        extra: tree of further numbers to store with every row, for targets.
        ring: cursor of the replay.
        memory: allocates the arrays.
        final_capacity: slots for final observations in shared memory. Truncations beyond it count
            as terminations, with one warning.

    Attributes:
        samples: tree [T, B, ...] like the example.
        extra: tree [T, B].
        fields, extra_fields: the same trees with numbers of leaves, to index a ``RowBatch`` with.
        before: number of rows before t that the observation of row t needs.
        reach: the same, counting void rows in between.
    """

    before = reach = 0
    _own: Any = None  # example of what the storage itself stores with every row

    def __init__(
        self, example: NamedArrayTuple, extra: Any, ring: Ring, memory: Memory, final_capacity: int
    ) -> None:
        check_example(example)
        self.ring, self.T, self.B = ring, ring.T, ring.B
        self._structure = describe(example)
        self._observation = describe(example.observation)
        self._has_room = True
        self.rows = RowStore(Stored(self._kept(example), extra, self._own), ring.T, ring.B, memory)
        self.finals = FinalObservationStore(self._final_example(example), final_capacity, memory)
        self.fields, self.extra_fields = self.rows.numbers.samples, self.rows.numbers.extra
        self._flat = all(type(number) is int for number in tuple(self.fields))

    @property
    def samples(self) -> Any:
        """Return the stored fields, tree [T, B, ...]."""
        return self.rows.tree.samples

    @property
    def extra(self) -> Any:
        """Return what targets store with the rows, tree [T, B]."""
        return self.rows.tree.extra

    @property
    def bytes_per_row(self) -> int:
        """Return the bytes per transition."""
        return self.rows.row_bytes

    def _kept(self, example: NamedArrayTuple) -> Any:
        """Return the part of samples that is stored in the rows."""
        return example

    def _final_example(self, example: NamedArrayTuple) -> Any:
        """Return the part of an example observation that is stored of final observations."""
        return example.observation

    def _final(self, observation: Arrays) -> Any:
        """Return the same part of final observations [K, ...]."""
        return observation

    def check(self, samples: NamedArrayTuple) -> None:
        """Compare the first samples with the example.

        Raises:
            TypeError, ValueError: fields, shapes or dtypes differ; the message names the leaf.
        """
        check_alike(samples, self._structure, "samples")

    def check_final(self, final: NamedArrayTuple, done: NDArray[Any]) -> None:
        """Compare final observations with the example, and their steps with ``done`` [T, B].

        Raises:
            TypeError: ``final`` is not a ``FinalObservations``, or its indices are not integers.
            ValueError: lengths or shapes differ, or a step is not in the batch or not done.
        """
        if not hasattr(final, "T_idxs"):
            raise TypeError(
                "final must be FinalObservations(T_idxs, B_idxs, observation) of "
                f"rlpyt.replays.batch, got {type(final).__name__}."
            )
        check_alike(final.observation, self._observation, "final.observation", ("K",))
        shapes = {leaf.shape[:1] for leaf in leaves_of(numpify_buffer(final.observation))}
        steps = []
        for name, end in zip(("T_idxs", "B_idxs"), done.shape):
            array = np.asarray(getattr(final, name))
            if array.size and array.dtype.kind not in "iu":
                raise TypeError(f"final.{name} must be integers [K], got {array.dtype}.")
            if array.ndim != 1 or shapes != {array.shape}:
                raise ValueError(
                    f"final.{name} is {list(array.shape)} and the observations are "
                    f"{[[*shape, '...'] for shape in sorted(shapes)]}; all must begin with K."
                )
            outside = array[(array < 0) | (array >= end)]
            if len(outside):
                raise ValueError(
                    f"final.{name} must be in the batch, 0 to {end - 1}, got {outside[0]}."
                )
            steps.append(array.astype(np.int64))
        if not done[tuple(steps)].all():
            raise ValueError("final observations must be of steps that are done; one is not done.")

    def prepare(self, start: int, samples: NamedArrayTuple, void: NDArray[Any] | None) -> Any:
        """Examine samples [T, B] for absolute rows from ``start``, before anything is written.

        Args:
            start: absolute row of the first.
            samples: the rows.
            void: [T, B] bool, void rows; None: there are none.

        Returns:
            The argument ``prepared`` of ``write``.

        Raises:
            ValueError: the rows cannot be stored in this way.
        """
        return None

    def write(self, slices: Slices, samples: NamedArrayTuple, prepared: Any) -> None:
        """Write rows [T, B] to the ``slices`` of ``Ring.slices``."""
        kept = self._kept(samples)
        leaves = tuple(kept) if self._flat else leaves_of(kept)
        for stored, given in slices:
            for destination, source in zip(self.rows.leaves, leaves):
                destination[stored] = source[given]

    def observations(self, batch: RowBatch, k: Any) -> Any:
        """Return the observations of plane k of a batch, a tree of writable arrays."""
        return batch(self.fields.observation, k)

    def write_truncations(self, start: int, slices: Slices, final: NamedArrayTuple | None) -> None:
        """Mark the rows from absolute row ``start`` that were truncated; store what was seen last.

        Args:
            start: absolute row of the first.
            slices: of the rows, as for ``write``.
            final: ``FinalObservations``, or None.
        """
        for stored, _ in slices:
            self.extra.truncated[stored] = False
        if final is None or not len(final.T_idxs):
            return
        final = numpify_buffer(final)
        rows, B_idxs = start + np.asarray(final.T_idxs), np.asarray(final.B_idxs)
        order = np.lexsort((B_idxs, rows))
        rows, B_idxs = rows[order], B_idxs[order]
        observation = buffer_func(final.observation, lambda leaf: leaf[order])
        kept = self.finals.add(rows * self.B + B_idxs, self._final(observation))
        self.extra.truncated[rows[:kept] % self.T, B_idxs[:kept]] = True
        if kept < len(rows) and self._has_room:
            self._has_room = False
            warnings.warn(
                f"the replay has room for the final observations of {len(self.finals)} truncated "
                "episodes, and more have ended; the others count as terminated. Construct the "
                "replay with a larger final_capacity: its size divided by the time limit.",
                stacklevel=4,
            )

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Return final observations [K, ...] of the steps with ``keys``, stored at ``idxs``."""
        return self.finals.get(keys)

    def state(self, rows: int) -> dict[str, Any]:
        """Return the first ``rows`` rows, without copying them, and the final observations."""
        leaves = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        return {"leaves": leaves, **self.rows.state(rows), "finals": self.finals.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Load rows saved by ``state``.

        Raises:
            ValueError: they have another structure, or there is no room for the final observations.
        """
        own = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        saved = [list(leaf) for leaf in state["leaves"]]
        if saved != own:
            theirs = [leaf for leaf in saved if leaf not in own]
            ours = [leaf for leaf in own if leaf not in saved]
            raise ValueError(
                f"the saved replay has the fields {theirs or saved}, and this one {ours or own}."
            )
        self.finals.load(state["finals"])
        self.rows.load(state)


def check_example(example: NamedArrayTuple, *further: str) -> None:
    """Check that the example has the fields that every replay needs, and ``further`` ones.

    Raises:
        TypeError: a field is missing, or the example is not a named tuple.
    """
    fields = getattr(example, "_fields", ())
    needed = ("observation", "action", "reward", "done", *further)
    missing = [name for name in needed if name not in fields]
    if missing:
        raise TypeError(
            f"the example must be a named tuple with {', '.join(needed)}; "
            f"{type(example).__name__} has no {', '.join(missing)}."
        )


def default_capacity(size: int, B: int) -> int:
    """Return slots that suffice for B environments with time limits of MIN_EPISODE_STEPS or more.

    Each environment has at most one truncation in so many rows, one more at the edge, and one more
    after an interruption.
    """
    return max(MIN_SLOTS, size // MIN_EPISODE_STEPS + 2 * B)


class FinalObservationStore(Part):
    """True final observations of truncated episodes, first in, first out.

    The row after a truncation begins another episode, so the last observation of the old one is in
    no row. It is stored here for as long as the row of its step is stored. Keys are absolute row *
    B + b, which only grow. With episodes of ordinary length this takes well under a hundredth of
    the replay.

    Args:
        example: one final observation, a tree without leading dimensions.
        capacity: slots in shared memory. In the memory of one process the store grows on demand.
        memory: allocates the arrays.
    """

    keys: NDArray[np.int64]
    _ends: NDArray[np.int64]

    def __init__(self, example: NamedArrayTuple, capacity: int, memory: Memory) -> None:
        arrays = [example_array(leaf) for leaf in leaves_of(example)]
        counter = iter(range(len(arrays)))
        self._numbers = buffer_func(example, lambda leaf: next(counter))
        self._specs = [(leaf.dtype.str, leaf.shape) for leaf in arrays]
        self._grows = not memory.shared
        capacity = 0 if self._grows else capacity
        memory.request(self, "_ends", (2,), np.int64)  # numbers of the oldest and of the next entry
        memory.request(self, "keys", (capacity,), np.int64)
        for i, (dtype, shape) in enumerate(self._specs):
            memory.request(self, f"leaf_{i}", (capacity, *shape), dtype)

    def __len__(self) -> int:
        return int(self._ends[1] - self._ends[0])

    def forget(self, key: int) -> None:
        """Drop all entries before ``key``."""
        if len(self) and self.keys[self._ends[0] % len(self.keys)] < key:
            order = self._order()
            self._ends[0] += int(np.searchsorted(self.keys[order], key))

    def forget_from(self, key: int) -> None:
        """Drop ``key`` and all entries after it."""
        order = self._order()
        self._ends[1] = self._ends[0] + int(np.searchsorted(self.keys[order], key))

    def add(self, keys: NDArray[Any], observation: Arrays) -> int:
        """Store observations [K, ...] under keys [K], which ascend and exceed those stored.

        Returns:
            The number of observations stored, which are the first ones; fewer than K if shared
            memory is full.
        """
        need = len(self) + len(keys)
        if need > len(self.keys) and self._grows:
            self._grow(need)
        fit = min(len(keys), len(self.keys) - len(self))
        slots = (self._ends[1] + np.arange(fit)) % max(1, len(self.keys))
        self.keys[slots] = keys[:fit]
        for i, leaf in enumerate(leaves_of(observation)):
            getattr(self, f"leaf_{i}")[slots] = leaf[:fit]
        self._ends[1] += fit
        return fit

    def get(self, keys: NDArray[Any]) -> Any:
        """Return observations [K, ...] under keys [K], all of which are stored."""
        order = self._order()
        slots = order[np.searchsorted(self.keys[order], keys)]
        return buffer_func(self._numbers, lambda i: getattr(self, f"leaf_{i}")[slots])

    def _order(self) -> NDArray[Any]:
        """Return the slots from the oldest to the newest entry."""
        return np.arange(self._ends[0], self._ends[1]) % max(1, len(self.keys))

    def _grow(self, need: int) -> None:
        order = self._order()
        capacity = max(MIN_SLOTS, 2 * need)
        names = ["keys", *(f"leaf_{i}" for i in range(len(self._specs)))]
        for name in names:
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), old.dtype)
            new[: len(order)] = old[order]
            self._take(name, new)
        self._ends[:] = 0, len(order)

    def state(self) -> dict[str, Any]:
        """Return all entries as arrays."""
        order = self._order()
        leaves = [getattr(self, f"leaf_{i}")[order] for i in range(len(self._specs))]
        return {"keys": self.keys[order], "leaves": leaves}

    def load(self, state: dict[str, Any]) -> None:
        """Load entries saved by ``state``.

        Raises:
            ValueError: there are more than fit into shared memory.
        """
        if not self._grows and len(state["keys"]) > len(self.keys):
            raise ValueError(
                f"final_capacity must be at least {len(state['keys'])} to load this replay, got "
                f"{len(self.keys)}."
            )
        self._ends[:] = 0
        if len(state["keys"]):
            leaves = iter(state["leaves"])
            self.add(state["keys"], buffer_func(self._numbers, lambda i: next(leaves)))
