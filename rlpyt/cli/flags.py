"""Flags of the command line, made from dataclasses."""

import contextlib
import copy
import dataclasses
import json
import re
import sys
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import tyro

from rlpyt.experiments.settings import hyphenated, is_union, plain_fields

T = TypeVar("T")

# Any number of values, which help leaves without "(default: )" for none.
Several = Annotated[tuple[T, ...], tyro.conf.arg(help_behavior_hint="")]

# A dictionary or None is a flag with a JSON value: --env-args '{"gravity": 5.0}'.
_REGISTRY = tyro.constructors.ConstructorRegistry()


class UsageError(ValueError):
    """Missing, invalid or incompatible arguments of a command; the message is one line."""


def parse(cls: type[T], argv: Sequence[str], prog: str = "", description: str = "") -> T:
    """Parse flags into the dataclass ``cls``.

    By default the class has the name of the command, and its module's docstring is the help.

    Raises:
        SystemExit: ``--help`` was given and the help printed (code 0); or a flag is unknown, lacks
            a value or has an invalid one, which is reported on standard error (code 2).
    """
    argv = _with_values(argv, set(_optional_values(cls)))
    prog = prog or f"rlpyt {cls.__name__.lower()}"
    description = description or sys.modules[cls.__module__].__doc__ or ""
    return tyro.cli(cls, args=argv, registry=_REGISTRY, prog=prog, description=description)


def settings_class(cls: type, name: str) -> type:
    """Return a dataclass with the `plain_fields` of ``cls``, which can be given as flags.

    The help of each field is the documentation and range declared by
    `rlpyt.utils.checks.setting`. The name of the new class is the title of the group in the help.
    """
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    limits = {item.name: item.metadata.get("limits") for item in fields}
    chosen = []
    for field, (hint, default, is_class) in plain_fields(cls).items():
        described: dict[str, Any] = {"help": getattr(limits.get(field), "help", "")}
        if getattr(limits.get(field), "scheduled", False):
            described["metavar"] = "NUMBER|SCHEDULE"
        if is_class:
            described |= {"name": hyphenated(field), "metavar": "NAME"}
        value = dataclasses.field(default_factory=partial(copy.copy, default))
        chosen.append((field, Annotated[hint, tyro.conf.arg(**described)], value))
    return dataclasses.make_dataclass(name, chosen, frozen=True)


def _optional_values(cls: Any, prefix: str = "") -> Iterator[str]:
    """Yield the flags of fields that are a switch or something else (``bool | Literal["x"]``)."""
    for name, annotated in typing.get_type_hints(cls, include_extras=True).items():
        hint = annotated.__origin__ if hasattr(annotated, "__metadata__") else annotated
        if dataclasses.is_dataclass(hint):
            yield from _optional_values(hint, f"{prefix}{name}.")
        elif is_union(hint) and bool in typing.get_args(hint):
            yield f"--{prefix}{name}".replace("_", "-")


def _with_values(argv: Sequence[str], flags: Collection[str]) -> list[str]:
    """Write ``--x`` and ``--no-x`` of these flags as ``--x True`` and ``--x False``."""
    negated = {re.sub(r"(\.|^--)(?=[^.]*$)", r"\1no-", flag): flag for flag in flags}
    result: list[str] = []
    for arg, following in zip(argv, [*argv[1:], "--"]):
        flag = arg.replace("_", "-")
        if flag in negated:
            result += [negated[flag], "False"]
        else:
            result += [arg, "True"] if flag in flags and following.startswith("--") else [arg]
    return result


@_REGISTRY.primitive_rule
def _json_rule(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> "tyro.constructors.PrimitiveConstructorSpec[Any] | None":
    parts = typing.get_args(info.type) if is_union(info.type) else (info.type,)
    optional = types.NoneType in parts
    if [typing.get_origin(part) for part in parts if part is not types.NoneType] != [dict]:
        return None

    def fits(value: Any) -> bool:
        return isinstance(value, dict) or (optional and value is None)

    def read(args: list[str]) -> Mapping[str, Any] | None:
        value = None if optional and args == ["None"] else json.loads(args[0])
        if not fits(value):
            raise ValueError(f"expected a JSON object such as '{{\"key\": 1}}', got {args[0]!r}")
        return value  # type: ignore[no-any-return]

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=read,
        is_instance=fits,
        str_from_instance=lambda value: ["None" if value is None else json.dumps(value)],
    )


@_REGISTRY.primitive_rule
def _integer_rule(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> "tyro.constructors.PrimitiveConstructorSpec[int] | None":
    """Accept whole numbers in exponent notation, ``--steps 1e6``."""
    if info.type is not int:
        return None

    def read(args: list[str]) -> int:
        try:
            return int(args[0])
        except ValueError:
            with contextlib.suppress(ValueError):
                number = float(args[0])
                if number.is_integer():
                    return int(number)
            raise ValueError(f"expected an integer, got {args[0]!r}") from None

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )
