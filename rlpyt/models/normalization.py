"""Batch normalization and renormalization of one network, or of E networks in one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.names import UnknownName

# "batch", or dict(kind="batch_renorm", warmup=1000, unit_weights=True)
Normalization = str | Mapping[str, Any]
# Arguments by kind. Plain batch normalization has no room for a correction.
KINDS: dict[str, dict[str, Any]] = {"batch": dict(r_max=1.0, d_max=0.0), "batch_renorm": {}}


class BatchRenorm1d(nn.Module):
    """Batch renormalization (Ioffe 2017), in the form of CrossQ (Bhatt et al. 2024).

    In evaluation mode, features are normalized by running statistics. In training mode the
    statistics are those of the batch, and the running ones follow them. After ``warmup`` batches,
    the result is corrected towards the running ones, by the ratio r of the standard deviations and
    the difference d of the means, which are constants within limits:

        (x - mean + d sqrt(var) / r) / sqrt(var / r^2 + eps)

    Variances are those of populations. Statistics are in float32, also with autocast. If
    torch.distributed is initialized, the running statistics are of the batches of all ranks.

    Args:
        size: F, number of features.
        n_members: E, number of networks, each with its own parameters and statistics; ``None``:
            one, without a dimension E.
        columns: samples of E networks are columns, [E, F, N], instead of rows, [E, N, F].
        momentum: weight of a batch in the running statistics.
        eps: number added to variances.
        r_max, d_max: largest r, whose smallest value is the inverse, and largest absolute d, in
            running standard deviations. With 1 and 0 this is batch normalization (Ioffe & Szegedy
            2015).
        warmup: number of batches without correction.

    Attributes:
        n_batches: number of batches in training mode, [] or [E].
    """

    has_members = True  # outputs are new memory that no backward pass needs
    running_mean: Tensor
    running_var: Tensor
    n_batches: Tensor

    def __init__(
        self,
        size: int,
        n_members: int | None = None,
        columns: bool = False,
        momentum: float = 0.01,
        eps: float = 1e-3,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warmup: int = 100_000,
    ) -> None:
        super().__init__()
        check_range("momentum", momentum, 0, 1)
        check_range("eps", eps, 0, open_low=True)
        check_range("r_max", r_max, 1)
        check_range("d_max", d_max, 0)
        self.columns, self.momentum, self.eps = columns, momentum, eps
        self.r_max, self.d_max, self.warmup = r_max, d_max, whole_number("warmup", warmup, 0)
        lead = () if n_members is None else (n_members,)
        self.weight = nn.Parameter(torch.ones(*lead, size))
        self.bias = nn.Parameter(torch.zeros(*lead, size))
        self.register_buffer("running_mean", torch.zeros(*lead, size))
        self.register_buffer("running_var", torch.ones(*lead, size))
        self.register_buffer("n_batches", torch.zeros(lead, dtype=torch.int64))

    def forward(self, x: Tensor, member: int | None = None) -> Tensor:
        """Normalize [.., F]; with members [E, N, F] or [E, F, N], or an input common to all.

        With ``member``, evaluate only that one: [N, F].
        """
        x, batch_dim = x.float(), -1 if self.columns and member is None else -2

        def beside(own: Tensor) -> Tensor:
            return own if own.dim() == 1 else own.unsqueeze(batch_dim)

        if not self.training:
            scale, shift = map(beside, self.affine(member))
            return (x * scale).add_(shift)  # with broadcasting, several times as fast as addcmul
        weight, bias, mean, var = map(beside, self._own(member))
        n = self.n_batches if member is None else self.n_batches[member]
        warm = (n >= self.warmup).reshape(*n.shape, *[1] * (weight.dim() - n.dim()))
        limits = (torch.where(warm, self.r_max, 1.0), torch.where(warm, self.d_max, 0.0))
        if weight.dim() == 1:
            shape, x = x.shape, x.reshape(-1, x.shape[-1])
        else:
            shape = torch.Size((len(weight), *x.shape[-2:]))
            x = x.expand(shape)
        y, batch_mean, batch_var, *_ = _Normalized.apply(  # type: ignore[no-untyped-call]
            x, weight, bias, mean, var, *limits, self.eps, batch_dim
        )
        with torch.no_grad():
            new: Any = (batch_mean, batch_var)
            if dist.is_available() and dist.is_initialized():
                dist.all_reduce(packed := torch.stack(new))
                new = (packed / dist.get_world_size()).unbind()
            for running, batch in zip((mean, var), new):  # not by lerp_, which vmap does not know
                running.add_(batch.reshape(running.shape) - running, alpha=self.momentum)
            n.add_(1)
        return y.reshape(shape)  # type: ignore[no-any-return]

    def affine(self, member: int | None = None) -> tuple[Tensor, Tensor]:
        """Return scale and shift [F] or [E, F] of evaluation mode."""
        weight, bias, mean, var = self._own(member)
        scale = weight * (var + self.eps).rsqrt()
        return scale, bias - mean * scale

    def _own(self, member: int | None) -> tuple[Tensor, ...]:
        own = (self.weight, self.bias, self.running_mean, self.running_var)
        return own if member is None else tuple(x[member] for x in own)

    def extra_repr(self) -> str:
        """Return sizes and settings, for ``print(model)``."""
        sizes = " x ".join(map(str, self.weight.shape))
        return f"{sizes}, momentum={self.momentum}, r_max={self.r_max}, warmup={self.warmup}"


class _Normalized(torch.autograd.Function):
    """`BatchRenorm1d` in training mode, with its gradient in closed form."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # type: ignore[override]
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        r_max: Tensor,
        d_max: Tensor,
        eps: float,
        dim: int,
    ) -> tuple[Tensor, ...]:
        mean = x.mean(dim, keepdim=True)
        centered = x - mean
        var = (centered * centered).mean(dim, keepdim=True)
        running_std = (running_var + eps).sqrt()
        r = ((var + eps).sqrt() / running_std).clamp(1 / r_max, r_max)
        d = ((mean - running_mean) / running_std).clamp(-d_max, d_max)
        scale = weight * (var / (r * r) + eps).rsqrt()
        shift = bias + scale * d * var.sqrt() / r
        return centered.mul_(scale).add_(shift), mean, var, r, d

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, *constants = output
        ctx.save_for_backward(*inputs[:2], *constants)
        ctx.mark_non_differentiable(*constants)
        ctx.eps, ctx.dim = inputs[-2:]

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight, mean, var, r, d = ctx.saved_tensors
        centered, std, r2 = x - mean, var.sqrt(), r * r
        inverse = (var / r2 + ctx.eps).rsqrt()
        sum_g = g.sum(ctx.dim, keepdim=True)
        sum_gx = (g * centered).sum(ctx.dim, keepdim=True) + d * std / r * sum_g
        # Of the standard deviation the gradient is zero for features that are constant.
        by_std = torch.where(var > 0, d / (2 * r * std), 0.0)
        by_var = weight * (inverse * sum_g * by_std - 0.5 * inverse**3 / r2 * sum_gx)
        n = x.numel() // mean.numel()
        scale = weight * inverse
        centered.mul_(by_var * (2 / n)).add_(g * scale).sub_(sum_g * scale / n)
        return (centered, inverse * sum_gx, sum_g, *[None] * 6)


