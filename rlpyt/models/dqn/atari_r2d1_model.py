"""Action values of Atari images with memory: convolutions, LSTM, head (Kapturowski et al. 2019)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.dqn.atari_dqn_model import dqn_convolutions
from rlpyt.models.dqn.heads import build_head
from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt had it here)
from rlpyt.models.lstm import run_lstm
from rlpyt.models.pg.atari_ff_model import IMAGE_DIM, to_unit_floats
from rlpyt.utils.checks import whole_number
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class AtariR2d1Model(nn.Module):
    """Convolutions and a hidden layer into an LSTM, which also sees previous action and reward.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_size: hidden layer after the convolutions; ``None``: none.
        lstm_size: H, size of the LSTM.
        head_size: hidden layer of the head after the LSTM.
        dueling: value and advantage apart.
        use_maxpool, channels, kernel_sizes, strides, paddings: as in `AtariDqnModel`.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_size: int | None = 512,
        lstm_size: int = 512,
        head_size: int = 512,
        dueling: bool = False,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.conv = dqn_convolutions(
            image_shape, use_maxpool, channels, kernel_sizes, strides, paddings, fc_size
        )
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.conv.output_size + output_size + 1, lstm_size)
        self.head = build_head(lstm_size, head_size, output_size, dueling=dueling)

    def forward(
        self,
        observation: Tensor,
        prev_action: Tensor,
        prev_reward: Tensor,
        init_rnn_state: Any = None,
    ) -> tuple[Tensor, Any]:
        """Action values and the next recurrent state.

        Args:
            observation: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action: [*lead, A], one-hot.
            prev_reward: [*lead].
            init_rnn_state: ``RnnState`` of [N, B, H] before the first step; ``None``: zeros.

        Returns:
            Q [*lead, A] float32, and the ``RnnState`` [N, B, H] after the last step (B is 1 where
            the input has no leading dimension).
        """
        lead_dim, T, B, shape = infer_leading_dims(observation, IMAGE_DIM)
        features = self.conv(to_unit_floats(observation.reshape(T * B, *shape)))
        out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, T, B
        )
        q: Tensor = restore_leading_dims(self.head(out).float(), lead_dim, T, B)
        return q, rnn_state
