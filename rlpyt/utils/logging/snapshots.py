"""Snapshot files: which iterations are kept, and contents that ``torch.load`` reads safely."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.utils.files import atomic_write

SNAPSHOT_MODES = ("none", "last", "all", "gap", "last+gap")


def snapshot_names(mode: str, itr: int, gap: int) -> list[str]:
    """File names under which iteration ``itr`` is to be saved.

    "last" overwrites params.pkl, "all" keeps itr_<itr>.pkl of every call, "gap" keeps those of the
    first and of every ``gap``-th iteration, "last+gap" does both, "none" saves nothing.
    """
    due = itr == 0 or (itr + 1) % gap == 0
    names = [f"itr_{itr}.pkl"] if mode == "all" or ("gap" in mode and due) else []
    return names + ["params.pkl"] * ("last" in mode)


def write_snapshot(path: str | os.PathLike[str], params: Any) -> None:
    """Save a tree for ``torch.load(path, weights_only=True)``, replacing the file atomically.

    Raises:
        TypeError: something in the tree has no plain form; the message names where it is.
        OSError: the file system refused; an older file is intact.
    """
    import torch

    content = io.BytesIO()  # in memory first: torch hides the errors of a full disk
    torch.save(plain(params), content)
    with atomic_write(path) as file:
        file.write(content.getbuffer())


def plain(tree: Any, where: str = "params") -> Any:  # noqa: PLR0911 - a case per kind
    """Reduce a tree to dicts, lists, tuples, tensors on the CPU, numbers, texts and None.

    numpy arrays become tensors, numpy scalars Python numbers, namedtuples dicts. Tensors are
    copied, so that none drags a larger shared storage into the file.

    Raises:
        TypeError: an object of another kind, named by its place in the tree.
    """
    import torch

    if isinstance(tree, torch.Tensor):
        return tree.detach().cpu().clone()
    if isinstance(tree, np.generic) and tree.dtype.kind in "biuf":
        return tree.item()
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "biufc":
        return torch.from_numpy(np.array(tree, dtype=tree.dtype.newbyteorder("="), order="C"))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {name: plain(getattr(tree, name), f"{where}.{name}") for name in tree._fields}
    if isinstance(tree, Mapping):
        return {_plain_key(k, where): plain(v, f"{where}[{k!r}]") for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        items = [plain(value, f"{where}[{i}]") for i, value in enumerate(tree)]
        return tuple(items) if isinstance(tree, tuple) else items
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    raise TypeError(
        f"{where} is a {type(tree).__module__}.{type(tree).__qualname__}, which a snapshot cannot "
        "hold: turn it into tensors, numbers, texts, dicts or lists first."
    )


def _plain_key(key: Any, where: str) -> str | int:
    if isinstance(key, (str, int)):
        return str(key) if isinstance(key, str) else int(key)
    if isinstance(key, np.integer):
        return int(key)
    raise TypeError(f"{where} has the key {key!r}; snapshots take texts and integers as keys.")
