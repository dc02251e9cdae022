"""What distributions over discrete actions have in common."""

import torch
from torch import Tensor

from rlpyt.utils.tensor import from_onehot, to_onehot


class DiscreteMixin:
    """Conversion between integers and one-hot vectors.

    Args:
        dim: number of actions.
        dtype: of actions as integers.
        onehot_dtype: of one-hot vectors.

    Raises:
        ValueError: dim is not positive.
    """

    def __init__(
        self, dim: int, dtype: torch.dtype = torch.long, onehot_dtype: torch.dtype = torch.float
    ) -> None:
        if dim < 1:
            raise ValueError(f"dim={dim}: there must be at least one action.")
        self._dim = dim
        self.dtype = dtype
        self.onehot_dtype = onehot_dtype

    @property
    def dim(self) -> int:
        """Number of actions."""
        return self._dim

    def to_onehot(self, indexes: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """[*lead] integers -> [*lead, dim] of ``dtype`` (default ``onehot_dtype``)."""
        return to_onehot(indexes, self._dim, dtype or self.onehot_dtype)

    def from_onehot(self, onehot: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """[*lead, dim] -> [*lead] integers of ``dtype`` (default ``self.dtype``)."""
        return from_onehot(onehot, dtype=dtype or self.dtype)
