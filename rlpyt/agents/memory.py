"""Recurrent states while acting: one per mode and group of environments."""

from typing import Any

import torch

from rlpyt.utils.buffer import buffer_func, from_dicts, to_dicts
from rlpyt.utils.collections import is_namedtuple, namedarraytuple_like


class RecurrentMemory:
    """An agent's recurrent states [N, B, H], by mode and group of environments.

    The other methods concern the selected state only; other groups and the other mode (sampling,
    evaluation) are not changed. A state is a tensor or a tuple of tensors, depending on the model.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], Any] = {}
        self._mode = "sample"
        self._group = 0

    def select(self, mode: str | None = None, group: int | None = None) -> None:
        """Select the state of this mode and group of environments."""
        self._mode = self._mode if mode is None else mode
        self._group = self._group if group is None else group

    @property
    def state(self) -> Any:
        """Return the selected state, leaves [N, B, H]; ``None`` (zeros) at the start."""
        return self._states.get((self._mode, self._group))

    def advance(self, state: Any) -> None:
        """Replace the selected state by the model's new one."""
        if is_namedtuple(state):  # a namedarraytuple can be indexed by rows
            state = namedarraytuple_like(state)._make(state)
        self._states[self._mode, self._group] = state

    def clear(self, mode: str | None = None) -> None:
        """Delete the selected state, or all states of one mode."""
        if mode is None:
            self._states.pop((self._mode, self._group), None)
        else:
            self._states = {key: s for key, s in self._states.items() if key[0] != mode}

    def reset_one(self, idx: int) -> None:
        """Zero the state of one environment of the selected group."""
        buffer_func(self.state, _zero_column, idx)

    def reset_rows(self, where: torch.Tensor) -> None:
        """Zero the states of environments of the selected group, where the mask [B] is true."""
        buffer_func(self.state, _zero_columns, where)

    def forget(self) -> None:
        """Delete the states of all modes and groups."""
        self._states = {}

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all states, as plain trees."""
        return {f"{mode}/{group}": to_dicts(s) for (mode, group), s in self._states.items()}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        self._states = {}
        for key, plain in states.items():
            mode, group = key.split("/")
            self._states[mode, int(group)] = from_dicts(plain)


def _zero_column(leaf: torch.Tensor, idx: int) -> None:
    leaf[:, idx] = 0


def _zero_columns(leaf: torch.Tensor, where: torch.Tensor) -> None:
    leaf.masked_fill_(where.view(-1, *[1] * (leaf.dim() - 2)), 0)
