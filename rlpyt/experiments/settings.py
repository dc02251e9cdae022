"""The settings that a run of an algorithm has: their types, and their values unless told otherwise.

The command line and sweep files both start from here, so the same request gives the same run.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlpyt.experiments.build import algorithm_class, env_recipe
from rlpyt.experiments.configs.presets import layers
from rlpyt.experiments.options import RunOptions, Settings
from rlpyt.utils.names import UnknownName

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class PlainField(NamedTuple):
    """A field of a dataclass whose values can be written down.

    Attributes:
        hint: its type; ``str`` where the field is a class, which is given by its name.
        default: its value if none is given.
        is_class: whether the value is the name of a class.
    """

    hint: Any
    default: Any
    is_class: bool


def plain_fields(cls: type) -> dict[str, PlainField]:
    """The fields of a dataclass that fit on a command line or into a file, in order.

    Fields for a class (``type[Optimizer]``) count, by its name; those for other objects (``Any``)
    do not.
    """
    hints = typing.get_type_hints(cls)
    chosen = {}
    for item in dataclasses.fields(cls):
        hint, default = hints[item.name], item.default
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory()
        is_class = typing.get_origin(hint) is type
        if is_class:
            hint, default = str, getattr(default, "__name__", default)
        if item.init and _is_plain(hint):
            chosen[item.name] = PlainField(hint, default, is_class)
    return chosen


def default_options(algo_name: str, env_id: str, preset: str | None = None) -> RunOptions:
    """What ``rlpyt train ALGO ENV`` runs without further flags.

    Args:
        algo_name: a key of ``ALGORITHMS``.
        env_id: see :func:`~rlpyt.experiments.build.env_recipe`.
        preset: a family of environments whose settings to take.

    Raises:
        UnknownName: no such algorithm or preset.
        ValueError: no such environment, or the algorithm cannot play it.
        ImportError: the environment needs a package that is missing.
    """
    fields = plain_fields(algorithm_class(algo_name))
    algo = {name: field.default for name, field in fields.items()}
    options = RunOptions(algo_name=algo_name, env=env_id, algo=algo)
    for layer in layers(algo_name, env_id, env_recipe(env_id).family, preset):
        options = options.updated(layer)
    return options


def setting_types(algo_name: str) -> dict[str, Any]:
    """The type of every setting of a run, by its dotted name: ``{"sampler.batch_B": int, ...}``.

    Raises:
        UnknownName: no such algorithm.
    """
    found = {"algo_name": str, "env": str, **_nested_types(Settings, "")}
    for name, field in plain_fields(algorithm_class(algo_name)).items():
        found[f"algo.{name}"] = field.hint
    return found


def type_of(name: str, known: Mapping[str, Any], kind: str = "setting") -> Any:
    """The type of one setting, from those of :func:`setting_types`.

    What lies inside a dictionary (``env_args.gravity``) may be anything.

    Raises:
        UnknownName: there is no such setting; ``kind`` begins the message.
    """
    if name in known:
        return known[name]
    way = name.split(".")
    for end in range(1, len(way)):
        parts = _parts(known.get(".".join(way[:end])))
        if any(typing.get_origin(part) is dict for part in parts):
            return Any
    raise UnknownName(kind, name, known)


def fitted(value: Any, hint: Any) -> Any:  # noqa: PLR0911 - a case per kind of type
    """A value as read from a file, as the type wants it: whole floats as ints, lists as tuples.

    Raises:
        TypeError: it does not fit; the message says what would.
    """
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is Any or (hint in (bool, str) and isinstance(value, hint)):
        return value
    if hint is float and number:
        return float(value)
    if hint is int and number and value == value // 1:  # not so of inf and nan
        return int(value)
    if hint in (types.NoneType, None) and value is None:
        return None
    if origin is typing.Literal and value in inside:
        return value
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if origin is tuple and isinstance(value, list | tuple):
        each = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        if len(each) == len(value):
            return tuple(map(fitted, value, each))
    for part in inside if is_union(hint) else ():
        try:
            return fitted(value, part)
        except TypeError:
            continue
    raise TypeError(f"expected {in_words(hint)}, got {value!r}.")


def in_words(hint: Any) -> str:
    """A type as one would say it: ``float | None`` is "a number or null"."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if is_union(hint):
        return " or ".join(map(in_words, inside))
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, inside))}"
    if origin is tuple:
        parts = ["..." if part is Ellipsis else in_words(part) for part in inside]
        return f"a list ({', '.join(parts)})"
    if origin is dict:
        return "a dictionary"
    return "null" if hint in (types.NoneType, None) else PLAIN.get(hint, "something else")


def is_union(hint: Any) -> bool:
    """Whether a type is one of several: ``float | None``."""
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _nested_types(cls: type, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(cls).items():
        if dataclasses.is_dataclass(hint):
            found |= _nested_types(typing.cast(type, hint), f"{prefix}{name}.")
        else:
            found[prefix + name] = hint
    return found


def _is_plain(hint: Any) -> bool:
    if is_union(hint) or typing.get_origin(hint) is tuple:
        return all(_is_plain(part) for part in typing.get_args(hint) if part is not Ellipsis)
    return typing.get_origin(hint) in (typing.Literal, dict) or hint in (*PLAIN, types.NoneType)


def _parts(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if is_union(hint) else (hint,)
