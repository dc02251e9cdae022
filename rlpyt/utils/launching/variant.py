"""Variants: combinations of the settings that differ between runs, and their files.

levels = [
    VariantLevel([("algo", "learning_rate")], [[1e-3], [3e-4]], ["lr_0.001", "lr_0.0003"]),
    VariantLevel([("env", "id")], [["CartPole-v1"], ["Acrobot-v1"]], ["cartpole", "acrobot"]),
]
variants, log_dirs = make_variants(*levels)  # four, "lr_0.001/cartpole" first
"""

import json
import math
import warnings
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from rlpyt.utils.collections import own_containers
from rlpyt.utils.files import write_text
from rlpyt.utils.launching.run_limit import MAX_RUNS
from rlpyt.utils.names import suggestion
from rlpyt.utils.text import counted

VARIANT = "variant_config.json"

Variant = dict[str, Any]  # nested, with only what differs from a script's default configuration


class VariantLevel(NamedTuple):
    """Settings that change together.

    Attributes:
        keys: path of each setting in the configuration: ``("algo", "discount")``.
        values: sets of values, each with one value per key.
        dir_names: directory of the runs for each set of values, relative and unique.
    """

    keys: Sequence[Sequence[str]]
    values: Sequence[Sequence[Any]]
    dir_names: Sequence[str]


def make_variants(*variant_levels: VariantLevel) -> tuple[list[Variant], list[str]]:
    """Combine every set of values of each level with every set of the other levels.

    Returns:
        Variants, with the last level changing fastest, and their log directories, which join the
        names of all levels. Without levels: one empty variant.

    Raises:
        ValueError: a level is empty, has lengths that differ or repeats a directory; two levels
            set the same key; or two variants have the same directory.
    """
    count = math.prod(len(level.values) for level in variant_levels)
    if count > MAX_RUNS:
        levels = counted(len(variant_levels), "level")
        warnings.warn(f"{levels} combine into {count:,} variants.", stacklevel=2)
    variants: list[Variant] = [{}]
    log_dirs = [""]
    for number, level in enumerate(variant_levels):
        _check_level(level, f"variant level {number}")
        variants, log_dirs = cross_variants(variants, log_dirs, level)
    _check_unique("log directories of two variants are the same:", log_dirs)
    return variants, log_dirs


def cross_variants(
    prev_variants: Sequence[Variant], prev_log_dirs: Sequence[str], variant_level: VariantLevel
) -> tuple[list[Variant], list[str]]:
    """Combine every previous variant with every set of values of a level."""
    keys, values, dir_names = variant_level
    variants, log_dirs = [], []
    for prev_variant, prev_log_dir in zip(prev_variants, prev_log_dirs, strict=True):
        for one_each, dir_name in zip(values, dir_names, strict=True):
            variant = own_containers(prev_variant)
            for key, value in zip(keys, one_each, strict=True):
                set_nested(variant, key, own_containers(value))
            variants.append(variant)
            log_dirs.append(str(PurePath(prev_log_dir) / dir_name))
    return variants, log_dirs


_cross_variants = cross_variants  # rlpyt's name


def set_nested(config: Variant, keys: Sequence[str], value: Any) -> None:
    """Set a new value by its path, such as ``("algo", "lr")``, creating nested dictionaries.

    Raises:
        ValueError: the value is already set, or the path contains a value that is not a dictionary.
    """
    *parents, last = keys
    for key in parents:
        config = config.setdefault(key, {})
        if not isinstance(config, dict):
            raise ValueError(f"{_dotted(keys)} cannot be set: {key!r} is already {config!r}.")
    if last in config:
        raise ValueError(f"{_dotted(keys)} is set twice; a value would be lost.")
    config[last] = value


def load_variant(log_dir: str | PathLike[str]) -> Variant:
    """Load the variant that the launcher saved in a run's directory.

    Raises:
        FileNotFoundError: the directory has no variant file.
        ValueError: the file is damaged.
    """
    path = Path(log_dir) / VARIANT
    if not path.is_file():
        raise FileNotFoundError(
            f"no {VARIANT} in {str(log_dir)!r}. Pass the log directory that the launcher gave the "
            "script."
        )
    try:
        variant = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(variant, dict):
        raise ValueError(f"{path} must contain a dictionary, got {variant!r}.")
    return variant


