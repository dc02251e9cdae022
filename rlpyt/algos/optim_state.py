"""Split and merge optimizer states by network and by member of an ensemble.

An optimizer numbers its parameters in order, and stores tensors in the shape of each parameter.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

State = dict[str, Any]
# Scalar entries of a parameter's state, equal for all members: of Adam and others, NAdam, ASGD.
NUMBERS = frozenset(("step", "mu_product", "eta", "mu"))


def state_of(state: State, numbers: Sequence[int]) -> State:
    """Return the state of some parameters, as if they had their own optimizer.

    Args:
        state: optimizer state.
        numbers: the optimizer's numbers of these parameters.
    """
    groups = state["param_groups"]
    first = numbers[0] if numbers else None
    group = next((group for group in groups if first in group["params"]), groups[0])
    entries = {i: state["state"][n] for i, n in enumerate(numbers) if n in state["state"]}
    return {"state": entries, "param_groups": [{**group, "params": list(range(len(numbers)))}]}


def merge_states(
    parts: Sequence[State], numbers: Sequence[Sequence[int]], groups: Sequence[State]
) -> State:
    """Merge states from ``state_of`` into one for an optimizer.

    Args:
        parts: states with one parameter group each.
        numbers: the optimizer's numbers of each part's parameters.
        groups: the optimizer's parameter groups; each gets the settings of the part that has its
            first parameter.

    Raises:
        ValueError: a part has another number of parameters.
    """
    joined: State = {}
    settings = {n: group for group in groups for n in group["params"]}
    for state, own in zip(parts, numbers, strict=True):
        (group,) = state["param_groups"]
        if len(group["params"]) != len(own):
            raise ValueError(
                f"the saved optimizer must have {len(own)} parameters of this network, got "
                f"{len(group['params'])}. Use the model that saved it."
            )
        joined |= {own[i]: entry for i, entry in state["state"].items()}
        settings |= dict.fromkeys(own, group)
    own_groups = (group["params"] for group in groups)
    merged = [{**settings[own[0]], "params": own} for own in own_groups if own]
    return {"state": joined, "param_groups": merged}


def split_members(state: State, n_members: int) -> list[State]:
    """Split the state of a network with parameters [E, ...] into one state per member."""

    def of(member: int) -> State:
        return _mapped(state, lambda n, name, x: x[member])

    return [of(member) for member in range(n_members)]


def join_members(states: Sequence[State]) -> State:
    """Merge states from ``split_members``."""
    return _mapped(states[0], lambda n, name, x: torch.stack([s["state"][n][name] for s in states]))


def _mapped(state: State, function: Callable[[int, str, torch.Tensor], Any]) -> State:
    """Replace the tensors of members by ``function(number of the parameter, name, tensor)``."""
    entries = {
        n: {
            name: function(n, name, x) if torch.is_tensor(x) and name not in NUMBERS else x
            for name, x in entry.items()
        }
        for n, entry in state["state"].items()
    }
    return {**state, "state": entries}
