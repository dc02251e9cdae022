"""The recurrent part that all LSTM models share."""

from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.utils.collections import namedarraytuple

RnnState = namedarraytuple("RnnState", ["h", "c"])  # each [N, B, H] float32, N layers


def run_lstm(
    lstm: nn.LSTM,
    features: Tensor,
    prev_action: Tensor,
    prev_reward: Tensor,
    init_rnn_state: Any,
    T: int,
    B: int,
) -> tuple[Tensor, Any]:
    """Run T steps over features, previous action and previous reward side by side.

    Args:
        lstm: with input size F + A + 1.
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
        state = (h.contiguous(), c.contiguous())  # asked for by cuDNN; often a transposed record
    outputs, next_state = lstm(torch.cat(inputs, dim=2), state)
    return outputs.flatten(0, 1), RnnState(*next_state)
