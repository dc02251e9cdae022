"""A parent's side of its processes: starts, commands and watches them, names failures."""

import contextlib
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.actions import GLANCE_S
from rlpyt.samplers.status import BUILDING, DOING, EVAL, ITR, RESETTING, ROW, SLOT, STEP, status_of
from rlpyt.samplers.workers import WorkerSpec, packed, worker_main
from rlpyt.utils import processes, serialize
from rlpyt.utils.synchronize import forget_names

SLOW = 0.75  # of a limit: what takes longer is worth a warning


class Limits(NamedTuple):
    """How long a worker may go without progress, in seconds."""

    step_s: float = 60.0  # while it steps an environment, or does anything not named below
    reset_s: float = 300.0  # while it resets one
    start_s: float = 300.0  # while it starts and makes its environments

    def of(self, doing: int) -> tuple[str, float]:
        """(name of the setting, seconds) for an activity of ``samplers.status``."""
        if doing == BUILDING:
            return "start_timeout_s", self.start_s
        if doing == RESETTING:
            return "reset_timeout", self.reset_s
        return "env_timeout", self.step_s


class Pool:
    """Starts processes, sends commands, waits for replies, notices failures.

    Args:
        specs: one per process, what it is started with: ``rank``, ``progress`` (numbers of
            ``samplers.status``), ``stacks`` and whatever else ``target`` needs.
        limits: for progress.
        start_method: of processes.
        beat: called at least every ``GLANCE_S`` while it waits.

    Attributes:
        target: what they run, see ``samplers.workers.command_loop``.
        who: what they are called.
        daemon: ``False`` where they start processes themselves.
        others: how many more of the kind there are, not among the children.

    Raises:
        WorkerError: a process could not be started, or not get ready.
    """

    target: Any = None
    who = "process"
    daemon = True  # without processes of their own
    others = 0  # of the same kind, that are no children

    def __init__(
        self,
        specs: Sequence[Any],
        limits: Limits | None = None,
        start_method: str | None = None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._specs = specs
        self._limits = limits or Limits()
        self._beat = beat
        self._number = 0
        self._warned = False
        self._failed = ""  # the first line of the error after which all processes were ended
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

    def _start(self, spec: Any, context: Any) -> None:
        who = f"{self.who} {spec.rank} of {len(self._specs) + self.others}"
        process, pipe = processes.start_child(context, type(self).target, spec, who, self.daemon)
        processes.bound_waits(pipe, max(self._limits))
        self.processes.append(process)
        self._pipes.append(pipe)

    @property
    def _exchanges(self) -> list[Any]:
        """What is shared with an action server."""
        return []

    def call(self, method: str, *arguments: Any, meanwhile: Any = None) -> list[Any]:
        """Have every process run a method of what it has built; returns the results by process.

        Args:
            method: of ``EnvWorker``, in workers.
            arguments: its arguments.
            meanwhile: called while they work, with ``replied``; an action server.

        Raises:
            WorkerError: one failed; all are gone when this is raised.
        """
        return self.call_each(method, [arguments] * len(self._pipes), meanwhile)

    def call_each(self, method: str, arguments: list[Any], meanwhile: Any = None) -> list[Any]:
        """As ``call``, with arguments of its own for each process."""
        if not self.processes:
            plural = f"{self.who}es" if self.who.endswith("s") else f"{self.who}s"
            why = self._failed or "the sampler was shut down"
            raise WorkerError(f"the {plural} are gone: {why.rstrip('.')}. Initialize it again.")
        self._number += 1
        try:
            for pipe, args in zip(self._pipes, arguments, strict=True):
                try:
                    pipe.send((self._number, method, packed(args)))
                except OSError:
                    continue  # it died; gathering its reply says how
            self._begin_waiting()
            if meanwhile is not None:
                meanwhile(self.replied)
            return self._gather()
        except BaseException as error:
            if isinstance(error, WorkerError):
                self._failed = str(error).partition("\n")[0]
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
        """Return True if this process has ended its command; while it has not, it is watched.

        Raises:
            WorkerError: some process failed, or this one makes no progress.
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
        if self._beat is not None:
            self._beat()
        for thing in wait(list(self._waiting), timeout=timeout_s):
            rank = self._waiting.get(thing, -1)
            if rank >= 0:
                self._replies[rank] = self._reply_of(rank)
                for done in (self._pipes[rank], self.processes[rank].sentinel):
                    self._waiting.pop(done, None)

    def _look_after(self, ranks: list[int]) -> None:
        """Notice whether these processes stand still though they should not."""
        now = time.monotonic()
        # If this process itself was stopped or starved, that is no fault of theirs.
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
                still_s, place = self._still_s[rank], self._status_of(rank)
                warnings.warn(
                    f"{self.who} {self._specs[rank].rank} has made no progress for {still_s:.3g} "
                    f"s, {place}; after {setting}={limit:g} the run ends. Raise it if that is no "
                    "fault."
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
        if kind == "raised":
            error = serialize.loads(result)
            error.add_note(f"(It is a worker of {self._named(rank)}.)")
            raise error
        if kind == "error":
            summary, text, action = result
            raise self._error(rank, f"failed with {summary}", text, action=action)
        return serialize.loads(result)

    def _hung(self, rank: int, setting: str, limit_s: float) -> WorkerError:
        """End a process that stands still; returns what it was doing, as the error to raise."""
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
        pid, place = self.processes[rank].pid, self._status_of(rank, action)
        said = f"{self._named(rank)} {what}"
        worker = self._specs[rank].rank
        return failure(said, place, self.who, text, stacks, cls, worker=worker, pid=pid)

    def _named(self, rank: int) -> str:
        number, pid = self._specs[rank].rank, self.processes[rank].pid
        return f"{self.who} {number} (pid {pid} on {socket.gethostname()})"

    def _status_of(self, rank: int, action: Any = None) -> Any:
        """A ``samplers.status.WorkerStatus``: what a process was doing."""
        raise NotImplementedError

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all processes, however they are. Can be called again."""
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


def failure(
    said: str,
    place: Any,
    who: str,
    text: str,
    stacks: str,
    cls: type[WorkerError],
    **more: Any,
) -> WorkerError:
    """The error that says what became of a process.

    Args:
        said: who it is and what became of it.
        place: what it was occupied with, a ``samplers.status.WorkerStatus``.
        who: what such a process is called.
        text, stacks: its traceback and its Python stacks, empty if there are none.
        cls: of the error.
        more: attributes of the error that the place does not know.
    """
    message = f"{said.rstrip('.')}, {place}."
    if text:
        message += f"\n\nIn the {who}:\n{text}"
    if stacks:
        message += f"\n\nPython stacks of the {who}:\n{stacks}"
    return cls(
        message,
        env_index=place.env_index,
        step=place.step,
        traceback=text,
        itr=place.itr,
        evaluation=place.evaluation,
        seed=place.seed,
        stacks=stacks,
        **more,
    )


class WorkerPool(Pool):
    """The workers of a sampler, each with a ``EnvWorker``.

    Args:
        specs: one per worker.
        environment workers: the ``EnvWorkerSpec`` of each, for messages.
        limits, start_method, beat: of ``Pool``.
    """

    target = worker_main
    who = "worker"

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        env_workers: Sequence[Any],
        limits: Limits | None = None,
        start_method: str | None = None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._env_workers = env_workers
        super().__init__(specs, limits, start_method, beat)

    @property
    def _exchanges(self) -> list[Any]:
        return [spec.exchange for spec in self._specs if spec.exchange is not None]

    def _status_of(self, rank: int, action: Any = None) -> Any:
        progress, env_worker = self._specs[rank].progress, self._env_workers[rank]
        if action is None:
            action = recorded_action(self._specs[rank])
        return status_of(progress, env_worker, action)


def recorded_action(spec: Any) -> Any:
    """The action that a process's environment was stepped with, where memory shows it."""
    row, step = int(spec.progress[ROW]), int(spec.progress[STEP])
    if row < 0 or step < 0 or spec.progress[ITR] < 0:
        return None
    try:
        if not spec.progress[EVAL]:
            return spec.slots[spec.progress[SLOT]].agent.action[step, row]
        exchange = getattr(spec, "exchange", None)
        return None if exchange is None else exchange.eval_step.action[row]
    except IndexError:  # a collector of the user's own may count in its own way
        return None
