"""Recurrent layers of models: build and run them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedarraytuple

RnnState = namedarraytuple("RnnState", ["h", "c"])  # state of an LSTM, each [N, B, H], N layers
MEMORIES: dict[str, Callable[[int, int], nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU}
Memory = str | Callable[[int, int], nn.Module]


class MlpMemory(nn.Module):
    """An MLP and the recurrent layer after it, which also reads previous action and reward.

    Args:
        input_size: number of inputs of the MLP.
        action_size: number of components of a previous action in the model's ``forward``.
        hidden_sizes, nonlinearity: settings of the MLP.
        size: H, size of the recurrent layer.
        memory: see `add_memory`.

    Attributes:
        layer: the recurrent layer.
    """

    def __init__(
        self,
        input_size: int,
        action_size: int,
        hidden_sizes: int | Sequence[int],
        size: int,
        nonlinearity: Callable[[], nn.Module],
        memory: Memory = "lstm",
    ) -> None:
        super().__init__()
        self.mlp = MlpModel(input_size, hidden_sizes, None, nonlinearity, orthogonal_gain=1)
        self._name = add_memory(self, memory, self.mlp.output_size + action_size + 1, size)
        for name, parameter in self.layer.named_parameters() if isinstance(memory, str) else ():
            if parameter.dim() > 1:
                nn.init.orthogonal_(parameter)
            elif "bias" in name:
                nn.init.zeros_(parameter)

    @property
    def layer(self) -> nn.Module:
        """Return the recurrent layer."""
        return getattr(self, self._name)  # type: ignore[no-any-return]


def add_memory(module: nn.Module, memory: Memory, input_size: int, size: int) -> str:
    """Build a recurrent layer as a child of a module, and return the name of its attribute.

    The name is the kind of memory, so the layer's parameters are ``lstm.weight_ih_l0`` etc.

    Args:
        module: parent module.
        memory: a key of ``MEMORIES``, or a class or function that is called with (``input_size``,
            ``size``), initializes its parameters, and returns a module with the interface of
            ``nn.LSTM`` or ``nn.GRU``.
        input_size: number of features and action components, plus one reward.
        size: H, size of the recurrent layer.

    Raises:
        TypeError: ``size`` is not a whole number.
        ValueError: ``memory`` is unknown, or ``size`` is below 1.
    """
    size = whole_number("lstm_size", size, 1)
    if callable(memory):
        name, make = "memory", memory
    elif memory in MEMORIES:
        name, make = memory, MEMORIES[memory]
    else:
        known = ", ".join(MEMORIES)
        raise ValueError(f"memory={memory!r} must be one of {known}, or a class of layers.")
    module.add_module(name, make(input_size, size))
    return name


def run_recurrent(
    layer: nn.Module,
    features: Tensor,
    prev_action: Tensor,
    prev_reward: Tensor,
    init_rnn_state: Tensors | None,
    T: int,
    B: int,
) -> tuple[Tensor, Any]:
    """Run T steps over concatenated features, previous action and previous reward.

    Args:
        layer: recurrent layer of input size F + A + 1, with the interface of ``nn.LSTM`` or
            ``nn.GRU``.
        features: [T * B, F].
        prev_action: T * B * A numbers in any shape; one-hot if discrete.
        prev_reward: T * B numbers in any shape.
        init_rnn_state: initial state: for an LSTM an ``RnnState`` (or a pair h, c) of [N, B, H],
            for a GRU a tensor [N, B, H]; ``None``: zeros.
        T, B: leading dimensions, from ``infer_leading_dims``.

    Returns:
        Outputs [T * B, H], and the state after the last step.
    """
    inputs = (
        features.view(T, B, -1),
        prev_action.reshape(T, B, -1).to(features),
        prev_reward.reshape(T, B, 1).to(features),
    )
    state: Any = init_rnn_state
    if isinstance(state, Tensor):
        state = state.contiguous()  # needed by cuDNN; recorded states are transposed
    elif state is not None:
        h, c = tuple(state)
        state = (h.contiguous(), c.contiguous())
    outputs, next_state = layer(torch.cat(inputs, dim=2), state)
    if not isinstance(next_state, Tensor):
        next_state = RnnState(*next_state)
    return outputs.flatten(0, 1), next_state
