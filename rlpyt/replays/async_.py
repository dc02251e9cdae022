"""rlpyt's name for replays in shared memory."""

from typing import Any

from rlpyt.replays.buffer import ReplayBuffer


class AsyncReplayBufferMixin(ReplayBuffer):
    """Replay in shared memory, with a lock; see ``ReplayBuffer``.

    Its methods hold the lock while they call the methods of the next classes in the MRO, which may
    be a user's and need not call those of ``ReplayBuffer``.
    """

    async_ = True
    part_names = "async_"

    def append_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Add samples while no other process reads or writes."""
        with self._writing():
            return super().append_samples(*args, **kwargs)

    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a batch while no other process writes."""
        with self._reading():
            return super().sample_batch(*args, **kwargs)

    def update_batch_priorities(self, *args: Any, **kwargs: Any) -> None:
        """Set priorities while no other process reads or writes."""
        with self._writing():
            super().update_batch_priorities(*args, **kwargs)
