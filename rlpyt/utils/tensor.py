"""Indexing, one-hot, masked-mean and leading-dimension helpers for torch tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def generator_on(device: torch.device, seed: int) -> torch.Generator | None:
    """Return a torch generator of a device; ``None`` on the meta device, which has none."""
    return None if device.type == "meta" else torch.Generator(device).manual_seed(seed)


def load_generator(generator: torch.Generator | None, state: Tensor | None) -> None:
    """Load the state of a generator, except one of another kind of device, which it cannot take."""
    if generator is not None and state is not None:
        state = torch.as_tensor(state)
        if len(state) == len(generator.get_state()):
            generator.set_state(state)


def select_at_indexes(indexes: Tensor, tensor: Tensor) -> Tensor:
    """Select one entry along the dimension after those of ``indexes``: Q(s, a) from Q(s, .).

    Args:
        indexes: integers of any shape [*L], for example [T, B]; -1 is the last entry.
        tensor: [*L, n, *rest], any dtype; its leading dimensions match ``indexes``.

    Returns:
        [*L, *rest]; gradients flow to the selected entries.

    Raises:
        ValueError: the leading dimensions of ``tensor`` are not the shape of ``indexes``.
    """
    dim = indexes.dim()
    if tensor.dim() <= dim or tensor.shape[:dim] != indexes.shape:
        raise ValueError(
            f"tensor of shape {tuple(tensor.shape)} must have shape {tuple(indexes.shape)} + "
            "(n, ...), the shape of indexes plus the dimension to select from."
        )
    if tensor.dim() == dim + 1:  # the usual case, without building row numbers
        index = indexes.long().unsqueeze(-1)
        index = torch.where(index < 0, index + tensor.shape[dim], index)
        return tensor.gather(dim, index).squeeze(-1)
    flat = tensor.reshape(-1, *tensor.shape[dim:])
    rows = torch.arange(len(flat), device=tensor.device)
    return flat[rows, indexes.reshape(-1).long()].reshape(indexes.shape + tensor.shape[dim + 1 :])


def to_onehot(indexes: Tensor, num: int, dtype: torch.dtype | None = None) -> Tensor:
    """Expand integers [...] in [0, num) to one-hot vectors [..., num].

    Args:
        indexes: integer tensor of any shape.
        num: number of values, the size of the new trailing dimension.
        dtype: dtype of the result; None keeps that of ``indexes``.

    Raises:
        RuntimeError: an index is outside [0, num) (raised by torch, without a device read here).
    """
    dtype = indexes.dtype if dtype is None else dtype
    onehot = torch.zeros((*indexes.shape, num), dtype=dtype, device=indexes.device)
    return onehot.scatter(-1, indexes.unsqueeze(-1).long(), 1)


def from_onehot(onehot: Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> Tensor:
    """Convert one-hot vectors along ``dim`` to integers (int64 unless ``dtype`` is given)."""
    indexes = torch.argmax(onehot, dim=dim)
    return indexes if dtype is None else indexes.to(dtype)


def valid_mean(
    tensor: Tensor, valid: Tensor | None = None, dim: int | tuple[int, ...] | None = None
) -> Tensor:
    """Return the mean of valid entries, over all dimensions or ``dim``; used in every loss.

    Args:
        tensor: [*L, *rest] floating point; invalid entries may be NaN or infinite.
        valid: [*L] bool or weights >= 0, matching the leading dimensions of ``tensor``;
            None means that all entries are valid.
        dim: dimension(s) to average over; None means all.

    Returns:
        The mean; 0 with zero gradient where no entry is valid.

    Raises:
        ValueError: the shape of ``valid`` does not match the leading dimensions of ``tensor``.
    """
    if valid is None:
        return tensor.mean(dim=dim)
    if valid.shape != tensor.shape[: valid.dim()]:
        raise ValueError(
            f"valid of shape {tuple(valid.shape)} must match the leading dimensions of tensor, "
            f"whose shape is {tuple(tensor.shape)}."
        )
    if valid.dim() < tensor.dim():
        valid = valid.reshape(valid.shape + (1,) * (tensor.dim() - valid.dim())).expand_as(tensor)
    weight = valid.to(tensor.dtype)
    total = weight.sum(dim=dim)
    # Mask before weighting: NaN times zero is NaN, forward and backward.
    sum_ = (tensor.masked_fill(weight == 0, 0.0) * weight).sum(dim=dim)
    return sum_ / total.masked_fill(total == 0, 1.0)


def infer_leading_dims(tensor: Tensor, dim: int) -> tuple[int, int, int, torch.Size]:
    """Infer the leading dimensions of [*data], [B, *data] or [T, B, *data] input of a model.

    A model's ``forward`` calls this first, reshapes its input to ``(T * B, *shape)`` and ends with
    `restore_leading_dims`, so that one model serves for examples, acting and training.

    Args:
        tensor: model input.
        dim: number of data dimensions.

    Returns:
        ``lead_dim, T, B, shape``: number of leading dimensions, their sizes (1 where absent), and
        the data shape.

    Raises:
        ValueError: the tensor has fewer than ``dim`` or more than ``dim + 2`` dimensions.
    """
    shape = tensor.shape
    lead_dim = len(shape) - dim
    if lead_dim == 1:
        return 1, 1, shape[0], shape[1:]
    if lead_dim == 2:
        return 2, shape[0], shape[1], shape[2:]
    if lead_dim == 0:
        return 0, 1, 1, shape
    raise ValueError(
        f"tensor of shape {tuple(shape)} must have dim={dim} data dimensions after no leading "
        "dimensions, [B] or [T, B]."
    )


def restore_leading_dims(
    tensors: Tensor | Sequence[Tensor], lead_dim: int, T: int = 1, B: int = 1
) -> Any:
    """Restore the leading dimensions of the input in model outputs.

    Args:
        tensors: a tensor, or a tuple or list of tensors, each [T * B, ...].
        lead_dim, T, B: as returned by `infer_leading_dims`.

    Returns:
        The same structure, each tensor with no leading dimensions, [B] or [T, B].

    Raises:
        ValueError: ``lead_dim`` is not 0, 1 or 2, or it is 0 and a tensor has more than one row.
    """
    if lead_dim == 1:
        return tensors
    if isinstance(tensors, Tensor):
        return _restore(tensors, lead_dim, T, B)
    restored = [_restore(tensor, lead_dim, T, B) for tensor in tensors]
    make: Any = getattr(tensors, "_make", type(tensors))
    return make(restored)


def _restore(tensor: Tensor, lead_dim: int, T: int, B: int) -> Tensor:
    if lead_dim == 2:
        return tensor.reshape((T, B, *tensor.shape[1:]))
    if lead_dim == 0 and tensor.shape[0] == 1:
        return tensor.squeeze(0)
    raise ValueError(
        "lead_dim must be 0 (with one row), 1 or 2, as returned by infer_leading_dims, got "
        f"{lead_dim} with a tensor of shape {tuple(tensor.shape)}."
    )
