"""Sequences, drawn by priority."""

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.batch import PrioritiesSamplesToBuffer  # noqa: F401
from rlpyt.replays.batch import PrioritizedSequences as SamplesFromReplayPri  # noqa: F401
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer


class PrioritizedSequenceReplay(PrioritizedReplay):
    """Draws beginnings of sequences by priority; ``batch_T`` is set at construction."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.batch_T is None:
            raise ValueError("a prioritised replay of sequences needs batch_T at construction.")

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` sequences of the length that was set."""
        if batch_T not in (None, self.batch_T):
            raise ValueError(
                f"batch_T={batch_T}: priorities are those of sequences of {self.batch_T} steps."
            )
        return super().sample_batch(batch_B)


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay, SequenceNStepReturnBuffer):
    """Prioritised replay of sequences."""


class AsyncPrioritizedSequenceReplayBuffer(AsyncReplayBufferMixin, PrioritizedSequenceReplayBuffer):
    """The same in shared memory."""
