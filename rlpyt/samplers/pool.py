"""The master's side of worker processes: starts, commands and watches them, names failures."""

import contextlib
import socket
import time
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.actions import GLANCE_S
from rlpyt.samplers.place import BUILDING, DOING, EVAL, ITR, RESETTING, ROW, STEP, place_of
from rlpyt.samplers.workers import WorkerSpec, worker_main
from rlpyt.utils import processes, serialize
from rlpyt.utils.synchronize import forget_names

SLOW = 0.75  # of a limit: what takes longer is worth a warning


class Limits(NamedTuple):
    """How long a worker may go without progress, in seconds."""

    step_s: float = 60.0  # while it steps an environment, or does anything not named below
    reset_s: float = 300.0  # while it resets one
    start_s: float = 300.0  # while it starts and makes its environments

    def of(self, doing: int) -> tuple[str, float]:
        """(name of the setting, seconds) for an activity of ``samplers.place``."""
        if doing == BUILDING:
            return "start_timeout_s", self.start_s
        if doing == RESETTING:
            return "reset_timeout", self.reset_s
        return "env_timeout", self.step_s


class WorkerPool:
    """Starts workers, sends commands, waits for replies, notices failures.

    Args:
        specs: one per worker.
        stations: the ``StationSpec`` of each, for messages.
        limits: for progress.
        start_method: of processes.

    Raises:
        WorkerError: a worker could not be started, or its station not be built.
    """

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        stations: Sequence[Any],
        limits: Limits | None = None,
        start_method: str | None = None,
    ) -> None:
        self._specs, self._stations = specs, stations
        self._limits = limits or Limits()
        self._number = 0
        self._warned = False
        context = processes.start_context(start_method)
        processes.check_files_for(len(specs))
        self.processes: list[Any] = []
        self._pipes: list[Connection] = []
        # Before multiprocessing joins its children at exit, whatever was imported first.
        self._at_exit = Finalize(None, self.shutdown, exitpriority=10)
        try:
            with processes.starting_children():
                for spec in specs:
                    self._start(spec, context)
            self._begin_waiting()
            self._gather()
            gates = [(e.obs_ready, e.act_ready) for e in self._exchanges]
            forget_names([gate for pair in gates for gate in pair])
        except BaseException:
            self.shutdown(patience_s=0.1)
            raise

    def _start(self, spec: WorkerSpec, context: Any) -> None:
        who = f"worker {spec.rank} of {len(self._specs)}"
        process, pipe = processes.start_child(context, worker_main, spec, who)
        processes.bound_waits(pipe, max(self._limits))
        self.processes.append(process)
        self._pipes.append(pipe)

    @property
    def _exchanges(self) -> list[Any]:
        return [spec.exchange for spec in self._specs if spec.exchange is not None]

    def call(self, method: str, *arguments: Any, meanwhile: Any = None) -> list[Any]:
        """Have every worker's station run a method; returns the results by worker.

        Args:
            method: of ``Station``.
            arguments: its arguments.
            meanwhile: called while the workers work, with ``replied``; an action server.

        Raises:
            WorkerError: a worker failed; all workers are gone when this is raised.
        """
        return self.call_each(method, [arguments] * len(self._pipes), meanwhile)

    def call_each(self, method: str, arguments: list[Any], meanwhile: Any = None) -> list[Any]:
        """As ``call``, with arguments of its own for each worker."""
        if not self.processes:
            raise WorkerError("the workers are gone: the sampler was shut down or failed before.")
        self._number += 1
        try:
            for pipe, args in zip(self._pipes, arguments, strict=True):
                try:
                    pipe.send((self._number, method, args))
                except OSError:
                    continue  # it died; gathering its reply says how
            self._begin_waiting()
            if meanwhile is not None:
                meanwhile(self.replied)
            return self._gather()
        except BaseException:
            self.shutdown()
            raise

    def _begin_waiting(self) -> None:
        self._replies: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}
        for rank, (pipe, process) in enumerate(zip(self._pipes, self.processes, strict=True)):
            self._waiting[pipe] = self._waiting[process.sentinel] = rank
        self._still_s = [0.0] * len(self._pipes)  # how long each has been standing still
        self._seen = [tuple(spec.progress) for spec in self._specs]
        self._looked = time.monotonic()

    def replied(self, rank: int) -> bool:
        """Whether this worker has ended its command; while it has not, it is watched.

        Raises:
            WorkerError: some worker failed, or this one makes no progress.
        """
        self._glance(0)
        self._look_after([rank])
        return rank in self._replies

    def _gather(self) -> list[Any]:
        """Wait for all replies, watching for death and standstill."""
        ranks = range(len(self._pipes))
        while len(self._replies) < len(ranks):
            self._glance(GLANCE_S)
            self._look_after([rank for rank in ranks if rank not in self._replies])
        return [self._replies[rank] for rank in ranks]

    def _glance(self, timeout_s: float) -> None:
        """Take in what replies have come."""
        for thing in wait(list(self._waiting), timeout=timeout_s):
            rank = self._waiting.get(thing, -1)
            if rank >= 0:
                self._replies[rank] = self._reply_of(rank)
                for done in (self._pipes[rank], self.processes[rank].sentinel):
                    self._waiting.pop(done, None)

    def _look_after(self, ranks: list[int]) -> None:
        """Notice whether these workers stand still though they should not."""
        now = time.monotonic()
        # If this process itself was stopped or starved, that is no fault of the workers.
        passed, self._looked = min(now - self._looked, 2 * GLANCE_S), now
        for rank in ranks:
            if rank in self._replies:
                continue
            seen = tuple(self._specs[rank].progress)
            moved = seen != self._seen[rank]
            self._still_s[rank] = 0.0 if moved else self._still_s[rank] + passed
            self._seen[rank] = seen
            setting, limit = self._limits.of(seen[DOING])
            if self._still_s[rank] > limit:
                raise self._hung(rank, setting, limit)
            if self._still_s[rank] > SLOW * limit and not self._warned:
                self._warned = True
                warnings.warn(
                    f"worker {rank} has made no progress for {self._still_s[rank]:.3g} s, "
                    f"{self._place_of(rank)}; after {setting}={limit:g} the run ends. Raise it if "
                    "that is no fault."
                )

    def _reply_of(self, rank: int) -> Any:
        pipe, process = self._pipes[rank], self.processes[rank]
        try:
            while pipe.poll(0) or process.is_alive():
                number, kind, result = pipe.recv()
                if number == self._number:  # else a late answer to an abandoned command
                    break
            else:
                raise EOFError
        except BlockingIOError:
            raise self._hung(rank, "the limit", max(self._limits)) from None
        except (EOFError, OSError):
            process.join(1.0)
            what = processes.describe_exit(process.exitcode)
            stacks = self._specs[rank].stacks.text()
            raise self._error(rank, what, stacks=stacks) from None
        if kind == "error":
            summary, text, action = result
            raise self._error(rank, f"failed with {summary}", text, action=action)
        return serialize.loads(result)

    def _hung(self, rank: int, setting: str, limit_s: float) -> WorkerError:
        """End a worker that stands still; returns what it was doing, as the error to raise."""
        process = self.processes[rank]
        stacks = self._specs[rank].stacks.ask(process.pid)
        process.kill()
        what = f"has made no progress for {limit_s:g} s ({setting}) and was killed"
        return self._error(rank, what, stacks=stacks, cls=WorkerTimeout)

    def _error(
        self,
        rank: int,
        what: str,
        text: str = "",
        stacks: str = "",
        action: Any = None,
        cls: type[WorkerError] = WorkerError,
    ) -> WorkerError:
        pid, place = self.processes[rank].pid, self._place_of(rank, action)
        who = f"worker {rank} (pid {pid} on {socket.gethostname()})"
        message = f"{who} {what.rstrip('.')}, {place}."
        if text:
            message += f"\n\nIn the worker:\n{text}"
        if stacks:
            message += f"\n\nPython stacks of the worker:\n{stacks}"
        return cls(
            message,
            worker=rank,
            pid=pid,
            env_index=place.env_index,
            step=place.step,
            traceback=text,
            itr=place.itr,
            evaluation=place.evaluation,
            seed=place.seed,
            stacks=stacks,
        )

    def _place_of(self, rank: int, action: Any = None) -> Any:
        progress, station = self._specs[rank].progress, self._stations[rank]
        if action is None:
            action = self._recorded_action(rank)
        return place_of(progress, station, action)

    def _recorded_action(self, rank: int) -> Any:
        """The action that a worker's environment was stepped with, where memory shows it."""
        spec = self._specs[rank]
        row, step = int(spec.progress[ROW]), int(spec.progress[STEP])
        if row < 0 or step < 0 or spec.progress[ITR] < 0:
            return None
        try:
            if not spec.progress[EVAL]:
                return spec.samples.agent.action[step, row]
            return None if spec.exchange is None else spec.exchange.eval_step.action[row]
        except IndexError:  # a collector of the user's own may count in its own way
            return None

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all workers, however they are. Can be called again."""
        self._at_exit.cancel()
        for exchange in self._exchanges:  # those that wait for an answer get none
            exchange.abandoned[0] = True
            exchange.act_ready.release()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send((0, "exit", ()))
        try:
            processes.stop(self.processes, patience_s)
        finally:
            for pipe in self._pipes:
                pipe.close()
            self.processes, self._pipes = [], []
            self._replies, self._waiting = {}, {}
