"""Store constructor arguments as attributes, for classes written in rlpyt's idiom."""

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

    Call it first in ``__init__``, before ``super().__init__()``, so that what a subclass was given
    takes precedence over the defaults of its base::

        >>> class Sized:
        ...     def __init__(self, size, unit="m"):
        ...         save__init__args(locals())
        >>> Sized(3).size, Sized(3).unit
        (3, 'm')

    Arguments are those that ``__init__`` names, here or in a base class; ``*args`` and
    ``**kwargs`` are not unpacked, and other local variables are passed over.

    Args:
        values: ``locals()``.
        underscore: put ``_`` in front of the attribute names.
        overwrite: also assign where the instance or its class has the attribute already; left as
            it is otherwise.
        subclass_only: take only arguments of the most derived ``__init__``.

    Raises:
        ValueError: ``values`` has no ``self``.
    """
    if "self" not in values:
        raise ValueError("values must be the locals() of an __init__ method, which have 'self'.")
    self = values["self"]
    prefix = "_" if underscore else ""
    for name in _argument_names(type(self), subclass_only):
        attribute = prefix + name
        if name in values and (overwrite or not hasattr(self, attribute)):
            setattr(self, attribute, values[name])


def _argument_names(cls: type[Any], subclass_only: bool) -> dict[str, None]:
    """Names in order, each once, without ``self``."""
    constructors = [vars(c)["__init__"] for c in cls.__mro__[:-1] if "__init__" in vars(c)]
    names: dict[str, None] = {}
    for constructor in constructors[:1] if subclass_only else constructors:
        spec = inspect.getfullargspec(constructor)
        names |= dict.fromkeys(spec.args[1:] + spec.kwonlyargs)
    return names
