"""Recurrent layers of models: build and run them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.blocks.lstm import make_lnlstm
from rlpyt.models.gtrxl import Gtrxl
from rlpyt.models.mingru import MinGru
from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.utils import Nonlinearity, own_module
from rlpyt.utils.buffer import Tensors, buffer_func
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import (
    is_namedarraytuple,
    is_namedtuple,
    namedarraytuple,
    namedarraytuple_like,
)

RnnState = namedarraytuple("RnnState", ["h", "c"])  # state of an LSTM, each [N, B, H], N layers
# A recurrent state before a sequence, and the steps [T, B] at which episodes start inside it; for
# layers with ``takes_starts``.
StateAndStarts = namedarraytuple("StateAndStarts", ["state", "starts"])
# Inputs of a recurrent model's heads: features [*lead, F] from encoder and memory, and the mask of
# actions or None. If passed instead of an observation, the model evaluates only its heads.
HeadInputs = namedarraytuple("HeadInputs", ["features", "mask"])
MEMORIES: dict[str, Callable[..., nn.Module]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "ln_lstm": make_lnlstm,
    "mingru": MinGru,
    "gtrxl": Gtrxl,
}
Memory = str | Mapping[str, Any] | Callable[[int, int], nn.Module]


class MlpMemory(nn.Module):
    """An MLP and the recurrent layer after it, which also reads previous action and reward.

    Args:
        input_size: number of inputs of the MLP.
        action_size: number of components of a previous action in the model's ``forward``.
        hidden_sizes, nonlinearity: settings of the MLP; without hidden layers there is none.
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
        nonlinearity: Nonlinearity,
        memory: Memory = "lstm",
    ) -> None:
        super().__init__()
        self.mlp: nn.Module = nn.Identity()
        if size_list(hidden_sizes):
            self.mlp = MlpModel(input_size, hidden_sizes, None, nonlinearity, orthogonal_gain=1)
            input_size = self.mlp.output_size
        self._name = add_memory(self, memory, input_size + action_size + 1, size)
        orthogonal = self._name in ("lstm", "gru")  # other layers initialize their parameters
        for name, parameter in self.layer.named_parameters() if orthogonal else ():
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
        memory: a key of ``MEMORIES``; or a class or function that is called with (``input_size``,
            ``size``), initializes its parameters, and returns a module with the interface of
            ``nn.LSTM`` or ``nn.GRU``, which `rlpyt.testing.check_memory` checks; or a dictionary of
            either as ``kind``, and further arguments: ``dict(kind="gtrxl", window=32)``.
        input_size: number of features and action components, plus one reward.
        size: H, size of the recurrent layer.

    Raises:
        TypeError: ``size`` is not a whole number, or the layer does not take an argument.
        ValueError: ``memory`` is unknown, or ``size`` is below 1.
    """
    size = whole_number("lstm_size", size, 1)
    kwargs: dict[str, Any] = dict(memory) if isinstance(memory, Mapping) else {"kind": memory}
    kind = kwargs.pop("kind", None)
    if callable(kind):
        name, layer = "memory", own_module(kind(input_size, size, **kwargs), kind)
    else:
        name = str(kind)
        if name not in MEMORIES:
            known = ", ".join(MEMORIES)
            raise ValueError(f"memory={name!r} must be one of {known}, or a class of layers.")
        try:
            layer = MEMORIES[name](input_size, size, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"memory={memory!r}: {error}. docs/memory.md lists the arguments of each memory."
            ) from error
    module.add_module(name, layer)
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
        layer: recurrent layer of input size F + A + 1, see `add_memory`.
        features: [T * B, F].
        prev_action: T * B * A numbers in any shape; one-hot if discrete.
        prev_reward: T * B numbers in any shape.
        init_rnn_state: initial state, leaves [N, B, H]: for an LSTM an ``RnnState`` (or a pair h,
            c), for a GRU a tensor; ``None``: zeros. For layers with ``takes_starts`` also a
            ``StateAndStarts``.
        T, B: leading dimensions, from ``infer_leading_dims``.

    Returns:
        Outputs [T * B, H], and the state after the last step.
    """
    inputs = (
        features.view(T, B, -1),
        prev_action.reshape(T, B, -1).to(features),
        prev_reward.reshape(T, B, 1).to(features),
    )
    outputs, next_state = run_layer(layer, torch.cat(inputs, dim=2), init_rnn_state)
    return outputs.flatten(0, 1), next_state


def run_layer(layer: nn.Module, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
    """Run T steps of a recurrent layer, with states in the form in which agents record them.

    Args:
        layer: recurrent layer, see `add_memory`.
        inputs: [T, B, input_size].
        state: see `run_recurrent`.

    Returns:
        Outputs [T, B, H], and the state after the last step: a tensor or a namedarraytuple.

    Raises:
        TypeError: the layer returned a state of another kind, such as a dict.
    """
    starts: list[Tensor] = []
    if isinstance(state, StateAndStarts):
        state, *starts = state
    state = buffer_func(state, Tensor.contiguous)  # needed by cuDNN; recorded states are transposed
    if state is not None and (isinstance(state, RnnState) or isinstance(layer, nn.LSTM)):
        state = tuple(state)  # indexing a namedarraytuple, as torch does, would index its fields
    outputs, next_state = layer(inputs, state, *starts)
    return outputs, recorded_state(next_state, layer)


def recorded_state(state: Any, layer: nn.Module) -> Any:
    """Return the state that a layer or model has returned as a tensor or a namedarraytuple.

    Raises:
        TypeError: it is of another kind, such as a dict.
    """
    if isinstance(state, Tensor) or is_namedarraytuple(state):
        return state
    if is_namedtuple(state):
        return namedarraytuple_like(state)._make(state)
    if isinstance(state, tuple | list) and len(state) == len(RnnState._fields):
        return RnnState(*state)
    raise TypeError(
        f"the state that {type(layer).__name__} returns must be a tensor, a pair of tensors, or a "
        f"named tuple of tensors, got {state!r:.80}."
    )
