"""Split and merge optimizer states by network and by member of an ensemble.

An optimizer numbers its parameters in order, and stores tensors in the shape of each parameter.
"""

from collections.abc import Sequence
from typing import Any

import torch

State = dict[str, Any]
# Scalar entries of a parameter's state, equal for all members: of Adam and others, NAdam, ASGD.
NUMBERS = frozenset(("step", "mu_product", "eta", "mu"))


def state_of(state: State, first: int, n: int) -> State:
    """Return the state of ``n`` parameters from ``first``, as if they had their own optimizer.

    Args:
        state: optimizer state.
        first, n: index of the first parameter, and number of parameters.
    """
    groups = state["param_groups"]
    group = next((group for group in groups if first in group["params"]), groups[0])
    entries = {i - first: entry for i, entry in state["state"].items() if first <= i < first + n}
    return {"state": entries, "param_groups": [{**group, "params": list(range(n))}]}


def merge_states(parts: Sequence[State], rates: Sequence[str] | None = None) -> State:
    """Merge the states of consecutive parameters.

    Args:
        parts: states with one parameter group each.
        rates: names of their learning rates; consecutive parts with the same one become a
            parameter group, with the settings of the first part. ``None``: all have the same.
    """
    joined: State = {}
    groups: list[State] = []
    first, last = 0, None
    for state, rate in zip(parts, rates or [""] * len(parts), strict=True):
        (group,) = state["param_groups"]
        n = len(group["params"])
        joined |= {first + i: entry for i, entry in state["state"].items()}
        if n and (rate != last or not groups):
            groups.append({**group, "params": []})
            last = rate
        if n:
            groups[-1]["params"] += range(first, first + n)
        first += n
    return {"state": joined, "param_groups": groups}


def split_members(state: State, n_members: int) -> list[State]:
    """Split the state of a network with parameters [E, ...] into one state per member."""

    def of(member: int, name: str, value: Any) -> Any:
        tensor = isinstance(value, torch.Tensor) and name not in NUMBERS
        return value[member] if tensor else value

    return [
        {
            **state,
            "state": {
                i: {name: of(member, name, value) for name, value in entry.items()}
                for i, entry in state["state"].items()
            },
        }
        for member in range(n_members)
    ]


def join_members(states: Sequence[State]) -> State:
    """Merge states from ``split_members``."""

    def joined(name: str, values: list[Any]) -> Any:
        tensors = isinstance(values[0], torch.Tensor) and name not in NUMBERS
        return torch.stack(values) if tensors else values[0]

    first = states[0]
    return {
        **first,
        "state": {
            i: {name: joined(name, [s["state"][i][name] for s in states]) for name in entry}
            for i, entry in first["state"].items()
        },
    }
