"""Variants: settings that differ between runs, crossed with each other, and their files.

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

from rlpyt.utils.files import atomic_write
from rlpyt.utils.launching.amount import MAX_RUNS
from rlpyt.utils.names import suggestion
from rlpyt.utils.text import counted

VARIANT = "variant_config.json"

Variant = dict[str, Any]  # nested, with only what differs from a script's default configuration


class VariantLevel(NamedTuple):
    """Settings that change together.

    Attributes:
        keys: for each setting the way to it through the configuration: ``("algo", "discount")``.
        values: complete sets of values, each with one value for every key.
        dir_names: for each set of values the directory of its runs, relative and unique.
    """

    keys: Sequence[Sequence[str]]
    values: Sequence[Sequence[Any]]
    dir_names: Sequence[str]


def make_variants(*variant_levels: VariantLevel) -> tuple[list[Variant], list[str]]:
    """Cross levels: every set of values of one with every set of the next.

    Returns:
        Variants, with the last level changing fastest, and their log directories, which join the
        names of all levels. Without levels one variant that changes nothing.

    Raises:
        ValueError: a level is empty, its lengths differ, it repeats a directory; two levels set
            the same key, or lead to the same directory.
    """
    count = math.prod(len(level.values) for level in variant_levels)
    if count > MAX_RUNS:
        levels = counted(len(variant_levels), "level")
        warnings.warn(f"{count:,} variants are made of {levels}.", stacklevel=2)
    return cross_levels(*variant_levels)


def cross_levels(*variant_levels: VariantLevel) -> tuple[list[Variant], list[str]]:
    """``make_variants``, for whoever knows how many there will be."""
    variants: list[Variant] = [{}]
    log_dirs = [""]
    for number, level in enumerate(variant_levels):
        _check_level(level, f"variant level {number}")
        variants, log_dirs = _cross_variants(variants, log_dirs, level)
    _refuse_repeated("log directories of two variants are the same:", log_dirs)
    return variants, log_dirs


def _cross_variants(
    prev_variants: Sequence[Variant], prev_log_dirs: Sequence[str], variant_level: VariantLevel
) -> tuple[list[Variant], list[str]]:
    """Combine every variant so far with every set of values of a level."""
    keys, values, dir_names = variant_level
    variants, log_dirs = [], []
    for prev_variant, prev_log_dir in zip(prev_variants, prev_log_dirs, strict=True):
        for one_each, dir_name in zip(values, dir_names, strict=True):
            variant = _copied(prev_variant)
            for key, value in zip(keys, one_each, strict=True):
                set_nested(variant, key, _copied(value))
            variants.append(variant)
            log_dirs.append(str(PurePath(prev_log_dir) / dir_name))
    return variants, log_dirs


def set_nested(config: Variant, keys: Sequence[str], value: Any) -> None:
    """Set one value that has none yet, making the dictionaries on the way: ``("algo", "lr")``.

    Raises:
        ValueError: there is one already, or a value that is no dictionary stands in the way.
    """
    *way, last = keys
    for key in way:
        config = config.setdefault(key, {})
        if not isinstance(config, dict):
            raise ValueError(f"{_dotted(keys)} cannot be set: {key!r} is {config!r} already.")
    if last in config:
        raise ValueError(f"{_dotted(keys)} is set twice; a value would be lost.")
    config[last] = value


def load_variant(log_dir: str | PathLike[str]) -> Variant:
    """Read the variant that the launcher has left in a run's directory.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the file is damaged.
    """
    path = Path(log_dir) / VARIANT
    if not path.is_file():
        raise FileNotFoundError(
            f"no {VARIANT} in {str(log_dir)!r}: give the log directory that the launcher handed "
            "to the script."
        )
    try:
        variant = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(variant, dict):
        raise ValueError(f"{path} must hold a dictionary, and holds {variant!r}.")
    return variant


def save_variant(variant: Mapping[str, Any], log_dir: str | PathLike[str]) -> None:
    """Write a variant into a run's directory, which is made if need be.

    Tuples come back as lists, numpy's numbers and arrays as plain ones.

    Raises:
        TypeError: JSON cannot hold a value.
    """
    text = json.dumps(variant, indent=2, default=plain_value)
    directory = Path(log_dir)
    directory.mkdir(parents=True, exist_ok=True)
    with atomic_write(directory / VARIANT) as file:
        file.write(text.encode() + b"\n")


def update_config(default: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """A new configuration: ``default`` with the fields of ``variant``, however deep they are.

    Raises:
        KeyError: a field of ``variant`` is not in ``default``; the message has the way to it.
        TypeError: where ``default`` has a dictionary ``variant`` has something else, save None.
    """
    return _updated(default, variant, ())


def _updated(
    default: Mapping[str, Any], variant: Mapping[str, Any], way: tuple[str, ...]
) -> dict[str, Any]:
    config: dict[str, Any] = _copied(default)
    for key, value in variant.items():
        here = (*way, key)
        if key not in default:
            raise KeyError(
                f"{_dotted(here)} is not in the default configuration"
                f"{suggestion(str(key), map(str, default))} Known there: "
                f"{', '.join(map(str, default)) or 'nothing'}."
            )
        if isinstance(default[key], Mapping) and isinstance(value, Mapping):
            config[key] = _updated(default[key], value, here)
        elif isinstance(default[key], Mapping) and value is not None:
            raise TypeError(f"{_dotted(here)} is a dictionary, and the variant has {value!r}.")
        else:
            config[key] = _copied(value)
    return config


def _check_level(level: VariantLevel, what: str) -> None:
    keys, values, dir_names = level
    if not keys:
        raise ValueError(f"{what} has no keys; leave it out.")
    for key in keys:
        if isinstance(key, str) or not key:
            raise ValueError(f"{what}: key {key!r} must be a tuple, such as ('algo', 'discount').")
    if not len(values):
        raise ValueError(f"{what} has no values of {_dotted(keys[0])}; leave it out.")
    if len(values) != len(dir_names):
        raise ValueError(f"{what} has {len(values)} sets of values and {len(dir_names)} dir_names.")
    for one_each in values:
        if isinstance(one_each, str) or len(one_each) != len(keys):
            raise ValueError(f"{what}: {one_each!r} must be a list, one value for each of {keys}.")
    for dir_name in dir_names:
        path = PurePath(dir_name)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{what}: dir_name {dir_name!r} must be a path below the experiment.")
    _refuse_repeated(f"{what} repeats dir_names", [str(PurePath(name)) for name in dir_names])
    same = Counter(identity(list(one_each)) for one_each in values)
    for one_each in values:
        if same[identity(list(one_each))] > 1:
            warnings.warn(f"{what} repeats the values {one_each!r}: the same variant twice.")
            return


def identity(value: Any) -> Any:
    """Something hashable that is equal for two values just when they are the same setting.

    Numbers of other types are others (1, 1.0 and True); objects that cannot be hashed are
    themselves only.
    """
    if isinstance(value, Mapping):
        return dict, frozenset((key, identity(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return list, tuple(map(identity, value))
    if hasattr(value, "tolist"):  # numpy, torch
        return identity(value.tolist())
    return type(value), value if isinstance(value, Hashable) else id(value)


def _refuse_repeated(complaint: str, names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(f"{complaint} {', '.join(map(repr, repeated[:5]))}.")


def _copied(tree: Any) -> Any:
    """Dictionaries and lists anew, so that no two configurations share one; their leaves as is."""
    if isinstance(tree, Mapping):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(item) for item in tree] if isinstance(tree, list) else tree


def plain_value(value: Any) -> Any:
    """Numpy's and torch's values as JSON can hold them; TypeError for others."""
    if hasattr(value, "tolist"):  # numpy, torch
        return value.tolist()
    raise TypeError(
        f"a variant is written as JSON, which cannot hold {value!r}; give a number, a text, a "
        "list or a name that the script looks up."
    )


def _dotted(keys: Sequence[str]) -> str:
    return repr(".".join(map(str, keys)))
