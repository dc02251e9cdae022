"""Types and default values of the settings of a run.

The command line and sweep files both use them, so that the same settings give the same run.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlpyt.algos.sequences import SequenceSettings
from rlpyt.envs.tensor import is_tensor_env
from rlpyt.experiments.build import env_recipe, optimizer_name
from rlpyt.experiments.options import AgentOptions, RunOptions, SamplerOptions, Settings
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.registry import algorithm_class, algorithm_named, base_algorithm
from rlpyt.samplers.fault_policy import as_policy
from rlpyt.utils.checks import Scheduled, declared, limits_of
from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import label

PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


Points = tuple[tuple[float, float], ...]  # of a schedule


class PlainField(NamedTuple):
    """Field of a dataclass whose values can be given as text.

    Attributes:
        hint: type of the field; ``str`` for classes, which are given by name.
        default: default value.
        is_class: True if the value is the name of a class.
    """

    hint: Any
    default: Any
    is_class: bool


def plain_fields(cls: type) -> dict[str, PlainField]:
    """Return the fields of a dataclass that can be set on a command line or in a file, in order.

    Fields for a class (``type[Optimizer]``) are included, with the name of the class as value;
    those for other objects (``Any``) are not. Keyword-only fields come last. Of another class,
    these are the arguments of its constructor with annotation and default value.
    """
    if not dataclasses.is_dataclass(cls):
        return _plain_arguments(cls)
    hints = typing.get_type_hints(cls)
    chosen = {}
    for item in sorted(dataclasses.fields(cls), key=lambda item: bool(item.kw_only)):
        hint, default = hints[item.name], item.default
        if item.default_factory is not dataclasses.MISSING:
            default = item.default_factory()
        if typing.get_origin(hint) is Scheduled:
            hint = typing.get_args(hint)[0] | Points | str
        is_class = typing.get_origin(hint) is type
        if is_class:
            hint, default = str, optimizer_name(default)
        if item.init and _is_plain(hint):
            chosen[item.name] = PlainField(hint, default, is_class)
    return chosen


def _plain_arguments(cls: type) -> dict[str, PlainField]:
    hints = typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    arguments = inspect.signature(cls).parameters.values()
    return {
        item.name: PlainField(hints[item.name], item.default, False)
        for item in arguments
        if item.default is not item.empty and _is_plain(hints.get(item.name))
    }


def default_options(algo_name: Any, env_id: Any, preset: str | None = None) -> RunOptions:
    """Return the options of ``rlpyt train ALGO ENV`` without further flags.

    Args:
        algo_name: key of ``ALGORITHMS``, "module:Class" or a class. A subclass of an algorithm has
            its presets, except for settings that it declares itself.
        env_id: the environment, or its name; see :func:`~rlpyt.experiments.build.env_recipe`.
        preset: family of environments whose settings to use.

    Raises:
        UnknownName: the algorithm or preset is unknown.
        ValueError: the environment is unknown, or the algorithm does not support it.
        ImportError: a package that the environment requires is missing.
    """
    cls = algorithm_class(algo_name)
    algo = {name: field.default for name, field in plain_fields(cls).items()}
    recipe, base = env_recipe(env_id), base_algorithm(algo_name)
    family = recipe.family
    named = {"algo_name": algorithm_named(algo_name), "env": env_id}
    options = RunOptions(algo_name="", env="", algo=algo).updated(named)
    if base:  # presets are for rlpyt's algorithms and their subclasses
        redefined = _declared_by(cls.__mro__[: cls.__mro__.index(algorithm_class(base))])
        for layer in layers(base, label(env_id), family, preset):
            kept = {k: v for k, v in layer.get("algo", {}).items() if k not in redefined}
            options = options.updated({**layer, "algo": kept})
    if is_tensor_env(recipe.EnvCls):
        options = options.updated({"sampler": {"kind": "tensor"}})
    return options


def with_settings(options: RunOptions, settings: Mapping[str, Any]) -> RunOptions:
    """Return options with these settings.

    Args:
        options: the options.
        settings: by name, such as ``learning_rate``, or by part, ``algo=dict(learning_rate=...)``.
            ``algo`` and ``agent`` may also be classes.

    Raises:
        UnknownName: a setting is unknown.
        TypeError, ValueError: a value has the wrong type, or a setting belongs to several parts.
    """
    given = dict(settings)
    if isinstance(given.get("sampler"), str):
        given["sampler"] = {"kind": given["sampler"]}
    if not isinstance(given.get("on_fault", {}), Mapping):
        given["on_fault"] = vars(as_policy(given["on_fault"]))
    if not isinstance(given.get("algo", {}), Mapping):
        options = options.updated({"algo_name": algorithm_named(given.pop("algo"))})
    if not isinstance(given.get("agent", {}), Mapping):
        given["agent"] = {"cls": given["agent"]}
    parts = {
        "algo": {*options.algo},
        "sampler": {item.name for item in dataclasses.fields(SamplerOptions)},
        "agent": {item.name for item in dataclasses.fields(AgentOptions)},
    }
    cls = algorithm_class(options.algo_name)
    declare = [c for c in cls.__mro__ if "batch_T" in _declared_by([c])]
    if declare[:1] == [SequenceSettings]:  # R2D1 declares them itself
        # Those of agents with memory need a prefix; ``batch_T`` alone is the sampler's.
        parts["algo"] -= parts["sampler"] & {f.name for f in dataclasses.fields(SequenceSettings)}
    known = {item.name for item in dataclasses.fields(Settings)} | {"algo", "env"}
    for name, value in given.items():
        owners = [part for part, names in parts.items() if name in names]
        again = [p for p in owners if isinstance(given.get(p), Mapping) and name in given[p]]
        if name in known:
            options = options.updated({name: value})
        elif again:
            part = again[0]
            raise ValueError(
                f"{name} is given twice: {name}={value!r} and {part}=dict({name}="
                f"{given[part][name]!r}). Leave one of them out."
            )
        elif len(owners) == 1:
            options = options.updated({owners[0]: {name: value}})
        elif owners:
            wanted = " or ".join(f"{part}=dict({name}=...)" for part in owners)
            raise ValueError(f"{name} is a setting of several parts. Give {wanted}.")
        else:
            raise UnknownName("setting", name, known.union(*parts.values()))
    classes = [name for name, field in plain_fields(cls).items() if field.is_class]
    named = {x: optimizer_name(options.algo[x]) for x in classes if x in options.algo}
    return options.updated({"algo": named})


def _declared_by(classes: Sequence[type]) -> set[str]:
    """Return the names of the settings that classes declare themselves."""
    return {name for cls in classes for name in inspect.get_annotations(cls)}


def setting_types(algo_name: str) -> dict[str, Any]:
    """Return the type of each setting of a run, by dotted name: ``{"sampler.batch_B": int, ...}``.

    Raises:
        UnknownName: the algorithm is unknown.
    """
    found = {"algo_name": str, "env": str, **_nested_types(Settings, "")}
    for name, field in plain_fields(algorithm_class(algo_name)).items():
        found[f"algo.{name}"] = field.hint
    return found


def scheduled_settings(options: RunOptions) -> list[str]:
    """Return the names of the algorithm's settings that follow a schedule in a run."""
    cls, given = algorithm_class(options.algo_name), options.algo
    linear = given.get("linear_lr_schedule", getattr(cls, "linear_lr_schedule", False))
    return [
        name
        for name, item in declared(cls).items()
        if limits_of(item).scheduled
        and (
            not isinstance(given.get(name, item.default), int | float | None)
            or (linear and name in getattr(cls, "linear_settings", ()))
        )
    ]