class RmsNorm(nn.Module):
    """Division of [.., F] by its root mean square (Zhang & Sennrich 2019).

    Args:
        size: F, number of features.
        n_members: E, number of networks, each with its own scales, whose samples are rows,
            [E, N, F]; ``None``: one, without a dimension E.
        eps: number added to mean squares.
    """

    has_members = True

    def __init__(self, size: int, n_members: int | None = None, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(*(() if n_members is None else (n_members,)), size))

    def forward(self, x: Tensor, member: int | None = None) -> Tensor:
        """Normalize [.., F]; with members [E, N, F], or [N, F] of a single ``member``."""
        weight = self.weight if member is None else self.weight[member]
        weight = weight if weight.dim() == 1 else weight.unsqueeze(-2)
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * weight


def has_unit_weights(normalization: Normalization | None) -> bool:
    """Return True if the weights before normalized features are to have length 1."""
    return isinstance(normalization, Mapping) and bool(normalization.get("unit_weights", False))


def make_normalization(
    normalization: Normalization,
    size: int,
    n_members: int | None = None,
    columns: bool = False,
    **more: Any,
) -> BatchRenorm1d:
    """Build a normalization: "batch" or "batch_renorm", or a dictionary with further arguments.

    ``unit_weights`` is for the network, see `has_unit_weights`.

    Raises:
        UnknownName: there is no such kind.
        TypeError: an argument is unknown.
    """
    kwargs = dict(kind=normalization) if isinstance(normalization, str) else dict(normalization)
    kwargs.pop("unit_weights", None)
    kind = kwargs.pop("kind", None)
    if kind not in KINDS:
        raise UnknownName("normalization", kind, KINDS)
    return BatchRenorm1d(size, n_members, columns, **{**KINDS[kind], **kwargs, **more})


def batch_norms(network: nn.Module) -> list[BatchRenorm1d]:
    """Return the layers of batch normalization of a network."""
    return [m for m in network.modules() if isinstance(m, BatchRenorm1d)]


@contextmanager
def running_statistics(layers: Sequence[BatchRenorm1d]) -> Iterator[None]:
    """Let layers use their running statistics, and not update them, inside the context."""
    modes = [layer.training for layer in layers]
    for layer in layers:
        layer.training = False
    try:
        yield
    finally:
        for layer, mode in zip(layers, modes):
            layer.training = mode
