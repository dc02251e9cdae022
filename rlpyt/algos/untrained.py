"""Warnings of parameters that are not trained, once at the start of a run.

There are three kinds: frozen parameters, tensors that are not registered with the model, and
parameters on which the loss does not depend (``GradientStep`` checks this after its first backward
pass). Each can be intended, so these are warnings and not errors.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

MOST_NAMES = 8  # maximum number of names in one warning
Named = Iterator[tuple[str, torch.Tensor]]


def warn_of_untrained(model: nn.Module) -> None:
    """Warn of frozen parameters and of unregistered tensors."""
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    if frozen:
        warnings.warn(
            f"parameters with requires_grad=False are not trained: {join_names(frozen)}. To train "
            "them later, build them with requires_grad=True, and freeze them in a hook's on_start."
        )
    lost = unregistered(model)
    if lost:
        warnings.warn(
            f"tensors that are not registered with the model are not trained, saved or shared with "
            f"workers: {join_names(lost)}. Put lists of modules into nn.ModuleList, "
            "dictionaries into nn.ModuleDict, and tensors into nn.Parameter, or set "
            "requires_grad to False."
        )


def warn_without_gradient(names: Iterable[str], ranks: int = 1) -> None:
    """Warn of parameters that a backward pass did not reach, if there are any.

    Args:
        names: names of these parameters.
        ranks: number of processes that average their gradients.

    Raises:
        ValueError: there are several ranks, which need a gradient for every parameter.
    """
    names = list(names)
    if names and ranks > 1:
        raise ValueError(
            "with several ranks the loss must depend on every parameter, but it does not depend on "
            f"{join_names(names)}. Call requires_grad_(False) on parameters that are not used."
        )
    if names:
        warnings.warn(
            f"the loss does not depend on these parameters, so they are not trained: "
            f"{join_names(names)}. Look for unused or detached outputs of the model."
        )


def unregistered(model: nn.Module) -> list[str]:
    """Return the names of trainable tensors in a model's attributes that are not parameters.

    Search tensors, and lists, tuples, sets and dictionaries of modules or tensors. Tensors in other
    objects or in closures are not found.
    """
    # A model may override `parameters` to leave out those that it does not train.
    known = {id(p) for _, p in nn.Module.named_parameters(model)}
    found: dict[int, str] = {}
    for path, module in model.named_modules():
        for attribute, value in vars(module).items():
            for name, tensor in _tensors_in(f"{path}.{attribute}" if path else attribute, value):
                if id(tensor) not in known:
                    found.setdefault(id(tensor), name)
    return list(found.values())


def join_names(names: list[str]) -> str:
    """Join the first few names for a message, and count the others."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _tensors_in(name: str, value: Any, depth: int = 3) -> Named:
    """Yield trainable tensors in nested containers, down to ``depth``."""
    if isinstance(value, nn.Module):
        for path, parameter in value.named_parameters():
            if parameter.requires_grad:
                yield f"{name}.{path}", parameter
    elif isinstance(value, torch.Tensor):
        if value.requires_grad and value.is_leaf:
            yield name, value
    elif depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors_in(f"{name}[{key!r}]", item, depth - 1)
    elif depth and isinstance(value, list | tuple | set | frozenset):
        for i, item in enumerate(value):
            yield from _tensors_in(f"{name}[{i}]", item, depth - 1)
