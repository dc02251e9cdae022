"""Recurrent states of the agent, kept for the rows at which sequences may begin."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory
from rlpyt.replays.records import Records, check_alike, describe
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import namedarraytuple

NAME = "prev_rnn_state"


class RnnStates:
    """[T / interval, B, ...] states, of every ``interval``-th row.

    With interval 1 every row has one; below 1, or where the example has no ``prev_rnn_state``,
    nothing is kept.
    """

    def __init__(self, example: Any, interval: int, T: int, B: int, memory: Memory) -> None:
        state = getattr(example, NAME, None)
        self.interval = interval
        self.rows: Records | None = None
        if interval >= 1:
            if state is None:
                raise TypeError(
                    f"rnn_state_interval={interval} stores recurrent states, and the example has "
                    f"no {NAME}; give one, or rnn_state_interval=0."
                )
            self.rows = Records(state, T // interval, B, memory)
            self._structure = describe(state)
        self.given = NAME in getattr(example, "_fields", ())  # samples bring them

    @property
    def samples(self) -> Any:
        """[T / interval, B, ...] states, or None."""
        return None if self.rows is None else self.rows.tree

    @property
    def bytes_per_row(self) -> float:
        """What a transition takes of them."""
        return 0.0 if self.rows is None else self.rows.row_bytes / self.interval

    def without(self, samples: Any) -> Any:
        """Samples without their recurrent states."""
        if not self.given or NAME not in samples._fields:
            return samples
        fields = tuple(name for name in samples._fields if name != NAME)
        cls = namedarraytuple(type(samples).__name__, fields)
        return cls(*(getattr(samples, name) for name in fields))

    def check(self, samples: Any) -> None:
        """Compare new states with the example.

        Raises:
            TypeError, ValueError: they differ.
        """
        if self.rows is not None:
            check_alike(getattr(samples, NAME, None), self._structure, f"samples.{NAME}")

    def write(self, start: int, samples: Any, n: int) -> None:
        """Keep the states [n, B, ...] of those rows from absolute row ``start`` that want one."""
        if self.rows is None:
            return
        first = -start % self.interval
        places = np.arange(start + first, start + n, self.interval)
        places = places // self.interval % self.rows.T
        for destination, source in zip(self.rows.leaves, leaves_of(getattr(samples, NAME))):
            destination[places] = source[first :: self.interval]

    def at(self, idxs: NDArray[Any]) -> Any:
        """States [N, ...] with which the agent began the rows at ``idxs`` [N] (t * B + b), or None.

        Raises:
            ValueError: a row has none.
        """
        if self.rows is None:
            return None
        T_idxs, B_idxs = np.divmod(idxs, self.rows.B)
        if (T_idxs % self.interval).any():
            raise ValueError(
                f"sequences begin at multiples of rnn_state_interval={self.interval}, got rows "
                f"{T_idxs}."
            )
        cut = self.rows.cut((T_idxs // self.interval * self.rows.B + B_idxs)[None])
        return cut(self.rows.numbers, 0)

    def state(self, rows: int) -> dict[str, Any]:
        """The states of the first ``rows`` rows."""
        if self.rows is None:
            return {}
        n = -(-rows // self.interval) * self.rows.B
        large = {str(i): leaf[:n] for i, leaf in self.rows.flat_leaves.items()}
        return {"records": self.rows.flat_records[:n], "large": large}

    def load(self, state: dict[str, Any]) -> None:
        """Hold what ``state`` gave."""
        if self.rows is None:
            return
        self.rows.flat_records[: len(state["records"])] = state["records"]
        for i, leaf in state["large"].items():
            self.rows.flat_leaves[int(i)][: len(leaf)] = leaf
