"""Heads of models of action values: plain or dueling, one number or P atoms each, noisy or not."""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor, nn

from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.dqn.noisy import make_noisy
from rlpyt.models.mlp import MlpModel
from rlpyt.models.numpy_forward import Array, Finish, Outputs, softmax_in_place

Sizes = int | Sequence[int] | None


class DistributionalHeadModel(nn.Module):
    """An MLP with P outputs (atoms, or quantiles) for each action.

    Args:
        input_size: number of inputs.
        layer_sizes: hidden layers; one number is one layer.
        output_size: number of actions.
        n_atoms: P.
        nonlinearity: class of the nonlinearity.
    """

    def __init__(
        self,
        input_size: int,
        layer_sizes: Sizes,
        output_size: int,
        n_atoms: int,
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.mlp = MlpModel(input_size, layer_sizes, output_size * n_atoms, nonlinearity)
        self._shape = (output_size, n_atoms)

    def forward(self, input: Tensor) -> Tensor:
        """Return outputs, [*lead, input_size] -> [*lead, output_size, n_atoms]."""
        out: Tensor = self.mlp(input)
        return out.reshape(*out.shape[:-1], *self._shape)


def build_head(
    input_size: int,
    hidden_sizes: Sizes,
    output_size: int,
    n_atoms: int | None = None,
    dueling: bool = False,
    noisy: bool = False,
    nonlinearity: Callable[[], nn.Module] = nn.ReLU,
) -> nn.Module:
    """Build the head of a model of action values.

    Args:
        input_size: number of inputs.
        hidden_sizes: its hidden layers; a dueling head has them twice.
        output_size: A, number of actions.
        n_atoms: P outputs for each action; ``None``: one, and no dimension for it.
        dueling: separate branches for value and advantage.
        noisy: all its layers are noisy.
        nonlinearity: class of the nonlinearity.

    Returns:
        a module [*lead, input_size] -> [*lead, A] or [*lead, A, P].
    """
    sizes = (input_size, hidden_sizes, output_size)
    head: nn.Module
    if n_atoms is None:
        if dueling:
            head = DuelingHeadModel(*sizes, nonlinearity=nonlinearity)
        else:
            head = MlpModel(*sizes, nonlinearity)
    elif dueling:
        head = DistributionalDuelingHeadModel(*sizes, n_atoms, nonlinearity=nonlinearity)
    else:
        head = DistributionalHeadModel(*sizes, n_atoms, nonlinearity)
    return make_noisy(head) if noisy else head


def towers_of(head: nn.Module) -> list[nn.Module]:
    """Return a head's MLPs for ``numpy_forward_of``: first of Q or A, then of V if dueling."""
    if isinstance(head, DuelingHeadModel | DistributionalDuelingHeadModel):
        hidden, out = head.advantage_hidden, head.advantage_out
        advantage = out if isinstance(hidden, nn.Identity) else nn.Sequential(hidden, out)
        return [advantage, head.value]
    return [head.mlp if isinstance(head, DistributionalHeadModel) else head]


def head_outputs(output_size: int, n_atoms: int | None, softmax: bool = False) -> Outputs:
    """Return the last operations of ``build_head``'s modules, over numpy arrays.

    The common bias of all advantages is left out, as it cancels.

    Args:
        output_size, n_atoms: A and P.
        softmax: turn the P outputs of each action into probabilities.
    """

    def bind(regions: list[Array]) -> Finish:
        main = regions[0]
        B, P = len(main), n_atoms or 1
        by_action = main.reshape(B, output_size, P)
        value = regions[1].reshape(B, 1, P) if len(regions) > 1 else None
        mean = np.empty((B, 1, P), np.float32)
        normalize = softmax_in_place(main.reshape(-1, P)) if softmax else None
        result = (main if n_atoms is None else by_action,)

        def finish() -> tuple[Array, ...]:
            if value is not None:
                np.mean(by_action, axis=1, keepdims=True, out=mean)
                np.subtract(value, mean, mean)
                np.add(by_action, mean, by_action)
            if normalize is not None:
                normalize()
            return result

        return finish

    return bind
