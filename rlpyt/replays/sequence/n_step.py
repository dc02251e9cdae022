"""Replays of sequences with n-step targets and initial recurrent states."""

from typing import Any

from rlpyt.replays.batch import Sequences as SamplesFromReplay  # noqa: F401  (rlpyt's name)
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.window import SequenceWindow
from rlpyt.utils.collections import NamedArrayTuple

SamplesToBuffer: Any = None  # rlpyt's name for the type of stored rows, None as at its import


class SequenceNStepReturnBuffer(ReplayBuffer):
    """Replay that returns sequences [T, B].

    Args:
        example: example step, see ``ReplayBuffer``; with ``prev_rnn_state`` if states are stored.
        size: number of transitions; rounded up to whole intervals of B.
        B: number of environments.
        rnn_state_interval: steps between stored states, at which sequences start; 0: store none.
        batch_T: steps of a sequence.
        kwargs: see ``ReplayBuffer``.
    """

    Window = SequenceWindow
    part_names = "Window"

    def __init__(
        self,
        example: NamedArrayTuple,
        size: int,
        B: int,
        rnn_state_interval: int,
        batch_T: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"rnn_state_interval": rnn_state_interval, "batch_T": batch_T}
        super().__init__(example, size, B, **kwargs)
