"""Storage of the rows of a replay, with whole observations.

A storage owns the rows of the samples, their n-step targets, and the final observations of
truncated episodes. It writes rows and returns observations; the ring and the selection choose the
rows. ``replays.frame_storage`` stores observations frame by frame.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.ring import Ring
from rlpyt.replays.rows import RowBatch, RowStore, check_structure, describe, example_array
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

Slices = list[tuple[slice, slice]]
Stored = namedarraytuple("Stored", ["samples", "extra", "internal"])

MIN_SLOTS = 64
MIN_EPISODE_STEPS = 40  # shortest truncated episodes for which the default capacity suffices


class FullStorage:
    """Storage of whole observations, which may be one array or a tree of arrays.

    Args:
        example: one step without leading dimensions: a tree with the fields observation, action,
            reward, done, and any others.
        extra: example of the numbers that targets store with every row, a tree.
        ring: cursor of the replay.
        memory: allocator of the arrays.
        final_capacity: capacity for final observations in shared memory. Truncations beyond it
            count as terminations, with one warning.

    Attributes:
        samples: tree [T, B, ...] like the example.
        extra: tree [T, B] of the targets.
        fields, extra_fields: the same trees with the keys of leaves in a ``RowBatch``.
        rows_before: number of rows before t that the observation of row t needs.
        reach: the same, including void rows in between.
    """

    rows_before = reach = 0
    _internal: Any = None  # example of the storage's own data per row

    def __init__(
        self, example: NamedArrayTuple, extra: Any, ring: Ring, memory: Memory, final_capacity: int
    ) -> None:
        check_example(example)
        self.ring, self.T, self.B = ring, ring.T, ring.B
        self._structure = describe(example)
        self._observation = describe(example.observation)
        self._warn_if_full = True
        fields = self._row_fields(example)._replace(done=np.bool_(False))  # also of numbers
        self.rows = RowStore(Stored(fields, extra, self._internal), ring.T, ring.B, memory)
        self.finals = FinalObservationStore(self._final_example(example), final_capacity, memory)
        self.fields, self.extra_fields = self.rows.keys.samples, self.rows.keys.extra
        self._flat = all(type(key) in (str, int) for key in tuple(self.fields))

    @property
    def samples(self) -> Any:
        """Return the stored fields, tree [T, B, ...]."""
        return self.rows.tree.samples

    @property
    def extra(self) -> Any:
        """Return the numbers that targets store with the rows, tree [T, B]."""
        return self.rows.tree.extra

    @property
    def bytes_per_row(self) -> int:
        """Return the bytes per transition."""
        return self.rows.row_bytes

    def _row_fields(self, example: NamedArrayTuple) -> Any:
        """Return the fields of samples that are stored in the rows."""
        return example

    def _final_example(self, example: NamedArrayTuple) -> Any:
        """Return the part of an example's observation that is stored as a final observation."""
        return example.observation

    def _final_part(self, observation: Arrays) -> Any:
        """Return that part of final observations [K, ...]."""
        return observation

    def check(self, samples: NamedArrayTuple) -> None:
        """Compare the first samples with the example.

        Raises:
            TypeError, ValueError: fields, shapes or dtypes differ; the message names the leaf.
        """
        check_structure(samples, self._structure, "samples")

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
        check_structure(final.observation, self._observation, "final.observation", ("K",))
        shapes = {leaf.shape[:1] for leaf in leaves_of(numpify_buffer(final.observation))}
        steps = []
        for name, end in zip(("T_idxs", "B_idxs"), done.shape):
            array = np.asarray(getattr(final, name))
            if array.size and array.dtype.kind not in "iu":
                raise TypeError(f"final.{name} must be integers [K], got {array.dtype}.")
            if array.ndim != 1 or shapes != {array.shape}:
                raise ValueError(
                    f"final.{name} and the observations must have the leading dimension K, got "
                    f"{list(array.shape)} and {[[*shape, '...'] for shape in sorted(shapes)]}."
                )
            outside = array[(array < 0) | (array >= end)]
            if len(outside):
                raise ValueError(
                    f"final.{name} must be in the batch, 0 to {end - 1}, got {outside[0]}."
                )
            steps.append(array.astype(np.int64))
        if not done[tuple(steps)].all():
            raise ValueError(
                "final observations must belong to done steps, got one of a step that is not done."
            )

    def prepare(self, start: int, samples: NamedArrayTuple, void: NDArray[Any] | None) -> Any:
        """Analyze samples [T, B] before they are written to absolute rows from ``start``.

        Args:
            start: absolute row of the first.
            samples: samples to write.
            void: [T, B] bool, void rows; None: there are none.

        Returns:
            Argument ``prepared`` of ``write``.

        Raises:
            ValueError: this storage cannot store the samples.
        """
        return None

    def write(self, slices: Slices, samples: NamedArrayTuple, prepared: Any) -> None:
        """Write rows [T, B] to the ``slices`` of ``Ring.slices``."""
        fields = self._row_fields(samples)
        leaves = tuple(fields) if self._flat else leaves_of(fields)
        for stored, given in slices:
            for destination, source in zip(self.rows.leaves, leaves):
                destination[stored] = source[given]

    def observations(self, batch: RowBatch, k: Any) -> Any:
        """Return the observations of plane k of a batch, a tree of writable arrays."""
        return batch(self.fields.observation, k)

    def write_truncations(self, start: int, slices: Slices, final: NamedArrayTuple | None) -> None:
        """Mark truncated rows from absolute row ``start``; store their final observations.

        Args:
            start: absolute row of the first.
            slices: slices of the rows, as for ``write``.
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
        n_stored = self.finals.add(rows * self.B + B_idxs, self._final_part(observation))
        self.extra.truncated[rows[:n_stored] % self.T, B_idxs[:n_stored]] = True
        if n_stored < len(rows) and self._warn_if_full:
            self._warn_if_full = False
            warnings.warn(
                "the replay has capacity for the final observations of "
                f"{len(self.finals)} truncated episodes, but more have ended; the others count as "
                "terminated. Construct the replay with a larger final_capacity: its size divided "
                "by the time limit.",
                stacklevel=4,
            )

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Return final observations [K, ...] of the steps with these keys, in rows ``idxs``."""
        return self.finals.get(keys)

    def state(self, rows: int) -> dict[str, Any]:
        """Return the first ``rows`` rows, without copying them, and the final observations."""
        leaves = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        return {"leaves": leaves, **self.rows.state(rows), "finals": self.finals.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Load rows saved by ``state``.

        Raises:
            ValueError: the structure differs, or the final observations exceed the capacity.
        """
        expected = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        saved = [list(leaf) for leaf in state["leaves"]]
        if saved != expected:
            only_saved = [leaf for leaf in saved if leaf not in expected]
            only_here = [leaf for leaf in expected if leaf not in saved]
            raise ValueError(
                f"the saved replay must have the fields {only_here or expected}, got "
                f"{only_saved or saved}."
            )
        self.finals.load(state["finals"])
        self.rows.load(state)


def check_example(example: NamedArrayTuple, *further: str) -> None:
    """Check that the example has the fields that every replay needs, and the ``further`` ones.

    Raises:
        TypeError: a field is missing, or the example is not a named tuple.
    """
    fields = getattr(example, "_fields", ())
    needed = ("observation", "action", "reward", "done", *further)
    missing = [name for name in needed if name not in fields]
    if missing:
        raise TypeError(
            f"the example must be a named tuple with {', '.join(needed)}, got "
            f"{type(example).__name__} which has no {', '.join(missing)}. Derive a replay that "
            "stores them in another way from BaseReplayBuffer."
        )


def default_capacity(size: int, B: int) -> int:
    """Return a sufficient capacity for B environments with time limits of at least 40 steps.

    Each environment has at most one truncation in MIN_EPISODE_STEPS rows, one more at the boundary,
    and one more after an interruption.
    """
    return max(MIN_SLOTS, size // MIN_EPISODE_STEPS + 2 * B)


class FinalObservationStore(Part):
    """True final observations of truncated episodes, first in, first out.

    The row after a truncation begins another episode, so no row contains the last observation of
    the truncated one. It is stored here as long as the row of its step is stored. Keys are
    absolute row * B + b, in ascending order. Usually this takes far less than 1% of the replay's
    memory.

    Args:
        example: one final observation, a tree without leading dimensions.
        capacity: number of entries in shared memory; otherwise the store grows on demand.
        memory: allocator of the arrays.
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
        memory.request(self, "_ends", (2,), np.int64)  # number of the oldest and of the next entry
        memory.request(self, "keys", (capacity,), np.int64)
        for i, (dtype, shape) in enumerate(self._specs):
            memory.request(self, f"leaf_{i}", (capacity, *shape), dtype)

    def __len__(self) -> int:
        return int(self._ends[1] - self._ends[0])

    def forget(self, key: int) -> None:
        """Drop all entries before ``key``."""
        if len(self) and self.keys[self._ends[0] % len(self.keys)] < key:
            self._ends[0] += int(self._rank(key))

    def forget_from(self, key: int) -> None:
        """Drop ``key`` and all entries after it."""
        self._ends[1] = self._ends[0] + int(self._rank(key))

    def add(self, keys: NDArray[Any], observation: Arrays) -> int:
        """Store observations [K, ...] under ascending keys [K], above those already stored.

        Returns:
            Number of observations stored (the first ones); below K if shared memory is full.
        """
        need = len(self) + len(keys)
        if need > len(self.keys) and self._grows:
            self._grow(need)
        n = min(len(keys), len(self.keys) - len(self))
        slots = (self._ends[1] + np.arange(n)) % max(1, len(self.keys))
        self.keys[slots] = keys[:n]
        for i, leaf in enumerate(leaves_of(observation)):
            getattr(self, f"leaf_{i}")[slots] = leaf[:n]
        self._ends[1] += n
        return n

    def get(self, keys: NDArray[Any]) -> Any:
        """Return the observations [K, ...] of keys [K], which must be stored."""
        slots = (self._ends[0] + self._rank(keys)) % max(1, len(self.keys))
        return buffer_func(self._numbers, lambda i: getattr(self, f"leaf_{i}")[slots])

    def _rank(self, keys: Any) -> Any:
        """Return how many entries are below each key."""
        start = int(self._ends[0] % max(1, len(self.keys)))
        older = self.keys[start : start + len(self)]
        newer = self.keys[: len(self) - len(older)]  # beyond the end of the array
        return np.searchsorted(older, keys) + np.searchsorted(newer, keys)

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
            self._set_array(name, new)
        self._ends[:] = 0, len(order)

    def state(self) -> dict[str, Any]:
        """Return all entries as arrays."""
        order = self._order()
        leaves = [getattr(self, f"leaf_{i}")[order] for i in range(len(self._specs))]
        return {"keys": self.keys[order], "leaves": leaves}

    def load(self, state: dict[str, Any]) -> None:
        """Load entries saved by ``state``.

        Raises:
            ValueError: the entries exceed the capacity in shared memory.
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
