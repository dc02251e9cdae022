"""A sequence of layers that skips the calls of modules where nothing would see them."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Nonlinearities as functions, for the shortcut of `Layers`: (in place, out of place).
FUNCTIONS: dict[type[nn.Module], tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    nn.Tanh: (torch.tanh_, torch.tanh),
    nn.ReLU: (torch.relu_, torch.relu),
    nn.Sigmoid: (torch.sigmoid_, torch.sigmoid),
    nn.Identity: (lambda x: x, lambda x: x),
}


class Layers(nn.Sequential):
    """An ``nn.Sequential`` for small networks and for layers with members.

    Small networks spend much of their time in ``nn.Module.__call__`` (two MLPs of 64 x 64 at 8 rows
    take 110 us with it, 75 us without). Linear layers, known nonlinearities and layers with members
    are therefore called as functions unless they have hooks or a patched ``forward``, everything
    else as modules.
    """

    def forward(self, x: Tensor, member: int | None = None) -> Tensor:
        """Apply the layers in order.

        Args:
            x: input of the first layer.
            member: index of the member to apply, in layers that have members (``has_members``).
        """
        chosen = () if member is None else (member,)
        if torch.compiler.is_compiling():
            for layer in self:
                if type(layer) is nn.ReLU:
                    x = _compiled_relu(x)  # type: ignore[no-untyped-call]
                else:
                    x = layer(x, *(chosen if hasattr(layer, "has_members") else ()))
            return x
        writable = False  # True if x is not referenced elsewhere and may be overwritten
        layers: Iterable[nn.Module] = self._modules.values()  # type: ignore[assignment]
        for layer in layers:
            kind: Any = type(layer)
            functions = FUNCTIONS.get(kind)
            hooked = layer._forward_hooks or layer._forward_pre_hooks or "forward" in layer.__dict__
            if hooked or layer._backward_hooks or layer._backward_pre_hooks:
                x = layer(x, *(chosen if hasattr(kind, "has_members") else ()))
                writable = False
            elif functions is not None:
                x = functions[0 if writable else 1](x)
            elif kind is nn.Linear:
                parameters = layer._parameters
                x = F.linear(x, parameters["weight"], parameters["bias"])  # type: ignore[arg-type]
                writable = True
            elif hasattr(kind, "has_members"):
                x = layer.forward(x, *chosen)
                writable = x._base is None  # a gradient through changes of a view takes long
            else:
                x, writable = layer(x), False
        return x


class _Relu(torch.autograd.Function):
    """ReLU whose derivative is computed from its output, as a float.

    When compiled, torch's ReLU stores a mask of bools for the backward pass, which torch 2.13's CPU
    code writes one by one: 3.4 ms for 2 x 256 x 256 of them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.relu(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # type: ignore[override]
        (y,) = ctx.saved_tensors
        return grad_output * torch.sign(y)


_compiled_relu = _Relu.apply
