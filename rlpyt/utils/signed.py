"""JSON documents of run directories: read within limits, and signed with a key of this user.

A signature tells documents that rlpyt wrote for this user from those of others, and from those that
were edited or damaged. docs/trust.md says what follows from it.
"""

import functools
import hmac
import json
import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from rlpyt.errors import DamagedFile
from rlpyt.utils.files import read_regular

SIGNATURE = "signature"
MAX_BYTES = 2**24  # of a document
MAX_DEPTH = 64  # of nested lists and dictionaries
MAX_INTEGER = 2**64
MAX_SECONDS = 1e11  # the year 5138, in schemas
KEY_BYTES = 32


def signed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of plain data with its signature."""
    return {**document, SIGNATURE: _signature(document)}


def is_signed(document: Mapping[str, Any]) -> bool:
    """Return True if rlpyt wrote the document for this user, and it has not been changed since."""
    return hmac.compare_digest(ascii(document.get(SIGNATURE)), ascii(_signature(document)))


def read_json(path: Path, kind: str, schema: Mapping[str, Any] | None = None) -> Any:
    """Read a JSON file of limited size and depth.

    Args:
        path: the file.
        kind: word for its content in errors, such as "a run's configuration".
        schema: JSON schema of the whole document.

    Raises:
        DamagedFile: the file is not a regular one, is too large, is not JSON, or does not match
            the schema; the message names the file and the reason.
        OSError: it cannot be read.
    """
    content = read_regular(path, MAX_BYTES)
    try:
        document = json.loads(content.decode("utf-8-sig"))
        check_plain(document)
        if schema is not None:
            _validator(json.dumps(schema))(document)
    except RecursionError as error:
        raise DamagedFile(f"{path} is not {kind}: it is nested too deeply.") from error
    except ValueError as error:
        raise DamagedFile(f"{path} is not {kind}: {error}.") from error
    return document


@functools.cache
def schema_of(cls: type) -> dict[str, Any]:
    """Return the JSON schema of a dataclass of plain values, times in seconds since 1970 included.

    Further keys are allowed.
    """
    hints = get_type_hints(cls)
    required = [f.name for f in fields(cls) if f.default is f.default_factory is MISSING]
    properties = {name: _schema_of_type(hint) for name, hint in hints.items()}
    return {"type": "object", "required": required, "properties": properties}


def _schema_of_type(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is UnionType:
        return {"anyOf": [_schema_of_type(one) for one in get_args(hint)]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _schema_of_type(get_args(hint)[0])}
    if get_origin(hint) in (Mapping, dict):
        return {"type": "object", "additionalProperties": _schema_of_type(get_args(hint)[1])}
    if hint is Any:
        return {}
    if hint in (int, float):
        most = MAX_SECONDS if hint is float else MAX_INTEGER  # 1e308 is an integer of the schema
        name = "number" if hint is float else "integer"
        return {"type": name, "minimum": -most, "maximum": most}
    names = {bool: "boolean", str: "string", type(None): "null"}
    return {"type": names.get(hint, "object")}


def check_plain(document: Any) -> None:
    """Check the depth and the integers of plain data.

    Raises:
        ValueError: lists are nested too deeply, or an integer is too large; the message names it.
    """
    for place, value in leaves(document):
        if type(value) is int and abs(value) > MAX_INTEGER:
            raise ValueError(f"{place} must be at most 2**64, got {len(str(value))} digits")


def leaves(value: Any, place: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the dotted place and the value of whatever is not a list or a dictionary.

    Raises:
        ValueError: it is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"lists and dictionaries must be nested at most {MAX_DEPTH} times")
    if isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from leaves(item, f"{place}[{at}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{place}.{key}" if place else str(key), depth + 1)
    else:
        yield place, value


@functools.cache
def _validator(schema: str) -> Any:
    import fastjsonschema

    return fastjsonschema.compile(json.loads(schema))


def _signature(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != SIGNATURE}
    plain = json.loads(json.dumps(rest))  # as it is read: tuples are lists
    text = json.dumps(plain, sort_keys=True)
    return hmac.digest(_key(_key_path()), text.encode(), "sha256").hex()


def _key_path() -> Path | None:
    with suppress(RuntimeError):  # there is no home directory
        given = os.environ.get("XDG_CONFIG_HOME", "")  # relative ones are to be ignored
        root = Path(given) if os.path.isabs(given) else Path.home() / ".config"
        return root / "rlpyt" / "key"
    return None


@functools.cache
def _key(path: Path | None) -> bytes:
    """Return this user's key, created at the first use.

    Where it cannot be stored, each process has its own key.
    """
    key = secrets.token_bytes(KEY_BYTES)
    with suppress(OSError):
        if path is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent) as file:  # only this user may read it
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
                os.link(file.name, path)  # fails if another process was faster
    if path is None or not os.path.lexists(path):
        warnings.warn(
            f"no key can be stored in {path or 'a home directory'}: later commands take this run "
            "for somebody else's and ask for --trust. Set XDG_CONFIG_HOME to a directory that "
            "stays and can be written."
        )
        return key
    if path.is_file() and not _is_private(path):
        return key
    with suppress(OSError, DamagedFile):
        if len(stored := read_regular(path, KEY_BYTES)) == KEY_BYTES:
            return stored
    warnings.warn(
        f"{path} is not used, since it is no file of {KEY_BYTES} bytes that can be read: runs of "
        "your own count as those of others. Restore it, or delete it, and load them with --trust."
    )
    return key


def _is_private(path: Path) -> bool:
    """Return True if only this user can read and write a file; else warn."""
    status = path.stat()
    if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
        return True
    warnings.warn(
        f"{path} is not used, since other users may read or change it: they could sign runs as "
        f"yours. Restrict it (chmod 600 {path}), or delete it."
    )
    return False
