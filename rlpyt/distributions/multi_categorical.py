"""Several discrete actions at once, independent of each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.distributions.base import NoiseSpec
from rlpyt.distributions.categorical import EPS, Categorical
from rlpyt.distributions.categorical import DistInfo as DistInfo  # noqa: PLC0414 (the same)


class MultiCategorical(Categorical):
    """P categorical actions (MultiDiscrete, MultiBinary); ``prob`` holds all of them side by side.

    ``dist_info.prob`` is [*lead, sum(dims)], each part summing to one; actions are [*lead, P]
    integers. Entropy and KL divergence of independent parts add up, so they are those of
    `Categorical` over the row as a whole.

    Args:
        dims: number of choices of each part.
        dtype: of actions as integers.
        onehot_dtype: of one-hot vectors.

    Raises:
        ValueError: dims is empty or has an entry below one.
    """

    def __init__(
        self,
        dims: Sequence[int],
        dtype: torch.dtype = torch.long,
        onehot_dtype: torch.dtype = torch.float,
    ) -> None:
        self.dims = tuple(int(n) for n in dims)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims={dims}: give the number of choices, at least 1, of each part.")
        super().__init__(sum(self.dims), dtype, onehot_dtype)
        self.noise_spec = NoiseSpec("uniform", (len(self.dims),))
        self._ends = np.cumsum(self.dims) - 1  # column of each part's last choice
        self._starts = self._ends + 1 - self.dims

    def _starts_on(self, device: torch.device) -> Tensor:
        return torch.from_numpy(self._starts).to(device)

    def sample(self, dist_info: Any) -> Tensor:
        """Draw actions [*lead, P] of ``dtype`` (int64 by default)."""
        prob = dist_info.prob
        u = self._take_noise(prob.shape[:-1], prob.device)
        cumulative = prob.cumsum(-1, dtype=torch.float64)
        high = cumulative[..., torch.from_numpy(self._ends).to(prob.device)]
        low = torch.nn.functional.pad(high[..., :-1], (1, 0))
        x = low + u * (high - low)
        action = torch.searchsorted(cumulative, x, right=True) - self._starts_on(prob.device)
        return action if self.dtype is torch.long else action.to(self.dtype)

    def mode(self, dist_info: Any) -> Tensor:
        """The likeliest choice of each part, [*lead, parts]."""
        parts = dist_info.prob.split(self.dims, dim=-1)
        return torch.stack([part.argmax(-1) for part in parts], -1).to(self.dtype)

    def sample_numpy(self, dist_info: Any, noise: NDArray[Any]) -> NDArray[np.int64]:
        """The actions [B, P] that ``sample`` draws from the same numbers, for numpy arrays.

        Args:
            dist_info: ``prob`` [B, sum(dims)].
            noise: [B, P] uniform on [0, 1).
        """
        cumulative = np.add.accumulate(dist_info.prob, -1, np.float64)
        high = cumulative[..., self._ends]
        low = np.zeros_like(high)
        low[..., 1:] = high[..., :-1]
        x = low + noise * (high - low)
        below = cumulative[..., None, :] <= x[..., :, None]  # [B, P, sum(dims)]
        return np.add.reduce(below, -1) - self._starts  # type: ignore[no-any-return]

    def log_likelihood(self, indexes: Tensor, dist_info: Any) -> Tensor:
        """Log-probability of the actions ``indexes`` [*lead, P] taken together, [*lead]."""
        columns = indexes.long() + self._starts_on(indexes.device)
        return torch.log(dist_info.prob.gather(-1, columns) + EPS).sum(-1)

    def likelihood_ratio(self, indexes: Tensor, old_dist_info: Any, new_dist_info: Any) -> Tensor:
        """Probability of ``indexes`` [*lead, P] under new over that under old, [*lead]."""
        new = self.log_likelihood(indexes, new_dist_info)
        return torch.exp(new - self.log_likelihood(indexes, old_dist_info))

    def to_onehot(self, indexes: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """[*lead, P] integers -> [*lead, sum(dims)], one-hot parts side by side."""
        shape = (*indexes.shape[:-1], self.dim)
        onehot = torch.zeros(shape, dtype=dtype or self.onehot_dtype, device=indexes.device)
        return onehot.scatter_(-1, indexes.long() + self._starts_on(indexes.device), 1)

    def from_onehot(self, onehot: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """[*lead, sum(dims)] -> [*lead, P] integers of ``dtype`` (default ``self.dtype``)."""
        parts = [part.argmax(-1) for part in onehot.split(self.dims, dim=-1)]  # type: ignore[no-untyped-call]
        return torch.stack(parts, dim=-1).to(dtype or self.dtype)
