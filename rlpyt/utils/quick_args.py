"""Storage of constructor arguments as attributes, as used in original rlpyt classes."""

import inspect
from collections.abc import Mapping
from typing import Any


def save__init__args(
    values: Mapping[str, Any],
    underscore: bool = False,
    overwrite: bool = False,
    subclass_only: bool = False,
) -> None:
    """Assign every constructor argument found in ``values`` to an attribute of the same name.

    Call it first in ``__init__``, before ``super().__init__()``, so that the arguments of a
    subclass take precedence over the defaults of its base::

        >>> class Sized:
        ...     def __init__(self, size, unit="m"):
        ...         save__init__args(locals())
        >>> Sized(3).size, Sized(3).unit
        (3, 'm')

    Arguments are the named parameters of ``__init__`` in the class and its bases; ``*args`` and
    ``**kwargs`` are not unpacked, and other local variables are ignored.

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
    for name in _argument_names(type(self), subclass_only):
        attribute = prefix + name
        if name in values and (overwrite or not hasattr(self, attribute)):
            setattr(self, attribute, values[name])


def _argument_names(cls: type[Any], subclass_only: bool) -> dict[str, None]:
    """Return unique argument names in order, without ``self``."""
    constructors = [vars(c)["__init__"] for c in cls.__mro__[:-1] if "__init__" in vars(c)]
    names: dict[str, None] = {}
    for constructor in constructors[:1] if subclass_only else constructors:
        spec = inspect.getfullargspec(constructor)
        names |= dict.fromkeys(spec.args[1:] + spec.kwonlyargs)
    return names
