"""Dataclasses to flags, and what goes wrong with them to one line."""

import ast
import contextlib
import copy
import dataclasses
import io
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import tyro

from rlpyt.experiments.settings import is_union, plain_fields
from rlpyt.utils.names import suggestion

T = TypeVar("T")

# Dashes that word processors and web pages make of hyphens, before a flag or a number.
_TYPOGRAPHIC = re.compile("-*[\u2010-\u2015\u2212\ufe58\uff0d][-\u2010-\u2015\u2212]*([\\w.]\\S*)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

# A dictionary, or none, is one flag with JSON behind it: --env-args '{"gravity": 5.0}'.
_REGISTRY = tyro.constructors.ConstructorRegistry()


class UsageError(ValueError):
    """The command line cannot be understood; the message is one line for the user."""


def parse(cls: type[T], argv: Sequence[str], *, prog: str, description: str) -> T:
    """Read flags into the dataclass ``cls``.

    Raises:
        UsageError: an unknown flag or choice (the nearest is named), a missing or unreadable value,
            a flag that is given twice, a dash that no keyboard has.
        SystemExit: ``--help`` was asked for, and printed.
    """
    try:
        _refuse_slips(argv, _aliases(cls))
    except UsageError as error:
        raise UsageError(f"{error} See `{prog} --help`.") from None
    said = io.StringIO()
    settings: dict[str, Any] = {"registry": _REGISTRY, "prog": prog, "description": description}
    try:
        with contextlib.redirect_stderr(said):
            parsed: T = tyro.cli(cls, args=list(argv), **settings)
            return parsed
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(f"{_one_line(said.getvalue(), cls)} See `{prog} --help`.") from None


def settings_class(cls: type, name: str) -> type:
    """Return a dataclass of the fields of ``cls`` that fit on a command line.

    The help of each is the documentation and range that `rlpyt.utils.checks.setting` declares.

    Args:
        cls: a dataclass, for example an algorithm. Fields for a class (``type[Optimizer]``) take
            its name instead; fields for other objects (``Any``) are left out, and keep the default
            that ``cls`` gives them.
        name: of the new class; shows in the help as the title of the group.
    """
    limits = {item.name: item.metadata.get("limits") for item in dataclasses.fields(cls)}
    chosen = []
    for field, (hint, default, is_class) in plain_fields(cls).items():
        described: dict[str, Any] = {"help": getattr(limits[field], "help", "")}
        if is_class:
            described |= {"name": _hyphenated(field), "metavar": "NAME"}
        value = dataclasses.field(default_factory=partial(copy.copy, default))
        chosen.append((field, Annotated[hint, tyro.conf.arg(**described)], value))
    return dataclasses.make_dataclass(name, chosen, frozen=True)


def _refuse_slips(argv: Sequence[str], aliases: Mapping[str, str]) -> None:
    """Refuse arguments that a parser would misread, or read in half."""
    given = set()
    for word in argv:
        if mistyped := _TYPOGRAPHIC.fullmatch(word):
            text = mistyped[1]
            right = f"-{text}" if text[0] in "0123456789." or len(text) == 1 else f"--{text}"
            raise UsageError(f"{word!r} begins with a typographic dash; type {right} instead.")
        if not re.match("--?[a-zA-Z]", word):
            continue
        flag = aliases.get(word, word.split("=")[0].replace("_", "-"))
        flag = re.sub(r"(?<=[-.])no-", "", flag, count=1)  # a switch, and its opposite
        if flag in given:
            raise UsageError(f"{flag} is given twice; give it once, as only one would count.")
        given.add(flag)


def _aliases(cls: type) -> dict[str, str]:
    """Short flags and what they stand for: ``{"-o": "--output"}``."""
    found = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        for about in getattr(hint, "__metadata__", ()):
            short = getattr(about, "aliases", None) or ()
            found.update(dict.fromkeys(short, f"--{name.replace('_', '-')}"))
    return found


def _hyphenated(name: str) -> str:
    """``OptimCls`` as ``optim-cls``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _one_line(box: str, cls: type) -> str:
    """Return the message inside tyro's frame, with the nearest flag of ``cls`` if one is unknown.

    The frame is drawn with box characters, or in plain ASCII where the terminal has no others.
    """
    plain = _ANSI.sub("", box)
    lines = [line.strip("│ ") for line in plain.splitlines()][1 if plain.startswith("╭") else 2 :]
    rules = [at for at, line in enumerate(lines) if line and not line.strip("─-╰╯")]
    end = rules[0] if rules else len(lines)
    message = " ".join(lines[:end]).partition("Got errors:")[0].strip().rstrip(".")
    if choice := re.search(r"invalid choice '(.*)' for .* one of (\(.*\))", message):
        return f"{message}{suggestion(choice[1], ast.literal_eval(choice[2]))}"
    if re.search(r"'[^'{\[]*,[^'{\[]*'", message):
        return f"{message}; several values are separated by spaces, without commas."
    flags = [line.split(" ")[0].rstrip(",") for line in lines[end:] if line.startswith("--")]
    flags = [flag for flag in flags if flag.strip("-")]
    perhaps = "Perhaps you meant:" in lines and flags
    if short := re.search(r"--(\w+)\.lr\b", message):  # no letters near those that are meant
        group = typing.get_type_hints(cls).get(short[1])
        if "learning_rate" in getattr(group, "__dataclass_fields__", {}):
            perhaps = flags = [f"--{short[1]}.learning-rate"]
    return f"{message}; did you mean {flags[0]}?" if perhaps else f"{message}."


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
