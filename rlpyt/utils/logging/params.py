"""Conversion of a run's settings to readable JSON, including classes, enums and arrays."""

import dataclasses
import json
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

from rlpyt.utils.files import write_text


class MyEncoder(json.JSONEncoder):
    """JSON encoder for settings; objects without a JSON form are written as their ``repr``."""

    def default(self, o: Any) -> Any:  # noqa: PLR0911 - a case per kind
        """Return the JSON form of an object that ``json`` does not support."""
        if isinstance(o, type):
            return {"$class": f"{o.__module__}.{o.__qualname__}"}
        if isinstance(o, Enum):
            return {"$enum": f"{type(o).__module__}.{type(o).__qualname__}.{o.name}"}
        if isinstance(o, FunctionType):
            return {"$function": f"{o.__module__}.{o.__qualname__}"}
        if isinstance(o, PurePath):
            return str(o)
        if hasattr(o, "tolist"):  # numpy, torch
            return o.tolist()
        if dataclasses.is_dataclass(o):
            return {field.name: getattr(o, field.name) for field in dataclasses.fields(o)}
        if isinstance(o, (set, frozenset)):
            return sorted(o, key=repr)
        return repr(o)


def stub_to_json(stub_sth: Any) -> Any:
    """Convert settings to dicts, lists, numbers and strings; keys become strings, tuples lists."""
    if isinstance(stub_sth, Mapping):
        return {str(key): stub_to_json(value) for key, value in stub_sth.items()}
    if isinstance(stub_sth, (list, tuple)):
        return [stub_to_json(value) for value in stub_sth]
    if isinstance(stub_sth, Enum):  # first, since an enum may also be a str or int
        return MyEncoder().default(stub_sth)
    if stub_sth is None or isinstance(stub_sth, (bool, int, float, str)):
        return stub_sth
    return stub_to_json(MyEncoder().default(stub_sth))


def write_json(path: str | os.PathLike[str], settings: Any) -> None:
    """Write settings to a JSON file atomically, creating parent directories."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(stub_to_json(settings), indent=2) + "\n")


def log_variant(log_file: str, variant_data: Any) -> None:
    """Write the settings of a variant, from its ``dump`` method if it has one."""
    write_json(log_file, variant_data.dump() if hasattr(variant_data, "dump") else variant_data)


def log_parameters(log_file: str, args: Any, classes: Mapping[str, Any]) -> None:
    """Write parsed arguments, grouped by class.

    Args:
        log_file: path of the JSON file.
        args: a namespace as returned by argparse.
        classes: name -> class or object; arguments named ``<name>_<argument>`` belong to it.
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
    """Write parsed arguments, a namespace as returned by argparse."""
    write_json(log_file, vars(args))
