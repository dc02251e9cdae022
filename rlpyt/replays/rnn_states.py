"""Recurrent states of the agent, stored for the rows at which sequences may start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory
from rlpyt.replays.rows import RowStore, check_alike, describe
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import NamedArrayTuple, without_fields

NAME = "prev_rnn_state"


class RnnStateStore:
    """States [T / interval, B, ...] of every ``interval``-th row.

    With interval 1 every row has a state; with an interval below 1 none is stored.
    """

    def __init__(
        self, example: NamedArrayTuple, interval: int, T: int, B: int, memory: Memory
    ) -> None:
        state = getattr(example, NAME, None)
        self.interval = interval
        self.rows: RowStore | None = None
        if interval >= 1:
            if state is None:
                raise TypeError(
                    f"rnn_state_interval={interval} stores recurrent states, but the example has "
                    f"no {NAME}. Add the field, or set rnn_state_interval=0."
                )
            self.rows = RowStore(state, T // interval, B, memory)
            self._structure = describe(state)
        self.given = NAME in getattr(example, "_fields", ())  # samples bring states

    @property
    def samples(self) -> Any:
        """Return the states [T / interval, B, ...], or None."""
        return None if self.rows is None else self.rows.tree

    @property
    def bytes_per_row(self) -> float:
        """Return the bytes of states per transition."""
        return 0.0 if self.rows is None else self.rows.row_bytes / self.interval

    def without(self, samples: NamedArrayTuple) -> Any:
        """Return samples without their recurrent states."""
        if not self.given or NAME not in samples._fields:
            return samples
        return without_fields(samples, NAME)

    def check(self, samples: NamedArrayTuple) -> None:
        """Compare new states with the example.

        Raises:
            TypeError, ValueError: they have another structure.
        """
        if self.rows is not None:
            check_alike(getattr(samples, NAME, None), self._structure, f"samples.{NAME}")

    def write(self, start: int, samples: NamedArrayTuple, n: int) -> None:
        """Write states [n, B, ...] from absolute row ``start``: those of every interval-th row."""
        if self.rows is None:
            return
        first = -start % self.interval
        stored = np.arange(start + first, start + n, self.interval)
        stored = stored // self.interval % self.rows.T
        for destination, source in zip(self.rows.leaves, leaves_of(getattr(samples, NAME))):
            destination[stored] = source[first :: self.interval]

    def at(self, T_idxs: NDArray[Any], B_idxs: NDArray[Any]) -> Any:
        """Return the states [N, ...] before rows [N], or None if there are none.

        Raises:
            ValueError: no state is stored for one of the rows.
        """
        if self.rows is None:
            return None
        if (T_idxs % self.interval).any():
            raise ValueError(
                f"sequences must start at multiples of rnn_state_interval={self.interval}, got "
                f"rows {T_idxs}."
            )
        batch = self.rows.read((T_idxs // self.interval * self.rows.B + B_idxs)[None])
        return batch(self.rows.numbers, 0)

    def state(self, rows: int) -> dict[str, Any]:
        """Return the states of the first ``rows`` rows."""
        return {} if self.rows is None else self.rows.state(-(-rows // self.interval))

    def load(self, state: dict[str, Any]) -> None:
        """Load states saved by ``state``."""
        if self.rows is not None:
            self.rows.load(state)
