"""Snapshot files: their names by iteration, and contents that ``torch.load`` reads safely."""

import io
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.errors import DamagedFile
from rlpyt.utils.files import atomic_write, check_regular
from rlpyt.utils.signed import leaves

SNAPSHOT_MODES = ("none", "last", "all", "gap", "last+gap")


def snapshot_names(mode: str, itr: int, gap: int) -> list[str]:
    """Return the names of the files to which iteration ``itr`` is saved.

    "last" overwrites params.pkl, "all" keeps itr_<itr>.pkl of every call, "gap" keeps those of the
    first and of every ``gap``-th iteration, "last+gap" does both, "none" saves nothing.
    """
    at_gap = itr == 0 or (itr + 1) % gap == 0
    names = [f"itr_{itr}.pkl"] if mode == "all" or ("gap" in mode and at_gap) else []
    return names + ["params.pkl"] * ("last" in mode)


def write_snapshot(path: str | os.PathLike[str], params: Any) -> None:
    """Save a tree for ``torch.load(path, weights_only=True)``, replacing the file atomically.

    Raises:
        TypeError: the tree contains an object of an unsupported type; the message gives its path.
        OSError: the file could not be written; an older file is intact.
    """
    import torch

    content = io.BytesIO()  # in memory first, since torch hides the errors of a full disk
    torch.save(plain(params), content)
    with atomic_write(path) as file:
        file.write(content.getbuffer())


def read_snapshot(path: str | os.PathLike[str]) -> Any:
    """Return the content of a snapshot, with its tensors on the CPU.

    ``torch.load`` does not verify the checksums that ``torch.save`` writes.

    Raises:
        DamagedFile: the file has changed since it was written, or cannot be read.
    """
    import torch

    check_regular(path)
    try:
        if zipfile.is_zipfile(path):  # else of an early version of torch
            with zipfile.ZipFile(path) as archive:
                packed = any(item.compress_type for item in archive.infolist())
                if packed or archive.testzip() is not None:
                    raise ValueError("a checksum does not match its content")
        content = torch.load(path, map_location="cpu", weights_only=True)
        list(leaves(content))  # raises if the content is deeply nested or contains itself
        return content
    except Exception as error:  # torch and zipfile raise many types, without the name of the file
        reason = " ".join(str(error).split())[:100]
        raise DamagedFile(f"{path} is damaged or truncated ({reason})") from error


def plain(  # noqa: PLR0911 - a case per kind
    tree: Any, where: str = "params", copies: dict[Any, Any] | None = None
) -> Any:
    """Convert a tree to dicts, lists, tuples, tensors on the CPU, numbers, strings and None.

    numpy arrays become tensors, numpy scalars Python numbers, namedtuples dicts. Tensors are
    copied, so that a view does not save its complete storage; those that are the same memory, such
    as tied parameters, are copied and saved once.

    Args:
        tree: tree to convert.
        where: path of the tree, for errors.
        copies: tensors that were copied before, and their copies, by memory; extended in place.

    Raises:
        TypeError: the tree contains an object of an unsupported type; the message gives its path.
    """
    import torch

    copies = {} if copies is None else copies
    if isinstance(tree, torch.Tensor):
        key: Any = id(tree)
        if tree.layout is torch.strided:
            numbers = tree.dtype, tree.is_conj(), tree.is_neg()
            key = tree.device, tree.data_ptr(), tree.shape, tree.stride(), numbers
        if key not in copies:  # which keeps the tensor, so that its memory is not used again
            copies[key] = tree, tree.detach().cpu().clone()
        return copies[key][1]
    if isinstance(tree, np.generic) and tree.dtype.kind in "biuf":
        return tree.item()
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "biufc":
        return torch.from_numpy(np.array(tree, dtype=tree.dtype.newbyteorder("="), order="C"))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {
            name: plain(getattr(tree, name), f"{where}.{name}", copies) for name in tree._fields
        }
    if isinstance(tree, Mapping):
        return {_plain_key(k, where): plain(v, f"{where}[{k!r}]", copies) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        items = [plain(value, f"{where}[{i}]", copies) for i, value in enumerate(tree)]
        return tuple(items) if isinstance(tree, tuple) else items
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    raise TypeError(
        f"{where} is a {type(tree).__module__}.{type(tree).__qualname__}, which snapshots do not "
        "support. Convert it to tensors, numbers, strings, dicts or lists first."
    )


def _plain_key(key: Any, where: str) -> str | int:
    if isinstance(key, (str, int)):
        return str(key) if isinstance(key, str) else int(key)
    if isinstance(key, np.integer):
        return int(key)
    raise TypeError(f"keys of {where} must be strings or integers, got {key!r}.")
