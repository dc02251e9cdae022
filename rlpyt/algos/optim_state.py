"""States of optimizers, split and merged by network and by member of an ensemble.

An optimizer numbers its parameters in order, and keeps tensors for each in the parameter's shape.
"""

from collections.abc import Sequence
from typing import Any

import torch

State = dict[str, Any]
# Numbers that an optimizer keeps of a parameter, the same for all members: Adam's and others',
# NAdam's, ASGD's.
NUMBERS = frozenset(("step", "mu_product", "eta", "mu"))


def state_of(state: State, first: int, n: int) -> State:
    """Return the state of parameters ``first`` to ``first + n``, as of their own optimizer.

    Args:
        state: with one group of parameters.
        first, n: which.
    """
    (group,) = state["param_groups"]
    own = {i - first: entry for i, entry in state["state"].items() if first <= i < first + n}
    return {"state": own, "param_groups": [{**group, "params": list(range(n))}]}


def merge_states(parts: Sequence[State]) -> State:
    """Merge the states of consecutive parameters; settings are those of the first."""
    joined: State = {}
    first = 0
    for state in parts:
        joined |= {first + i: entry for i, entry in state["state"].items()}
        first += len(state["param_groups"][0]["params"])
    group = {**parts[0]["param_groups"][0], "params": list(range(first))}
    return {"state": joined, "param_groups": [group]}


def split_members(state: State, n_members: int) -> list[State]:
    """Split the state of E networks in one, parameters [E, ...], into one for each."""

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
    """Merge what ``split_members`` returned."""

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
