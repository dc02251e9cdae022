"""Files of settings, in YAML, JSON or TOML, and where in them something stands."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlpyt.sweeps.yaml_file import Lines, read_yaml

MAX_BYTES = 100_000  # more takes PyYAML more than a second


def read_document(path: Path) -> tuple[Any, Lines]:
    """The content of a small file, by the ending of its name, and (of YAML) the lines of its keys.

    Raises:
        ValueError: another ending, too large, not UTF-8, or no such document; a key twice. The
            message begins with the file, and the line where it is known.
        OSError: it cannot be read.
    """
    if path.suffix not in (".yaml", ".yml", ".json", ".toml"):
        raise ValueError(f"{path}: its name must end in .yaml, .json or .toml.")
    text = _read_text(path)
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text), {}
        if path.suffix == ".json":
            return json.loads(text, object_pairs_hook=_once), {}
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return read_yaml(path, text)


@contextmanager
def blaming(path: Path | None, lines: Lines, key: str) -> Iterator[None]:
    """Put where a key stands before the message of an error that is raised inside.

    That is ``sweep.yaml:7:``, with the line of the key, or else of the nearest that it lies in.
    """
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        while key and key not in lines:
            key = key.rpartition(".")[0]
        place = f"{path}:{lines[key]}: " if key else f"{path}: "
        said = f"{place if path else ''}{error}"
        error.args = (said,)
        if isinstance(error, ImportError):
            error.msg = said  # what these are shown by
        raise


def _read_text(path: Path) -> str:
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES:,} bytes; it should hold settings only.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{line}: not UTF-8: {error.reason}.") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands there twice.")
        found[key] = value
    return found
