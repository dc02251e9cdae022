"""Sequences, drawn by priority."""

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.batch import PrioritiesSamplesToBuffer  # noqa: F401
from rlpyt.replays.batch import PrioritizedSequences as SamplesFromReplayPri  # noqa: F401
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer


class PrioritizedSequenceReplay(PrioritizedReplay):
    """Draws beginnings of sequences by priority; ``batch_T`` is set at construction."""


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepReturnBuffer):
    """Prioritised replay of sequences."""


class AsyncPrioritizedSequenceReplayBuffer(AsyncReplayBufferMixin, PrioritizedSequenceReplayBuffer):
    """The same in shared memory."""
