"""Recurrent actor-critic for Atari: convolutions, one hidden layer, LSTM, two heads."""

from collections.abc import Sequence
from typing import Any

from rlpyt.models.network import ImageModel
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.recurrent import Memory, RnnState  # noqa: F401 (RnnState: rlpyt's home)


class AtariLstmModel(AtariFfModel):
    """Convolutions and a hidden layer into an LSTM, then action probabilities and value.

    Returns pi [*lead, A], value [*lead] and the recurrent state.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions.
        lstm_size: H, size of the recurrent layer.
        memory: "lstm", "gru" etc., see `add_memory`.
        **convolutions: arguments of `ImageModel`; two layers by default.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        lstm_size: int = 512,
        *args: Any,
        memory: Memory = "lstm",
        **convolutions: Any,
    ) -> None:
        ImageModel.__init__(self, image_shape, fc_sizes, *args, **convolutions)
        self.add_memory(memory, output_size, lstm_size)
        self._build_heads(int(lstm_size), output_size)
