"""Storage of constructor arguments as attributes, as used in original rlpyt classes."""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

_SAVED = "_saved_arguments"  # attribute: names that ``save__init__args`` has assigned
# Packages whose constructors kept the attributes that a subclass had assigned before.
_KEEPING = tuple(f"rlpyt.{name}." for name in ("algos", "agents", "replays", "samplers", "runners"))


def save__init__args(
    values: Mapping[str, Any],
    underscore: bool = False,
    overwrite: bool = False,
    subclass_only: bool = False,
) -> None:
    """Assign every constructor argument found in ``values`` to an attribute of the same name.

    Call it first in ``__init__``, before ``super().__init__()``, so that the arguments of a
    subclass take precedence over the defaults of its base, also if the base is one of rlpyt's
    algorithms, agents, replays, samplers or runners::

        >>> class Sized:
        ...     def __init__(self, size, unit="m"):
        ...         save__init__args(locals())
        >>> Sized(3).size, Sized(3).unit
        (3, 'm')

    Arguments are the named parameters of ``__init__`` in the class and its bases; ``*args`` and
    ``**kwargs`` are not unpacked, and other local variables are ignored. Existing attributes of the
    instance and of user-defined classes are kept. Class attributes of rlpyt's classes do not count
    as existing, but methods do, with a warning.

    Args:
        values: ``locals()`` of ``__init__``.
        underscore: put ``_`` before the attribute names.
        overwrite: also replace existing attributes of the instance or its class.
        subclass_only: use only arguments of the most derived ``__init__``.

    Raises:
        ValueError: ``values`` has no ``self``.
    """
    if "self" not in values:
        raise ValueError("values must be the locals() of an __init__ method, with 'self'.")
    self = values["self"]
    prefix = "_" if underscore else ""
    saved = []
    for name in _argument_names(type(self), subclass_only):
        attribute = prefix + name
        if name in values and (overwrite or not _exists(self, attribute)):
            setattr(self, attribute, values[name])
            saved.append(attribute)
    ours = [c for c in type(self).__mro__ if c.__module__.startswith(_KEEPING)]
    bases = [c for c in ours if "__init__" in vars(c)]
    if bases and saved:
        vars(self).setdefault(_SAVED, []).extend(saved)
        for base in bases:
            _keep_saved(base)


def _argument_names(cls: type[Any], subclass_only: bool) -> dict[str, None]:
    """Return unique argument names in order, without ``self``."""
    constructors = [vars(c)["__init__"] for c in cls.__mro__[:-1] if "__init__" in vars(c)]
    names: dict[str, None] = {}
    for constructor in constructors[:1] if subclass_only else constructors:
        names |= dict.fromkeys(_named_parameters(constructor))
    return names


def _named_parameters(constructor: Callable[..., Any]) -> list[str]:
    """Return the names of its parameters, without ``self``, ``*args`` and ``**kwargs``."""
    parameters = [*inspect.signature(constructor).parameters.values()][1:]
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _exists(self: Any, attribute: str) -> bool:
    """Return True if the object has the attribute, not only as a default of rlpyt's classes."""
    if attribute in getattr(self, "__dict__", ()):
        return True
    owner = next((c for c in type(self).__mro__ if attribute in vars(c)), None)
    if owner is None or not owner.__module__.startswith("rlpyt."):
        return hasattr(self, attribute)
    found = vars(owner)[attribute]
    if inspect.isroutine(found):
        warnings.warn(
            f"the argument {attribute} of {type(self).__name__} is not saved: "
            f"{owner.__name__}.{attribute} is a method. Assign it to another attribute.",
            stacklevel=3,
        )
        return True
    return inspect.isdatadescriptor(found) and getattr(found, "fset", None) is None


def _keep_saved(cls: type[Any]) -> None:
    """Make a constructor use the saved attributes of its object in place of its arguments."""
    constructor = vars(cls)["__init__"]
    if hasattr(constructor, _SAVED):
        return
    names, signature = _named_parameters(constructor), inspect.signature(constructor)

    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        saved = vars(self).get(_SAVED, ())
        if kept := {name: getattr(self, name) for name in names if name in saved}:
            given = signature.bind_partial(self, *args, **kwargs)
            given.arguments.update(kept)
            args, kwargs = given.args[1:], given.kwargs
        constructor(self, *args, **kwargs)

    setattr(__init__, _SAVED, True)
    cls.__init__ = __init__  # type: ignore[misc]
