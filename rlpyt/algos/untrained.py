"""Warnings of parameters that will not be trained, once at the start of a run.

There are three kinds: frozen parameters, tensors that are not registered with the model, and
parameters that the loss does not depend on (``GradientStep`` checks that after its first backward
pass). Each can be intended, so they are warnings and not errors.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

MOST_NAMES = 8  # in one warning
Named = Iterator[tuple[str, torch.Tensor]]


def warn_of_untrained(model: nn.Module) -> None:
    """Warn of parameters that no optimizer will move: frozen ones and unregistered ones."""
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    if frozen:
        warnings.warn(f"parameters with requires_grad=False are not trained: {listed(frozen)}.")
    lost = unregistered(model)
    if lost:
        warnings.warn(
            f"tensors that are not registered with the model are neither trained nor saved nor "
            f"shared with workers: {listed(lost)}. Put lists of modules into nn.ModuleList, "
            "dictionaries into nn.ModuleDict, and tensors into nn.Parameter, or set "
            "requires_grad to False."
        )


def warn_without_gradient(names: Iterable[str], ranks: int = 1) -> None:
    """Warn of parameters that a backward pass did not reach, if there are any.

    Args:
        names: of these parameters.
        ranks: number of processes that average their gradients.

    Raises:
        ValueError: there are several ranks, which need a gradient for every parameter.
    """
    names = list(names)
    if names and ranks > 1:
        raise ValueError(
            "with several ranks the loss must depend on every parameter, but it does not depend on "
            f"{listed(names)}. Call requires_grad_(False) on parameters that are not used."
        )
    if names:
        warnings.warn(
            f"the loss does not depend on these parameters, so they are not trained: "
            f"{listed(names)}. "
            "Check whether outputs of the model are unused or detached."
        )


def unregistered(model: nn.Module) -> list[str]:
    """Return names of trainable tensors that are in a model's attributes but not its parameters.

    Those are lists, tuples, sets and dictionaries of modules or tensors, and bare tensors. What
    hides in other objects, or in closures, is not found.
    """
    known = {id(p) for p in model.parameters()}
    found: dict[int, str] = {}
    for path, module in model.named_modules():
        for attribute, value in vars(module).items():
            for name, tensor in _tensors_in(f"{path}.{attribute}" if path else attribute, value):
                if id(tensor) not in known:
                    found.setdefault(id(tensor), name)
    return list(found.values())


def listed(names: list[str]) -> str:
    """Join names for a message: the first few, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _tensors_in(name: str, value: Any, depth: int = 3) -> Named:
    """Yield trainable tensors in nested containers, down to ``depth``."""
    if isinstance(value, nn.Module):
        for own, parameter in value.named_parameters():
            if parameter.requires_grad:
                yield f"{name}.{own}", parameter
    elif isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf:
            yield name, value
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors_in(f"{name}[{key!r}]", item, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for i, item in enumerate(value):
            yield from _tensors_in(f"{name}[{i}]", item, depth - 1)
