"""Which rows a replay holds, and at which of them something can be cut out.

Rows are counted from the first one ever written ("absolute" rows); row a lies at a mod T. The
ring holds the newest T of them. What is cut out at a row needs some rows before it (the previous
action, older frames) and some after it (n-step rewards, the next observation, the rest of a
sequence): it is valid while all of these are held.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part


class Ring(Part):
    """Cursor over T rows of B environments; one writer, any number of readers."""

    _count: NDArray[np.int64]

    def __init__(self, T: int, B: int, memory: Memory) -> None:
        self.T, self.B = T, B
        memory.request(self, "_count", (2,), np.int64)  # rows written, the oldest still held

    @property
    def written(self) -> int:
        """Rows written since the beginning."""
        return int(self._count[0])

    @property
    def oldest(self) -> int:
        """The oldest row still held."""
        return int(self._count[1])

    def move(self, written: int) -> None:
        """Stand behind ``written`` rows; if these are fewer than before, the newest are gone."""
        self._count[:] = written, max(self.oldest, written - self.T)

    def load(self, written: int, oldest: int) -> None:
        """Stand where a saved ring stood."""
        self._count[:] = written, oldest

    @property
    def t(self) -> int:
        """Where the next row goes."""
        return self.written % self.T

    value = t  # rlpyt's name in asynchronous replays: ``replay.async_t.value``

    @property
    def full(self) -> bool:
        """Whether every row has been written."""
        return self.written >= self.T

    def valid(self, before: int, after: int) -> tuple[int, int]:
        """Absolute rows [low, high) with ``before`` older and ``after`` newer rows still held."""
        low = self.oldest + before
        return low, max(low, self.written - after)

    def absolute(self, T_idxs: NDArray[Any]) -> NDArray[Any]:
        """Absolute numbers of the rows that now lie at these places."""
        newest = self.written - 1
        return newest - (newest - T_idxs) % self.T

    def places(self, start: int, rows: int) -> list[tuple[slice, slice]]:
        """(place, which of the rows) for ``rows`` rows from absolute row ``start``: one or two."""
        t = start % self.T
        if t + rows <= self.T:
            return [(slice(t, t + rows), slice(0, rows))]
        first = self.T - t
        return [(slice(t, self.T), slice(0, first)), (slice(0, rows - first), slice(first, rows))]
