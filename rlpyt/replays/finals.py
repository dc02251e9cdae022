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
SHORTEST = 40  # steps of an episode, for which there is room in shared memory unless told otherwise


def default_capacity(size: int, B: int) -> int:
    """Slots that B environments with limits of ``SHORTEST`` steps or more never exceed.

    Each has at most one truncation in ``SHORTEST`` rows and one more at the edge; an interruption
    adds another.
    """
    return max(SMALLEST, size // SHORTEST + 2 * B)


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

    def forget_from(self, key: int) -> None:
        """Drop ``key`` and everything after it."""
        order = self._order()
        self._ends[1] = self._ends[0] + int(np.searchsorted(self.keys[order], key))

    def add(self, keys: NDArray[Any], observation: Any) -> int:
        """Keep observations [K, ...]; keys [K] ascend, from beyond those held.

        Returns:
            How many are kept: the first so many, where shared memory has no room for all.
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
        """Observations [K, ...] under keys [K], all of which are held."""
        order = self._order()
        slots = order[np.searchsorted(self.keys[order], keys)]
        return buffer_func(self._numbers, lambda i: getattr(self, f"leaf_{i}")[slots])

    def _order(self) -> NDArray[Any]:
        """Slots from the oldest to the newest."""
        return np.arange(self._ends[0], self._ends[1]) % max(1, len(self.keys))

    def _grow(self, need: int) -> None:
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
        """Hold what ``state`` gave.

        Raises:
            ValueError: it has more than fit into shared memory.
        """
        if not self._grows and len(state["keys"]) > len(self.keys):
            raise ValueError(
                f"the saved replay holds {len(state['keys'])} final observations, and this one has "
                f"room for {len(self.keys)}; construct it with final_capacity."
            )
        self._ends[:] = 0
        if len(state["keys"]):
            leaves = iter(state["leaves"])
            self.add(state["keys"], buffer_func(self._numbers, lambda i: next(leaves)))
