"""Cursor of the replay: the rows that are stored, and those that can be sampled.

Rows are numbered from the first one ever written ("absolute" rows); absolute row a is stored at
a mod T, so that the newest T rows are kept. A sample needs some rows before its first row (for the
previous action and older frames) and some after it (for n-step rewards, the next observation and
the rest of a sequence). A row is valid while all of these are stored.

If the sampler delays resets until the end of a batch, the rows between an environment's done and
the end of the batch are void. They are stored to keep the rows of all environments aligned, but
never sampled; the done before them ends every window.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.utils.checks import whole_number


class Ring(Part):
    """Cursor over T rows of B environments, with one writer and any number of readers.

    Attributes:
        void: [T, B] bool, rows in which the environment waited for its reset.
    """

    _count: NDArray[np.int64]
    _any_void: NDArray[np.bool_]
    void: NDArray[np.bool_]

    def __init__(self, T: int, B: int, memory: Memory) -> None:
        self.T, self.B = T, B
        memory.request(self, "_count", (2,), np.int64)  # rows written, oldest row stored
        memory.request(self, "_any_void", (1,), np.bool_)
        memory.request(self, "void", (T, B), np.bool_)

    @property
    def written(self) -> int:
        """Return the total number of rows written."""
        return int(self._count[0])

    @property
    def oldest(self) -> int:
        """Return the oldest absolute row that is stored."""
        return int(self._count[1])

    @property
    def bounds(self) -> tuple[int, int]:
        """Return (oldest, written): absolute rows [oldest, written) are stored."""
        written, oldest = self._count.tolist()
        return oldest, written

    def set_written(self, written: int) -> None:
        """Set the number of rows written; a smaller number drops the newest rows."""
        self._count[:] = written, max(self._count[1], written - self.T)

    def load(self, written: int, oldest: int) -> None:
        """Load the cursor of a saved ring."""
        self._count[:] = whole_number("written", written, 0), whole_number("oldest", oldest, 0)

    @property
    def has_void(self) -> bool:
        """Return True if a void row was ever written."""
        return bool(self._any_void[0])

    def write_void(self, start: int, rows: int, void: NDArray[np.bool_] | None) -> None:
        """Mark void rows [rows, B] from absolute row ``start``; None: no row is void."""
        if void is not None and void.any():
            self._any_void[0] = True
        if self.has_void:
            for stored, given in self.slices(start, rows):
                self.void[stored] = False if void is None else void[given]

    def load_void(self, void: NDArray[np.bool_] | None) -> None:
        """Load the void marks of the first rows of a saved replay; None: no row is void."""
        self._any_void[0] = void is not None
        self.void[:] = False
        if void is not None:
            self.void[: len(void)] = void

    @property
    def t(self) -> int:
        """Return the index of the next row to write."""
        return self.written % self.T

    value = t  # rlpyt's name in asynchronous replays: ``replay.async_t.value``

    @property
    def full(self) -> bool:
        """Return True if every row has been written."""
        return self.written >= self.T

    def absolute(self, T_idxs: NDArray[Any]) -> NDArray[Any]:
        """Return the absolute rows stored at ``T_idxs``."""
        newest = self.written - 1
        return newest - (newest - T_idxs) % self.T

    def slices(self, start: int, rows: int) -> list[tuple[slice, slice]]:
        """Return [(slice of the ring, slice of the rows)] for rows from absolute row ``start``.

        There are two pairs if the rows wrap around the end, otherwise one.
        """
        t = start % self.T
        if t + rows <= self.T:
            return [(slice(t, t + rows), slice(0, rows))]
        first = self.T - t
        return [(slice(t, self.T), slice(0, first)), (slice(0, rows - first), slice(first, rows))]
