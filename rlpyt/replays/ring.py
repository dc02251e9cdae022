"""Which rows a replay holds, and at which of them something can be cut out.

Rows are counted from the first one ever written ("absolute" rows); row a lies at a mod T. The
ring holds the newest T of them. What is cut out at a row needs some rows before it (the previous
action, older frames) and some after it (n-step rewards, the next observation, the rest of a
sequence): it is valid while all of these are held.

Where environments wait for a reset until a batch ends, the rows between an environment's done and
the end of the batch are void. They stay in the ring, so that the rows of all environments remain
aligned. No window reaches past them, because the row before them is done.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part


class Ring(Part):
    """Cursor over T rows of B environments; one writer, any number of readers.

    Attributes:
        void: [T, B] bool, rows in which nothing was sampled.
    """

    _count: NDArray[np.int64]
    _any_void: NDArray[np.bool_]
    void: NDArray[np.bool_]

    def __init__(self, T: int, B: int, memory: Memory) -> None:
        self.T, self.B = T, B
        memory.request(self, "_count", (2,), np.int64)  # rows written, the oldest still held
        memory.request(self, "_any_void", (1,), np.bool_)
        memory.request(self, "void", (T, B), np.bool_)

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
    def has_void(self) -> bool:
        """Return True if a void row was ever written."""
        return bool(self._any_void[0])

    def write_void(self, start: int, rows: int, void: NDArray[np.bool_] | None) -> None:
        """Record which rows from absolute row ``start`` on are void, [rows, B]; ``None``: none."""
        if void is not None and void.any():
            self._any_void[0] = True
        if self.has_void:
            for place, part in self.places(start, rows):
                self.void[place] = False if void is None else void[part]

    def load_void(self, void: NDArray[np.bool_] | None) -> None:
        """Restore the void marks of the first rows from a saved replay; ``None``: it has none."""
        self._any_void[0] = void is not None
        self.void[:] = False
        if void is not None:
            self.void[: len(void)] = void

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
