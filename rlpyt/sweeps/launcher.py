"""Fills the slots of a machine with the runs of a sweep, until none is left."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rlpyt.sweeps.attempts import next_attempt
from rlpyt.sweeps.directory import LEAST_FREE_BYTES, SweepDirectory
from rlpyt.sweeps.jobs import Attempt, JobDirectory, State
from rlpyt.sweeps.overview import log_num_launched
from rlpyt.sweeps.places import Handle, Place, PlaceError, Slot
from rlpyt.sweeps.sources import NoSource, Source, SourceError
from rlpyt.utils.text import counted

LOOK_S = 0.5  # between two looks at requests, where nothing wakes the launcher
AGAIN_S = 10.0  # after a run could not be begun


@dataclass
class _Running:
    job: JobDirectory
    attempt: Attempt
    handle: Handle
    slot: Slot | None  # None: adopted, and its slot has since been given to another


class Launcher:
    """Runs every job of a sweep once to its end, whatever ends in between.

    A launcher that is killed leaves its runs going; the next one on the same directory takes them
    over. One that is asked to end (Ctrl-C, SIGTERM, ``rlpyt sweep stop``) has the runs save their
    checkpoints first, and the next one goes on from those.

    Args:
        sweep: whose jobs.
        slots: as many runs at once.
        place: that carries them out.
        source: makes what adds jobs in the course of the sweep; called once nobody else can add
            any.
        say: takes one line about what has happened.
        least_free_bytes: of the disk, to begin a run.
    """

    def __init__(
        self,
        sweep: SweepDirectory,
        slots: Sequence[Slot],
        place: Place,
        source: Callable[[], Source] = NoSource,
        say: Callable[[str], None] = print,
        least_free_bytes: int = LEAST_FREE_BYTES,
    ) -> None:
        if not slots:
            raise ValueError("a launcher needs at least one slot.")
        self.sweep, self.slots, self.place = sweep, list(slots), place
        self.source: Source = NoSource()
        self._make_source = source
        self.say = say
        self.least_free_bytes = least_free_bytes
        self.on_look: list[Callable[[], None]] = []
        self._running: list[_Running] = []
        self._queue: list[tuple[int, int, JobDirectory]] = []  # (attempts, number, job)
        self._states: dict[int, State] = {}
        self._signal = 0
        self._said = ""
        self._not_before_s = 0.0  # of the clock, no run is begun

    @property
    def states(self) -> dict[int, State]:
        """State of each job by its number, as far as this launcher knows."""
        return dict(self._states)

    def run(self) -> int:
        """Launch until nothing is left, or until asked to stop.

        Returns:
            Exit code: 0 if all runs are done (or were pruned), 1 if one failed, 130 after Ctrl-C,
            143 after SIGTERM or a request to stop.

        Raises:
            RunDirectoryError: another launcher is at work here.
            FileNotFoundError: the directory was removed meanwhile.
            SourceError: what adds jobs has given up; what ran has been stopped.
        """
        with ExitStack() as stack:
            stack.enter_context(self.sweep.lock())
            stack.enter_context(_Hearing(self._hear))
            stack.callback(self.place.close)
            self.sweep.forget_requests()
            self.source = self._make_source()
            try:
                self._take_stock()
                while not self._stopping():
                    self._reap()
                    if self.sweep.take_forgiven():
                        self._take_forgiven()
                    self.source.watch([r.job for r in self._running])
                    self._fill()
                    if not self._running and not self._queue and self.source.is_over():
                        break
                    self._wait()
                if stopped := self._stopping():
                    self._end_all()
            except SourceError:
                self.source = NoSource()  # the next launcher's will be told of all that ends now
                self._end_all()
                raise
            finally:
                for running in self._running:
                    running.handle.release()
        if stopped:
            return 128 + (self._signal or signal.SIGTERM)
        return 1 if "failed" in self._states.values() else 0

    def _hear(self, number: int) -> None:
        self._signal = number

    def _stopping(self) -> bool:
        return bool(self._signal) or self.sweep.to_stop

    def _take_stock(self) -> None:
        """Find out where every job stands, and take over what runs."""
        for job in self.sweep.jobs():
            attempts = job.attempts()
            if attempts and attempts[-1].ended is None:
                handle = self.place.adopt(job.path, attempts[-1])
                if handle is not None:
                    attempt = job.attempts()[-1]
                    slot = next((s for s in self._free() if s.number == attempt.slot), None)
                    self._running.append(_Running(job, attempt, handle, slot))
                    self._states[job.job.number] = "running"
                    self.say(f"{job.job.name}: goes on, taken over from an earlier launcher")
                    if attempt.told and attempt.begun is None:
                        handle.withdraw()  # it was stopped while nobody launched
                    continue
                last = job.attempts()[-1]  # it may have ended just now
                if last.begun is not None and last.ended is None and not self.place.goes_on:
                    job.tell(last.number, "interrupted: its launcher had ended")
                attempts = job.attempts()
            self._settle(job, attempts)

    def _settle(self, job: JobDirectory, attempts: list[Attempt]) -> None:
        """Queue the job, or count it as over."""
        number, state = job.job.number, job.state(attempts)
        if state == "running":  # another launcher's supervisor was quicker; it is looked for again
            handle = self.place.adopt(job.path, attempts[-1])
            if handle is not None:
                self._running.append(_Running(job, attempts[-1], handle, None))
            else:
                state = job.state()
        self._states[number] = state
        if state == "queued":
            self._queue.append((len(attempts), number, job))
            self._queue.sort(key=lambda entry: entry[:2])
        elif state != "running":
            self.source.ended(job, state)

    def _take_forgiven(self) -> None:
        """Queue what had failed, and has been forgiven."""
        failed = [number for number, state in self._states.items() if state == "failed"]
        jobs = {job.job.number: job for job in self.sweep.jobs()} if failed else {}
        for job in (jobs[number] for number in failed):
            attempts = job.attempts()
            if job.state(attempts) != "failed":
                self._settle(job, attempts)
                self.say(f"{job.job.name}: queued again")

    def _free(self) -> list[Slot]:
        taken = {r.slot.number for r in self._running if r.slot is not None}
        lent = sum(r.slot is None for r in self._running)
        free = [slot for slot in self.slots if slot.number not in taken]
        return free[: max(0, len(free) - lent)]

    def _reap(self) -> None:
        """Find out what has become of runs that ended."""
        if not self.sweep.queue.is_dir():
            raise FileNotFoundError(f"{self.sweep.path} was removed while its runs were going on.")
        for running in [r for r in self._running if r.handle.over()]:
            self._running.remove(running)
            running.handle.release()
            job, attempts = running.job, running.job.attempts()
            self._settle(job, attempts)
            self._say_how_it_ended(job, attempts[-1])
            self._write_progress()

    def _say_how_it_ended(self, job: JobDirectory, last: Attempt) -> None:
        state, name = self._states[job.job.number], job.job.name
        if last.begun is None and not last.told:
            self._not_before_s = time.monotonic() + AGAIN_S
            self._say_once(f"{name}: has not come to begin; trying again.")
            return
        seconds = ""
        if last.begun is not None and last.ended is not None:
            seconds = f" after {last.ended - last.begun:.0f} s"
        if state == "done":
            self.say(f"{name}: done{seconds} ({self._how_far()})")
        elif state != "running":
            again = "; will be tried again" if state == "queued" and last.failed else ""
            self.say(f"{name}: {last.outcome()}{seconds}{again}")
            if last.failed and (lines := job.last_lines(5)):
                self.say("\n".join(f"    {line}" for line in lines))

    def _fill(self) -> None:
        """Begin runs in all free slots."""
        while (free := self._free()) and (self._queue or not self.source.is_over()):
            if not self._may_begin():
                return
            if not self._queue:
                new = self.source.next(self.sweep)
                if new is None:
                    return
                self._settle(new, [])
                continue
            _, _, job = entry = self._queue.pop(0)
            attempts = job.attempts()
            if job.state(attempts) != "queued":  # cancelled, or begun for an earlier launcher
                self._settle(job, attempts)
                continue
            try:
                self._begin(job, free[0])
            except (OSError, PlaceError) as error:  # no disk, no process, no cluster
                self._queue.insert(0, entry)
                self._not_before_s = time.monotonic() + AGAIN_S
                self._say_once(f"{job.job.name}: cannot be begun ({error}); trying again.")

    def _may_begin(self) -> bool:
        """Whether a run can be begun now; if not, says why."""
        why = self.sweep.waits_for(self.least_free_bytes)
        if why:
            self._say_once(why)
        return not why and time.monotonic() >= self._not_before_s

    def _say_once(self, line: str) -> None:
        if line != self._said:
            self.say(line)
        self._said = line

    def _begin(self, job: JobDirectory, slot: Slot) -> None:
        attempts = job.attempts()
        if attempts and attempts[-1].begun is None:
            attempts.pop()
        attempt = next_attempt(self.sweep, job, attempts, slot, self.place)
        job.prepare(attempt)
        handle = self.place.start(job.path, attempt, slot)
        if handle.remote_id:
            job.note_remote(attempt.number, handle.remote_id)
        self._running.append(_Running(job, attempt, handle, slot))
        self._states[job.job.number] = "running"
        self._said = ""
        which = f" (attempt {attempt.number})" if attempts else ""
        self.say(f"{job.job.name}: begun in slot {slot.number}{which}")
        self._write_progress()

    def _wait(self) -> None:
        """Sleep until a run ends, or it is time to look around."""
        for look in self.on_look:
            look()
        descriptors = [d for r in self._running if (d := r.handle.fileno()) is not None]
        ended, _, _ = select.select(descriptors, [], [], LOOK_S)
        if ended and not any(r.handle.over() for r in self._running):
            time.sleep(0.05)  # a supervisor was killed, and its run is about to end

    def _end_all(self) -> None:
        """Have all runs save their checkpoints and end; a second signal leaves them to it."""
        first, self._signal = self._signal, 0
        if self._running:
            runs = counted(len(self._running), "run")
            self.say(f"stopping {runs}; once more leaves them to themselves")
        for running in self._running:
            running.job.tell(running.attempt.number, "stopped")
            running.handle.withdraw()
        while self._running and not self._signal:
            self._reap()
            self._wait()
        self._signal = first

    def _how_far(self) -> str:
        over = sum(state not in ("queued", "running") for state in self._states.values())
        return f"{over} of {counted(self._total(), self.source.noun)}"

    def _total(self) -> int:
        return max(len(self._states), self.source.n_jobs())

    def _write_progress(self) -> None:
        begun = sum(state != "queued" for state in self._states.values())
        log_num_launched(self.sweep.path, begun, self._total())


class _Hearing:
    """Takes note of SIGINT and SIGTERM for the length of a block, in the main thread."""

    def __init__(self, hear: Callable[[int], None]) -> None:
        self._hear = hear
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, lambda n, _: self._hear(n))
            except ValueError:  # not the main thread, as in a notebook's
                return

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
