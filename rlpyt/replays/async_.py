"""Replays that several processes use at the same time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.ring import Ring
from rlpyt.utils.synchronize import RWLock, forget_names


class AsyncReplayBufferMixin(ReplayBuffer):
    """Memory is shared and locked: many processes may sample at once, or one may write.

    Hand the replay to processes as an argument when they are started; cursor, rows, priorities
    are seen by all of them. Each has its own random stream: call ``set_seed(seed, rank)`` in it.

    Attributes:
        rw_lock: the lock.
        while_waiting: called every second while another process keeps the lock from this one; it
            raises to give up, when that process has died. None: wait until ``give_up``.
    """

    async_ = True
    while_waiting: Callable[[], None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.rw_lock = RWLock()
        super().__init__(*args, **kwargs)

    def append_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Add samples while no other process reads or writes."""
        with self._writing(pushes=True):
            return super().append_samples(*args, **kwargs)

    def sample_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Return a batch while nobody writes."""
        with self._reading():
            return super().sample_batch(*args, **kwargs)

    def interrupt(self) -> int:
        """Say that what is written next does not follow, while nobody reads."""
        with self._writing():
            return super().interrupt()

    def update_batch_priorities(self, *args: Any, **kwargs: Any) -> None:
        """Set priorities while nobody reads."""
        with self._writing():
            super().update_batch_priorities(*args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Everything; nobody may write until it has been saved."""
        with self._reading():
            return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state, while nobody reads."""
        with self._writing():
            super().load_state_dict(state)

    def forget_names(self) -> None:
        """Call once all processes that need the lock have it: it then leaves nothing behind."""
        forget_names(self.rw_lock.parts)

    def give_up(self) -> None:
        """Have every process that waits for the replay raise: who has locked it is dead."""
        self.rw_lock.give_up()

    def take_from_the_dead(self) -> bool:
        """Make the replay usable after processes that used it have died; nobody else may use it.

        Returns:
            Whether one died while it wrote; what the replay holds is then not to be relied on.
        """
        return self.rw_lock.take_from_the_dead()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._wait(self.rw_lock.acquire_read)
        try:
            self._async_pull()
            yield
        finally:
            self._wait(self.rw_lock.release_read)

    @contextmanager
    def _writing(self, pushes: bool = False) -> Iterator[None]:
        self._wait(self.rw_lock.acquire_write)
        try:
            self._async_pull()
            yield
            if pushes:
                self._async_push()
        finally:
            self.rw_lock.release_write()

    def _wait(self, take: Callable[[float | None], bool]) -> None:
        while not take(1.0):
            if self.rw_lock.given_up:
                raise RlpytError("the replay is locked by a process that has died.")
            if self.while_waiting is not None:
                self.while_waiting()

    @property
    def async_t(self) -> Ring:
        """The shared cursor; ``async_t.value`` is where the next row goes."""
        return self.ring

    def _async_pull(self) -> None:
        """Called with the lock held, before anything is done; the cursor is shared already."""

    def _async_push(self) -> None:
        """Called with the lock held, after writing."""
