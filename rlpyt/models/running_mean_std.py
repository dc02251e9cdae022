"""Running mean and variance of observations."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


class RunningMeanStdModel(nn.Module):
    """Mean and population variance of all data passed to ``update``, kept in buffers.

    Batches are merged exactly (Chan, Golub & LeVeque 1979, eq. 2.1), in float64, so the result
    is that of one pass over all data, in any order and split. Where torch.distributed is
    initialized, ``update`` includes the batches of all ranks (all must call it), and all ranks
    hold the same statistics.

    Args:
        shape: of one datum.

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
        """Mean, [*shape] float32; zero before any data."""
        return self._exact("mean").float()

    @property
    def var(self) -> Tensor:
        """Population variance, [*shape] float32; one before any data."""
        return self._exact("var").float()

    def _exact(self, name: str) -> Tensor:
        buffer = self._buffers[name]
        assert buffer is not None
        return buffer

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Include a batch [*lead, *shape] of any number type, with any leading dimensions.

        Raises:
            ValueError: the trailing dimensions of ``x`` are not ``shape``.
        """
        own = self._exact("mean")
        if x.shape[x.dim() - own.dim() :] != own.shape:
            raise ValueError(
                f"x of shape {tuple(x.shape)} must end with the shape of one datum, "
                f"{tuple(own.shape)}."
            )
        data = x.reshape(-1, *own.shape).to(own)
        if len(data):
            var, mean = torch.var_mean(data, dim=0, correction=0)
        else:  # this rank has no data, but must take part in the exchange
            var, mean = torch.zeros_like(own), torch.zeros_like(own)
        for batch in _of_all_ranks(len(data), mean, var):
            self._merge(*batch)

    def _merge(self, count: Tensor, mean: Tensor, var: Tensor) -> None:
        total = self.count + count
        share = count / total.clamp(min=1)  # of the new batch
        own_mean, own_var = self._exact("mean"), self._exact("var")
        delta = mean - own_mean
        own_var.copy_((1 - share) * own_var + share * var + share * (1 - share) * delta**2)
        own_mean.add_(share * delta)
        self.count.copy_(total)

    def normalize(self, x: Tensor, clip: float, min_var: float) -> Tensor:
        """Return (x - mean) / sqrt(max(var, min_var)) in float32, limited to [-clip, clip]."""
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
