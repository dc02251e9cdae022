"""Recurrent actor-critic for Atari: convolutions, one hidden layer, LSTM, two heads."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.models.network import ImageModel
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.utils.checks import whole_number


class AtariLstmModel(AtariFfModel):
    """Convolutions and a hidden layer into an LSTM, then action probabilities and value.

    Returns pi [*lead, A], value [*lead] and the ``RnnState``.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions.
        lstm_size: H, size of the LSTM.
        **convolutions: of `ImageModel`; two layers by default.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        lstm_size: int = 512,
        *args: Any,
        **convolutions: Any,
    ) -> None:
        ImageModel.__init__(self, image_shape, fc_sizes, *args, **convolutions)
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.conv.output_size + output_size + 1, lstm_size)
        self._build_heads(lstm_size, output_size)

    @property
    def recurrent_layer(self) -> nn.LSTM:
        """The LSTM."""
        return self.lstm
