"""Several independent discrete actions at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.distributions.base import NoiseSpec, namespace
from rlpyt.distributions.categorical import EPS, Categorical, cumulative_sum
from rlpyt.distributions.categorical import DistInfo as DistInfo  # noqa: PLC0414 (the same)
from rlpyt.utils.collections import NamedArrayTuple


class MultiCategorical(Categorical):
    """P categorical actions (MultiDiscrete, MultiBinary), with concatenated probabilities.

    ``dist_info.prob`` is [*lead, sum(dims)], each part summing to one; actions are [*lead, P]
    integers. Entropy and KL divergence of independent parts add up, so `Categorical` computes them
    over the whole row.

    Args:
        dims: number of choices of each part.
        dtype: dtype of integer actions.
        onehot_dtype: dtype of one-hot vectors.

    Raises:
        ValueError: dims is empty or has an entry below 1.
    """

    def __init__(
        self,
        dims: Sequence[int],
        dtype: torch.dtype = torch.long,
        onehot_dtype: torch.dtype = torch.float,
    ) -> None:
        self.dims = tuple(int(n) for n in dims)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(
                f"dims must hold the number of choices, at least 1, of each part; got {dims}."
            )
        super().__init__(sum(self.dims), dtype, onehot_dtype)
        self.noise_spec = NoiseSpec("uniform", (len(self.dims),))
        self._ends = np.cumsum(self.dims) - 1  # column of each part's last choice
        self._starts = self._ends + 1 - self.dims

    def _starts_on(self, device: torch.device) -> Tensor:
        return torch.from_numpy(self._starts).to(device)

    def draw(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        """Return the actions [*lead, P] that ``sample`` draws from this noise [*lead, P], int64."""
        cumulative = cumulative_sum(dist_info.prob)
        high = cumulative[..., self._ends]
        low = namespace(high).zeros_like(high)
        low[..., 1:] = high[..., :-1]
        starts = self._starts if isinstance(high, np.ndarray) else self._starts_on(high.device)
        x = low + noise * (high - low)
        below = cumulative[..., None, :] <= x[..., :, None]  # [*lead, P, sum(dims)]
        return below.sum(-1) - starts

    def mode(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the most likely choice of each part, [*lead, P]."""
        return self.from_onehot(dist_info.prob)

    def log_likelihood(self, indexes: Tensor, dist_info: NamedArrayTuple) -> Tensor:
        """Return the joint log-probability of the actions ``indexes`` [*lead, P], [*lead]."""
        columns = indexes.long() + self._starts_on(indexes.device)
        return torch.log(dist_info.prob.gather(-1, columns) + EPS).sum(-1)

    def likelihood_ratio(
        self, indexes: Tensor, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple
    ) -> Tensor:
        """Return the probability ratio of ``indexes`` [*lead, P], new over old, [*lead]."""
        new = self.log_likelihood(indexes, new_dist_info)
        return torch.exp(new - self.log_likelihood(indexes, old_dist_info))

    def to_onehot(self, indexes: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Convert [*lead, P] integers to concatenated one-hot parts [*lead, sum(dims)]."""
        shape = (*indexes.shape[:-1], self.dim)
        onehot = torch.zeros(shape, dtype=dtype or self.onehot_dtype, device=indexes.device)
        return onehot.scatter(-1, indexes.long() + self._starts_on(indexes.device), 1)

    def from_onehot(self, onehot: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Convert [*lead, sum(dims)] to [*lead, P] integers, of ``self.dtype`` by default."""
        parts = torch.split(onehot, list(self.dims), dim=-1)
        return torch.stack([part.argmax(-1) for part in parts], dim=-1).to(dtype or self.dtype)
