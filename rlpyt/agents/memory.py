"""Recurrent state while acting: one per mode and per group of environments."""

from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import is_namedtuple, namedarraytuple_like


class RecurrentMemory:
    """Holds recurrent states [N, B, H], keyed by (mode, rows of the batch).

    The agent owns it. Whoever asks the agent to act says for which rows; states of other rows
    and of the other mode (sampling, evaluation) are out of reach meanwhile, so nothing needs to
    be stashed or swapped.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], Any] = {}
        self._mode = "sample"
        self._group = 0

    def attend(self, mode: str | None = None, group: int | None = None) -> None:
        """From now on, mean the state of this mode and group of environments."""
        self._mode = self._mode if mode is None else mode
        self._group = self._group if group is None else group

    @property
    def group(self) -> int:
        """The group of environments attended to."""
        return self._group

    @property
    def state(self) -> Any:
        """The state attended to, leaves [N, B, H]; ``None`` (zeros) at the start."""
        return self._states.get((self._mode, self._group))

    def advance(self, state: Any) -> None:
        """Replace the state attended to by the model's new one."""
        if is_namedtuple(state):  # rows are then indexed through all fields at once
            state = namedarraytuple_like(state)._make(state)
        self._states[self._mode, self._group] = state

    def clear(self, mode: str | None = None) -> None:
        """Forget the state attended to, or all states of one mode."""
        if mode is None:
            self._states.pop((self._mode, self._group), None)
        else:
            self._states = {key: s for key, s in self._states.items() if key[0] != mode}

    def reset_one(self, idx: int) -> None:
        """Zero the state of one environment of the group attended to."""
        state = self.state
        if state is not None:
            buffer_func(state, _zero_column, idx)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states, leaves in order."""
        from rlpyt.utils.buffer import leaves_of

        return {
            f"{mode}/{group}": [leaf.clone() for leaf in leaves_of(state)]
            for (mode, group), state in self._states.items()
        }

    def load_state_dict(self, states: dict[str, list[torch.Tensor]], example: Any) -> None:
        """Restore; ``example`` is any state, for the structure."""
        for key, leaves in states.items():
            mode, group = key.split("/")
            rest = iter(leaves)
            state = buffer_func(example, lambda _, rest=rest: next(rest).clone())
            self._states[mode, int(group)] = state


def _zero_column(leaf: torch.Tensor, idx: int) -> None:
    leaf[:, idx] = 0
