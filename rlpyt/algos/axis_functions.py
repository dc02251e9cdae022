"""Functions of torch in a call of ``vmap`` over agents: random draws, memories, convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import _add_batch_dim, is_batchedtensor, maybe_current_level
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class AgentAxisMode(TorchFunctionMode):
    """Mode in which E agents draw random numbers, each from its own generator.

    Operations that ``vmap`` does not support, or only slowly, are replaced by others: recurrent
    layers by a loop over time, convolutions by a product of matrices.
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generators = generators

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Replace some functions, and call all others."""
        kwargs = kwargs or {}
        replacement = REPLACED.get(func)
        if replacement is None:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return replacement(self, *args, **kwargs)

    def _each(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        drawn = torch.stack([draw(g) for g in self._generators])
        level = maybe_current_level()
        assert level is not None
        return _add_batch_dim(drawn, 0, level)

    def create(self, func: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Draw as ``func`` does."""
        return self._each(lambda g: func(*args, generator=g, **kwargs))

    def like(self, func: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
        """Draw a tensor like x."""
        kwargs = {"dtype": x.dtype, "device": x.device, **kwargs}
        return self.create(func, *x.shape, **kwargs)

    def fill(self, name: str, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return a new tensor like x, filled by its method."""

        def draw(generator: torch.Generator) -> Any:
            empty = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            return getattr(empty, name)(*args, generator=generator, **kwargs)

        return self._each(draw)

    def dropout(
        self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        """Apply dropout, never in place."""
        if not training or p == 0:
            return input
        return input * self.fill("bernoulli_", input, 1 - p) / (1 - p)

    def lstm(self, input: Tensor, hx: Any, weights: Any, *options: Any) -> Any:
        """Run the layers of an LSTM."""
        has_biases, n_layers = _checked_options(*options)
        hs, cs = [], []
        for i in range(n_layers):
            w_ih, w_hh, b_ih, b_hh = _weights(weights, i, has_biases)
            x, h, c = F.linear(input, w_ih, b_ih + b_hh), hx[0][i], hx[1][i]
            outputs = []
            for step in x.unbind():
                gates = (step + F.linear(h, w_hh)).chunk(4, -1)
                c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
                h = gates[3].sigmoid() * c.tanh()
                outputs.append(h)
            input = torch.stack(outputs)
            hs.append(h)
            cs.append(c)
        return input, torch.stack(hs), torch.stack(cs)

    def gru(self, input: Tensor, hx: Tensor, weights: Any, *options: Any) -> Any:
        """Run the layers of a GRU."""
        has_biases, n_layers = _checked_options(*options)
        hs = []
        for i in range(n_layers):
            w_ih, w_hh, b_ih, b_hh = _weights(weights, i, has_biases)
            x, h = F.linear(input, w_ih, b_ih), hx[i]
            outputs = []
            for step in x.unbind():
                r_x, z_x, n_x = step.chunk(3, -1)
                r_h, z_h, n_h = F.linear(h, w_hh, b_hh).chunk(3, -1)
                z = (z_x + z_h).sigmoid()
                n = (n_x + (r_x + r_h).sigmoid() * n_h).tanh()
                h = n + z * (h - n)
                outputs.append(h)
            input = torch.stack(outputs)
            hs.append(h)
        return input, torch.stack(hs)

    def conv2d(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        """Convolve images by one product of matrices per agent."""
        if (
            groups != 1
            or isinstance(padding, str)
            or input.dim() != 4
            or not is_batchedtensor(weight)
        ):
            return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
        kernel = weight.shape[2:]
        columns = F.unfold(input, kernel, dilation, padding, stride)  # [N, C * k * k, L]
        product = weight.flatten(1) @ columns
        if bias is not None:
            product = product + bias.unsqueeze(-1)
        two = [x if isinstance(x, tuple | list) else (x, x) for x in (stride, padding, dilation)]
        size = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(input.shape[2:], kernel, *two)
        ]
        return product.reshape(*product.shape[:-1], *size)


def _checked_options(
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[bool, int]:
    if bidirectional or batch_first or (dropout and train):
        raise NotImplementedError("recurrent layers must be plain: one direction, no dropout")
    return has_biases, num_layers


def _weights(weights: Sequence[Tensor], layer: int, has_biases: bool) -> Any:
    n = 4 if has_biases else 2
    own = weights[n * layer : n * (layer + 1)]
    return own if has_biases else (*own, torch.zeros(()), torch.zeros(()))


def _creator(func: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda mode, *args, **kwargs: mode.create(func, *args, **kwargs)


def _filler(name: str) -> Callable[..., Tensor]:
    return lambda mode, x, *args, **kwargs: mode.fill(name, x, *args, **kwargs)


FILLERS = ("normal_", "uniform_", "random_", "exponential_")
REPLACED: dict[Any, Callable[..., Any]] = {
    **{f: _creator(f) for f in (torch.randn, torch.rand, torch.randint, torch.randperm)},
    torch.randn_like: lambda mode, x, **kwargs: mode.like(torch.randn, x, **kwargs),
    torch.rand_like: lambda mode, x, **kwargs: mode.like(torch.rand, x, **kwargs),
    **{getattr(Tensor, name): _filler(name) for name in FILLERS},
    F.dropout: AgentAxisMode.dropout,
    torch.dropout: AgentAxisMode.dropout,
    torch.conv2d: AgentAxisMode.conv2d,
    # ``vmap`` knows no other order of dimensions in memory.
    Tensor.contiguous: lambda mode, x, memory_format=None: x.contiguous(),
    torch.lstm: AgentAxisMode.lstm,
    torch.gru: AgentAxisMode.gru,
}
