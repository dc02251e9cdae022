"""The watch of a rank: a thread that gives signs of life, and notices when another rank fails.

It has a connection of its own to the store, because the main thread may be waiting in a collective
operation, which nothing but the end of a connection interrupts.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rlpyt.algos import optim
from rlpyt.runners import distributed
from rlpyt.runners.rank_failures import Failure, Kind, kind_of
from rlpyt.utils.logging.console import say

PERIOD_S = 0.25  # between two looks
SETTLE_S = 1.0  # after a failure, for reports of what may have caused it
STALE_S = 5.0  # without a sign of life, where somebody has lost a connection
GRACE_S = 10.0  # for the main thread to end, once all is over
WORKS, WAITS, ALONE = "works", "waits", "alone"

# Parts of the paths of code in which a main thread waits for other ranks.
_WAITING = (
    *("torch/distributed/", "torch/autograd/", "torch/nn/parallel/"),
    *(Path(str(module.__file__)).as_posix() for module in (optim, distributed)),
)
_OWN_DEPTH = 3  # frames shown of a main thread


class Sign(NamedTuple):
    """A rank's sign of life."""

    n: int  # counts them
    state: str  # what the main thread does
    still_s: float  # for how long, without progress
    itr: int
    where: str  # the main thread is, if it has been working on one thing for long
    pid: int
    host: str