def save_variant(variant: Mapping[str, Any], log_dir: str | PathLike[str]) -> None:
    """Save a variant in a run's directory, which is created if necessary.

    Tuples are loaded as lists, numpy scalars and arrays as numbers and lists.

    Raises:
        TypeError: a value cannot be represented in JSON.
    """
    text = json.dumps(variant, indent=2, default=plain_value)
    directory = Path(log_dir)
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / VARIANT, text + "\n")


def update_config(default: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new configuration: ``default`` with the fields of ``variant``, at any depth.

    Raises:
        KeyError: a field of ``variant`` is not in ``default``; the message gives its path.
        TypeError: ``variant`` has neither a dictionary nor None where ``default`` has a dictionary.
    """
    return _updated(default, variant, ())


def _updated(
    default: Mapping[str, Any], variant: Mapping[str, Any], parents: tuple[str, ...]
) -> dict[str, Any]:
    config: dict[str, Any] = own_containers(dict(default))
    for key, value in variant.items():
        path = (*parents, key)
        if key not in default:
            raise KeyError(
                f"{_dotted(path)} is not in the default configuration"
                f"{suggestion(str(key), map(str, default))} Known there: "
                f"{', '.join(map(str, default)) or 'nothing'}."
            )
        if isinstance(default[key], Mapping) and isinstance(value, Mapping):
            config[key] = _updated(default[key], value, path)
        elif isinstance(default[key], Mapping) and value is not None:
            raise TypeError(f"{_dotted(path)} must be a dictionary, got {value!r}.")
        else:
            config[key] = own_containers(value)
    return config


def _check_level(level: VariantLevel, name: str) -> None:
    keys, values, dir_names = level
    if not keys:
        raise ValueError(f"{name} has no keys. Leave it out.")
    for key in keys:
        if isinstance(key, str) or not key:
            raise ValueError(f"{name}: key {key!r} must be a tuple, such as ('algo', 'discount').")
    if not len(values):
        raise ValueError(f"{name} has no values of {_dotted(keys[0])}. Leave it out.")
    if len(values) != len(dir_names):
        raise ValueError(f"{name} has {len(values)} sets of values and {len(dir_names)} dir_names.")
    for one_each in values:
        if isinstance(one_each, str) or len(one_each) != len(keys):
            raise ValueError(f"{name}: {one_each!r} must be a list, one value for each of {keys}.")
    for dir_name in dir_names:
        path = PurePath(dir_name)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{name}: dir_name {dir_name!r} must be a path below the experiment.")
    _check_unique(f"{name} repeats dir_names", [str(PurePath(path)) for path in dir_names])
    same = Counter(identity(list(one_each)) for one_each in values)
    for one_each in values:
        if same[identity(list(one_each))] > 1:
            warnings.warn(f"{name} repeats the values {one_each!r}: the same variant twice.")
            return


def identity(value: Any) -> Any:
    """Return a hashable object that is equal for two values if they are the same setting.

    Numbers of different types differ (1, 1.0 and True). Unhashable objects are compared by
    identity.
    """
    if isinstance(value, Mapping):
        return dict, frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(identity, value))
    if hasattr(value, "tolist"):  # numpy, torch
        return identity(value.tolist())
    return type(value), value if isinstance(value, Hashable) else id(value)


def _check_unique(message: str, names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"{message} {', '.join(map(repr, repeated[:5]))}.")


def plain_value(value: Any) -> Any:
    """Return a numpy or torch value in a form that JSON can represent.

    Raises:
        TypeError: the value is neither.
    """
    if hasattr(value, "tolist"):  # numpy, torch
        return value.tolist()
    raise TypeError(
        f"a variant is saved as JSON, which cannot represent {value!r}. Use a number, a string, a "
        "list or a name that the script looks up."
    )


def _dotted(keys: Sequence[str]) -> str:
    return repr(".".join(map(str, keys)))
