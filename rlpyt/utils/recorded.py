"""Descriptions of objects by the arguments of their construction, as plain data for JSON.

A part of a run is described as ``{"$call": "module:Class", "kwargs": {...}}``, and a class or
function as ``{"$name": "module:name"}``.
"""

import base64
import dataclasses
import functools
import importlib
import inspect
import re
import reprlib
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Self

import numpy as np

MARKS = ("$call", "$name", "$tuple", "$partial", "$missing", "$path", "$array", "$items")
NUMBERS = "biuf"  # kinds of arrays that are described
MAX_LISTED = 100  # elements of an array that are written as a list, longer ones in base64
BASE64 = "base64,"


class Recorded:
    """Base class of objects that remember the arguments of their construction."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments."""
        self = super().__new__(cls)
        self.__dict__["_constructed"] = (args, kwargs)
        return self

    def __repr__(self) -> str:
        args, kwargs = self.__dict__.get("_constructed", ((), {}))
        shown = [*map(_short, args), *(f"{key}={_short(value)}" for key, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(shown)})"


class FixedWhileRunning(Recorded):
    """Base class of objects whose arguments have no effect any more once they run."""

    _fixed: frozenset[str] = frozenset()  # attributes that cannot be assigned at present

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute.

        Raises:
            AttributeError: a change would have no effect.
        """
        if name in self._fixed:
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot be changed while it runs. Give it to the "
                "constructor."
            )
        super().__setattr__(name, value)


def describe(value: Any) -> Any:  # noqa: PLR0911 - a case per kind
    """Return a value as plain data; ``{"$missing": repr}`` in places that have no description."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, PurePath):
        return {"$path": str(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        return _described_array(value)
    if isinstance(value, list):
        return [describe(item) for item in value]
    if type(value) is tuple:
        return {"$tuple": [describe(item) for item in value]}
    if isinstance(value, dict):
        if all(isinstance(key, str) and key not in MARKS for key in value):
            return {key: describe(item) for key, item in value.items()}
        return {"$items": [[describe(key), describe(item)] for key, item in value.items()]}
    if isinstance(value, functools.partial):
        name, kwargs = describe(value.func), describe(value.keywords)
        return {"$partial": name, "args": describe([*value.args]), "kwargs": kwargs}
    if isinstance(value, type) or inspect.isfunction(value):
        name = importable_name(value)
        return {"$missing": _without_address(value)} if name is None else {"$name": name}
    name, kwargs = importable_name(type(value)), _arguments(value)
    if isinstance(value, Enum):
        kwargs = {"value": value.value}
    if name is None or kwargs is None:
        return {"$missing": _without_address(value)}
    return {"$call": name, "kwargs": {key: describe(item) for key, item in kwargs.items()}}


class NotDescribed(ValueError):
    """A part has no description in its file."""


def rebuild(  # noqa: PLR0911 - a case per kind
    described: Any, find: Callable[[str], Any], place: str = ""
) -> Any:
    """Return the value that was described.

    Args:
        described: result of `describe`.
        find: returns the class or function of a name "module:name".
        place: dotted name of the value, for errors.

    Raises:
        ValueError: a part has no description, or is not an object of a class; the message names
            it.
    """
    inner = functools.partial(rebuild, find=find)
    if isinstance(described, list):
        return [inner(item, place=f"{place}[{i}]") for i, item in enumerate(described)]
    if not isinstance(described, dict):
        return described
    mark = next((mark for mark in MARKS if mark in described), None)
    if mark == "$missing":
        raise NotDescribed(f"{place} cannot be rebuilt from its file: {described['$missing']}.")
    if mark == "$name":
        return find(described["$name"])
    if mark == "$tuple":
        return tuple(inner(described["$tuple"], place=place))
    if mark == "$path":
        return Path(described["$path"])
    if mark == "$array":
        return _rebuilt_array(described)
    if mark == "$items":
        return dict(inner(described["$items"], place=place))
    given = described.get("kwargs", {}) if mark else described
    prefix = f"{place}." if place else ""
    kwargs = {key: inner(item, place=f"{prefix}{key}") for key, item in given.items()}
    if mark == "$partial":
        args = inner(described["args"], place=place)
        return functools.partial(inner(described["$partial"], place=place), *args, **kwargs)
    if mark != "$call":
        return kwargs
    cls = find(described["$call"])
    if not isinstance(cls, type):
        raise ValueError(f"{place} must be an object of a class, got {described['$call']}.")
    return cls(**kwargs)


def missing_parts(
    described: Any, place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (place, representation) of the parts that have no description.

    The place consists of keys; parts inside a list or another part have the place of the whole.
    """
    if isinstance(described, list):
        for item in described:
            yield from missing_parts(item, place)
    elif isinstance(described, dict) and "$missing" in described:
        yield place, described["$missing"]
    elif isinstance(described, dict):
        marked = any(mark in described for mark in MARKS)
        for key, item in described.items():
            yield from missing_parts(item, place if marked else (*place, key))


def has_marks(described: Any) -> bool:
    """Return True if plain data contains the description of an object."""
    if isinstance(described, list):
        return any(map(has_marks, described))
    if not isinstance(described, dict):
        return False
    return any(key in MARKS or has_marks(item) for key, item in described.items())


def label(part: Any) -> str:
    """Return a short name for messages: of a class, a function or its description; or a string."""
    if isinstance(part, dict):
        return label(next(iter(part.values()), ""))
    if isinstance(part, functools.partial):
        return label(part.func)
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


def importable_name(part: Any) -> str | None:
    """Return "module:name" of a class or function, or ``None`` if it cannot be imported by it.

    The module of the main script is its file's name, which other programs can import.
    """
    module, name = getattr(part, "__module__", None), getattr(part, "__qualname__", "<")
    if module is None or "<" in name:
        return None
    try:
        found: Any = importlib.import_module(module)
    except ImportError:  # a class that was made while the program runs
        return None
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    if found is not part:
        return None
    return f"{main_name() if module == '__main__' else module}:{name}"


def main_name() -> str:
    """Return the name by which the main script can be imported; "__main__" if it cannot be."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:  # python -m package.module
        return main.__spec__.name  # type: ignore[union-attr]
    path = Path(getattr(main, "__file__", None) or "")
    return path.stem if path.suffix == ".py" else "__main__"  # the command "rlpyt" has no suffix


def _described_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    listed = array.size <= MAX_LISTED
    values = array.tolist() if listed else BASE64 + base64.b64encode(array.tobytes()).decode()
    return {"$array": values, "dtype": array.dtype.str, "shape": list(array.shape)}


def _rebuilt_array(described: dict[str, Any]) -> np.ndarray[Any, Any]:
    values, dtype = described["$array"], np.dtype(described["dtype"])
    if dtype.kind not in NUMBERS:
        raise ValueError(f"an array must contain numbers, got dtype {dtype}.")
    if isinstance(values, str):
        array = np.frombuffer(base64.b64decode(values.removeprefix(BASE64)), dtype).copy()
    else:
        array = np.array(values, dtype)
    return array.reshape(described["shape"])


def _without_address(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:80]


def _short(value: Any) -> str:
    """Return a value's representation, classes and functions by their names."""
    named = isinstance(value, type) or inspect.isfunction(value)
    return value.__name__ if named else reprlib.repr(value)


def _arguments(value: Any) -> dict[str, Any] | None:
    """Return the arguments with which an object was constructed, by name; ``None``: unknown."""
    args, kwargs = getattr(value, "_constructed", (None, {}))
    if args is None and dataclasses.is_dataclass(value):
        fields = (item for item in dataclasses.fields(value) if item.init)
        return {item.name: getattr(value, item.name) for item in fields}
    if args is None:
        return None
    names = _positional_names(type(value))
    if len(args) > len(names):
        return None
    return {**dict(zip(names, args)), **kwargs}


def _positional_names(cls: type) -> list[str]:
    """Return the names of the constructor's positional arguments."""
    for parent in cls.__mro__:
        if "__init__" in vars(parent):
            parameters = [*inspect.signature(vars(parent)["__init__"]).parameters.values()][1:]
            if not any(item.kind is item.VAR_POSITIONAL for item in parameters):
                named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                return [item.name for item in parameters if item.kind in named]
    return []
