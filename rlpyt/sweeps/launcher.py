"""The launcher: runs the jobs of a sweep in the slots of a machine or cluster, each to its end."""

import bisect
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.sweeps.directory import SweepDirectory, log_num_launched
from rlpyt.sweeps.executors import Executor, ExecutorError, Handle
from rlpyt.sweeps.jobs import Attempt, JobDirectory, State
from rlpyt.sweeps.places import place_of
from rlpyt.sweeps.slots import Slot
from rlpyt.utils.launching.machine import egl_device, names_of_gpus
from rlpyt.utils.launching.variant import save_variant
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.resumption import ASIDE, ENV_RESUME
from rlpyt.utils.text import counted

POLL_INTERVAL_S = 0.5  # of requests, unless the end of a run wakes the launcher
RETRY_DELAY_S = 10.0  # after a run failed to start


class SourceError(RlpytError, RuntimeError):
    """Failure of a source that the user must fix before further jobs; the message says how."""


class Source:
    """Base class of sources, which add jobs during a sweep; this one adds none.

    A launcher first notifies the source of all jobs that have ended, in the order of their
    numbers, also those that an earlier launcher ran. Any method may raise ``SourceError``. All are
    called in the launcher's thread.
    """

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """Add a job to the sweep and return it; None if there is none now."""
        return None

    def ended(self, job: JobDirectory, state: State) -> None:
        """Handle the end of a job: it is done, failed or pruned."""

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Inspect running jobs; may end one by ``job.request_end(number, "pruned")``."""

    def is_over(self) -> bool:
        """Return True if there will be no further job."""
        return True

    def n_jobs(self) -> int:
        """Return the number of jobs in total, as far as it is known."""
        return 0


@dataclass
class _Running:
    job: JobDirectory
    attempt: Attempt
    handle: Handle
    slot: Slot | None  # None: adopted after its slot was assigned to another run


class Launcher:
    """Launcher that runs every job of a sweep to its end exactly once, across its restarts.

    Runs of a killed launcher continue, and the next launcher on the same directory adopts them. On
    Ctrl-C, SIGTERM or ``rlpyt sweep stop`` runs save their checkpoints and end; the next launcher
    resumes them.

    Args:
        sweep: the sweep's directory.
        slots: hardware of the parallel runs.
        executor: starts the runs.
        source: builds the source of further jobs; called with the launcher's lock held.
        say: prints one line about an event.
    """

    def __init__(
        self,
        sweep: SweepDirectory,
        slots: Sequence[Slot],
        executor: Executor,
        source: Callable[[], Source] = Source,
        say: Callable[[str], None] = print,
    ) -> None:
        self.sweep, self.slots, self.executor = sweep, list(slots), executor
        self.source = Source()
        self._make_source = source
        self.say = say
        self.on_poll: list[Callable[[], None]] = []
        self._running: list[_Running] = []
        self._queue: list[tuple[int, int, JobDirectory]] = []  # (attempts, number, job)
        self._states: dict[int, State] = {}
        self._signal = 0
        self._last_report = ""
        self._not_before_s = 0.0  # time.monotonic() before which no run is started

    def run(self) -> int:
        """Run jobs until none is left, or until asked to stop.

        Returns:
            Exit code: 0 if all runs are done (or were pruned), 1 if one failed, 130 after Ctrl-C,
            143 after SIGTERM or a request to stop, 138 after SIGUSR1.

        Raises:
            RunDirectoryError: another launcher is at work here.
            FileNotFoundError: the directory was removed meanwhile.
            SourceError: the source cannot add further jobs; running ones have been stopped.
        """
        with ExitStack() as stack:
            stack.enter_context(self.sweep.lock())
            stack.enter_context(self._noting_signals())
            stack.callback(self.executor.close)
            self.sweep.forget_requests()
            self.source = self._make_source()
            try:
                self._read_states()
                while not self._is_stopping():
                    self._reap()
                    if self.sweep.take_forgiven():
                        self._queue_retried()
                    self.source.watch([r.job for r in self._running])
                    self._fill()
                    if not self._running and not self._queue and self.source.is_over():
                        break
                    self._wait()
                if stopped := self._is_stopping():
                    self._end_all()
            except SourceError:
                self.source = Source()  # the next launcher notifies its own source of these ends
                self._end_all()
                raise
            finally:
                for running in self._running:
                    running.handle.release()
        if stopped:
            return 128 + (self._signal or signal.SIGTERM)
        return 1 if "failed" in self._states.values() else 0

    @contextmanager
    def _noting_signals(self) -> Iterator[None]:
        """Note signals that end a sweep during a block, in the main thread."""

        def note(number: int, frame: Any) -> None:
            self._signal = number

        before = {}
        try:
            with suppress(ValueError):  # not the main thread, as in a notebook's
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                    before[number] = signal.signal(number, note)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _is_stopping(self) -> bool:
        return bool(self._signal) or self.sweep.to_stop

    def _read_states(self) -> None:
        """Read the state of every job, and adopt running ones."""
        for job in self.sweep.jobs():
            attempts = job.attempts()
            if attempts and attempts[-1].ended is None:
                if self._adopt(job):
                    continue
                last = job.attempts()[-1]  # it may have ended just now
                ended = last.begun is None or last.ended is not None
                if not ended and not self.executor.survives_launcher:
                    job.request_end(last.number, "interrupted: its launcher had ended")
            self._settle(job)

    def _adopt(self, job: JobDirectory) -> bool:
        """Watch a run that an earlier launcher has started; return False if it has ended."""
        handle = self.executor.reattach(job.path, job.attempts()[-1])
        if handle is None:
            return False
        attempt = job.attempts()[-1]
        slot = next((s for s in self._free() if s.number == attempt.slot), None)
        self._running.append(_Running(job, attempt, handle, slot))
        self._states[job.job.number] = "running"
        self.say(f"{job.job.name}: continues; adopted from an earlier launcher")
        if attempt.told and attempt.begun is None:
            handle.cancel()  # it was stopped while there was no launcher
        return True

    def _settle(self, job: JobDirectory) -> None:
        """Queue the job, or record that it has ended."""
        attempts, number = job.attempts(), job.job.number
        state = job.state(attempts)
        if state == "running":  # an earlier launcher has started it meanwhile
            if self._adopt(job):
                return
            state = job.state()
        self._states[number] = state
        if state == "queued":
            entry = (len(attempts), number, job)
            bisect.insort(self._queue, entry, key=lambda entry: entry[:2])
        elif state != "running":
            if not job.path.is_dir():
                self.say(f"{job.job.name}: dropped from the sweep, since {job.path} was removed")
            self.source.ended(job, state)

    def _queue_retried(self) -> None:
        """Queue failed jobs that are to be retried."""
        failed = [number for number, state in self._states.items() if state == "failed"]
        jobs = {job.job.number: job for job in self.sweep.jobs()} if failed else {}
        for job in (jobs[number] for number in failed):
            if job.state() != "failed":
                self._settle(job)
                self.say(f"{job.job.name}: queued again")

    def _free(self) -> list[Slot]:
        taken = {r.slot.number for r in self._running if r.slot is not None}
        lent = sum(r.slot is None for r in self._running)
        free = [slot for slot in self.slots if slot.number not in taken]
        return free[: max(0, len(free) - lent)]

    def _reap(self) -> None:
        """Record the outcome of runs that have ended."""
        if not self.sweep.queue.is_dir():
            raise FileNotFoundError(f"{self.sweep.path} was removed while its runs were active.")
        for running in [r for r in self._running if r.handle.has_ended()]:
            self._running.remove(running)
            running.handle.release()
            self._settle(running.job)
            for last in running.job.attempts()[-1:]:  # none if its directory was removed
                self._report_end(running.job, last)
            self._write_progress()

    def _report_end(self, job: JobDirectory, last: Attempt) -> None:
        state, name = self._states[job.job.number], job.job.name
        if last.begun is None and not last.told:
            self._not_before_s = time.monotonic() + RETRY_DELAY_S
            self._report_once(f"{name}: failed to start; retrying.")
            return
        seconds = ""
        if last.begun is not None and last.ended is not None:
            seconds = f" after {last.ended - last.begun:.0f} s"
        if state == "done":
            self.say(f"{name}: done{seconds} ({self._progress()})")
        elif state != "running":
            again = "; will be retried" if state == "queued" and last.failed else ""
            self.say(f"{name}: {last.outcome()}{seconds}{again}")
            if last.failed and (lines := job.last_lines(5)):
                self.say("\n".join(f"    {line}" for line in lines))

    def _fill(self) -> None:
        """Start runs in all free slots."""
        while (free := self._free()) and (self._queue or not self.source.is_over()):
            if waits := self.sweep.waits_for():
                self._report_once(waits)
            if waits or time.monotonic() < self._not_before_s:
                return
            if not self._queue:
                new = self.source.next(self.sweep)
                if new is None:
                    return
                self._settle(new)
                continue
            _, _, job = entry = self._queue.pop(0)
            if job.state() != "queued":  # cancelled, or started by an earlier launcher
                self._settle(job)
                continue
            try:
                self._start(job, free[0])
            except (OSError, ExecutorError) as error:  # disk, processes or cluster are exhausted
                self._queue.insert(0, entry)
                self._not_before_s = time.monotonic() + RETRY_DELAY_S
                self._report_once(f"{job.job.name}: failed to start ({error}); retrying.")

    def _report_once(self, line: str) -> None:
        if line != self._last_report:
            self.say(line)
        self._last_report = line

    def _start(self, job: JobDirectory, slot: Slot) -> None:
        attempts = job.attempts()
        if attempts and attempts[-1].begun is None:
            attempts.pop()
        attempt = next_attempt(self.sweep, job, attempts, slot, self.executor)
        job.prepare(attempt)
        handle = self.executor.start(job.path, attempt, slot)
        if handle.remote_id:
            job.note_remote(attempt.number, handle.remote_id)
        self._running.append(_Running(job, attempt, handle, slot))
        self._states[job.job.number] = "running"
        self._last_report = ""
        which = f" (attempt {attempt.number})" if attempts else ""
        self.say(f"{job.job.name}: started in slot {slot.number}{which}")
        self._write_progress()

    def _wait(self) -> None:
        """Sleep until a run ends or the polling interval has passed."""
        for callback in self.on_poll:
            callback()
        descriptors = [d for r in self._running if (d := r.handle.fileno()) is not None]
        ended, _, _ = select.select(descriptors, [], [], POLL_INTERVAL_S)
        if ended and not any(r.handle.has_ended() for r in self._running):
            time.sleep(0.05)  # a supervisor was killed; its run is ending

    def _end_all(self) -> None:
        """Ask all runs to save a checkpoint and end; a second signal stops waiting for them."""
        first, self._signal = self._signal, 0
        if self._running:
            runs = counted(len(self._running), "run")
            self.say(f"stopping {runs} (Ctrl-C again to detach and leave them running)")
        for running in self._running:
            running.job.request_end(running.attempt.number, "stopped")
            running.handle.cancel()
        while self._running and not self._signal:
            self._reap()
            self._wait()
        self._signal = first

    def _progress(self) -> str:
        over = sum(state not in ("queued", "running") for state in self._states.values())
        return f"{over} of {counted(self._total(), 'run')}"

    def _total(self) -> int:
        return max(len(self._states), self.source.n_jobs())

    def _write_progress(self) -> None:
        begun = sum(state != "queued" for state in self._states.values())
        log_num_launched(self.sweep.path, begun, self._total())


def next_attempt(
    sweep: SweepDirectory,
    job: JobDirectory,
    before: Sequence[Attempt],
    slot: Slot,
    executor: Executor,
) -> Attempt:
    """Describe a job's next attempt after those ``before``, and prepare the run's directory.

    The attempt resumes from the run's checkpoints if an earlier one has saved any. Otherwise files
    of earlier attempts are moved aside.

    Raises:
        OSError: a file cannot be written or moved.
    """
    spec, env = job.job, dict(job.job.env)
    command = spec.command
    by_code = any("{affinity}" in part for part in command)
    if executor.assigns_hardware and not by_code:
        env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(names_of_gpus(slot.gpus)))
    if sweep.about.egl_device and slot.gpus:
        env["EGL_DEVICE_ID"] = egl_device(slot.gpus)
    run_dir = sweep.path / spec.run_dir
    RunLock(run_dir).forget({one.host for one in before})
    has_checkpoint = any(run_dir.glob("checkpoint-*")) or any(run_dir.glob("*/checkpoint-*"))
    if before and has_checkpoint:
        command = spec.resume or spec.command
        env[ENV_RESUME] = str(run_dir)
    elif run_dir.exists() and any(run_dir.iterdir()):
        _move_aside(run_dir, job.path / f"{ASIDE}{len(before)}")
    if spec.variant:
        save_variant(spec.variant, run_dir.parent)
    values = {
        "affinity": slot.resources.to_code(),
        "sweep": sweep.path,
        "job": job.path,
        "run_dir": run_dir,
        "place": place_of(sweep.queue, slot),
    }
    return Attempt(
        number=before[-1].number + 1 if before else 1,
        command=tuple(_filled(part, values) for part in command),
        env=env,
        cwd=spec.cwd,
        cpus=slot.cpus if executor.assigns_hardware else None,
        slot=slot.number,
        where=executor.name,
    )


def _filled(part: str, values: Mapping[str, Any]) -> str:
    """Replace ``{name}`` by values; other braces stay, since arguments may be JSON."""
    for name, value in values.items():
        part = part.replace(f"{{{name}}}", str(value))
    return part


def _move_aside(run_dir: Path, aside: Path) -> None:
    """Move the files of an earlier attempt to an unused name."""
    while aside.exists():
        aside = aside.with_name(f"{aside.name}+")
    shutil.move(run_dir, aside)
