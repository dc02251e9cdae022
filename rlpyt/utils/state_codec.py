"""Exact conversion of a run's state to JSON plus named tensors and arrays, without pickle.

Values that JSON does not support are objects with one key that starts with "$": ``{"$tensor":
name}`` refers to a stored tensor, ``{"$tuple": [...]}`` is a tuple, ``{"$dict": [[key, value],
...]}`` a dict with keys that are not all plain strings, and so on.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

# Names in the safetensors format. Numpy arrays of other dtypes are stored as bytes (uint8).
TENSOR_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
# The same of numpy, which has no bfloat16 and float8, by kind and size: "f4" -> "F32".
ARRAY_DTYPES = {
    np.dtype(str(dtype).removeprefix("torch.")).str[1:]: name
    for dtype, name in TENSOR_DTYPES.items()
    if not name.startswith(("BF16", "F8"))
}
_RAW_KINDS = "fciubSUmM"  # no object and structured dtypes
_PLAIN_INT = 2**63

Leaf = torch.Tensor | NDArray[Any]


@dataclass
class EncodedState:
    """Encoded state: ``tree`` for JSON, and the tensors and arrays that it refers to by name."""

    tree: Any = None
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


def encode_state(state: dict[Any, Any]) -> EncodedState:
    """Encode a state; tensors and arrays are not copied.

    Args:
        state: nested dicts (string or integer keys), lists, tuples, None, bool, int, float, str,
            bytes, numpy arrays and scalars, torch tensors.

    Raises:
        TypeError: the state contains an object of another type; the message gives its path.
        RecursionError: the state contains itself.
    """
    encoded = EncodedState()
    encoded.tree = _encode(state, "state", encoded)
    return encoded


def decode_state(encoded: EncodedState) -> Any:
    """Decode a state; it shares memory with ``encoded``.

    Raises:
        ValueError, KeyError, TypeError: the tree was not created by ``encode_state``.
    """
    return _decode(encoded.tree, encoded)


def _encode(value: Any, where: str, encoded: EncodedState) -> Any:
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < _PLAIN_INT else {"$int": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, Mapping):
        return _encode_dict(value, where, encoded)
    if type(value) in (list, tuple, torch.Size):
        items = [_encode(item, f"{where}/{i}", encoded) for i, item in enumerate(value)]
        return items if type(value) is list else {"$tuple": items}
    return _encode_leaf(value, where, encoded)


def _encode_dict(value: Mapping[Any, Any], where: str, encoded: EncodedState) -> dict[str, Any]:
    pairs = []
    for key, item in value.items():
        if type(key) not in (str, int) and not isinstance(key, np.integer):
            raise TypeError(f"keys of {where} must be strings or integers, got {key!r}.")
        own = key if type(key) is str else int(key)
        pairs.append((own, _encode(item, f"{where}/{key}", encoded)))
    if all(type(key) is str and not key.startswith("$") for key, _ in pairs):
        return {str(key): item for key, item in pairs}
    return {"$dict": [[_encode(key, where, encoded), item] for key, item in pairs]}


def _encode_leaf(value: Any, where: str, encoded: EncodedState) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        dense = value.layout is torch.strided and value.device.type != "meta"
        if not dense or value.dtype not in TENSOR_DTYPES:
            raise TypeError(
                f"{where} must be a dense tensor of {sorted(TENSOR_DTYPES.values())}, got "
                f"dtype {value.dtype}, layout {value.layout} on {value.device}."
            )
        return {"$tensor": _store(encoded.tensors, where, value.detach())}
    if isinstance(value, bytes):
        return {"$bytes": _store(encoded.arrays, where, np.frombuffer(value, np.uint8))}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _RAW_KINDS:
        kind, array = "$array" if isinstance(value, np.ndarray) else "$scalar", np.asarray(value)
        if array_dtype_name(array) is not None:
            return {kind: _store(encoded.arrays, where, array)}
        name = _store(encoded.arrays, where, np.frombuffer(array.tobytes(), np.uint8))
        return {kind: name, "dtype": array.dtype.str, "shape": list(array.shape)}
    hint = " Use its _asdict()." if hasattr(value, "_asdict") else ""
    raise TypeError(
        f"{where} must consist of dicts, lists, tuples, numbers, strings, bytes, arrays and "
        f"tensors, got a {type(value).__module__}.{type(value).__qualname__}.{hint}"
    )


def array_dtype_name(array: NDArray[Any]) -> str | None:
    """Return the name of an array's dtype in safetensors, or None if it is not supported."""
    return ARRAY_DTYPES.get(array.dtype.str[1:]) if array.dtype.str[0] in "<|" else None


def write_safetensors(file: BinaryIO, leaves: Mapping[str, Leaf]) -> None:
    """Write tensors or arrays in the safetensors format, one after the other.

    Unlike the writer of the safetensors library, this copies at most one tensor at a time, and
    stores tensors that share memory, such as views of one block, separately.

    Source: https://github.com/huggingface/safetensors, section "Format".
    """
    ordered = sorted(leaves.items(), key=lambda item: -_item_bytes(item[1]))  # for alignment
    header, end = {}, 0
    for name, leaf in ordered:
        start, end = end, end + math.prod(leaf.shape) * _item_bytes(leaf)
        dtype = (
            TENSOR_DTYPES[leaf.dtype] if isinstance(leaf, torch.Tensor) else array_dtype_name(leaf)
        )
        header[name] = {
            "dtype": dtype,
            "shape": list(leaf.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, leaf in ordered:
        file.write(_content(leaf))


def _store(leaves: dict[str, Any], where: str, leaf: Any) -> str:
    name = where
    while name in leaves:  # the keys "a/b" and "a" > "b" have the same path
        name += "'"
    leaves[name] = leaf
    return name


def _item_bytes(leaf: Leaf) -> int:
    return leaf.element_size() if isinstance(leaf, torch.Tensor) else leaf.itemsize


def _content(leaf: Leaf) -> memoryview:
    """Return the bytes of a leaf in row-major order."""
    if isinstance(leaf, torch.Tensor):
        leaf = leaf.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data


def _decode(node: Any, encoded: EncodedState) -> Any:
    if isinstance(node, list):
        return [_decode(item, encoded) for item in node]
    if not isinstance(node, dict):
        return node
    if not any(key.startswith("$") for key in node):
        return {key: _decode(item, encoded) for key, item in node.items()}
    (mark, content), *details = node.items()
    return _DECODERS[mark](content, dict(details), encoded)


def _decode_array(name: str, details: dict[str, Any], encoded: EncodedState) -> NDArray[Any]:
    array = encoded.arrays[name]
    if not details:
        return array
    dtype = np.dtype(details["dtype"])
    if dtype.kind not in _RAW_KINDS:
        raise ValueError(f"{name} has the unsupported dtype {dtype}")
    return np.frombuffer(array.tobytes(), dtype).reshape(details["shape"]).copy()


_DECODERS: dict[str, Callable[[Any, dict[str, Any], EncodedState], Any]] = {
    "$int": lambda text, details, encoded: int(text, 16),
    "$float": lambda text, details, encoded: float(text),
    "$tuple": lambda items, details, encoded: tuple(_decode(items, encoded)),
    "$dict": lambda pairs, details, encoded: {
        _decode(key, encoded): _decode(value, encoded) for key, value in pairs
    },
    "$tensor": lambda name, details, encoded: encoded.tensors[name],
    "$bytes": lambda name, details, encoded: encoded.arrays[name].tobytes(),
    "$array": _decode_array,
    "$scalar": lambda name, details, encoded: _decode_array(name, details, encoded)[()],
}
