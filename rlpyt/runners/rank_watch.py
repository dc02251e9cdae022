"""Failure detection among ranks: heartbeats, reports, and the cause of several failures.

Each rank has a thread with its own connection to the store, because the main thread may be waiting
in a collective operation, which only a lost connection interrupts.
"""

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from itertools import islice
from pathlib import Path
from traceback import extract_tb, walk_stack
from typing import Any, NamedTuple

from torch.distributed import DistError

from rlpyt.algos import optim
from rlpyt.errors import NonFiniteGradient, RankError, RankTimeout, RlpytError
from rlpyt.runners import distributed
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import failure_text, first_line, summary_of, traceback_text

PERIOD_S = 0.25  # seconds between two heartbeats
SETTLE_S = 1.0  # wait after a failure for reports of its cause
STALE_S = 5.0  # time without a heartbeat after which a rank is lost
GRACE_S = 10.0  # time for the main thread to end after a failure
WORKS, WAITS, UNLIMITED = "works", "waits", "unlimited"

# Parts of paths; a main thread whose innermost frame is in one of these files waits for other ranks
# or for its GPU. The counts of collectives tell which rank the others wait for.
_WAITING_PATHS = (
    *("torch/distributed/", "torch/autograd/", "torch/nn/parallel/"),
    *(Path(str(module.__file__)).as_posix() for module in (optim, distributed)),
)
_N_FRAMES = 3  # innermost frames of the main thread that a heartbeat shows

# Matches messages of gloo, NCCL and the store after another rank has exited. Most of these errors
# have no class of their own, so they also must come from a module in which ranks wait.
_LOST_CONNECTION = re.compile(
    r"connection|peer|nccl|gloo|timed? ?out|broken pipe|socket|recvvalue", re.I
)


class Kind(IntEnum):
    """Kinds of failures; the lowest of several is the cause."""

    OWN = 0  # an error, exit or hang of the rank itself
    SHARED = 1  # a non-finite mean gradient with a finite loss in this rank
    LOST = 2  # a lost connection to another rank


@dataclass(frozen=True)
class Failure:
    """Failure of one rank, convertible to JSON."""

    rank: int
    kind: int
    what: str  # what happened, such as "failed with ValueError: ..."
    pid: int = -1
    host: str = ""
    itr: int = -1
    traceback: str = ""
    stacks: str = ""
    number: int = 0  # number of the report, in order; 0: detected by other ranks
    standstill: bool = False  # the rank hung: the others waited too long

    @classmethod
    def of(cls, error: BaseException, rank: int, itr: int, number: int = 0) -> "Failure":
        """Build the report of a rank whose training raised this error."""
        return cls(
            rank=rank,
            kind=kind_of(error),
            what=f"failed with {summary_of(error)}",
            pid=os.getpid(),
            host=socket.gethostname(),
            itr=itr,
            traceback=traceback_text(error),
            number=number,
        )

    def error(self, world_size: int) -> RankError:
        """Return the error to raise in all ranks."""
        who = f"rank {self.rank} of {world_size}"
        if self.pid >= 0:
            who += f" (pid {self.pid} on {self.host})"
        when = f"in iteration {self.itr}" if self.itr >= 0 else "before the first iteration"
        last = "" if self.number else "last seen "
        said, where = f"{who} {self.what}", f"{last}{when}. All ranks are stopped"
        message = failure_text(said, where, "that rank", self.traceback, self.stacks)
        cls = RankTimeout if self.standstill else RankError
        return cls(message, self.rank, self.pid, self.traceback, self.itr, self.stacks)


def kind_of(error: BaseException) -> Kind:
    """Return the kind of failure of a rank that raised this error."""
    if isinstance(error, NonFiniteGradient):
        return Kind.SHARED
    if isinstance(error, RankError | DistError):
        return Kind.LOST
    foreign = isinstance(error, RuntimeError) and not isinstance(error, RlpytError)
    lost = foreign and _comes_from_waiting(error) and _LOST_CONNECTION.search(str(error))
    return Kind.LOST if lost else Kind.OWN


