"""Read files of settings (YAML, JSON or TOML), and name the line of a key in errors."""

import itertools
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlpyt.utils.extras import needing
from rlpyt.utils.files import read_regular
from rlpyt.utils.signed import MAX_DEPTH, check_plain

with needing("A sweep or report", "sweep"):
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

MAX_BYTES = 100_000
MAX_VALUES = 100_000  # with the aliases of YAML replaced by what they refer to
YAML_TAG = "tag:yaml.org,2002:"
PLAIN = ("map", "seq", "str", "int", "float", "bool", "null", "merge", "timestamp")  # tags

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
            content = json.loads(json.dumps(tomllib.loads(text), default=str))  # dates as in YAML
        elif path.suffix == ".json":
            content = json.loads(text, object_pairs_hook=_unique)
        else:
            content = _read_yaml(text, lines)
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


def _read_yaml(text: str, lines: Lines) -> Any:
    """Return the content of a YAML document, and note the lines of its keys.

    Depth, number of values and tags are checked before any value is constructed.
    """
    yaml, n_values = YAML(typ="safe", pure=True), itertools.count(1)

    def check(node: Any, name: str, depth: int) -> None:
        if next(n_values) > MAX_VALUES or depth > MAX_DEPTH:
            raise ValueError(
                f"it must have at most {MAX_VALUES:,} values, aliases included, and {MAX_DEPTH} "
                "levels."
            )
        if node.tag.removeprefix(YAML_TAG) not in PLAIN:
            raise _error(node, f"expected plain values, got one with the tag {node.tag}")
        if node.tag == f"{YAML_TAG}timestamp":  # YAML 1.2 has none
            node.tag = f"{YAML_TAG}str"
        for item in node.value if node.id == "sequence" else ():
            check(item, name, depth + 1)
        for key, value in node.value if node.id == "mapping" else ():
            inner = f"{name}.{key.value}" if name else str(key.value)
            if key.tag != f"{YAML_TAG}merge":
                lines[inner] = key.start_mark.line + 1
                if key.tag != f"{YAML_TAG}str":
                    raise _error(key, f"a key must be a string, got {key.value}")
            check(value, inner, depth + 1)

    document = yaml.compose(text)
    if document is None:
        return None
    check(document, "", 0)
    return yaml.constructor.construct_document(document)


def _error(node: Any, problem: str) -> YAMLError:
    return MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


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