class RankWatch:
    """Watches the ranks of a run, from a thread of one of them.

    Every rank writes a sign of life into the store four times a second, with what its main thread
    does: it works, it waits for others, or it does what only rank 0 does (evaluate, log, save),
    which may take any time. When something is wrong, ``on_failure`` is called, once.

    Args:
        rank, world_size: which of how many this is.
        store: of ``torch.distributed``; the watch uses a clone of it.
        limit_s: how long a rank that works may keep others waiting.
        start_s: the same, before the first iteration is over.
        progress: returns numbers that change as this rank's training goes on; the first is the
            iteration.
        on_failure: called from the thread with the cause; ``None``: this rank's parent judges.
        died: returns (rank, how it ended, traceback) of child processes that ended.
        stacks_of: returns the Python stacks of a rank, as far as they can be had.

    Attributes:
        alone: the rank does what it may take any time for; set by the runner.
        failure: the cause, once there is one.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        store: Any,
        limit_s: float,
        start_s: float,
        progress: Callable[[], tuple[int, ...]],
        on_failure: Callable[[Failure], None] | None = None,
        died: Callable[[], list[tuple[int, str, str]]] = list,
        stacks_of: Callable[[int], str] = lambda rank: "",
    ) -> None:
        self.rank, self.world_size = rank, world_size
        self._limit_s, self._start_s = limit_s, start_s
        self.alone = False
        self.failure: Failure | None = None
        self._store = store.clone()
        self._progress, self._on_failure = progress, on_failure
        self._died, self._stacks_of = died, stacks_of
        self._main = threading.current_thread().ident
        self._n, self._last, self._since = 0, (WORKS, progress()), time.monotonic()
        self._signs: dict[int, tuple[Sign, float]] = {}  # by rank: the last, and when it came
        self._closed, self._heard = threading.Event(), threading.Event()
        with contextlib.suppress(RuntimeError):  # the thread says why the store is gone
            self._beat()  # a rank that stops before the thread's first beat is missed otherwise
        self._thread = threading.Thread(target=self._run, name="rank watch", daemon=True)
        self._thread.start()

    # For the main thread.

    def report(self, error: BaseException) -> None:
        """Tell the other ranks that this one has failed."""
        with contextlib.suppress(RuntimeError):  # the store may be gone
            number = self._store.add("failures", 1)
            failure = Failure.of(error, self.rank, self._progress()[0], number)
            self._store.set(f"failure/{self.rank}", failure.to_json())

    def cause_of(self, error: BaseException) -> Failure | None:
        """Wait a little for the report of another rank's failure that led to this error."""
        self._heard.set()
        if self._on_failure is None:
            return None
        patience_s = {Kind.OWN: 0.0, Kind.SHARED: 2 * SETTLE_S, Kind.LOST: STALE_S + 4 * SETTLE_S}
        deadline = time.monotonic() + patience_s[kind_of(error)]
        while self.failure is None and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(PERIOD_S / 5)
        return self.failure

    def close(self) -> None:
        """Stop watching; what ends from now on ends in order."""
        self._heard.set()
        if not self._closed.is_set():
            self._closed.set()
            with contextlib.suppress(RuntimeError):
                self._store.set(f"left/{self.rank}", "")
        self._thread.join(2 * STALE_S)

    def wait_for_others(self, timeout_s: float) -> None:
        """Wait until all ranks have left: the store may be this process's."""
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(RuntimeError):
            while time.monotonic() < deadline and not all(map(self._left, range(self.world_size))):
                time.sleep(PERIOD_S / 10)

    def forget(self) -> None:
        """Release the store, after ``close``."""
        self._store = None

    # The thread.

    def _run(self) -> None:
        try:
            while not self._closed.wait(PERIOD_S):
                self._beat()
                if self._on_failure is not None and self._look():
                    break
        except RuntimeError as error:  # of the store: whoever kept it is gone
            self._decide(self._lost_store(error))
        if self.failure is None or self._on_failure is None or self._closed.is_set():
            return
        self._on_failure(self.failure)
        if not self._heard.wait(GRACE_S):
            say(self.failure.error(self.world_size), sys.stderr)
            os._exit(1)

    def _beat(self) -> None:
        """Say what the main thread does, and for how long without progress."""
        frames = self._frames()
        waits = any(part in frame for frame in frames for part in _WAITING)
        state = ALONE if self.alone else WAITS if waits else WORKS
        if (now := (state, self._progress())) != self._last:
            self._last, self._since = now, time.monotonic()
        still_s = time.monotonic() - self._since
        where = " < ".join(frames[:_OWN_DEPTH]) if state == WORKS and still_s > 1 else ""
        self._n += 1
        sign = Sign(self._n, state, still_s, now[1][0], where, os.getpid(), socket.gethostname())
        self._store.set(f"sign/{self.rank}", json.dumps(sign))

    def _frames(self) -> list[str]:
        """Return the main thread's innermost frames, as "function in file:line"."""
        frame = sys._current_frames().get(self._main or 0)
        found: list[str] = []
        while frame is not None and len(found) < 2 * _OWN_DEPTH:
            file = Path(frame.f_code.co_filename).as_posix()
            found.append(f"{frame.f_code.co_name} in {file}:{frame.f_lineno}")
            frame = frame.f_back
        return found

    def _look(self) -> bool:
        """Return True if something has failed; then it is decided what the cause is."""
        found = self._reports_and_deaths()
        if found:
            time.sleep(SETTLE_S)
            found = self._reports_and_deaths()
            cause = min(found, key=lambda failure: (failure.kind, failure.number))
            if cause.kind == Kind.LOST:
                cause = self._silent() or cause
            return self._decide(cause)
        late = self._late()
        return late is not None and self._decide(late)

    def _decide(self, cause: Failure) -> bool:
        self.failure = cause
        return True

    def _reports_and_deaths(self) -> list[Failure]:
        found = {}
        if self._store.add("failures", 0):
            for rank in range(self.world_size):
                if self._store.check([f"failure/{rank}"]):
                    found[rank] = Failure.from_json(self._store.get(f"failure/{rank}"))
        for rank, how, traceback in self._died():
            if rank not in found and not self._left(rank):
                stacks = self._stacks_of(rank)
                found[rank] = self._failure(rank, how, traceback=traceback, stacks=stacks)
        return list(found.values())

    def _left(self, rank: int) -> bool:
        return bool(self._store.check([f"left/{rank}"]))

    def _read_signs(self) -> dict[int, tuple[Sign, float]]:
        """Return the last sign of life of each rank that has not left, and its age in seconds."""
        read = {}
        for rank in range(self.world_size):
            key, now = f"sign/{rank}", time.monotonic()
            if not self._store.check([key]) or self._left(rank):
                continue
            sign = Sign(*json.loads(self._store.get(key)))
            if rank not in self._signs or sign.n != self._signs[rank][0].n:
                self._signs[rank] = (sign, now)
            read[rank] = (sign, now - self._signs[rank][1])
        return read

    def _late(self) -> Failure | None:
        """Return the failure of a rank that has kept others waiting for too long, if any."""
        signs = self._read_signs()
        begun = any(s.itr >= 1 for s, _ in signs.values())  # and so have all: they are in step
        limit_s = self._limit_s if begun else self._start_s
        limit = f"{limit_s:g} s ({'rank' if begun else 'start'}_timeout_s)"
        waiting = [s for s, _ in signs.values() if s.state == WAITS and s.still_s > limit_s]
        if not waiting:
            return None
        what = f"has kept the others waiting for {limit}"
        for rank, (sign, age_s) in signs.items():
            works = sign.state == WORKS and sign.still_s > limit_s
            if works or age_s > min(limit_s, STALE_S):
                if sign.where:
                    what += f"; for {sign.still_s:.0f} s it has been at {sign.where}"
                stacks = self._stacks_of(rank)
                return self._failure(rank, what, stacks=stacks, standstill=True)
        if len(waiting) < self.world_size:
            return None
        what = f"waits for the others, as all do, for {limit}"
        return self._failure(self.rank, what, standstill=True)

    def _silent(self) -> Failure | None:
        """Return the failure of the rank that gives no sign of life after a connection was lost."""
        deadline = time.monotonic() + STALE_S
        while time.monotonic() < deadline and not self._closed.is_set():
            self._beat()
            for rank, (_, age_s) in self._read_signs().items():
                reported = self._store.check([f"failure/{rank}"])
                if age_s > STALE_S / 2 and not reported:
                    return self._failure(rank, "has ended, or stands still: it is silent")
            time.sleep(PERIOD_S)
        return None

    def _failure(self, rank: int, what: str, **more: Any) -> Failure:
        """Return a failure of another rank, with its process and iteration as last seen."""
        self._read_signs()
        known: dict[str, Any] = {}
        if rank in self._signs:
            sign, _ = self._signs[rank]
            known = {"pid": sign.pid, "host": sign.host, "itr": sign.itr}
        return Failure(rank, Kind.OWN, what, **known, **more)

    def _lost_store(self, error: Exception) -> Failure:
        what = f"cannot reach the others' meeting point any more ({str(error).splitlines()[0]})"
        return Failure(self.rank, Kind.LOST, what, os.getpid(), socket.gethostname())
