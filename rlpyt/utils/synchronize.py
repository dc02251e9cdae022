"""Synchronization between processes: a readers-writer lock, queue draining, port selection."""

import contextlib
import queue
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import current_process, get_context, resource_tracker, util
from multiprocessing.synchronize import SemLock
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np

from rlpyt.errors import RlpytError
from rlpyt.utils.files import naming
from rlpyt.utils.shared import SharedBlock

SEMAPHORES = "/dev/shm"  # where Linux keeps them; its errors do not say so
FIRST_PORT, LAST_PORT = 20_000, 32_767  # below Linux's range for outgoing connections
PORTS_PER_OFFSET = 101  # neighboring offsets start this far apart


def forget_names(semaphores: Iterable[Any]) -> None:
    """Remove the names of multiprocessing's semaphores after all processes have opened them.

    Semaphores for spawned processes are files in /dev/shm until they are garbage-collected.
    Without names they can neither be left behind nor be passed to other processes.
    """
    names = {semaphore._semlock.name for semaphore in semaphores}
    registered: dict[Any, Any] = getattr(util, "_finalizer_registry", {})
    for finalizer in list(registered.values()):
        if finalizer._callback is SemLock._cleanup and finalizer._args[0] in names:  # type: ignore[attr-defined]
            finalizer()  # runs only once


def name_semaphores(prefix: str) -> None:
    """Set the prefix of the names of all semaphores that this process creates from now on.

    Args:
        prefix: prefix of at most 12 characters, starting with a slash.
    """
    current_process()._config["semprefix"] = prefix  # type: ignore[attr-defined]


