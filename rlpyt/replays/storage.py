"""How rows are kept: here with whole observations; in ``replays.frame_storage``, frame by frame.

A storage owns the rows of the samples, of what targets add to them, and the final observations of
episodes that were cut off. It writes rows and gives observations back; which rows, is decided
elsewhere.
"""

from typing import Any

from numpy.typing import NDArray

from rlpyt.replays.finals import Finals
from rlpyt.replays.memory import Memory
from rlpyt.replays.records import Cut, Records, check_alike, describe
from rlpyt.utils.buffer import leaves_of
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
        final_capacity: room for final observations, where memory is shared.

    Attributes:
        samples: tree [T, B, ...] as in the example.
        extra: tree [T, B].
        fields, extra_fields: the same trees with numbers of leaves, for cuts.
        before: rows before t that the observation of row t needs.
    """

    before = 0
    _own: Any = None  # example of what the storage itself keeps with every row

    def __init__(
        self, example: Any, extra: Any, T: int, B: int, memory: Memory, final_capacity: int
    ) -> None:
        check_example(example)
        self.T, self.B = T, B
        self._structure = describe(example)
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
        return example.observation

    def check(self, samples: Any) -> None:
        """Compare new samples with the example; called for the first ones.

        Raises:
            TypeError, ValueError: fields, shapes or dtypes differ; the message names the leaf.
        """
        check_alike(samples, self._structure, "samples")

    def write(self, places: Places, samples: Any) -> None:
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

    def write_finals(self, keys: NDArray[Any], observation: Any) -> None:
        """Keep final observations [K, ...] under ascending keys."""
        self.finals.add(keys, observation)

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
            ValueError: it is of another structure.
        """
        own = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        if [list(leaf) for leaf in state["leaves"]] != own:
            raise ValueError(f"the saved replay holds {state['leaves']}, this one {own}.")
        self.rows.flat_records[: len(state["records"])] = state["records"]
        for i, leaf in state["large"].items():
            self.rows.flat_leaves[int(i)][: len(leaf)] = leaf
        self.finals.load(state["finals"])


def check_example(example: Any) -> None:
    """Raise TypeError unless the example has what every replay needs."""
    fields = getattr(example, "_fields", ())
    missing = [name for name in ("observation", "action", "reward", "done") if name not in fields]
    if missing:
        raise TypeError(
            f"the example must be a named tuple with observation, action, reward and done; "
            f"{type(example).__name__} has no {', '.join(missing)}."
        )
