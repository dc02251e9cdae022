"""Recurrent actor-critic for Atari: convolutions, one hidden layer, LSTM, two heads."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.models.lstm import run_lstm
from rlpyt.models.mlp import HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN, init_orthogonal
from rlpyt.models.pg.atari_ff_model import IMAGE_DIM, conv_torso, to_unit_floats
from rlpyt.utils.checks import whole_number
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class AtariLstmModel(nn.Module):
    """Convolutions and a hidden layer into an LSTM, which also sees previous action and reward.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions.
        lstm_size: H, size of the LSTM.
        use_maxpool, channels, kernel_sizes, strides, paddings: as in `AtariFfModel`.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        lstm_size: int = 512,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.conv = conv_torso(
            image_shape, fc_sizes, use_maxpool, channels, kernel_sizes, strides, paddings
        )
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.conv.output_size + output_size + 1, lstm_size)
        self.pi = nn.Linear(lstm_size, output_size)
        self.value = nn.Linear(lstm_size, 1)
        init_orthogonal(self.conv, HIDDEN_GAIN)
        init_orthogonal(self.pi, POLICY_GAIN)
        init_orthogonal(self.value, VALUE_GAIN)

    def forward(
        self, image: Tensor, prev_action: Tensor, prev_reward: Tensor, init_rnn_state: Any = None
    ) -> tuple[Tensor, Tensor, Any]:
        """Action probabilities, value and the next recurrent state.

        Args:
            image: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action: [*lead, A], one-hot.
            prev_reward: [*lead].
            init_rnn_state: ``RnnState`` of [N, B, H] before the first step; ``None``: zeros.

        Returns:
            pi [*lead, A], value [*lead], float32, and the ``RnnState`` [N, B, H] after the last
            step (B is 1 where the input has no leading dimension).
        """
        lead_dim, T, B, shape = infer_leading_dims(image, IMAGE_DIM)
        features = self.conv(to_unit_floats(image.reshape(T * B, *shape)))
        out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, T, B
        )
        pi = torch.softmax(self.pi(out), dim=-1, dtype=torch.float32)
        value = self.value(out).squeeze(-1).float()
        pi, value = restore_leading_dims((pi, value), lead_dim, T, B)
        return pi, value, rnn_state
