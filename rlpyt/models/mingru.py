"""minGRU: a recurrent layer that processes a sequence by a parallel scan."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.utils.checks import whole_number

LONGEST = 64.0  # steps, largest initial time constant


class MinGru(nn.Module):
    """A minimal GRU with the interface of ``nn.GRU``.

    From Feng et al. 2024, "Were RNNs All We Needed?", section 3.1:

        h_t = (1 - z_t) h_{t-1} + z_t c_t,    z_t = sigmoid(W_z x_t + b_z),    c_t = W_c x_t + b_c

    The gate z does not depend on the state, so the recurrence is linear in h and a sequence is
    computed by `linear_recurrence`, without a loop over its steps. With several layers, the gates
    of the later ones depend on the past.

    Initial biases b_z spread the time constants 1 / z from 2 to 64 steps, so that some components
    remember from the beginning.

    Args:
        input_size: number of components of x.
        hidden_size: H, number of components of h.
        num_layers: N, number of layers.

    Raises:
        TypeError, ValueError: ``num_layers`` is not an integer above 0.
    """

    takes_starts = True

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        num_layers = whole_number("num_layers", num_layers, 1)
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        layers = [nn.Linear(size, 2 * hidden_size) for size in sizes]
        self.layers = nn.ModuleList(layers)
        for layer in layers:
            for weight in layer.weight.data.chunk(2):  # of the gate, of the candidate
                nn.init.orthogonal_(weight)
            nn.init.zeros_(layer.bias)
            # sigmoid(-log(n - 1)) = 1 / n
            layer.bias.data[:hidden_size] = -torch.linspace(0, math.log(LONGEST - 1), hidden_size)

    def forward(
        self, input: Tensor, state: Tensor | None = None, starts: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run T steps.

        Args:
            input: [T, B, input_size].
            state: h before the first step, [N, B, H]; ``None``: zeros.
            starts: [T, B] bool, steps before which h is zeroed; ``None``: none.

        Returns:
            Outputs [T, B, H] of the last layer, and the state after the last step [N, B, H].
        """
        x, states = input, []
        for i, layer in enumerate(self.layers):
            gate, candidate = layer(x).float().chunk(2, -1)
            update = torch.sigmoid(gate)
            decay = 1 - update
            if starts is not None:
                decay = decay.masked_fill(starts.unsqueeze(-1), 0)
            initial = None if state is None else state[i]
            x = linear_recurrence(decay, update * candidate, initial)
            states.append(x[-1])
        return x, torch.stack(states)


def linear_recurrence(decay: Tensor, x: Tensor, initial: Tensor | None = None) -> Tensor:
    """Return h_t = decay_t h_{t-1} + x_t for all t, by an associative scan.

    Neighbors are combined, (a, x) then (b, y) into (a b, b x + y), first single steps, then blocks
    of 2, 4, .. steps (Brent & Kung 1982): 2 log2(T) operations on parts of the sequence, of
    together 2 T steps. There are no divisions and no logarithms, so that decays may underflow.

    Args:
        decay: [T, ...], zero where h is reset.
        x: [T, ...].
        initial: h before the first step, [...]; ``None``: zeros.

    Returns:
        h [T, ...]. Gradients are computed by a second scan, backwards in time.
    """
    if initial is not None:
        first = torch.addcmul(x[:1], decay[:1], initial.unsqueeze(0))
        x = first if len(x) == 1 else torch.cat([first, x[1:]])
    return x if len(x) == 1 else _Scan.apply(decay, x)  # type: ignore[no-any-return, no-untyped-call]


class _Scan(torch.autograd.Function):
    """`linear_recurrence` from zeros, for at least 2 steps."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        h = x.clone()
        _scan(decay.clone(), h)
        ctx.save_for_backward(decay, h)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        # x_t reaches the loss through h_t and, after decay_{t+1}, through h_{t+1}.
        decay, h = ctx.saved_tensors
        grad_x, after = grad.clone(), torch.empty_like(decay)
        after[:-1] = decay[1:]
        after[-1] = 0
        _scan(after, grad_x, backwards=True)
        grad_decay = after  # its values are used up
        torch.mul(grad_x[1:], h[:-1], out=grad_decay[1:])
        grad_decay[0] = 0
        return grad_decay, grad_x


def _scan(decay: Tensor, h: Tensor, backwards: bool = False) -> None:
    """Add decay_t h_{t-1} to h_t for all t in turn, in place; ``decay`` is overwritten.

    ``backwards``: add decay_t h_{t+1} instead, from the last step to the first.
    """
    T = len(h)

    def pairs(end: int, size: int) -> tuple[slice, slice]:
        """Return the last steps of every second block, from step ``end``, and of those before."""
        if not backwards:
            return slice(end - 1, T, 2 * size), slice(end - 1 - size, T - size, 2 * size)
        first = (T - end) % (2 * size)
        stop = T - end + 1
        return slice(first, stop, 2 * size), slice(first + size, stop + size, 2 * size)

    size = 1
    while 2 * size <= T:  # extend the results of blocks to blocks of twice the size
        now, before = pairs(2 * size, size)
        h[now].addcmul_(decay[now], h[before])
        decay[now].mul_(decay[before])
        size *= 2
    while size >= 1:  # complete the blocks between them
        if 3 * size <= T:
            now, before = pairs(3 * size, size)
            h[now].addcmul_(decay[now], h[before])
        size //= 2
