"""Dueling heads: state value plus the advantage of each action (Wang et al. 2016, eq. 9)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.utils import Nonlinearity, scale_grad

GRAD_SCALE = 2 ** (-1 / 2)  # since the gradients of two branches are added


class DuelingHeadModel(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean of A(s, .), from one MLP for V and one for A.

    Args:
        input_size: number of inputs.
        hidden_sizes: hidden layers of each MLP; one number is one layer.
        output_size: number of actions.
        grad_scale: factor on the gradient of the input; 1/sqrt(2) in the paper.
        nonlinearity: class or name of the nonlinearity.
    """

    n_values = 1  # outputs per action

    def __init__(
        self,
        input_size: int,
        hidden_sizes: int | Sequence[int] | None,
        output_size: int,
        grad_scale: float = GRAD_SCALE,
        nonlinearity: Nonlinearity = nn.ReLU,
    ) -> None:
        super().__init__()
        self._grad_scale, P = grad_scale, self.n_values
        sizes = size_list(hidden_sizes)
        self.advantage_hidden: nn.Module = nn.Identity()
        if sizes:
            self.advantage_hidden = MlpModel(input_size, sizes, None, nonlinearity)
        n_in = sizes[-1] if sizes else input_size
        self.advantage_out = nn.Linear(n_in, output_size * P, bias=False)
        self.advantage_bias = nn.Parameter(torch.zeros(P))
        self.value = MlpModel(input_size, hidden_sizes, P, nonlinearity)

    def forward(self, input: Tensor) -> Tensor:
        """Return Q, [*lead, input_size] -> [*lead, output_size]."""
        x = _scaled(input, self._grad_scale)
        advantage = self.advantage(x)
        centered: Tensor = advantage - advantage.mean(-1, keepdim=True)
        return self.value(x) + centered  # type: ignore[no-any-return]

    def advantage(self, input: Tensor) -> Tensor:
        """Return A(s, .), with one bias for all actions: [*lead, output_size]."""
        out: Tensor = self.advantage_out(self.advantage_hidden(input))
        return out + self.advantage_bias


class DistributionalDuelingHeadModel(DuelingHeadModel):
    """A dueling head with P outputs (atoms, or quantiles) for each action.

    Args:
        input_size, hidden_sizes, output_size, grad_scale, nonlinearity: see `DuelingHeadModel`.
        n_atoms: P, number of outputs per action.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: int | Sequence[int] | None,
        output_size: int,
        n_atoms: int,
        grad_scale: float = GRAD_SCALE,
        nonlinearity: Nonlinearity = nn.ReLU,
    ) -> None:
        self.n_values, self._shape = n_atoms, (output_size, n_atoms)
        super().__init__(input_size, hidden_sizes, output_size, grad_scale, nonlinearity)

    def forward(self, input: Tensor) -> Tensor:
        """Return outputs, [*lead, input_size] -> [*lead, output_size, n_atoms]."""
        x = _scaled(input, self._grad_scale)
        advantage = self.advantage(x)
        centered: Tensor = advantage - advantage.mean(-2, keepdim=True)
        return self.value(x).unsqueeze(-2) + centered  # type: ignore[no-any-return]

    def advantage(self, input: Tensor) -> Tensor:
        """Return A(s, .) of each atom, with a common bias: [*lead, output_size, n_atoms]."""
        out: Tensor = self.advantage_out(self.advantage_hidden(input))
        by_action: Tensor = torch.unflatten(out, -1, self._shape)
        return by_action + self.advantage_bias


def _scaled(input: Tensor, scale: float) -> Tensor:
    # Not input.requires_grad, which is False where several agents are evaluated as one.
    needed = torch.is_grad_enabled() and scale != 1
    return scale_grad(input, scale) if needed else input  # type: ignore[no-any-return,no-untyped-call]
