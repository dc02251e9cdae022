"""Action values of Atari images with memory: convolutions, LSTM, head (Kapturowski et al. 2019)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.dqn.atari_dqn_model import DQN_CONVOLUTIONS
from rlpyt.models.dqn.heads import build_head
from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt had it here)
from rlpyt.models.network import ImageModel
from rlpyt.utils.checks import whole_number


class AtariR2d1Model(ImageModel):
    """Convolutions and a hidden layer into an LSTM, then the value of each action.

    Returns Q [*lead, A] and the ``RnnState``.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_size: hidden layer after the convolutions; ``None``: none.
        lstm_size: H, size of the LSTM.
        head_size: hidden layer of the head after the LSTM.
        dueling: separate branches for value and advantage.
        *args, **convolutions: of `ImageModel`, from ``use_maxpool``; three layers by default.
    """

    convolutions = DQN_CONVOLUTIONS

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_size: int | None = 512,
        lstm_size: int = 512,
        head_size: int = 512,
        dueling: bool = False,
        *args: Any,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, fc_size, *args, **convolutions)
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.conv.output_size + output_size + 1, lstm_size)
        self.head = build_head(lstm_size, head_size, output_size, dueling=dueling)

    @property
    def recurrent_layer(self) -> nn.LSTM:
        """The LSTM."""
        return self.lstm

    def heads(self, features: Tensor) -> Tensor:
        """Return action values."""
        return self.head(features).float()  # type: ignore[no-any-return]
