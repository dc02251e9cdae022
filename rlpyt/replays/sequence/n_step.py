"""Sequences with n-step targets, and the recurrent states that they begin with."""

from typing import Any

from rlpyt.replays.batch import Sequences as SamplesFromReplay  # noqa: F401  (rlpyt's name)
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.replays.window import SequenceWindow

SamplesToBuffer: Any = None  # rlpyt's name for the class of the stored rows, ``None`` as there


class SequenceNStepReturnBuffer(BaseNStepReturnBuffer):
    """Gives out sequences [T, B].

    Args:
        example: with ``prev_rnn_state``, if recurrent states are stored.
        size: transitions, rounded up to whole intervals of B.
        B: environments.
        rnn_state_interval: steps between stored states; sequences begin at these only. 0: none.
        batch_T: steps of a sequence.
        kwargs: as for ``ReplayBuffer``.
    """

    Window = SequenceWindow

    def __init__(
        self,
        example: Any,
        size: int,
        B: int,
        rnn_state_interval: int,
        batch_T: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            example=example,
            size=size,
            B=B,
            rnn_state_interval=rnn_state_interval,
            batch_T=batch_T,
            **kwargs,
        )

    @property
    def samples_prev_rnn_state(self) -> Any:
        """[T / rnn_state_interval, B, ...] stored states, or None."""
        return self.rnn_states.samples
