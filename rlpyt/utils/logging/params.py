"""Settings of a run as JSON: classes, enums, arrays and anything else get a readable form."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

import numpy as np

from rlpyt.utils.files import atomic_write


class MyEncoder(json.JSONEncoder):
    """JSON for settings; what has no JSON form is written as its ``repr``, never an error."""

    def default(self, o: Any) -> Any:  # noqa: PLR0911 - a case per kind
        """Give the JSON form of an object that ``json`` does not know."""
        if isinstance(o, type):
            return {"$class": f"{o.__module__}.{o.__qualname__}"}
        if isinstance(o, Enum):
            return {"$enum": f"{type(o).__module__}.{type(o).__qualname__}.{o.name}"}
        if isinstance(o, FunctionType):
            return {"$function": f"{o.__module__}.{o.__qualname__}"}
        if isinstance(o, PurePath):
            return str(o)
        if isinstance(o, (np.generic, np.ndarray)) or hasattr(o, "tolist"):
            return o.tolist()
        if dataclasses.is_dataclass(o):
            return {field.name: getattr(o, field.name) for field in dataclasses.fields(o)}
        if isinstance(o, (set, frozenset)):
            return sorted(o, key=repr)
        return repr(o)


def stub_to_json(stub_sth: Any) -> Any:
    """Turn settings into dicts, lists, numbers and texts; keys become strings, tuples lists."""
    if isinstance(stub_sth, Mapping):
        return {str(key): stub_to_json(value) for key, value in stub_sth.items()}
    if isinstance(stub_sth, (list, tuple)):
        return [stub_to_json(value) for value in stub_sth]
    if isinstance(stub_sth, Enum):  # before str and int, which an enum may be as well
        return MyEncoder().default(stub_sth)
    if stub_sth is None or isinstance(stub_sth, (bool, int, float, str)):
        return stub_sth
    return stub_to_json(MyEncoder().default(stub_sth))


def write_json(path: str | os.PathLike[str], settings: Any) -> None:
    """Write settings to a JSON file, directories included, in one atomic step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(json.dumps(stub_to_json(settings), indent=2).encode() + b"\n")


def log_variant(log_file: str, variant_data: Any) -> None:
    """Write the settings of a variant; an object with ``dump`` is asked for them."""
    write_json(log_file, variant_data.dump() if hasattr(variant_data, "dump") else variant_data)


def log_parameters(log_file: str, args: Any, classes: Mapping[str, Any]) -> None:
    """Write parsed arguments, those of each class grouped under its name.

    Args:
        log_file: the JSON file.
        args: a namespace, as argparse returns it.
        classes: name -> class or object; arguments called ``<name>_<argument>`` belong to it.
    """
    settings: dict[str, Any] = {name: {"_name": owner} for name, owner in classes.items()}
    for key, value in vars(args).items():
        owner = next((name for name in classes if key.startswith(f"{name}_")), None)
        if owner is not None:
            settings[owner][key.removeprefix(f"{owner}_")] = value
        elif key not in classes:
            settings[key] = value
    write_json(log_file, settings)


def log_parameters_lite(log_file: str, args: Any) -> None:
    """Write parsed arguments as they are; ``args`` is a namespace, as argparse returns it."""
    write_json(log_file, vars(args))
