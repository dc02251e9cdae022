"""First observations that a source showed before they were asked for."""

from typing import Any

import numpy as np

from rlpyt.envs.vector.base import Rows
from rlpyt.utils.buffer import buffer_func


class ResetStash:
    """What a SAME_STEP source's own resets showed in the last step; worth nothing after the next.

    Owned by an adapter: `keep` at the step, `take` when ``reset_rows`` asks, `forget` before the
    next step.
    """

    def __init__(self, n: int) -> None:
        self._place = np.full(n, -1)  # where in the kept rows; -1: nowhere
        self._kept: Any = None

    def keep(self, observation: Any, rows: Rows) -> None:
        """Copy these rows of a batch [n, ...]."""
        self._kept = take_rows(observation, rows)
        self._place[rows] = np.arange(len(rows))

    def forget(self) -> None:
        """The source has moved on."""
        if self._kept is not None:
            self._kept = None
            self._place[:] = -1

    def take(self, rows: Rows) -> Any:
        """Return the first observations [len(rows), ...] if all are here, else ``None``.

        Each is given once: whoever asks again wants another episode.
        """
        places = self._place[rows]
        if self._kept is None or (places < 0).any():
            return None
        self._place[rows] = -1
        return take_rows(self._kept, places)

    def missing(self, rows: Rows) -> Rows:
        """Return which of the rows are not here, and give none of them again."""
        missing: Rows = rows[self._place[rows] < 0]
        self._place[rows] = -1
        return missing


def take_rows(observation: Any, rows: Rows) -> Any:
    """Return these rows of every leaf, in memory of their own."""
    return buffer_func(observation, lambda leaf: leaf[rows])


def put_rows(observation: Any, rows: Any, values: Any) -> None:
    """Write into these rows (or one) of every leaf."""
    if isinstance(observation, tuple):
        for leaf, part in zip(tuple(observation), tuple(values), strict=True):
            put_rows(leaf, rows, part)
    else:
        observation[rows] = values
