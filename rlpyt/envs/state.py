"""Simulator state as plain trees, the form that ``Env.get_state`` returns.

A plain tree consists of dicts with string keys, lists, bools, 64-bit integers, floats, strings,
``None`` and numeric arrays. Tuples, numpy scalars and larger integers are stored as tagged dicts.
"""

from typing import Any

import numpy as np

_TUPLE, _SCALAR, _INT = "__tuple__", "__scalar__", "__int__"


def pack(value: object) -> Any:  # noqa: PLR0911 - one line per kind
    """Return ``value`` as a plain tree that shares no memory with it.

    Raises:
        TypeError: a value inside has no plain form.
    """
    if value is None or isinstance(value, bool | str) or type(value) is float:
        return value
    if type(value) is int:
        return value if abs(value) < 2**63 else {_INT: str(value)}
    if isinstance(value, np.generic):
        return {_SCALAR: np.array([value])}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return np.array(value)
    if type(value) is tuple:
        return {_TUPLE: [pack(v) for v in value]}
    if type(value) is list:
        return [pack(v) for v in value]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: pack(v) for k, v in value.items()}
    raise TypeError(f"{type(value).__name__} {value!r:.80} cannot be stored in a plain tree.")


def unpack(tree: object) -> Any:  # noqa: PLR0911 - one line per kind
    """Return the value that was packed, in new memory."""
    if isinstance(tree, np.ndarray):
        return np.array(tree)
    if isinstance(tree, list):
        return [unpack(v) for v in tree]
    if not isinstance(tree, dict):
        return tree
    if _TUPLE in tree:
        return tuple(unpack(v) for v in tree[_TUPLE])
    if _SCALAR in tree:
        return tree[_SCALAR][0]
    if _INT in tree:
        return int(tree[_INT])
    return {k: unpack(v) for k, v in tree.items()}


def pack_rng(rng: np.random.Generator) -> Any:
    """Return the state of a random generator as a plain tree."""
    return pack(rng.bit_generator.state)


def set_rng(rng: np.random.Generator, tree: object) -> None:
    """Restore a state packed by `pack_rng` in a generator of the same kind."""
    rng.bit_generator.state = unpack(tree)
