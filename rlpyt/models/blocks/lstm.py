"""Layer-normalized LSTMs with states like those of ``torch.nn.LSTM``.

Operations that do not depend on the state are computed for all time steps at once; one matrix
product and two normalizations per step remain.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, Tensor]  # h and c


class LayerNormLSTMCell(nn.Module):
    """One step of an LSTM with normalized sums (Ba, Kiros & Hinton 2016).

        (f, i, o, g) = LN(W_h h_{t-1}) + LN(W_x x_t) + b
        c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g),    h_t = sigmoid(o) tanh(LN(c_t))

    LN normalizes a row to mean 0 and variance 1, then scales each component by a trained weight.
    Initial weight matrices are orthogonal.

    Args:
        input_size: number of components of x.
        hidden_size: H, number of components of h and c.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.norm_ih = nn.LayerNorm(4 * hidden_size)  # its bias is b
        self.norm_hh = nn.LayerNorm(4 * hidden_size, bias=False)
        self.norm_c = nn.LayerNorm(hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.orthogonal_(weight)

    def forward(self, input: Tensor, state: State) -> tuple[Tensor, State]:
        """Take one step.

        Args:
            input: [B, input_size].
            state: h and c, each [B, H].

        Returns:
            Output [B, H], which is the next h, and the next state.
        """
        return self.step(self.project(input), state)

    def project(self, input: Tensor) -> Tensor:
        """Return the sums' input part, [*lead, input_size] -> [*lead, 4 H]."""
        return self.norm_ih(F.linear(input, self.weight_ih))  # type: ignore[no-any-return]

    def step(self, projected: Tensor, state: State) -> tuple[Tensor, State]:
        """Take one step, given the result of ``project`` [B, 4 H]."""
        h, c = state
        sums = projected + self.norm_hh(F.linear(h, self.weight_hh))
        gates, new = sums.split((3 * self.hidden_size, self.hidden_size), 1)
        forget, write, show = gates.sigmoid().chunk(3, 1)
        c = torch.addcmul(forget * c, write, new.tanh())
        h = show * self.norm_c(c).tanh()
        return h, (h, c)


class LSTMLayer(nn.Module):
    """One recurrent layer.

    Args:
        cell: class with ``project``, ``step`` and ``hidden_size``, such as `LayerNormLSTMCell`.
        *cell_args: arguments of ``cell``.
    """

    def __init__(self, cell: Any, *cell_args: Any) -> None:
        super().__init__()
        self.cell = cell(*cell_args)

    def forward(self, input: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Run T steps.

        Args:
            input: [T, B, input_size].
            state: h and c before the first step, each [B, H]; ``None``: zeros.

        Returns:
            Outputs [T, B, H], and the state after the last step.
        """
        if state is None:
            zeros = input.new_zeros(input.shape[1], self.cell.hidden_size)
            state = (zeros, zeros)
        outputs = []
        for projected in self.cell.project(input).unbind(0):
            output, state = self.cell.step(projected, state)
            outputs.append(output)
        return torch.stack(outputs), state


class StackedLSTM(nn.Module):
    """Several recurrent layers, with the interface of ``nn.LSTM``, e.g. for `run_recurrent`.

    Args:
        num_layers: N, number of layers.
        layer: class of the layers, such as `LSTMLayer`.
        first_layer_args, other_layer_args: arguments of the first layer and of the others.

    Raises:
        ValueError: ``num_layers`` is below 1.
    """

    def __init__(
        self,
        num_layers: int,
        layer: Callable[..., nn.Module],
        first_layer_args: Sequence[Any],
        other_layer_args: Sequence[Any],
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {num_layers}.")
        others = (layer(*other_layer_args) for _ in range(num_layers - 1))
        self.layers = nn.ModuleList([layer(*first_layer_args), *others])

    def forward(self, input: Tensor, states: State | None = None) -> tuple[Tensor, State]:
        """Run T steps of all layers.

        Args:
            input: [T, B, input_size].
            states: h and c before the first step, each [N, B, H]; ``None``: zeros.

        Returns:
            Outputs of the last layer [T, B, H], and the states after the last step.

        Raises:
            ValueError: the states are not for N layers.
        """
        N = len(self.layers)
        if states is not None and {len(leaf) for leaf in states} != {N}:
            shapes = [tuple(leaf.shape) for leaf in states]
            raise ValueError(
                f"states must be those of {N} layers, [{N}, B, H], got shapes {shapes}."
            )
        before = [None] * len(self.layers) if states is None else list(zip(*states, strict=True))
        after = []
        output = input
        for layer, state in zip(self.layers, before, strict=True):
            output, next_state = layer(output, state)
            after.append(next_state)
        h, c = (torch.stack(leaves) for leaves in zip(*after))
        return output, (h, c)


def make_lnlstm(input_size: int, hidden_size: int, num_layers: int = 1) -> StackedLSTM:
    """Return a layer-normalized LSTM of ``num_layers`` layers of ``hidden_size`` each."""
    return StackedLSTM(
        num_layers,
        LSTMLayer,
        [LayerNormLSTMCell, input_size, hidden_size],
        [LayerNormLSTMCell, hidden_size, hidden_size],
    )
