"""Worker processes: their main loop, and the pool in which the master commands and watches them."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from rlpyt.agents.weights import SharedWeights
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.actions import GLANCE_S, Abandoned
from rlpyt.utils import processes, serialize
from rlpyt.utils.seed import env_seed, set_seed


@dataclass(frozen=True)
class WorkerSpec:
    """All that a worker is started with; travels by pickle."""

    rank: int
    recipe: bytes  # (StationSpec, agent as constructed or None), by value
    samples: Any  # the worker's columns of the batch
    weights: SharedWeights | None
    exchange: Any  # what is shared with an action server, or None
    progress: Any  # [2] int64 shared with the master
    cpus: list[int] | None
    torch_threads: int


def worker_main(spec: WorkerSpec, pipe: Connection) -> None:
    """Build a station and obey commands until told to exit or the parent is gone.

    Commands are (number, method, arguments); replies (number, "ok" or "error", result).
    """
    processes.be_a_child(spec.cpus)
    import torch

    torch.set_num_threads(spec.torch_threads)
    station = None
    number = 0
    try:
        while True:
            if station is None:
                station = _build_station(spec)
                result: Any = None
            else:
                number, method, arguments = pipe.recv()
                if method == "exit":
                    break
                result = getattr(station, method)(*arguments)
            pipe.send((number, "ok", serialize.dumps(result)))
    except (EOFError, BrokenPipeError, ConnectionResetError, Abandoned):
        return  # the parent is gone, or done with us
    except BaseException as error:  # whatever it is, the parent hears of it and decides
        where = station.where() if station is not None else (-1, -1)
        _report(pipe, number, error, where)
    finally:
        if station is not None:
            station.close()


def _build_station(spec: WorkerSpec) -> Any:
    from rlpyt.samplers.station import Station

    station_spec, agent = serialize.loads(spec.recipe)
    set_seed(env_seed(station_spec.seed, spec.rank, "worker"))
    if agent is not None:
        agent.initialize(
            station_spec.examples.spaces,
            share_memory=False,
            global_B=station_spec.global_B,
            env_ranks=station_spec.env_ranks,
        )
        if spec.weights is not None:
            spec.weights.bind(agent.model)
    progress = spec.progress.data  # a memoryview: written several times faster than an array
    station = Station(station_spec, agent, spec.samples, progress, spec.exchange)
    station.start()
    return station


def _report(pipe: Connection, number: int, error: BaseException, where: tuple[int, int]) -> None:
    summary = f"{type(error).__name__}"
    try:
        summary = f"{summary}: {error}"
    except BaseException:
        summary += " (its message cannot be printed)"
    try:
        pipe.send((number, "error", (summary[:2000], processes.traceback_text(error), where)))
    except OSError:
        return


class WorkerPool:
    """The master's side: starts workers, sends commands, waits for replies, notices failures.

    Args:
        specs: one per worker.
        env_ranks: global environment indices of each worker, for messages.
        step_timeout_s: a worker that makes no progress for so long while it should is an error.
        start_timeout_s: the same while it starts and resets its environments.
    """

    def __init__(
        self,
        specs: list[WorkerSpec],
        env_ranks: list[list[int]],
        step_timeout_s: float = 60.0,
        start_timeout_s: float = 300.0,
        start_method: str | None = None,
    ) -> None:
        self._env_ranks = env_ranks
        self._progress = [spec.progress for spec in specs]
        self._exchanges = [spec.exchange for spec in specs if spec.exchange is not None]
        self._step_timeout_s = step_timeout_s
        self._start_timeout_s = start_timeout_s
        self._number = 0
        context = processes.start_context(start_method)
        self.processes: list[Any] = []
        self._pipes: list[Connection] = []
        try:
            with processes.starting_children():
                for spec in specs:
                    ours, theirs = context.Pipe()
                    process = context.Process(
                        target=worker_main,
                        args=(spec, theirs),
                        name=f"rlpyt-worker-{spec.rank}",
                        daemon=True,
                    )
                    self._pipes.append(ours)
                    process.start()
                    theirs.close()
                    self.processes.append(process)
            self._begin_waiting(start_timeout_s)
            self._gather()
        except BaseException:
            self.shutdown(patience_s=0.1)
            raise

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
            timeout = self._step_timeout_s if method != "start" else self._start_timeout_s
            self._begin_waiting(timeout)
            if meanwhile is not None:
                meanwhile(self.replied)
            return self._gather()
        except BaseException:
            self.shutdown()
            raise

    def _begin_waiting(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._replies: dict[int, Any] = {}
        self._waiting: dict[Any, int] = {}
        for rank, (pipe, process) in enumerate(zip(self._pipes, self.processes, strict=True)):
            self._waiting[pipe] = self._waiting[process.sentinel] = rank
        self._still_s = [0.0] * len(self._pipes)  # how long each has been standing still
        self._seen = [tuple(p) for p in self._progress]
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
            moved = tuple(self._progress[rank]) != self._seen[rank]
            self._still_s[rank] = 0.0 if moved else self._still_s[rank] + passed
            self._seen[rank] = tuple(self._progress[rank])
            if self._still_s[rank] > self._timeout_s:
                what = f"has made no progress for {self._timeout_s:g} s"
                raise self._error(rank, what, cls=WorkerTimeout)

    def _reply_of(self, rank: int) -> Any:
        pipe, process = self._pipes[rank], self.processes[rank]
        try:
            while pipe.poll(0) or process.is_alive():
                number, kind, result = pipe.recv()
                if number == self._number:  # else a late answer to an abandoned command
                    break
            else:
                raise EOFError
        except (EOFError, OSError):
            process.join(1.0)
            raise self._error(rank, processes.describe_exit(process.exitcode)) from None
        if kind == "error":
            summary, text, _ = result
            raise self._error(rank, f"failed with {summary}", text)
        return serialize.loads(result)

    def _error(
        self, rank: int, what: str, text: str = "", cls: type[WorkerError] = WorkerError
    ) -> WorkerError:
        row, step = int(self._progress[rank][0]), int(self._progress[rank][1])
        ranks, pid = self._env_ranks[rank], self.processes[rank].pid
        env_index = ranks[row] if 0 <= row < len(ranks) else -1
        place = f"environment {env_index}" if env_index >= 0 else "start-up"
        if step >= 0:
            place += f", step {step} of the batch"
        message = f"worker {rank} (pid {pid}) {what}, at {place}."
        if text:
            message += f"\n\nIn the worker:\n{text}"
        return cls(message, rank, pid or -1, env_index, step, text)

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all workers, however they are. Can be called again."""
        for exchange in self._exchanges:  # those that wait for an answer get none
            exchange.abandoned[0] = True
            exchange.act_ready.release()
        for pipe in self._pipes:
            try:
                pipe.send((0, "exit", ()))
            except OSError:
                continue
        processes.stop(self.processes, patience_s)
        for pipe in self._pipes:
            pipe.close()
        for process in self.processes:
            process.close()
        self.processes, self._pipes, self._exchanges = [], [], []


