"""How rows are kept: here with whole observations; in ``replays.frame_storage``, frame by frame.

A storage owns the rows of the samples, of what targets add to them, and the final observations of
episodes that were cut off. It writes rows and gives observations back; which rows, is decided
elsewhere.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.finals import Finals
from rlpyt.replays.memory import Memory
from rlpyt.replays.records import Cut, Records, check_alike, describe
from rlpyt.replays.ring import Ring
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.collections import namedarraytuple

Places = list[tuple[slice, slice]]
Stored = namedarraytuple("Stored", ["samples", "extra", "own"])


class FullStorage:
    """Every row holds its whole observation: one array, or a tree of them.

    Args:
        example: tree with the fields observation, action, reward, done, and any others, without
            leading dimensions.
        extra: tree of further numbers for every row, for targets.
        T, B: rows, environments.
        memory: where from.
        final_capacity: room for final observations, where memory is shared; beyond it, steps count
            as terminal, which is said once.

    Attributes:
        samples: tree [T, B, ...] as in the example.
        extra: tree [T, B].
        fields, extra_fields: the same trees with numbers of leaves, for cuts.
        before: rows before t that the observation of row t needs.
        reach: the same, counting void rows in between.
        ring: that of the replay, which sets it.
    """

    before = reach = 0
    ring: Ring
    _own: Any = None  # example of what the storage itself keeps with every row

    def __init__(
        self, example: Any, extra: Any, T: int, B: int, memory: Memory, final_capacity: int
    ) -> None:
        check_example(example)
        self.T, self.B = T, B
        self._structure = describe(example)
        self._observation = describe(example.observation)
        self._has_room = True
        self.rows = Records(Stored(self._kept(example), extra, self._own), T, B, memory)
        self.finals = Finals(self._final_example(example), final_capacity, memory)
        self.fields, self.extra_fields = self.rows.numbers.samples, self.rows.numbers.extra
        self._flat = all(type(number) is int for number in tuple(self.fields))

    @property
    def samples(self) -> Any:
        """The rows' fields, tree [T, B, ...]."""
        return self.rows.tree.samples

    @property
    def extra(self) -> Any:
        """What targets keep with the rows, tree [T, B]."""
        return self.rows.tree.extra

    @property
    def bytes_per_row(self) -> int:
        """What one transition takes."""
        return self.rows.row_bytes

    def _kept(self, example: Any) -> Any:
        """The part of samples that goes into the rows."""
        return example

    def _final_example(self, example: Any) -> Any:
        """The part of one observation that is kept of final ones."""
        return example.observation

    def _final(self, observation: Any) -> Any:
        """The same part of observations [K, ...]."""
        return observation

    def check(self, samples: Any) -> None:
        """Compare new samples with the example; called for the first ones.

        Raises:
            TypeError, ValueError: fields, shapes or dtypes differ; the message names the leaf.
        """
        check_alike(samples, self._structure, "samples")

    def check_final(self, final: Any, done: NDArray[Any]) -> None:
        """Compare final observations with the example, and their steps with ``done`` [T, B].

        Raises:
            TypeError, ValueError: they differ; a step is not in the batch, or not done.
        """
        if not hasattr(final, "T_idxs"):
            raise TypeError(
                f"final is a {type(final).__name__}; give FinalObservations(T_idxs, B_idxs, "
                "observation), of rlpyt.replays.batch."
            )
        check_alike(final.observation, self._observation, "final.observation", ("K",))
        shapes = {leaf.shape[:1] for leaf in leaves_of(numpify_buffer(final.observation))}
        places = []
        for name, end in zip(("T_idxs", "B_idxs"), done.shape):
            array = np.asarray(getattr(final, name))
            if array.size and array.dtype.kind not in "iu":
                raise TypeError(f"final.{name} is {array.dtype}; it must be integers [K].")
            if array.ndim != 1 or shapes != {array.shape}:
                raise ValueError(
                    f"final.{name} is {list(array.shape)}, beside observations "
                    f"{[[*shape, '...'] for shape in sorted(shapes)]}; all must have K in front."
                )
            outside = array[(array < 0) | (array >= end)]
            if len(outside):
                raise ValueError(
                    f"final.{name} has {outside[0]}; it must lie in the batch, 0 to {end - 1}."
                )
            places.append(array.astype(np.int64))
        if not done[tuple(places)].all():
            raise ValueError("a final observation was given for a step that is not done.")

    def prepare(self, start: int, samples: Any, void: NDArray[Any] | None) -> Any:
        """Look at samples [T, B] for absolute rows from ``start``, before anything is written.

        Args:
            start, samples: the rows.
            void: [T, B] bool, rows to ignore; ``None``: none.

        Returns:
            What ``write`` has to know of them.

        Raises:
            ValueError: they cannot be kept in this way.
        """
        return None

    def write(self, places: Places, samples: Any, prepared: Any) -> None:
        """Write rows [T, B]; ``places`` are where they go, from ``Ring.places``."""
        kept = self._kept(samples)
        leaves = tuple(kept) if self._flat else leaves_of(kept)
        for place, part in places:
            for destination, source in zip(self.rows.leaves, leaves):
                destination[place] = source[part]

    def observations(self, cut: Cut, k: Any) -> Any:
        """Observations of plane k of a cut, tree of arrays that can be written to."""
        return cut(self.fields.observation, k)

    def pair(self, cut: Cut, now: int, after: int, adjacent: bool) -> tuple[Any, Any]:
        """Observations of two planes; ``adjacent``: of the rows right after the first's."""
        return self.observations(cut, now), self.observations(cut, after)

    def write_truncations(self, start: int, places: Places, final: Any) -> None:
        """Note which of the rows from absolute row ``start`` were cut off, and what was seen then.

        Args:
            start, places: of the rows, as in ``write``.
            final: ``FinalObservations``, or None for none.
        """
        for place, _ in places:
            self.extra.truncated[place] = False
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
                f"the replay has room for the final observations of {len(self.finals)} episodes "
                "that were cut off, and more came: where there is no room, such an episode counts "
                "as terminated. Construct the replay with a larger final_capacity: its size "
                "divided by the steps after which episodes are cut off.",
                stacklevel=4,
            )

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Final observations [K, ...] of the steps with these keys, which lie at idxs."""
        return self.finals.get(keys)

    def state(self, rows: int) -> dict[str, Any]:
        """The first ``rows`` rows and the final observations, without copies of the former."""
        large = {str(i): leaf[: rows * self.B] for i, leaf in self.rows.flat_leaves.items()}
        block = self.rows.flat_records[: rows * self.B]
        return {
            "leaves": [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure],
            "records": block,
            "large": large,
            "finals": self.finals.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Hold what ``state`` gave.

        Raises:
            ValueError: it is of another structure, or there is no room for its final observations.
        """
        own = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        saved = [list(leaf) for leaf in state["leaves"]]
        if saved != own:
            theirs = [leaf for leaf in saved if leaf not in own]
            ours = [leaf for leaf in own if leaf not in saved]
            raise ValueError(f"the saved replay holds {theirs or saved}, this one {ours or own}.")
        self.finals.load(state["finals"])
        self.rows.flat_records[: len(state["records"])] = state["records"]
        for i, leaf in state["large"].items():
            self.rows.flat_leaves[int(i)][: len(leaf)] = leaf


def check_example(example: Any, *further: str) -> None:
    """Raise TypeError unless the example has the fields that every replay needs, and these."""
    fields = getattr(example, "_fields", ())
    needed = ("observation", "action", "reward", "done", *further)
    missing = [name for name in needed if name not in fields]
    if missing:
        raise TypeError(
            f"the example must be a named tuple with {', '.join(needed)}; "
            f"{type(example).__name__} has no {', '.join(missing)}."
        )
