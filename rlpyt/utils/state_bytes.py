"""Conversion of a run's state to bytes, for sending between processes, without pickle."""

import io
import json
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch

from rlpyt.utils.state_codec import EncodedState, decode_state, encode_state, write_safetensors

_SIZE = 8  # bytes of the size that precedes each part


def to_bytes(state: dict[Any, Any]) -> bytearray:
    """Pack a state as saved in checkpoints.

    Raises:
        TypeError: the state contains an object of an unsupported type; the message gives its path.
    """
    encoded = encode_state(state)
    packed = bytearray()
    for leaves in (encoded.tensors, encoded.arrays):
        file = io.BytesIO()
        write_safetensors(file, leaves)
        _append(packed, file.getbuffer())
    _append(packed, json.dumps(encoded.tree, allow_nan=False).encode())
    return packed


def from_bytes(packed: bytes | bytearray) -> Any:
    """Unpack the output of ``to_bytes`` without executing code."""
    parts, at = [], 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + _SIZE], "little")
        parts.append(bytes(packed[at + _SIZE : at + _SIZE + size]))
        at += _SIZE + size
    tensors, arrays, tree = parts
    loaded = {k: np.require(v, requirements="W") for k, v in safetensors.numpy.load(arrays).items()}
    return decode_state(EncodedState(json.loads(tree), safetensors.torch.load(tensors), loaded))


def _append(packed: bytearray, part: Any) -> None:
    packed += len(part).to_bytes(_SIZE, "little")
    packed += part
