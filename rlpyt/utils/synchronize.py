"""Synchronisation between processes: a readers-writer lock, draining a queue, finding a port."""

import contextlib
import queue
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import current_process, get_context, resource_tracker, util
from multiprocessing.synchronize import SemLock
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.utils.shared import SharedBlock

FIRST_PORT, LAST_PORT = 20_000, 32_767  # below where Linux takes ports for outgoing connections
PORTS_PER_OFFSET = 101  # neighbouring offsets start this far apart


def forget_names(semaphores: Iterable[Any]) -> None:
    """Take the names of multiprocessing's semaphores away, once all who need them have them.

    Semaphores for spawned processes are files in /dev/shm until they are collected as garbage;
    without names they can neither be left behind nor be handed on.
    """
    names = {semaphore._semlock.name for semaphore in semaphores}
    registered: dict[Any, Any] = getattr(util, "_finalizer_registry", {})
    for finalizer in list(registered.values()):
        if finalizer._callback is SemLock._cleanup and finalizer._args[0] in names:  # type: ignore[attr-defined]
            finalizer()  # what would be done in the end, and is done once only


def name_semaphores(prefix: str) -> None:
    """Let the names of all semaphores that this process makes from now on begin with this.

    Args:
        prefix: of at most 12 characters, beginning with a slash.
    """
    current_process()._config["semprefix"] = prefix  # type: ignore[attr-defined]


