"""Attributes under the names they had in rlpyt (2019), which subclasses read or assign."""

import operator
from collections.abc import Callable
from typing import Any


class OldName:
    """A further name of an attribute, to read and to assign::

        _ratio_clip = OldName("ratio_clip")

    Args:
        name: the attribute's name now; "part.name" if a part has it.
    """

    def __init__(self, name: str) -> None:
        self._part, _, self._name = name.rpartition(".")
        self._get = operator.attrgetter(name)

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else self._get(owner)

    def __set__(self, owner: Any, value: Any) -> None:
        setattr(getattr(owner, self._part) if self._part else owner, self._name, value)


class AssignableProperty:
    """A computed property that subclasses may assign to; the value then replaces it."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        return self if owner is None else self._compute(owner)
