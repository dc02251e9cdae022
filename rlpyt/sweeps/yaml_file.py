"""Reading YAML that somebody else may have written: plain values only, and every key's line.

Numbers and words are those of YAML 1.2: ``1e-3`` is a number, ``no`` and ``1:30`` are texts.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

MAX_VALUES = 5_000  # with aliases written out; read within a second, whatever they are
MAX_DEPTH = 20

Lines = dict[str, int]  # "grid.env" -> 3, the line, from 1, that the key stands in

_TAG = "tag:yaml.org,2002:"
# What a plain scalar means: tag, pattern, first characters, how to convert; tried in this order.
_SCALARS: tuple[tuple[str, str, str, Callable[[str], Any]], ...] = (
    ("null", r"(~|null|Null|NULL)?", "~nN", lambda text: None),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text[0] in "tT"),
    ("int", r"[-+]?\d[\d_]*", "-+0123456789", int),
    ("int", r"0x[\da-fA-F]+", "0", lambda text: int(text, 16)),
    ("float", r"[-+]?(\.\d+|\d[\d_]*(\.\d*)?)([eE][-+]?\d+)?", "-+.0123456789", float),
    ("float", r"[-+]?\.(inf|Inf|INF)", "-+.", lambda text: float(text.replace(".", ""))),
    ("float", r"\.(nan|NaN|NAN)", ".", lambda text: float("nan")),
)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Finds plain scalars' tags as above, which is not what YAML 1.1 has them mean.

    Stops at what is too deep or too much before it has read the rest.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    n_values, depth = 0, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.n_values += 1
        self.depth += 1
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        _check_size(self.n_values, self.depth, mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _check_size(n_values: int, depth: int, mark: yaml.Mark) -> None:
    problem = ""
    if n_values > MAX_VALUES:
        problem = f"more than {MAX_VALUES:,} values, aliases written out"
    if depth > MAX_DEPTH:
        problem = f"nested deeper than {MAX_DEPTH} levels"
    if problem:
        raise yaml.composer.ComposerError(problem=problem, problem_mark=mark)


for _name, _pattern, _first, _ in _SCALARS:
    # PyYAML looks up an absent value under "".
    _firsts = [*_first, ""] if _name == "null" else [*_first]
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _firsts)


def read_yaml(path: Path, text: str) -> tuple[Any, Lines]:
    """The content of the YAML file ``path``, whose text is given, and the lines of its keys.

    Raises:
        ValueError: it is no YAML, repeats a key, is too deep or grows too large by aliases, or
            wants to make objects; the message begins with file and line.
    """
    strange = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if strange:
        line = text.count("\n", 0, strange.start()) + 1
        raise ValueError(f"{path}:{line}: {strange.group()!r} is not allowed in YAML.")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        reader = _Reader()
        return (None if node is None else reader.value(node, ())), reader.lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "no YAML"
        tab = " Indent with spaces, not tabs." if "\\t" in problem else ""
        raise ValueError(f"{path}:{mark.line + 1 if mark else 1}: {problem}.{tab}") from error
    finally:
        loader.dispose()


class _Reader:
    """From PyYAML's nodes to values; aliases are written out, and counted."""

    def __init__(self) -> None:
        self.lines: Lines = {}
        self._n_values = 0

    def value(self, node: yaml.Node, way: tuple[str, ...]) -> Any:
        self._n_values += 1
        _check_size(self._n_values, len(way) + 1, node.start_mark)
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, way)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(item, (*way, str(at))) for at, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, kind)
        raise _error(node, f"{node.tag} is not read; give plain values")

    def _mapping(self, node: yaml.MappingNode, way: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                shown = getattr(key_node, "value", "")
                raise _error(key_node, f"a key must be a text, got {str(shown)[:50]!r}")
            key = key_node.value
            if key == "<<":
                raise _error(key_node, "merging (<<) is not read; write the keys out")
            if key in found:
                first = self.lines[".".join((*way, key))]
                raise _error(key_node, f"the key {key!r} stands in line {first} already")
            self.lines.setdefault(".".join((*way, key)), key_node.start_mark.line + 1)
            found[key] = self.value(value_node, (*way, key))
        return found

    def _scalar(self, node: yaml.ScalarNode, kind: str) -> Any:
        if kind == "str":
            return node.value
        for name, pattern, _, convert in _SCALARS:
            if kind == name and re.fullmatch(pattern, node.value):
                try:
                    return convert(node.value)
                except ValueError as error:  # a whole number of thousands of digits
                    raise _error(node, str(error)) from error
        raise _error(node, f"{node.tag} {node.value[:50]!r} is not read; give plain values")


def _error(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
