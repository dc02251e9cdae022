"""rlpyt's name for replays in shared memory."""

from abc import ABCMeta
from typing import Any

import numpy as np

from rlpyt.replays.buffer import BaseReplayBuffer, ReplayBuffer
from rlpyt.utils.shared import SharedBlock
from rlpyt.utils.synchronize import RWLock


class AsyncReplayBufferMixin(BaseReplayBuffer, metaclass=ABCMeta):
    """Replay in shared memory, with a lock; see ``ReplayBuffer``.

    Its methods hold the lock while they call the methods of the next classes in the MRO, which may
    be a user's and need not call those of ``ReplayBuffer``.

    A class without one of rlpyt's replays among its bases stores its samples itself, calls
    ``super().__init__()``, and keeps ``t`` and ``_buffer_full`` equal in all processes by
    ``_async_pull`` and ``_async_push``.
    """

    async_ = True
    part_names = "async_"
    __subclasshook__ = classmethod(ReplayBuffer.__subclasshook__.__func__)  # type: ignore

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.rw_lock is None:
            self.rw_lock = RWLock()
            self.async_t, self._async_buffer_full = SharedNumber(), SharedNumber()
            self._async_pull()

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
            super().update_batch_priorities(*args, **kwargs)  # type: ignore[misc]


class SharedNumber:
    """An integer in shared memory, ``value``."""

    def __init__(self) -> None:
        self._array = SharedBlock(8).array(0, (1,), np.int64)

    @property
    def value(self) -> int:
        """The number."""
        return int(self._array[0])

    @value.setter
    def value(self, value: int) -> None:
        self._array[0] = value
