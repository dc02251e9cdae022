"""Sequences, all as likely."""

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.utils.checks import whole_number


class UniformSequenceReplay(UniformReplay):
    """Chooses all valid beginnings with the same probability."""

    def set_batch_T(self, batch_T: int) -> None:
        """Set the steps of a sequence.

        Raises:
            ValueError: the replay has too few rows for such.
        """
        batch_T = whole_number("batch_T", batch_T, 1)
        self._check_room(batch_T)
        self.batch_T = batch_T


class UniformSequenceReplayBuffer(UniformSequenceReplay, SequenceNStepReturnBuffer):
    """Uniform replay of sequences."""


class AsyncUniformSequenceReplayBuffer(AsyncReplayBufferMixin, UniformSequenceReplayBuffer):
    """The same in shared memory."""
