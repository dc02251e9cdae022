"""Read files of settings (YAML, JSON or TOML), and name the line of a key in errors."""

import datetime
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlpyt.utils.extras import missing_extra
from rlpyt.utils.files import read_regular
from rlpyt.utils.signed import MAX_DEPTH, check_plain

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.events import (
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        ScalarEvent,
    )
    from ruamel.yaml.scalarbool import ScalarBoolean
except ImportError as error:
    raise missing_extra("A sweep or report", "sweep", error.name) from error

MAX_BYTES = 100_000
MAX_VALUES = 100_000  # with the aliases of YAML replaced by what they refer to

Lines = dict[str, int]  # "grid.env" -> 3, the line of the key, from 1


def read_document(path: Path) -> tuple[Any, Lines]:
    """Return the content of a small file, and the lines of its keys if it is YAML.

    YAML is version 1.2: ``1e-3`` is a number, ``no`` and ``1:30`` are strings.

    Raises:
        ValueError: the suffix is unknown, or the file is too large, not UTF-8, invalid, repeats a
            key or contains other than plain values. The message begins with the file, and the line
            where it is known.
        OSError: the file cannot be read.
    """
    if path.suffix not in (".yaml", ".yml", ".json", ".toml"):
        raise ValueError(f"{path}: the name must end in .yaml, .json or .toml.")
    text = _read_text(path)
    try:
        lines = Lines()
        if path.suffix == ".toml":
            content = tomllib.loads(text)
        elif path.suffix == ".json":
            content = json.loads(text, object_pairs_hook=_unique)
        else:
            _check_size(text)
            content = _plain(path, YAML(typ="rt", pure=True).load(text), "", lines)
        check_plain(content)
        return content, lines
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}.") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        tab = " Indent with spaces, not tabs." if "\\t" in (error.problem or "") else ""
        place = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise ValueError(f"{place}: {error.problem}.{tab}") from error
    except (ValueError, YAMLError, RecursionError) as error:
        place = "" if str(error).startswith(str(path)) else f"{path}: "
        raise ValueError(f"{place}{error}") from error


def _check_size(text: str) -> None:
    """Check depth and number of values of a YAML document before it is loaded.

    Raises:
        ValueError: it has too many values or levels, or an alias refers to what contains it.
        YAMLError: it is not YAML.
    """
    sizes: dict[str | None, int] = {}
    counts, anchors = [0], [None]  # of the lists and dictionaries that are not complete
    for event in YAML(typ="rt", pure=True).parse(text):
        if isinstance(event, CollectionStartEvent):
            counts.append(1)
            anchors.append(event.anchor)
        elif isinstance(event, CollectionEndEvent):
            sizes[anchors.pop()] = size = counts.pop()
            counts[-1] += size
        elif isinstance(event, AliasEvent):
            if event.anchor in anchors:
                raise ValueError(f"*{event.anchor} refers to a value that contains it.")
            counts[-1] += sizes.get(event.anchor, 1)
        elif isinstance(event, ScalarEvent):
            counts[-1] += 1
        if counts[-1] > MAX_VALUES or len(counts) > MAX_DEPTH:
            raise ValueError(
                f"it must have at most {MAX_VALUES:,} values, aliases included, and {MAX_DEPTH} "
                "levels."
            )


def _plain(path: Path, value: Any, name: str, lines: Lines) -> Any:
    """Return a part of a YAML file as plain values, and note the lines of its keys."""
    tag = getattr(value, "tag", None)
    if tag is not None and tag.value == "tag:yaml.org,2002:str":
        return str(value.value)
    if tag is not None and tag.value is not None:
        with blaming(path, lines, name):
            raise ValueError(f"expected plain values, got one with the tag {tag.value}.")
    if isinstance(value, CommentedMap):
        found = {}
        for key in value:
            inner = f"{name}.{key}" if name else str(key)
            if key in (value.lc.data or ()):  # others come from a merge (<<)
                lines[inner] = value.lc.key(key)[0] + 1
            with blaming(path, lines, inner):
                if not isinstance(key, str):
                    raise ValueError(f"a key must be a string, got {key!r}.")
            found[key] = _plain(path, value[key], inner, lines)
        return found
    if isinstance(value, list):
        return [_plain(path, item, name, lines) for item in value]
    if value is None or isinstance(value, ScalarBoolean):
        return None if value is None else bool(value)
    kind = next((k for k in (bool, int, float, str) if isinstance(value, k)), None)
    if kind is not None:
        return kind(value)
    if type(value) is datetime.date:  # YAML 1.2 has none
        return value.isoformat()
    with blaming(path, lines, name):
        raise ValueError(f"expected plain values, got {value} ({type(value).__name__}). Quote it.")


@contextmanager
def blaming(path: Path | None, lines: Lines, key: str) -> Iterator[None]:
    """Prefix errors raised inside with file and line of a key.

    For example ``sweep.yaml:7:``, the line of the key or of the nearest one that contains it.
    """
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        while key and key not in lines:
            key = key.rpartition(".")[0]
        place = f"{path}:{lines[key]}: " if key else f"{path}: "
        message = f"{place if path else ''}{error}"
        error.args = (message,)
        if isinstance(error, ImportError):
            error.msg = message
        raise


def _read_text(path: Path) -> str:
    content = read_regular(path, MAX_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{line}: not UTF-8: {error.reason}.") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice.")
        found[key] = value
    return found