def _comes_from_waiting(error: BaseException) -> bool:
    """Return True if an error was raised in a module in which ranks wait for each other."""
    frames = extract_tb(error.__traceback__)
    path = Path(frames[-1].filename).as_posix() if frames else ""
    return any(part in path for part in _WAITING_PATHS)


class Heartbeat(NamedTuple):
    """Status of a rank, which its thread writes into the store at regular intervals."""

    n: int  # number of this heartbeat
    state: str  # state of the main thread: WORKS, WAITS or UNLIMITED
    still_s: float  # seconds without progress
    itr: int
    where: str  # innermost frames of the main thread, if it is limited and makes no progress
    pid: int
    host: str
    n_collectives: int = 0  # collective operations that this rank has begun


Heartbeats = Mapping[int, tuple[Heartbeat, float]]


def waiting_ranks(beats: Heartbeats, limit_s: float) -> list[int]:
    """Return the ranks that have waited for others for longer than ``limit_s``.

    A rank that has begun more collectives than another waits for that one, wherever its main thread
    is, for example in a transfer from a GPU that takes part in the collective.

    Args:
        beats: (newest heartbeat, its age in seconds) of each rank.
        limit_s: time limit in seconds.
    """
    fewest = min((beat.n_collectives for beat, _ in beats.values()), default=0)
    return [
        rank
        for rank, (beat, _) in beats.items()
        if beat.still_s > limit_s
        and (beat.state == WAITS or (beat.state == WORKS and beat.n_collectives > fewest))
    ]


def hung_ranks(beats: Heartbeats, limit_s: float) -> list[int]:
    """Return the ranks for which others may wait; arguments as in ``waiting_ranks``.

    Those that have begun the fewest collectives are first, and of these, the ones that work. A rank
    that is behind hangs only if one that is ahead has waited for too long: after a long evaluation
    the newest heartbeat of a rank may still be of the wait for rank 0, which is ahead by now.
    """
    counts = {beat.n_collectives for beat, _ in beats.values()}
    waiting = waiting_ranks(beats, limit_s)
    awaited = max((beats[rank][0].n_collectives for rank in waiting), default=0)
    hung = []
    for rank, (beat, age_s) in beats.items():
        works, begun = beat.state == WORKS, beat.n_collectives
        behind = begun < awaited or (works and len(counts) == 1)
        still = beat.still_s > limit_s and beat.state != UNLIMITED
        if (still and behind) or age_s > min(limit_s, STALE_S):
            hung.append((begun, not works, rank))
    return [rank for *_, rank in sorted(hung)]


