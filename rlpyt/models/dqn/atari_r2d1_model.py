"""Recurrent action values from Atari images: convolutions, LSTM, head (Kapturowski et al. 2019)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rlpyt.models.dqn.atari_dqn_model import DQN_CONVOLUTIONS
from rlpyt.models.dqn.heads import build_head
from rlpyt.models.network import ImageModel
from rlpyt.models.recurrent import Memory, RnnState, add_memory  # noqa: F401 (RnnState: rlpyt's home)


class AtariR2d1Model(ImageModel):
    """Convolutions and a hidden layer into an LSTM, then the value of each action.

    Returns Q [*lead, A] and the recurrent state.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_size: size of the hidden layer after the convolutions; ``None``: none.
        lstm_size: H, size of the recurrent layer.
        head_size: size of the hidden layer after the LSTM.
        dueling: separate branches for value and advantage.
        memory: "lstm", "gru" etc., see `add_memory`.
        *args, **convolutions: see `ImageModel`, from ``use_maxpool``; three layers by default.
    """

    convolutions = DQN_CONVOLUTIONS
    _memory = "lstm"  # name of the recurrent layer

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_size: int | None = 512,
        lstm_size: int = 512,
        head_size: int = 512,
        dueling: bool = False,
        *args: Any,
        memory: Memory = "lstm",
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, fc_size, *args, **convolutions)
        self._memory = add_memory(self, memory, self.conv.output_size + output_size + 1, lstm_size)
        self.head = build_head(int(lstm_size), head_size, output_size, dueling=dueling)

    @property
    def recurrent_layer(self) -> Any:
        """Return the memory."""
        return getattr(self, self._memory)

    def heads(self, features: Tensor) -> Tensor:
        """Return action values."""
        return self.head(features).float()  # type: ignore[no-any-return]
