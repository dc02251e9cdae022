"""Batch normalization and renormalization of one network, or of E networks in one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rlpyt.models.unit_norm import unit
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.names import UnknownName

# "batch", or dict(kind="batch_renorm", warmup=1000, unit_weights=True)
Normalization = str | Mapping[str, Any]


class BatchNorm1d(nn.Module):
    """Batch normalization (Ioffe & Szegedy 2015).

    In evaluation mode, features are normalized by running statistics. In training mode the
    statistics are those of the batch, and the running ones follow them. Variances are those of
    populations. Statistics are in float32, also with autocast. If torch.distributed is initialized,
    the running statistics are of the batches of all ranks.

    Args:
        size: F, number of features.
        n_members: E, number of networks, each with its own parameters and statistics; ``None``:
            one, without a dimension E.
        columns: samples of E networks are columns, [E, F, N], instead of rows, [E, N, F].
        momentum: weight of a batch in the running statistics.
        eps: number added to variances.

    Attributes:
        n_batches: number of batches in training mode, [] or [E].
    """

    has_members = True
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
    ) -> None:
        super().__init__()
        check_range("momentum", momentum, 0, 1)
        check_range("eps", eps, 0, open_low=True)
        self.columns, self.momentum, self.eps = columns, momentum, eps
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
        own = list(map(beside, self._own(member)))
        n = self.n_batches if member is None else self.n_batches[member]
        if own[0].dim() == 1:
            shape, x = x.shape, x.reshape(-1, x.shape[-1])
        else:
            shape = torch.Size((len(own[0]), *x.shape[-2:]))
            x = x.expand(shape)
        y, *new = self._normalized(x, own, n, batch_dim)
        y = y if y.shape == shape else y.reshape(shape)
        with torch.no_grad():
            if dist.is_available() and dist.is_initialized():
                dist.all_reduce(packed := torch.stack(new))
                new = [*(packed / dist.get_world_size()).unbind()]
            for running, batch in zip(own[2:], new):  # not by lerp_, which vmap does not know
                running.add_(batch.reshape(running.shape) - running, alpha=self.momentum)
            n.add_(1)
        return y

    def _normalized(self, x: Tensor, own: list[Tensor], n: Tensor, dim: int) -> tuple[Tensor, ...]:
        """Normalize a batch by its statistics.

        Args:
            x: [N, F], or of E networks [E, N, F] or [E, F, N].
            own: weight, bias, running mean and variance, which broadcast with x.
            n: number of batches so far.
            dim: dimension of x that has the samples.

        Returns:
            The features in the shape of x, mean, variance.
        """
        weight, bias = own[0].flatten(), own[1].flatten()
        if x.dim() == 2:
            return self._by_torch(x, weight, bias)
        if dim == -1:  # torch has the features of all networks in one dimension, [1, C, N]
            y, mean, var = self._by_torch(x.reshape(1, len(weight), -1), weight, bias)
            return y.reshape(x.shape), mean, var
        # Networks one by one, without copies in another order.
        each = map(self._by_torch, x, *(p.flatten(1) for p in own[:2]))
        return tuple(map(torch.stack, zip(*each)))

    def _by_torch(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        y, mean, inverse = torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, self.eps)
        return y, mean, inverse**-2 - self.eps

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
        return f"{' x '.join(map(str, self.weight.shape))}, momentum={self.momentum}"


class BatchRenorm1d(BatchNorm1d):
    """Batch renormalization (Ioffe 2017), in the form of CrossQ (Bhatt et al. 2024).

    After ``warmup`` batches, the result is corrected towards the running statistics, by the ratio r
    of the standard deviations and the difference d of the means, which are constants within limits:

        (x - mean + d sqrt(var) / r) / sqrt(var / r^2 + eps)

    Args:
        *args, **kwargs: arguments of `BatchNorm1d`.
        r_max, d_max: largest r, whose smallest value is the inverse, and largest absolute d, in
            running standard deviations.
        warmup: number of batches without correction.
    """

    def __init__(
        self,
        *args: Any,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warmup: int = 100_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        check_range("r_max", r_max, 1)
        check_range("d_max", d_max, 0)
        self.r_max, self.d_max, self.warmup = r_max, d_max, whole_number("warmup", warmup, 0)

    def _normalized(self, x: Tensor, own: list[Tensor], n: Tensor, dim: int) -> tuple[Tensor, ...]:
        warm = (n >= self.warmup).reshape(*n.shape, *[1] * (own[0].dim() - n.dim()))
        limits = (torch.where(warm, self.r_max, 1.0), torch.where(warm, self.d_max, 0.0))
        return _Normalized.apply(x, *own, *limits, self.eps, dim)[:3]  # type: ignore[no-any-return,no-untyped-call]

    def extra_repr(self) -> str:
        """Return sizes and settings, for ``print(model)``."""
        return f"{super().extra_repr()}, r_max={self.r_max}, warmup={self.warmup}"


KINDS: dict[str, type[BatchNorm1d]] = {"batch": BatchNorm1d, "batch_renorm": BatchRenorm1d}


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


class Placement(NamedTuple):
    """Settings of a normalization that concern the linear layers of its network.

    Attributes:
        before: True if features are normalized before nonlinearities, whose linear layers then have
            no biases.
        unit_weights: True if hidden linear layers have weights of length 1; "all": the output too.
    """

    before: bool = False
    unit_weights: bool | str = False

    @property
    def hidden(self) -> Callable[[Any], Any]:
        """Return a function that a hidden linear layer goes through."""
        return unit if self.unit_weights else _same

    @property
    def output(self) -> Callable[[Any], Any]:
        """Return a function that the output layer goes through."""
        return unit if self.unit_weights == "all" else _same

    def ordered(self, layers: list[nn.Module]) -> list[nn.Module]:
        """Return a nonlinearity and a normalization in the order of this placement."""
        return layers[::-1] if self.before else layers


def _same(layer: Any) -> Any:
    return layer


def placement_of(normalization: Normalization | None) -> Placement:
    """Return the settings that concern the network, not the layers of normalization.

    Raises:
        ValueError: ``before`` is no bool, or ``unit_weights`` neither a bool nor "all".
    """
    if not isinstance(normalization, Mapping):
        return Placement()
    given = {name: normalization[name] for name in Placement._fields if name in normalization}
    placement = Placement(**given)
    if placement.before not in (True, False):
        raise ValueError(f"before must be True or False, got {placement.before!r}.")
    if placement.unit_weights not in (True, False, "all"):
        raise ValueError(
            f'unit_weights must be True, False or "all" (hidden layers and output), got '
            f"{placement.unit_weights!r}."
        )
    return placement


def make_normalization(
    normalization: Normalization,
    size: int,
    n_members: int | None = None,
    columns: bool = False,
    **more: Any,
) -> BatchNorm1d:
    """Build a normalization: "batch" or "batch_renorm", or a dictionary with further arguments.

    ``before`` and ``unit_weights`` are for the network, see `Placement`.

    Raises:
        UnknownName: there is no such kind.
        TypeError: an argument is unknown.
    """
    kwargs = dict(kind=normalization) if isinstance(normalization, str) else dict(normalization)
    for name in Placement._fields:
        kwargs.pop(name, None)
    kind = kwargs.pop("kind", None)
    if kind not in KINDS:
        raise UnknownName("normalization", kind, KINDS)
    return KINDS[kind](size, n_members, columns, **kwargs, **more)


def batch_norms(network: nn.Module) -> list[BatchNorm1d]:
    """Return the layers of batch normalization of a network."""
    return [m for m in network.modules() if isinstance(m, BatchNorm1d)]


@contextmanager
def running_statistics(layers: Sequence[BatchNorm1d]) -> Iterator[None]:
    """Let layers use their running statistics, and not update them, inside the context."""
    modes = [layer.training for layer in layers]
    for layer in layers:
        layer.training = False
    try:
        yield
    finally:
        for layer, mode in zip(layers, modes):
            layer.training = mode