def run_in_child(
    function: Any, *args: Any, start_method: str | None = None, timeout_s: float = 300.0
) -> Any:
    """Run a function once in a process of its own and return its result.

    Raises:
        WorkerError: it raised there, or the process died.
        WorkerTimeout: it did not end within ``timeout_s``.
    """
    context = processes.start_context(start_method)
    ours, theirs = context.Pipe()
    with processes.starting_children():
        process = context.Process(
            target=_run_once, args=(theirs, serialize.dumps((function, args))), daemon=True
        )
        process.start()
    theirs.close()
    try:
        if not wait([ours, process.sentinel], timeout_s):
            process.kill()
            raise WorkerTimeout(f"trying out the environment did not end within {timeout_s:g} s.")
        try:
            ok, result = ours.recv()
        except (EOFError, OSError):
            process.join(1.0)
            raise WorkerError(
                f"the process that tried out the environment "
                f"{processes.describe_exit(process.exitcode)}."
            ) from None
        if not ok:
            raise WorkerError(f"trying out the environment failed:\n{result}", traceback=result)
        return serialize.loads(result)
    finally:
        processes.stop([process])
        ours.close()


def _run_once(pipe: Connection, call: bytes) -> None:
    processes.be_a_child()
    try:
        function, args = serialize.loads(call)
        pipe.send((True, serialize.dumps(function(*args))))
    except BaseException as error:
        pipe.send((False, processes.traceback_text(error)))
