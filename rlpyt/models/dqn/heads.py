"""Heads for action values: plain or dueling, scalar or with P atoms, optionally noisy."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.dqn.noisy import make_noisy
from rlpyt.models.mlp import MlpModel
from rlpyt.models.utils import Nonlinearity

Sizes = int | Sequence[int] | None


class DistributionalHeadModel(nn.Module):
    """An MLP with P outputs (atoms, or quantiles) for each action.

    Args:
        input_size: number of inputs.
        layer_sizes: hidden layers; one number is one layer.
        output_size: number of actions.
        n_atoms: P, number of outputs per action.
        nonlinearity: class or name of the nonlinearity.
    """

    def __init__(
        self,
        input_size: int,
        layer_sizes: Sizes,
        output_size: int,
        n_atoms: int,
        nonlinearity: Nonlinearity = nn.ReLU,
    ) -> None:
        super().__init__()
        self.mlp = MlpModel(input_size, layer_sizes, output_size * n_atoms, nonlinearity)
        self._shape = (output_size, n_atoms)

    def forward(self, input: Tensor) -> Tensor:
        """Return outputs, [*lead, input_size] -> [*lead, output_size, n_atoms]."""
        return self.mlp(input).unflatten(-1, self._shape)  # type: ignore[no-any-return]


def build_head(
    input_size: int,
    hidden_sizes: Sizes,
    output_size: int,
    n_atoms: int | None = None,
    dueling: bool = False,
    noisy: bool = False,
    nonlinearity: Nonlinearity = nn.ReLU,
) -> nn.Module:
    """Build a head for action values.

    Args:
        input_size: number of inputs.
        hidden_sizes: hidden layers of the head; a dueling head has them twice.
        output_size: A, number of actions.
        n_atoms: P, number of outputs per action; ``None``: one, without a dimension P.
        dueling: separate branches for value and advantage.
        noisy: make all layers noisy.
        nonlinearity: class or name of the nonlinearity.

    Returns:
        A module [*lead, input_size] -> [*lead, A] or [*lead, A, P].
    """
    sizes: tuple[Any, ...] = (input_size, hidden_sizes, output_size)
    cls: Any = DuelingHeadModel if dueling else MlpModel
    if n_atoms is not None:
        cls = DistributionalDuelingHeadModel if dueling else DistributionalHeadModel
        sizes = (*sizes, n_atoms)
    head: nn.Module = cls(*sizes, nonlinearity=nonlinearity)
    return make_noisy(head) if noisy else head
