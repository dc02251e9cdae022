"""Recurrent action values from Atari images: convolutions, LSTM, head (Kapturowski et al. 2019)."""

from collections.abc import Sequence
from typing import Any

from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.recurrent import Memory, RnnState  # noqa: F401 (RnnState: rlpyt's home)


class AtariR2d1Model(AtariDqnModel):
    """Convolutions and a hidden layer into an LSTM, then the value of each action.

    Returns Q [*lead, A] and the recurrent state.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_size: size of the hidden layer(s) after the convolutions; ``None``: none.
        lstm_size: H, size of the recurrent layer.
        head_size: size of the hidden layer after the LSTM.
        dueling: separate branches for value and advantage.
        memory: "lstm", "gru" etc., see `add_memory`.
        *args, **kwargs: arguments of `AtariDqnModel`, from ``use_maxpool``.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_size: int | Sequence[int] | None = 512,
        lstm_size: int = 512,
        head_size: int = 512,
        dueling: bool = False,
        *args: Any,
        memory: Memory = "lstm",
        **kwargs: Any,
    ) -> None:
        sizes = dict(memory=memory, lstm_size=lstm_size, head_size=head_size)
        super().__init__(image_shape, output_size, fc_size, dueling, *args, **sizes, **kwargs)  # type: ignore[arg-type]