def remove_semaphores(prefix: str) -> None:
    """Remove semaphore names left behind by a killed descendant; see ``forget_names``."""
    for path in Path("/dev/shm").glob(f"sem.{prefix[1:]}-*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            resource_tracker.unregister(f"/{path.name.removeprefix('sem.')}", "semaphore")


class RWLock:
    """Readers-writer lock between processes, shared by passing it as an argument of a process.

    A waiting writer holds the turnstile, so that readers cannot overtake it forever. As a context
    manager the lock is held for reading, and ``write_lock`` for writing; blocks of one thread may
    be nested. The other methods are not re-entrant. A process that is killed while it holds,
    acquires or releases the lock keeps it: to handle this, pass a timeout to every call and check
    the other processes in between.
    """

    def __init__(self) -> None:
        context = get_context("spawn")  # its primitives can also be inherited by fork
        with naming(SEMAPHORES):
            self._turnstile = context.Lock()  # passed by readers, held by the writer
            self._resource = context.Lock()  # held by the writer, or by all readers together
            self._counting = context.Lock()
        # number of readers, whether a process writes, whether waiting processes should stop
        self._flags = SharedBlock(24).array(0, (3,), np.int64)
        self._forget_holders()

    def _forget_holders(self) -> None:
        self._holders: dict[int, bool] = {}  # threads of this process: True if it writes
        self._entered: dict[int, list[Any]] = {}  # blocks of each thread

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_holders", "_entered")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_holders()

    @property
    def parts(self) -> list[Any]:
        """Semaphores of the lock."""
        return [self._turnstile, self._resource, self._counting]

    def acquire_read(self, timeout: float | None = None) -> bool:
        """Acquire for reading, waiting at most ``timeout`` seconds (None: without limit).

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
                if self._flags[0] == 0:
                    self._resource.acquire()  # immediate: no writer has passed the turnstile
                self._flags[0] += 1
            finally:
                self._counting.release()
        finally:
            self._turnstile.release()
        return True

    def release_read(self, timeout: float | None = None) -> bool:
        """Release after reading; the last reader admits a writer.

        Returns:
            True if the lock was released within ``timeout`` seconds (None: without limit).
        """
        if not self._counting.acquire(timeout=timeout):
            return False
        try:
            self._flags[0] -= 1
            if self._flags[0] == 0:
                self._resource.release()
        finally:
            self._counting.release()
        return True

    def acquire_write(self, timeout: float | None = None) -> bool:
        """Acquire for writing, waiting at most ``timeout`` seconds (None: without limit).

        Returns:
            True if the lock has been acquired.
        """
        left = _time_left(timeout)
        if not self._turnstile.acquire(timeout=left()):
            return False
        if not self._resource.acquire(timeout=left()):
            self._turnstile.release()
            return False
        self._flags[1] = 1
        return True

    def release_write(self) -> None:
        """Release after writing."""
        self._flags[1] = 0
        self._resource.release()
        self._turnstile.release()

    @property
    def aborted(self) -> bool:
        """True if processes should stop waiting for the lock, since its holder has died."""
        return bool(self._flags[2])

    def abort_waiters(self) -> None:
        """Set ``aborted``, which waiting processes check between timeouts."""
        self._flags[2] = 1

    def recover_after_crash(self) -> bool:
        """Release the lock after processes that may have held it have died.

        No living process may hold it or wait for it.

        Returns:
            True if one of them was writing, so that the protected data may be inconsistent.
        """
        torn = bool(self._flags[1])
        for part in self.parts:
            part.acquire(block=False)
            part.release()
        self._flags[:] = 0
        return torn

    @contextmanager
    def held(
        self, writing: bool, while_waiting: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Hold the lock in a block; nothing to do inside another block of this thread.

        Args:
            writing: hold it for writing, else for reading.
            while_waiting: function called every second while waiting; may raise to stop.

        Raises:
            RlpytError: the lock is held for reading in an outer block, or its holder has died.
        """

        def wait(acquire: Callable[[float | None], bool]) -> None:
            while not acquire(1.0):
                if self.aborted:
                    raise RlpytError("the replay is locked by a process that died.")
                if while_waiting is not None:
                    while_waiting()

        thread = get_ident()
        if thread in self._holders:
            if writing and not self._holders[thread]:
                raise RlpytError("a replay cannot be written to inside sample_batch.")
            yield
            return
        wait(self.acquire_write if writing else self.acquire_read)
        self._holders[thread] = writing
        try:
            yield
        finally:
            del self._holders[thread]
            if writing:
                self.release_write()
            else:
                wait(self.release_read)

    @property
    def write_lock(self) -> AbstractContextManager[None]:
        """Hold the lock for writing: ``with replay.rw_lock.write_lock:``."""
        return self.held(writing=True)

    def __enter__(self) -> None:
        block = self.held(writing=False)
        block.__enter__()
        self._entered.setdefault(get_ident(), []).append(block)

    def __exit__(self, *args: Any) -> None:
        self._entered[get_ident()].pop().__exit__(*args)


def _time_left(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that returns the seconds left until the timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    return lambda: None if end is None else max(0.0, end - time.monotonic())


def drain_queue(
    queue_obj: Any, n_sentinel: int = 0, guard_sentinel: bool = False, timeout: float | None = None
) -> list[Any]:
    """Empty a multiprocessing queue and return its content, oldest first.

    Between ``put`` in one process and ``get`` in another there is a delay, during which the queue
    looks empty. A producer can mark its end with ``put(None)``, a sentinel.

    Args:
        queue_obj: the queue.
        n_sentinel: wait until this many sentinels have been received (they are not returned); 0:
            return the present content without waiting.
        guard_sentinel: stop at a sentinel and put it back for a later drain that waits; requires
            ``n_sentinel=0``.
        timeout: seconds to wait for each object while waiting for sentinels; None: forever.

    Raises:
        ValueError: ``guard_sentinel`` is set with ``n_sentinel``, or ``n_sentinel`` is negative.
        TimeoutError: no object was received within ``timeout``; a producer may have died.
    """
    if n_sentinel < 0 or (n_sentinel and guard_sentinel):
        raise ValueError(
            "n_sentinel must be 0 if guard_sentinel is set, otherwise at least 0, got "
            f"n_sentinel={n_sentinel}, guard_sentinel={guard_sentinel}."
        )
    contents, n_seen = list[Any](), 0
    while not n_sentinel or n_seen < n_sentinel:
        try:
            obj = queue_obj.get(block=n_sentinel > 0, timeout=timeout)
        except queue.Empty:
            if not n_sentinel:
                break
            raise TimeoutError(
                f"received {n_seen} of {n_sentinel} sentinels, then nothing for {timeout} s; "
                "a producer may have died."
            ) from None
        if obj is None and guard_sentinel:
            queue_obj.put(None)
            break
        if obj is None and n_sentinel:
            n_seen += 1
        else:
            contents.append(obj)
    return contents


def find_port(offset: int) -> int:
    """Return a free TCP port for ``torch.distributed``.

    Runs on one machine should pass different offsets to search different ports: a port is not
    reserved for the caller, and another process may find it at the same time.

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
