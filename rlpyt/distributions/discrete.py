"""Conversion between action numbers and one-hot vectors."""

import torch
from torch import Tensor

from rlpyt.distributions.base import Distribution
from rlpyt.utils.tensor import from_onehot, to_onehot


class DiscreteMixin(Distribution):
    """Base of discrete distributions, which converts between integers and one-hot vectors.

    Args:
        dim: number of actions.
        dtype: dtype of actions.
        onehot_dtype: dtype of one-hot vectors.

    Raises:
        ValueError: ``dim`` is below 1.
    """

    def __init__(
        self, dim: int, dtype: torch.dtype = torch.long, onehot_dtype: torch.dtype = torch.float
    ) -> None:
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}.")
        self._dim = dim
        self.dtype = dtype
        self.onehot_dtype = onehot_dtype

    @property
    def dim(self) -> int:
        """Return the number of actions."""
        return self._dim

    def to_onehot(self, indexes: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Convert [*lead] integers to [*lead, dim] of ``dtype`` (default ``onehot_dtype``)."""
        return to_onehot(indexes, self._dim, dtype or self.onehot_dtype)

    def from_onehot(self, onehot: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Convert [*lead, dim] to [*lead] integers of ``dtype`` (default ``self.dtype``)."""
        return from_onehot(onehot, dtype=dtype or self.dtype)
