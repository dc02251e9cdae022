"""Models from classes and arguments that people give."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")


def build_model(ModelCls: Any, named: str, **kwargs: Any) -> Any:
    """A model.

    Args:
        ModelCls: its class.
        named: what its further arguments are called where people give them: "model_kwargs".
        **kwargs: all of its arguments.

    Raises:
        TypeError: it does not take one of them; the message says which it takes.
    """
    try:
        return ModelCls(**kwargs)
    except TypeError as error:
        unknown = UNKNOWN.search(str(error))
        if unknown is None or unknown[1] not in kwargs:
            raise
        raise TypeError(
            f"{getattr(ModelCls, '__name__', ModelCls)} does not take {unknown[1]!r} ({named}); "
            f"it takes {', '.join(named_arguments(ModelCls))}."
        ) from error


def named_arguments(cls: Any) -> list[str]:
    """Names of the arguments that a class spells out, and its parents as far as it passes on."""
    inits = [p.__init__ for p in getattr(cls, "__mro__", ()) if "__init__" in vars(p)]
    names: set[str] = set()
    for init in inits or [cls]:
        parameters = inspect.signature(init).parameters.values()
        names |= {p.name for p in parameters if p.kind in NAMED and p.name != "self"}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return sorted(names)


def as_arguments(given: Any, named: str) -> dict[str, Any]:
    """A model's further arguments as a dictionary of its own.

    Raises:
        TypeError: what was given is no dictionary.
    """
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{named}={given!r} must be a dictionary of the model's arguments.")
    return dict(given or {})


def with_default_sizes(ModelCls: Any, given: Mapping[str, Any], sizes: Any) -> dict[str, Any]:
    """Arguments with ``hidden_sizes``, where the model takes them and they are not among these."""
    default = {"hidden_sizes": sizes} if "hidden_sizes" in named_arguments(ModelCls) else {}
    return {**default, **given}
