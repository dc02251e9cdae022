"""What every replay can do."""

from typing import Any


class BaseReplayBuffer:
    """Keeps samples, and gives batches of them back."""

    async_ = False  # the memory is shared, and other processes append

    def append_samples(self, samples: Any) -> Any:
        """Add samples [T, B], possibly in place of the oldest ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement append_samples.")

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Return a batch to train on."""
        raise NotImplementedError(f"{type(self).__name__} must implement sample_batch.")
