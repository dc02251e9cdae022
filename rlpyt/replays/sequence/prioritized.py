"""Prioritized replays of sequences."""

from typing import Any

from rlpyt.replays.batch import PrioritiesSamplesToBuffer  # noqa: F401
from rlpyt.replays.batch import PrioritizedSequences as SamplesFromReplayPri  # noqa: F401
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.window import SequenceWindow


class PrioritizedSequenceReplay(PrioritizedReplay):
    """Replay that draws starts of sequences by priority, with fixed ``batch_T``.

    Raises:
        ValueError: ``batch_T`` is None.
    """

    Window = SequenceWindow

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.batch_T is None:
            raise ValueError("batch_T must be set for a prioritized replay of sequences, got None.")

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw ``batch_B`` sequences of ``batch_T`` steps."""
        if batch_T not in (None, self.batch_T):
            raise ValueError(
                f"batch_T must be {self.batch_T} as in the constructor, since priorities belong to "
                f"sequences of this length, got {batch_T}."
            )
        return super().sample_batch(batch_B)


class PrioritizedSequenceReplayBuffer(PrioritizedSequenceReplay):
    """Prioritized replay of sequences."""


class AsyncPrioritizedSequenceReplayBuffer(PrioritizedSequenceReplayBuffer):
    """Prioritized replay of sequences in shared memory."""

    async_ = True
