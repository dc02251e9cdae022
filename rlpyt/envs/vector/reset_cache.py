"""Cache of first observations that a source returned before ``reset_rows`` was called."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.vector.base import Elements, Rows
from rlpyt.utils.buffer import buffer_func


class ResetCache:
    """First observations from a SAME_STEP source's automatic resets in the last step.

    Owned by an adapter: `store` after a step, `take` in ``reset_rows``, `clear` before the next
    step, after which they are outdated.
    """

    def __init__(self, n: int) -> None:
        self._index = np.full(n, -1)  # index in the cached rows; -1: not cached
        self._cached: Any = None

    def store(self, observation: Elements, rows: Rows) -> None:
        """Store a copy of these rows of a batch [n, ...]."""
        self._cached = take_rows(observation, rows)
        self._index[rows] = np.arange(len(rows))

    def clear(self) -> None:
        """Discard all cached rows."""
        if self._cached is not None:
            self._cached = None
            self._index[:] = -1

    def take(self, rows: Rows) -> Any:
        """Return the first observations [len(rows), ...] if all are cached, else ``None``.

        Each is returned only once; a second reset needs another episode.
        """
        index = self._index[rows]
        if self._cached is None or (index < 0).any():
            return None
        self._index[rows] = -1
        return take_rows(self._cached, index)

    def missing(self, rows: Rows) -> NDArray[np.bool_]:
        """Return a mask [n] of those of these rows that are not cached, and discard the others."""
        mask = np.zeros(len(self._index), bool)
        mask[rows] = self._index[rows] < 0
        self._index[rows] = -1
        return mask


def take_rows(observation: Elements, rows: Rows | int) -> Any:
    """Return a copy of these rows (or one row) of every leaf."""
    return buffer_func(observation, lambda leaf: leaf[rows])


def put_rows(observation: Elements, rows: Rows | int | np.integer[Any], values: Any) -> None:
    """Write values to these rows (or one row) of every leaf."""
    if isinstance(observation, tuple):
        for leaf, part in zip(tuple(observation), tuple(values), strict=True):
            put_rows(leaf, rows, part)
    else:
        observation[rows] = values
