"""Warnings of parameters that will not be trained, once at the start of a run.

Three mistakes that nothing else notices: parameters that are frozen, parameters that the model does
not know of, and parameters that the loss does not depend on (``GradientStep`` looks for the last
after its first backward pass). Each may be meant so, hence warnings and not errors.
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
        warnings.warn(f"not trained, for requires_grad is False: {listed(frozen)}.")
    lost = unregistered(model)
    if lost:
        warnings.warn(
            f"neither trained nor saved nor known to worker processes: {listed(lost)}. A module "
            "keeps what is assigned to it directly; put lists of modules into nn.ModuleList, "
            "dictionaries into nn.ModuleDict, and tensors into nn.Parameter (or set their "
            "requires_grad to False)."
        )


def warn_without_gradient(names: Iterable[str], ranks: int = 1) -> None:
    """Warn of parameters that a backward pass did not reach, if there are any.

    Args:
        names: of them.
        ranks: processes that average their gradients.

    Raises:
        ValueError: there are several; they wait for the gradient of every parameter.
    """
    names = list(names)
    if names and ranks > 1:
        raise ValueError(
            f"the loss does not depend on these parameters: {listed(names)}. Where several ranks "
            "train together, all parameters need a gradient; call requires_grad_(False) on others."
        )
    if names:
        warnings.warn(
            f"the loss does not depend on these parameters, which stay as they are: {listed(names)}"
            ". Look for outputs of the model that are not used, or detached."
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
