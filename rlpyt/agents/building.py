"""Build models from users' classes and arguments."""

import contextlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from rlpyt.models.utils import own_module
from rlpyt.utils.collections import own_containers

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")


def build_model(ModelCls: Any, named: str, **kwargs: Any) -> Any:
    """Build a model.

    Args:
        ModelCls: class of the model.
        named: name of the argument in which users pass the model's arguments: "model_kwargs".
        **kwargs: all arguments of the model, which gets copies of dictionaries and lists.

    Raises:
        TypeError: the class does not accept one of the arguments.
    """
    try:
        with float32_by_default():
            return own_module(ModelCls(**own_containers(kwargs)), ModelCls)
    except TypeError as error:
        unknown = UNKNOWN.search(str(error))
        if unknown is None or unknown[1] not in kwargs:
            raise
        raise TypeError(
            f"{getattr(ModelCls, '__name__', ModelCls)} does not take {unknown[1]!r} ({named}); "
            f"it takes {', '.join(named_arguments(ModelCls))}."
        ) from error


@contextlib.contextmanager
def float32_by_default() -> Iterator[None]:
    """Let new parameters be float32, like the records of samplers, whatever torch's default is."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(default)


def named_arguments(cls: Any) -> list[str]:
    """Return the names of a class's arguments, including those that it passes to its parents."""
    inits = [p.__init__ for p in getattr(cls, "__mro__", ()) if "__init__" in vars(p)]
    names: set[str] = set()
    for init in inits or [cls]:
        parameters = inspect.signature(init).parameters.values()
        names |= {p.name for p in parameters if p.kind in NAMED and p.name != "self"}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return sorted(names)


def as_arguments(kwargs: Any, named: str) -> dict[str, Any]:
    """Return a copy of a model's arguments, {} for None.

    Raises:
        TypeError: ``kwargs`` is not a dictionary.
    """
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"{named} must be a dictionary of the model's arguments, got {kwargs!r}.")
    return dict(kwargs or {})


def with_default_sizes(ModelCls: Any, kwargs: Mapping[str, Any], sizes: Any) -> dict[str, Any]:
    """Add default ``hidden_sizes`` to the arguments if the model accepts them."""
    default = {"hidden_sizes": sizes} if "hidden_sizes" in named_arguments(ModelCls) else {}
    return {**default, **kwargs}
