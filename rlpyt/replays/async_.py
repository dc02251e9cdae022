"""Replays that several processes use at the same time."""

from typing import Any

from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.ring import Ring
from rlpyt.utils.synchronize import RWLock


class AsyncReplayBufferMixin(ReplayBuffer):
    """Memory is shared and locked: many processes may sample at once, or one may write.

    Hand the replay to processes as an argument when they are started; cursor, rows, priorities
    are seen by all of them. Each has its own random stream: call ``set_seed(seed, rank)`` in it.
    """

    async_ = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.rw_lock = RWLock()
        super().__init__(*args, **kwargs)

    def append_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Add samples while nobody reads."""
        with self.rw_lock.write():
            self._async_pull()
            result = super().append_samples(*args, **kwargs)
            self._async_push()
            return result

    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a batch while nobody writes."""
        with self.rw_lock.read():
            self._async_pull()
            return super().sample_batch(*args, **kwargs)

    def update_batch_priorities(self, *args: Any, **kwargs: Any) -> None:
        """Set priorities while nobody reads."""
        with self.rw_lock.write():
            super().update_batch_priorities(*args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Everything; nobody may write until it has been saved."""
        with self.rw_lock.read():
            return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, while nobody reads."""
        with self.rw_lock.write():
            super().load_state_dict(state)

    @property
    def async_t(self) -> Ring:
        """The shared cursor; ``async_t.value`` is where the next row goes."""
        return self.ring

    def _async_pull(self) -> None:
        """Called with the lock held, before anything is done; the cursor is shared already."""

    def _async_push(self) -> None:
        """Called with the lock held, after writing."""