def remove_semaphores(prefix: str) -> None:
    """Take away the names that a descendant left behind which was killed; see ``forget_names``."""
    for path in Path("/dev/shm").glob(f"sem.{prefix[1:]}-*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            resource_tracker.unregister(f"/{path.name.removeprefix('sem.')}", "semaphore")


class RWLock:
    """Many readers at the same time, or one writer; shared by passing it to a process's arguments.

    A waiting writer holds the turnstile, so that readers cannot overtake it forever. As a context
    manager the lock is held for reading. It is not re-entrant. A process that is killed while it
    holds, acquires or releases the lock keeps it: to survive that, pass a timeout to every call,
    and check the other processes in between.
    """

    def __init__(self) -> None:
        context = get_context("spawn")  # its primitives can be inherited by fork, too
        self._turnstile = context.Lock()  # passed by readers, held by the writer
        self._resource = context.Lock()  # held by the writer, or by all readers together
        self._counting = context.Lock()
        # number of readers, whether a process writes, whether waiting processes are to stop
        self._noted = SharedBlock(24).array(0, (3,), np.int64)

    @property
    def parts(self) -> list[Any]:
        """Return the semaphores of the lock."""
        return [self._turnstile, self._resource, self._counting]

    def acquire_read(self, timeout: float | None = None) -> bool:
        """Wait until no process writes, at most ``timeout`` seconds (None: without limit).

        Returns:
            True if the lock has been acquired.
        """
        left = _time_left(timeout)
        if not self._turnstile.acquire(timeout=left()):
            return False
        try:
            if not self._counting.acquire(timeout=left()):
                return False
            try:
                if self._noted[0] == 0:
                    self._resource.acquire()  # at once: no writer has passed the turnstile
                self._noted[0] += 1
            finally:
                self._counting.release()
        finally:
            self._turnstile.release()
        return True

    def release_read(self, timeout: float | None = None) -> bool:
        """Stop reading; the last reader lets a writer in.

        Returns:
            True if that was possible within ``timeout`` seconds (None: without limit).
        """
        if not self._counting.acquire(timeout=timeout):
            return False
        try:
            self._noted[0] -= 1
            if self._noted[0] == 0:
                self._resource.release()
        finally:
            self._counting.release()
        return True

    def acquire_write(self, timeout: float | None = None) -> bool:
        """Wait until no process reads or writes, at most ``timeout`` seconds (None: without limit).

        Returns:
            True if the lock has been acquired.
        """
        left = _time_left(timeout)
        if not self._turnstile.acquire(timeout=left()):
            return False
        if not self._resource.acquire(timeout=left()):
            self._turnstile.release()
            return False
        self._noted[1] = 1
        return True

    def release_write(self) -> None:
        """Stop writing."""
        self._noted[1] = 0
        self._resource.release()
        self._turnstile.release()

    @property
    def aborted(self) -> bool:
        """Return True if processes should stop waiting for the lock, since its holder has died."""
        return bool(self._noted[2])

    def abort_waiters(self) -> None:
        """Set ``aborted``, which waiting processes check between timeouts."""
        self._noted[2] = 1

    def recover_after_crash(self) -> bool:
        """Release the lock after processes that may have held it have died.

        No living process may hold it or wait for it.

        Returns:
            True if one of them was writing; the protected data may then be inconsistent.
        """
        torn = bool(self._noted[1])
        for part in self.parts:
            part.acquire(block=False)
            part.release()
        self._noted[:] = 0
        return torn

    @contextmanager
    def read(self) -> Iterator[None]:
        """Hold the lock for reading inside a ``with`` block."""
        self.acquire_read()
        try:
            yield
        finally:
            self.release_read()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold the lock for writing inside a ``with`` block."""
        self.acquire_write()
        try:
            yield
        finally:
            self.release_write()

    def __enter__(self) -> None:
        self.acquire_read()

    def __exit__(self, *args: object) -> None:
        self.release_read()


def _time_left(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that returns the seconds left until the timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())


def drain_queue(
    queue_obj: Any, n_sentinel: int = 0, guard_sentinel: bool = False, timeout: float | None = None
) -> list[Any]:
    """Empty a multiprocessing queue and return what was in it, oldest first.

    Between ``put`` in one process and ``get`` in another there is a delay, during which the queue
    looks empty. A producer can mark its end with ``put(None)``, a sentinel.

    Args:
        queue_obj: the queue.
        n_sentinel: wait until this many sentinels came (they are not returned); 0 takes what is
            there now without waiting.
        guard_sentinel: stop at a sentinel and put it back for a waiting drain later; needs
            ``n_sentinel=0``.
        timeout: seconds to wait for each object while waiting for sentinels; None: for ever.

    Raises:
        ValueError: ``guard_sentinel`` with ``n_sentinel``, or a negative ``n_sentinel``.
        TimeoutError: nothing came within ``timeout``; a producer may have died.
    """
    if n_sentinel < 0 or (n_sentinel and guard_sentinel):
        raise ValueError(
            f"n_sentinel={n_sentinel}, guard_sentinel={guard_sentinel}: n_sentinel must be 0 or "
            "more, and guard_sentinel needs n_sentinel=0."
        )
    if n_sentinel:
        return _drain_until(queue_obj, n_sentinel, timeout)
    contents: list[Any] = []
    while True:
        try:
            obj = queue_obj.get(block=False)
        except queue.Empty:
            return contents
        if obj is None and guard_sentinel:
            queue_obj.put(None)
            return contents
        contents.append(obj)


def _drain_until(queue_obj: Any, n_sentinel: int, timeout: float | None) -> list[Any]:
    contents: list[Any] = []
    n_seen = 0
    while n_seen < n_sentinel:
        try:
            obj = queue_obj.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(
                f"got {n_seen} of {n_sentinel} sentinels, then nothing for {timeout} s; "
                "a producer may have died."
            ) from None
        if obj is None:
            n_seen += 1
        else:
            contents.append(obj)
    return contents


def find_port(offset: int) -> int:
    """Return a free TCP port for ``torch.distributed``.

    Runs on one machine pass different offsets, so that they look in different places: a port is
    not kept for the caller, and another process looking at the same moment could find it, too.

    Args:
        offset: any integer, e.g. the run slot or the number of the first CPU core.

    Raises:
        RuntimeError: no port in the range is free.
    """
    n_ports = LAST_PORT - FIRST_PORT + 1
    for i in range(n_ports):
        port = FIRST_PORT + (offset * PORTS_PER_OFFSET + i) % n_ports
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free TCP port between {FIRST_PORT} and {LAST_PORT}.")