def type_of(name: str, known: Mapping[str, Any]) -> Any:
    """Return the type of a setting, from those of :func:`setting_types`.

    Settings inside a dictionary (``env_args.gravity``) have the type ``Any``.

    Args:
        name: dotted name of the setting.
        known: types by name.

    Raises:
        UnknownName: the setting is unknown.
    """
    if name in known:
        return known[name]
    keys = name.split(".")
    for end in range(1, len(keys)):
        hint = known.get(".".join(keys[:end]))
        if any(typing.get_origin(part) is dict for part in (hint, *typing.get_args(hint))):
            return Any
    raise UnknownName("setting", name, known)


def fitted(value: Any, hint: Any) -> Any:  # noqa: PLR0911 - a case per kind of type
    """Convert a value read from a file to a type: integral floats to ints, lists to tuples.

    Raises:
        TypeError: the value does not have the type; the message describes the type.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is Any or (hint in (bool, str) and isinstance(value, hint)):
        return value
    if hint is float and number:
        return float(value)
    if hint is int and number and value == value // 1:  # False for inf and nan
        return int(value)
    if hint in (types.NoneType, None) and value is None:
        return None
    if origin is typing.Literal and value in args:
        return value
    if origin is dict and isinstance(value, Mapping):
        return dict(value)
    if origin is tuple and isinstance(value, list | tuple):
        hints = args[:1] * len(value) if args[-1] is Ellipsis else args
        if len(hints) == len(value):
            return tuple(map(fitted, value, hints))
    for part in args if is_union(hint) else ():
        try:
            return fitted(value, part)
        except TypeError:
            continue
    raise TypeError(f"expected {in_words(hint)}, got {value!r}.")


def in_words(hint: Any) -> str:
    """Describe a type in words: ``float | None`` is "a number or null"."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if is_union(hint):
        return " or ".join(map(in_words, args))
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin is tuple:
        parts = ["..." if part is Ellipsis else in_words(part) for part in args]
        return f"a list ({', '.join(parts)})"
    if origin is dict:
        return "a dictionary"
    return "null" if hint in (types.NoneType, None) else PLAIN.get(hint, "something else")


def hyphenated(name: str) -> str:
    """Return the flag of a field for a class: ``optim-cls`` for ``OptimCls``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def is_union(hint: Any) -> bool:
    """Return True for a union such as ``float | None``."""
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
