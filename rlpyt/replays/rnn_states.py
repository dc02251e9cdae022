"""Recurrent states of the agent, stored for the rows at which sequences may start."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory
from rlpyt.replays.rows import RowStore, check_structure, describe
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import NamedArrayTuple, without_fields

FIELD = "prev_rnn_state"


class RnnStateStore:
    """Recurrent states [T / interval, B, ...] of every ``interval``-th row.

    If the interval is below 1, no states are stored.
    """

    def __init__(
        self, example: NamedArrayTuple, interval: int, T: int, B: int, memory: Memory
    ) -> None:
        state = getattr(example, FIELD, None)
        self.interval = interval
        self.rows: RowStore | None = None
        if interval >= 1:
            if state is None:
                raise TypeError(
                    f"the example must have the field {FIELD} if rnn_state_interval={interval}. "
                    "Add the field, or set rnn_state_interval=0."
                )
            self.rows = RowStore(state, T // interval, B, memory)
            self._structure = describe(state)
        self.in_samples = FIELD in getattr(example, "_fields", ())  # samples have this field

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
        if not self.in_samples or FIELD not in samples._fields:
            return samples
        return without_fields(samples, FIELD)

    def check(self, samples: NamedArrayTuple) -> None:
        """Compare the states of samples with the example.

        Raises:
            TypeError, ValueError: the structure differs.
        """
        if self.rows is not None:
            check_structure(getattr(samples, FIELD, None), self._structure, f"samples.{FIELD}")

    def write(self, start: int, samples: NamedArrayTuple, n: int) -> None:
        """Write every ``interval``-th state of samples [n, B, ...] from absolute row ``start``."""
        if self.rows is None:
            return
        first = -start % self.interval
        stored = np.arange(start + first, start + n, self.interval)
        stored = stored // self.interval % self.rows.T
        for destination, source in zip(self.rows.leaves, leaves_of(getattr(samples, FIELD))):
            destination[stored] = source[first :: self.interval]

    def at(self, T_idxs: NDArray[Any], B_idxs: NDArray[Any]) -> Any:
        """Return the states [N, ...] before rows [N], or None if none are stored.

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
        return batch(self.rows.keys, 0)

    def state(self, rows: int) -> dict[str, Any]:
        """Return the states of the first ``rows`` rows."""
        return {} if self.rows is None else self.rows.state(-(-rows // self.interval))

    def load(self, state: dict[str, Any]) -> None:
        """Load states saved by ``state``."""
        if self.rows is not None:
            self.rows.load(state)
