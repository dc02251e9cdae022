"""True final observations of episodes that were cut off: a sparse store beside the rows.

The row after a truncation begins another episode, so the observation that the old one would have
gone on from is in no row. It is kept here for as long as the row of its step is, oldest first out;
with episodes of ordinary length this takes well under a hundredth of the replay.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.records import example_array
from rlpyt.utils.buffer import buffer_func, leaves_of

SMALLEST = 64  # slots


class Finals(Part):
    """First in, first out; found by key (absolute row * B + b), which only grows.

    Args:
        example: one final observation, a tree without leading dimensions.
        capacity: slots in shared memory. Memory of one process starts without any and grows.
        memory: where from.
    """

    keys: NDArray[np.int64]
    _ends: NDArray[np.int64]

    def __init__(self, example: Any, capacity: int, memory: Memory) -> None:
        arrays = [example_array(leaf) for leaf in leaves_of(example)]
        counter = iter(range(len(arrays)))
        self._numbers = buffer_func(example, lambda leaf: next(counter))
        self._specs = [(leaf.dtype.str, leaf.shape) for leaf in arrays]
        self._grows = not memory.shared
        capacity = 0 if self._grows else capacity
        memory.request(self, "_ends", (2,), np.int64)  # numbers of the oldest and of the next
        memory.request(self, "keys", (capacity,), np.int64)
        for i, (dtype, shape) in enumerate(self._specs):
            memory.request(self, f"leaf_{i}", (capacity, *shape), dtype)

    def __len__(self) -> int:
        return int(self._ends[1] - self._ends[0])

    def forget(self, key: int) -> None:
        """Drop everything before ``key``."""
        if len(self) and self.keys[self._ends[0] % len(self.keys)] < key:
            order = self._order()
            self._ends[0] += int(np.searchsorted(self.keys[order], key))

    def add(self, keys: NDArray[Any], observation: Any) -> None:
        """Keep observations [K, ...]; keys [K] ascend, from beyond those held.

        Raises:
            RuntimeError: more than fit into shared memory.
        """
        need = len(self) + len(keys)
        if need > len(self.keys):
            self._grow(need)
        slots = (self._ends[1] + np.arange(len(keys))) % len(self.keys)
        self.keys[slots] = keys
        for i, leaf in enumerate(leaves_of(observation)):
            getattr(self, f"leaf_{i}")[slots] = leaf
        self._ends[1] += len(keys)

    def get(self, keys: NDArray[Any]) -> Any:
        """Observations [K, ...] under keys [K], all of which are held."""
        order = self._order()
        slots = order[np.searchsorted(self.keys[order], keys)]
        return buffer_func(self._numbers, lambda i: getattr(self, f"leaf_{i}")[slots])

    def _order(self) -> NDArray[Any]:
        """Slots from the oldest to the newest."""
        return np.arange(self._ends[0], self._ends[1]) % max(1, len(self.keys))

    def _grow(self, need: int) -> None:
        if not self._grows:
            raise RuntimeError(
                f"the replay has room for the final observations of {len(self.keys)} episodes that "
                f"were cut off, and holds {need} of them: episodes are very short. Construct it "
                f"with final_capacity={2 * need}."
            )
        order = self._order()
        capacity = max(SMALLEST, 2 * need)
        names = ["keys", *(f"leaf_{i}" for i in range(len(self._specs)))]
        for name in names:
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), old.dtype)
            new[: len(order)] = old[order]
            self._take(name, new)
        self._ends[:] = 0, len(order)

    def state(self) -> dict[str, Any]:
        """What is held, as arrays."""
        order = self._order()
        leaves = [getattr(self, f"leaf_{i}")[order] for i in range(len(self._specs))]
        return {"keys": self.keys[order], "leaves": leaves}

    def load(self, state: dict[str, Any]) -> None:
        """Hold what ``state`` gave."""
        self._ends[:] = 0
        if len(state["keys"]):
            leaves = iter(state["leaves"])
            self.add(state["keys"], buffer_func(self._numbers, lambda i: next(leaves)))
