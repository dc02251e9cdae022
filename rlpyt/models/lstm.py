"""The recurrent part of LSTM models."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedarraytuple

RnnState = namedarraytuple("RnnState", ["h", "c"])  # each [N, B, H] float32, N layers


class LstmCore(nn.Module):
    """An MLP and the LSTM after it, which also reads previous action and reward.

    Args:
        input_size: of the MLP.
        action_size: components of a previous action, as ``forward`` of the model gets it.
        hidden_sizes, nonlinearity: of the MLP.
        lstm_size: H.
    """

    def __init__(
        self,
        input_size: int,
        action_size: int,
        hidden_sizes: int | Sequence[int],
        lstm_size: int,
        nonlinearity: Callable[[], nn.Module],
    ) -> None:
        super().__init__()
        self.mlp = MlpModel(input_size, hidden_sizes, None, nonlinearity, orthogonal_gain=1)
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.mlp.output_size + action_size + 1, lstm_size)
        for name, parameter in self.lstm.named_parameters():
            if "weight" in name:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)


def run_lstm(
    lstm: nn.LSTM,
    features: Tensor,
    prev_action: Tensor,
    prev_reward: Tensor,
    init_rnn_state: Any,
    T: int,
    B: int,
) -> tuple[Tensor, Any]:
    """Run T steps over concatenated features, previous action and previous reward.

    Args:
        lstm: an LSTM, or a module with its interface, of input size F + A + 1.
        features: [T * B, F].
        prev_action: T * B * A numbers in any shape; one-hot if discrete.
        prev_reward: T * B numbers in any shape.
        init_rnn_state: ``RnnState`` (or a pair h, c) of [N, B, H]; ``None``: zeros.
        T, B: as from ``infer_leading_dims``.

    Returns:
        outputs [T * B, H], and the ``RnnState`` after the last step.
    """
    inputs = (
        features.view(T, B, -1),
        prev_action.reshape(T, B, -1).to(features),
        prev_reward.reshape(T, B, 1).to(features),
    )
    state = None
    if init_rnn_state is not None:
        h, c = tuple(init_rnn_state)
        state = (h.contiguous(), c.contiguous())  # cuDNN needs that; often a transposed record
    outputs, next_state = lstm(torch.cat(inputs, dim=2), state)
    return outputs.flatten(0, 1), RnnState(*next_state)
