"""Running mean and variance of observations."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


class RunningMeanStdModel(nn.Module):
    """Mean and population variance of all data passed to ``update``, stored in buffers.

    Batches are merged exactly (Chan, Golub & LeVeque 1979, eq. 2.1), in float64, so the result does
    not depend on their order and sizes. If torch.distributed is initialized, ``update`` includes
    the batches of all ranks (all must call it), and all ranks have the same statistics.

    Args:
        shape: shape of one datum.

    Attributes:
        count: [] float64, number of data so far.
    """

    count: Tensor

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        shape = tuple(shape)
        # The buffers are float64; the properties of the same names return float32.
        self._buffers["mean"] = torch.zeros(shape, dtype=torch.float64)
        self._buffers["var"] = torch.ones(shape, dtype=torch.float64)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def mean(self) -> Tensor:
        """Return the mean, [*shape] float32; zero before any data."""
        return self._exact("mean").float()

    @property
    def var(self) -> Tensor:
        """Return the population variance, [*shape] float32; one before any data."""
        return self._exact("var").float()

    def _exact(self, name: str) -> Tensor:
        buffer = self._buffers[name]
        assert buffer is not None
        return buffer

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Add a batch [*lead, *shape] of any number type, with any leading dimensions.

        Raises:
            ValueError: the trailing dimensions of ``x`` are not ``shape``.
        """
        old_mean = self._exact("mean")
        shape = old_mean.shape
        if x.shape[x.dim() - old_mean.dim() :] != shape:
            raise ValueError(
                f"x of shape {tuple(x.shape)} must end with the shape of one datum, {tuple(shape)}."
            )
        data = x.reshape(-1, *shape).to(old_mean)
        if len(data):
            var, mean = torch.var_mean(data, dim=0, correction=0)
        else:  # this rank has no data, but must take part in the exchange
            var, mean = torch.zeros_like(old_mean), torch.zeros_like(old_mean)
        for batch in _of_all_ranks(len(data), mean, var):
            self._merge(*batch)

    def _merge(self, count: Tensor, mean: Tensor, var: Tensor) -> None:
        total = self.count + count
        share = count / total.clamp(min=1)  # share of the new batch
        old_mean, old_var = self._exact("mean"), self._exact("var")
        delta = mean - old_mean
        old_var.copy_((1 - share) * old_var + share * var + share * (1 - share) * delta**2)
        old_mean.add_(share * delta)
        self.count.copy_(total)

    def normalize(self, x: Tensor, clip: float, min_var: float) -> Tensor:
        """Return (x - mean) / sqrt(max(var, min_var)) in float32, clipped to [-clip, clip]."""
        return ((x - self.mean) / self.std(min_var)).clamp(-clip, clip)

    def std(self, min_var: float) -> Tensor:
        """Return sqrt(max(var, min_var)), computed in float64, as float32 [*shape]."""
        return self._exact("var").clamp(min=min_var).sqrt().float()


def _of_all_ranks(count: int, mean: Tensor, var: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the statistics of all ranks' batches, in rank order."""
    number = mean.new_tensor(count)
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return [(number, mean, var)]
    packed = torch.stack([number.expand_as(mean), mean, var])
    gathered = [torch.empty_like(packed) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, packed)
    return [(n.flatten()[0], m, v) for n, m, v in gathered]
