"""Functions on trees of arrays: allocate by example, convert, move, apply to every leaf.

A tree is an array or tensor, ``None``, or a (named, namedarray) tuple of trees. ``None`` stays
``None`` everywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from rlpyt.utils.collections import (
    NamedArrayTuple,
    is_namedarraytuple,
    is_namedtuple,
    namedarraytuple,
    namedarraytuple_like,
)
from rlpyt.utils.shared import Arena, SharedArray

Array = np.ndarray[Any, Any] | torch.Tensor
Tensors = torch.Tensor | NamedArrayTuple  # a tensor or a namedarraytuple of them
Arrays = Array | NamedArrayTuple  # numpy arrays or tensors
NumpyArrays = np.ndarray[Any, Any] | NamedArrayTuple  # a numpy array or a namedarraytuple of them

np_mp_array_spawn = SharedArray  # original name of the shared array for spawned processes


def buffer_from_example(
    example: Any,
    leading_dims: int | Sequence[int],
    share_memory: bool | Arena | torch.device = False,
    use_NatSchema: bool | None = None,
) -> Any:
    """Allocate zeroed arrays for many elements like ``example``.

    Args:
        example: tree of arrays, tensors or numbers without leading dimensions.
        leading_dims: dimensions put before those of every leaf, e.g. [T, B].
        share_memory: allocate in shared memory, in that of an ``Arena`` if one is given; or tensors
            on a device.
        use_NatSchema: ignored, for compatibility; all types can be pickled.

    Returns:
        The same structure with namedarraytuples for named tuples, and ``None`` where the example
        has ``None``.
    """
    if example is None:
        return None
    if is_namedtuple(example) or is_namedarraytuple(example):
        cls = namedarraytuple_like(example)
        return cls._make(
            buffer_from_example(field, leading_dims, share_memory) for field in tuple(example)
        )
    return build_array(example, leading_dims, share_memory)


def build_array(
    example: Any,
    leading_dims: int | Sequence[int],
    share_memory: bool | Arena | torch.device = False,
) -> Any:
    """Allocate one zeroed array with the example's dtype and shape after ``leading_dims``.

    If a device is given it is a tensor. Its byte order is that of this machine.

    Raises:
        TypeError: the example is not numeric.
    """
    array = example.detach().cpu().numpy() if isinstance(example, torch.Tensor) else example
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind in "USV":
        raise TypeError(
            f"cannot allocate a buffer for {example!r} (dtype {array.dtype}): leaves must be "
            "numbers, booleans or arrays of them."
        )
    dims = (leading_dims,) if isinstance(leading_dims, int) else tuple(leading_dims)
    shape, dtype = dims + array.shape, array.dtype.newbyteorder("=")
    if isinstance(share_memory, torch.device):
        torch_dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        return torch.zeros(shape, dtype=torch_dtype, device=share_memory)
    if isinstance(share_memory, Arena):
        return share_memory.allocate(shape, dtype)
    return np_mp_array(shape, dtype) if share_memory else np.zeros(shape, dtype)


def np_mp_array(shape: int | Sequence[int], dtype: DTypeLike) -> SharedArray:
    """Allocate a zeroed numpy array in a separate block of shared memory."""
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    return Arena().allocate(dims, dtype)


def buffer_func(buffer_: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply ``func(leaf, *args, **kwargs)`` to every leaf; return the same structure."""
    if buffer_ is None:
        return None
    if isinstance(buffer_, tuple):
        if hasattr(buffer_, "_map"):  # it has data besides its fields
            return buffer_._map(lambda part: buffer_func(part, func, *args, **kwargs))
        contents = [buffer_func(field, func, *args, **kwargs) for field in tuple(buffer_)]
        return buffer_._make(contents) if hasattr(buffer_, "_make") else type(buffer_)(contents)
    return func(buffer_, *args, **kwargs)


def buffer_method(buffer_: Any, method_name: str, *args: Any, **kwargs: Any) -> Any:
    """Call ``leaf.method_name(*args, **kwargs)`` on every leaf; return the results."""
    return buffer_func(buffer_, lambda leaf: getattr(leaf, method_name)(*args, **kwargs))


def torchify_buffer(buffer_: Any) -> Any:
    """Convert numpy arrays to tensors that share their memory; other leaves are unchanged."""
    return buffer_func(buffer_, _to_torch)


def numpify_buffer(buffer_: Any) -> Any:
    """Convert tensors to numpy arrays that share their memory; other leaves are unchanged."""
    return buffer_func(buffer_, _to_numpy)