class RankWatch:
    """Thread that watches the ranks of a run.

    Every rank writes a heartbeat into the store four times a second. It tells if the main thread
    works, waits for other ranks, or is inside ``unlimited``. After the first failure of any rank,
    ``on_failure`` is called once.

    Args:
        rank: rank of this process.
        world_size: number of ranks.
        store: store of ``torch.distributed``; the watch uses a clone of it.
        limit_s: time limit in seconds for a working rank for which others wait.
        start_s: the same limit before the end of the first iteration.
        progress: function that returns numbers that change while this rank trains; the first is
            the iteration.
        n_collectives: function that returns the number of collectives begun in this rank.
        on_failure: function called from the thread with the cause; ``None``: only rank 0 acts.
        died: function that returns (rank, how it ended, traceback) of each ended child process.
        stacks_of: function that returns the Python stacks of a rank, or an empty string.

    Attributes:
        failure: the cause, once a rank has failed.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        store: Any,
        limit_s: float,
        start_s: float,
        progress: Callable[[], tuple[int, ...]],
        n_collectives: Callable[[], int],
        on_failure: Callable[[Failure], None] | None = None,
        died: Callable[[], list[tuple[int, str, str]]] = list,
        stacks_of: Callable[[int], str] = lambda rank: "",
    ) -> None:
        self.rank, self.world_size = rank, world_size
        self._limit_s, self._start_s = limit_s, start_s
        self._unlimited = False
        self.failure: Failure | None = None
        self._store = store.clone()
        self._progress, self._n_collectives, self._on_failure = progress, n_collectives, on_failure
        self._ended_children, self._stacks_of = died, stacks_of
        self._main = threading.current_thread().ident
        self._n, self._last, self._since = 0, (WORKS, progress(), 0), time.monotonic()
        # Newest heartbeat of each rank and its time of arrival.
        self._heartbeats: dict[int, tuple[Heartbeat, float]] = {}
        self._closed, self._noticed = threading.Event(), threading.Event()
        with contextlib.suppress(RuntimeError):  # if the store is gone, the thread reports it
            self._beat()  # here, so that a rank that stops before the thread runs is detected
        self._thread = threading.Thread(target=self._run, name="rank watch", daemon=True)
        self._thread.start()

    # Called by the main thread.

    @contextlib.contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let the other ranks wait for this one without a time limit inside the context."""
        before, self._unlimited = self._unlimited, True
        try:
            yield
        finally:
            self._unlimited = before

    def end(self) -> None:
        """Let the other ranks wait for this one without a time limit from now on."""
        self._unlimited = True

    def report(self, error: BaseException) -> None:
        """Report to the other ranks that this one has failed."""
        with contextlib.suppress(RuntimeError):  # the store may be gone
            number = self._store.add("failures", 1)
            failure = Failure.of(error, self.rank, self._progress()[0], number)
            self._store.set(f"failure/{self.rank}", json.dumps(asdict(failure)))

    def cause_of(self, error: BaseException) -> Failure | None:
        """Wait for reports of other ranks, then return the failure that caused this error."""
        self._noticed.set()
        if self._on_failure is None:
            return None
        patience_s = {Kind.OWN: 0.0, Kind.SHARED: 2 * SETTLE_S, Kind.LOST: STALE_S + 4 * SETTLE_S}
        deadline = time.monotonic() + patience_s[kind_of(error)]
        while self.failure is None and self._thread.is_alive() and time.monotonic() < deadline:
            time.sleep(PERIOD_S / 5)
        return self.failure

    def close(self, timeout_s: float) -> None:
        """Stop watching, wait until all ranks have left, and release the store.

        Args:
            timeout_s: time limit for waiting; the others may need this process's store.
        """
        self._noticed.set()
        self._closed.set()
        with contextlib.suppress(RuntimeError):
            self._store.set(f"left/{self.rank}", "")
        self._thread.join(2 * STALE_S)
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(RuntimeError):
            while time.monotonic() < deadline and not all(map(self._left, range(self.world_size))):
                time.sleep(PERIOD_S / 10)
        self._store = None

    # Run by the thread.

    def _run(self) -> None:
        try:
            while self.failure is None and not self._closed.wait(PERIOD_S):
                self._beat()
                if self._on_failure is not None:
                    self.failure = self._find_failure()
        except RuntimeError as error:  # the process that serves the store is gone
            what = f"lost the connection to the store of the ranks ({first_line(error)})"
            self.failure = Failure(self.rank, Kind.LOST, what, os.getpid(), socket.gethostname())
        if self.failure is None or self._on_failure is None or self._closed.is_set():
            return
        self._on_failure(self.failure)
        if not self._noticed.wait(GRACE_S):
            say(self.failure.error(self.world_size), sys.stderr)
            os._exit(1)

    def _beat(self) -> None:
        """Write a heartbeat."""
        frames = self._frames()
        waits = any(part in frame for frame in frames[:1] for part in _WAITING_PATHS)
        state = UNLIMITED if self._unlimited else WAITS if waits else WORKS
        begun = self._n_collectives()
        if (now := (state, self._progress(), begun)) != self._last:
            self._last, self._since = now, time.monotonic()
        still_s = time.monotonic() - self._since
        where = " < ".join(frames) if state != UNLIMITED and still_s > 1 else ""
        self._n += 1
        itr, host = now[1][0], socket.gethostname()
        heartbeat = Heartbeat(self._n, state, still_s, itr, where, os.getpid(), host, begun)
        self._store.set(f"heartbeat/{self.rank}", json.dumps(heartbeat))

    def _frames(self) -> list[str]:
        """Return the main thread's innermost frames, as "function in file:line"."""
        frame = sys._current_frames().get(self._main or 0)
        stack = islice(walk_stack(frame), _N_FRAMES) if frame else ()
        places = [(f.f_code.co_name, Path(f.f_code.co_filename).as_posix(), n) for f, n in stack]
        return [f"{name} in {file}:{line}" for name, file, line in places]

    def _find_failure(self) -> Failure | None:
        """Return the failure that caused all others, if any rank has failed."""
        found = self._reports_and_deaths()
        if found:
            time.sleep(SETTLE_S)
            found = self._reports_and_deaths()
            cause = min(found, key=lambda failure: (failure.kind, failure.number))
            return self._find_silent_rank() or cause if cause.kind == Kind.LOST else cause
        return self._find_hung_rank()

    def _reports_and_deaths(self) -> list[Failure]:
        found = {}
        if self._store.add("failures", 0):
            for rank in range(self.world_size):
                if self._store.check([f"failure/{rank}"]):
                    found[rank] = Failure(**json.loads(self._store.get(f"failure/{rank}")))
        for rank, how, traceback in self._ended_children():
            if rank not in found and not self._left(rank):
                stacks = self._stacks_of(rank)
                found[rank] = self._failure(rank, how, traceback=traceback, stacks=stacks)
        return list(found.values())

    def _left(self, rank: int) -> bool:
        return bool(self._store.check([f"left/{rank}"]))

    def _read_heartbeats(self) -> dict[int, tuple[Heartbeat, float]]:
        """Return the newest heartbeat of each rank that has not left, and its age in seconds."""
        read = {}
        for rank in range(self.world_size):
            key, now = f"heartbeat/{rank}", time.monotonic()
            if not self._store.check([key]) or self._left(rank):
                continue
            beat = Heartbeat(*json.loads(self._store.get(key)))
            if rank not in self._heartbeats or beat.n != self._heartbeats[rank][0].n:
                self._heartbeats[rank] = (beat, now)
            read[rank] = (beat, now - self._heartbeats[rank][1])
        return read

    def _find_hung_rank(self) -> Failure | None:
        """Return the failure of a rank for which the others have waited too long, if any."""
        beats = self._read_heartbeats()
        first_done = any(b.itr >= 1 for b, _ in beats.values())  # ranks run in lockstep
        limit_s = self._limit_s if first_done else self._start_s
        limit = f"{limit_s:g} s ({'rank' if first_done else 'start'}_timeout_s)"
        waiting, hung = waiting_ranks(beats, limit_s), hung_ranks(beats, limit_s)
        if not waiting:
            return None
        if hung:
            beat, _ = beats[hung[0]]
            what = f"has kept the others waiting for {limit}"
            if beat.where:
                what += f"; for {beat.still_s:.0f} s it has been at {beat.where}"
            return self._failure(hung[0], what, stacks=self._stacks_of(hung[0]), standstill=True)
        if len(waiting) < self.world_size:
            return None
        what = f"waits for the other ranks, as all ranks do, for {limit}"
        return self._failure(self.rank, what, standstill=True)

    def _find_silent_rank(self) -> Failure | None:
        """Return the failure of a rank without heartbeats after a connection was lost, if any."""
        deadline = time.monotonic() + STALE_S
        while time.monotonic() < deadline and not self._closed.is_set():
            self._beat()
            for rank, (_, age_s) in self._read_heartbeats().items():
                reported = self._store.check([f"failure/{rank}"])
                if age_s > STALE_S / 2 and not reported:
                    return self._failure(rank, "has ended or hangs: it sends no heartbeats")
            time.sleep(PERIOD_S)
        return None

    def _failure(self, rank: int, what: str, **more: Any) -> Failure:
        """Return a failure of another rank, with its last known process and iteration."""
        self._read_heartbeats()
        known: dict[str, Any] = {}
        if rank in self._heartbeats:
            beat, _ = self._heartbeats[rank]
            known = {"pid": beat.pid, "host": beat.host, "itr": beat.itr}
        return Failure(rank, Kind.OWN, what, **known, **more)