def _to_torch(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return torch.from_numpy(leaf)
    return torch.as_tensor(leaf) if isinstance(leaf, np.generic) else leaf


def _to_numpy(leaf: Any) -> Any:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf


def buffer_to(buffer_: Any, device: Any = None) -> Any:
    """Move every tensor to ``device``; tensors already there are not copied."""
    return buffer_ if device is None else buffer_func(buffer_, lambda leaf: leaf.to(device))


def to_dicts(tree: Any) -> Any:
    """Convert a tree to nested dictionaries with the names of its tuples, and copies of tensors.

    Attributes of tuples, such as those of batches from a replay, are kept, except tickets.
    """
    if not isinstance(tree, tuple):
        return tree.detach().clone() if isinstance(tree, torch.Tensor) else tree
    fields, attributes = list(getattr(tree, "_fields", ())), dict(getattr(tree, "__dict__", {}))
    attributes.pop("ticket", None)
    plain = {
        "type": type(tree).__name__,
        "fields": fields,
        "parts": [to_dicts(x) for x in tuple(tree)],
    }
    more = {name: to_dicts(value) for name, value in attributes.items()}
    return {**plain, "attributes": more} if more else plain


def from_dicts(plain: Any, make: Callable[..., Any] = namedarraytuple) -> Any:
    """Return the tree of which `to_dicts` has made nested dictionaries.

    Args:
        plain: the dictionaries.
        make: returns the class of a tuple from its name and fields.
    """
    if not isinstance(plain, dict):
        return plain.clone() if isinstance(plain, torch.Tensor) else plain
    parts = [from_dicts(x, make) for x in plain["parts"]]
    if not plain["fields"]:
        return tuple(parts)
    tree = make(plain["type"], tuple(plain["fields"]))._make(parts)
    for name, value in plain.get("attributes", {}).items():
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"{name!r} is no name of an attribute.")
        setattr(tree, name, from_dicts(value, make))
    return tree


def concatenated(trees: Sequence[Any], dim: int = 0) -> Any:
    """Concatenate trees of arrays or tensors, of the same structure, along a dimension."""
    first, *others = trees
    rest = [iter(leaves_of(tree)) for tree in others]

    def joined(leaf: Any) -> Any:
        parts = [leaf, *map(next, rest)]
        return torch.cat(parts, dim) if torch.is_tensor(leaf) else np.concatenate(parts, dim)

    return buffer_func(first, joined) if rest else first


def leaves_of(buffer_: Any) -> list[Any]:
    """Return the leaves of the tree in order, without ``None``."""
    if buffer_ is None:
        return []
    if isinstance(buffer_, tuple):
        return [leaf for field in tuple(buffer_) for leaf in leaves_of(field)]
    return [buffer_]


def shapes_of(buffer_: Any, n_leading: int = 0) -> Any:
    """Return the shape of a leaf, or nested tuples with the shape of every leaf of a tree.

    Args:
        buffer_: the tree; a leaf without a shape, such as a number or a list, counts as ().
        n_leading: number of leading dimensions to leave out.
    """
    if isinstance(buffer_, tuple):
        return tuple([shapes_of(field, n_leading) for field in buffer_])
    return getattr(buffer_, "shape", ())[n_leading:]


def keeps_numbers(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """Return True if a conversion to this dtype loses at most digits of floats."""
    if dtype.kind == "f" or np.can_cast(array.dtype, dtype, "safe"):
        return np.can_cast(array.dtype, dtype, "same_kind")
    return np.can_cast(array.dtype, dtype, "same_kind") and np.array_equal(
        array.astype(dtype), array
    )


def get_leading_dims(buffer_: Any, n_dim: int = 1) -> tuple[int, ...] | None:
    """Return the first ``n_dim`` dimensions, which are the same in all leaves.

    Raises:
        ValueError: the leading dimensions of two leaves differ; the message names the fields.
    """
    found: tuple[int, ...] | None = None
    where = ""
    for path, leaf in _named_leaves(buffer_):
        dims = tuple(leaf.shape[:n_dim])
        if found is not None and dims != found:
            raise ValueError(
                f"leading dimensions differ: '{where}' has {list(found)}, "
                f"'{path}' has {list(dims)}."
            )
        found, where = dims, path
    return found


def _named_leaves(buffer_: Any, path: str = "") -> list[tuple[str, Any]]:
    if buffer_ is None:
        return []
    if isinstance(buffer_, tuple):
        names = getattr(buffer_, "_fields", range(len(buffer_)))
        pairs = zip(names, tuple(buffer_), strict=True)
        return [x for n, f in pairs for x in _named_leaves(f, f"{path}.{n}" if path else str(n))]
    return [(path or "buffer", buffer_)]
