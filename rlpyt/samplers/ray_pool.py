"""The master's side of Ray actors: commands and watches them, names failures.

What ``samplers.pool`` is to worker processes, over a cluster. Ray starts actors, starts them again
where they die, and carries weights and batches; what that means for the data is decided here.
"""

import contextlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.agents.weights import SharedWeights
from rlpyt.errors import RlpytError, WorkerError, WorkerTimeout
from rlpyt.processes.group import GLANCE_S, SLOW, Limits
from rlpyt.processes.status import DOING, environment_status, fresh_progress
from rlpyt.samplers.ray_cluster import Cluster
from rlpyt.samplers.ray_env_worker import RemoteEnvWorker, RemoteSpec, Reply, in_life
from rlpyt.utils import serialize
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.logging import logger
from rlpyt.utils.processes import failure_text

LOOK_S = 0.5  # how often an actor that takes its time is asked where it is
PATIENCE_S = 2.0  # for closing environments, and for a hung actor's stacks
WATCH = "watch"  # the thread of an actor that answers while a command runs


class EvaluationBroken(RlpytError):
    """An actor died in an evaluation; it has been restarted, the evaluation must begin anew."""


@dataclass
class Breaks:
    """What restarts of actors have cost, counted over a run.

    Attributes:
        restarts: of actors.
        dropped_episodes: those in progress where an actor died; none is ever reported as complete.
        pending: there was a break since the last batch.
    """

    restarts: int = 0
    dropped_episodes: int = 0
    pending: bool = False


@dataclass
class RemoteProcess:
    """An actor, and where it was seen last.

    Attributes:
        actor: Ray's handle.
        pid, host: of its process.
        progress: its numbers of ``processes.status``.
    """

    actor: Any
    pid: int = -1
    host: str = "a node not known yet"
    progress: tuple[int, ...] = ()
    look: Any = None  # one under way
    looked: float = 0.0  # when the last began
    still_s: float = 0.0  # how long it has been standing still


class ActorPool:
    """Starts actors, sends commands and weights, copies batches, notices death and standstill.

    An actor that dies is restarted by Ray, as often as ``max_restarts`` says, and begins new
    episodes with seeds of their own. A command in which it died is run anew as a whole, so a batch
    never holds rows of two lives; what was before it does not go on, which ``breaks`` says.

    Args:
        cluster: connected; closed with the pool.
        specs: one per actor.
        slots: the batch [T, B], or several that are filled in turn; actor i has the i-th columns.
        weights: those of the master's agent; ``None`` if it has none.
        limits: for progress.
        options: of the actors, as Ray's ``options`` takes them.
        max_restarts: of each actor; -1 for any number.
        breaks: where restarts are counted.

    Raises:
        WorkerError: an actor could not be started, or its environment worker not be built.
    """

    def __init__(
        self,
        cluster: Cluster,
        specs: Sequence[RemoteSpec],
        slots: Sequence[Any],
        weights: SharedWeights | None,
        limits: Limits,
        options: dict[str, Any],
        max_restarts: int,
        breaks: Breaks,
    ) -> None:
        self._ray, self._cluster = cluster.ray, cluster
        self._specs, self._env_workers = specs, [spec.env_worker for spec in specs]
        rows = len(self._env_workers[0].env_ranks)
        columns = [slice(i * rows, (i + 1) * rows) for i in range(len(specs))]
        self._slots = [[leaves_of(slot[:, own]) for own in columns] for slot in slots]
        self._weights, self._limits, self._breaks = weights, limits, breaks
        self._max_restarts = max_restarts
        self._version = 0
        self._published: tuple[dict[str, Any], Any] = ({}, None)
        self._number, self._warned = 0, False
        options = {"num_cpus": 1, **options}
        options |= dict(max_restarts=max_restarts, max_task_retries=-1)
        actor_class = self._ray.remote(concurrency_groups={WATCH: 1})(RemoteEnvWorker)
        self.processes: list[RemoteProcess] = []
        try:
            for spec in specs:
                actor = actor_class.options(**options).remote(serialize.dumps(spec))
                self.processes.append(RemoteProcess(actor))
            self.call("start", 0)
        except BaseException:
            self.shutdown()
            raise

    def call(self, method: str, *arguments: Any, meanwhile: None = None) -> list[Any]:
        """Have every environment worker run a method; returns the results by actor.

        Args:
            method: of ``EnvWorker``. After "collect" the batch holds what was collected.
            arguments: its arguments.
            meanwhile: nothing; actors act for themselves.

        Raises:
            WorkerError: an actor failed, or died too often; all are gone when this is raised.
            EvaluationBroken: an actor died in an evaluation.
        """
        return self.call_each(method, [arguments] * len(self.processes))

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        """As ``call``, with arguments of its own for each actor."""
        if not self.processes:
            raise WorkerError("the actors are gone: the sampler was shut down or failed before.")
        restarts = self._breaks.restarts
        try:
            results = self._run(method, arguments)
        except BaseException:
            self.shutdown()
            raise
        if method == "evaluate" and self._breaks.restarts > restarts:
            raise EvaluationBroken
        return results

    def _run(self, method: str, arguments: list[Any]) -> list[Any]:
        """Send a command to all actors, and go on with those that are restarted meanwhile."""
        acts = method in ("collect", "evaluate")
        self._current = self._publish() if acts else (0, None)
        waiting: dict[Any, tuple[int, str]] = {}
        for rank, own in enumerate(arguments):
            waiting[self._send(rank, method, own)] = (rank, method)
        results: dict[int, Any] = {}
        self._looked = time.monotonic()
        while waiting:
            ready, _ = self._ray.wait(list(waiting), timeout=GLANCE_S)
            for reference in ready:
                rank, sent = waiting.pop(reference)
                reply = self._reply_of(rank, reference)
                if reply.kind == "fresh":
                    life = self._note_restart(rank)
                    waiting[self._send(rank, "start", (life,))] = (rank, "start")
                    continue
                self._note_process(rank, reply)
                if sent == method:
                    results[rank] = self._take_in(rank, method, arguments[rank], reply)
                elif method == "evaluate":
                    results[rank] = ([], True)  # it cannot be gone on with
                else:
                    waiting[self._send(rank, method, arguments[rank])] = (rank, method)
            self._look_after([rank for rank, _ in waiting.values()])
        return [results[rank] for rank in range(len(self.processes))]

    def _publish(self) -> tuple[int, Any]:
        """Put the weights where actors fetch them, if they have changed; (version, reference)."""
        if self._weights is None:
            return 0, None
        values, (before, reference) = self._weights.values(), self._published
        same = reference is not None and all(
            np.array_equal(value, before[name]) for name, value in values.items()
        )
        if not same:
            self._version += 1
            self._published = (values, self._ray.put(values))
        return self._version, self._published[1]

    def _send(self, rank: int, method: str, arguments: Any) -> Any:
        self._number += 1
        process = self.processes[rank]
        process.still_s, process.looked = 0.0, time.monotonic()
        if method == "collect":
            arguments = arguments[:1]  # each actor has but one slot
        packed = serialize.dumps(arguments)
        return process.actor.run.remote(self._number, method, packed, *self._current)

    def _reply_of(self, rank: int, reference: Any) -> Reply:
        """What an actor has answered.

        Raises:
            WorkerError: an exception was raised there, or the actor is dead for good.
        """
        try:
            reply: Reply = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise self._error(rank, self._end_of(error)) from None
        if reply.kind == "error":
            summary, text, action = serialize.loads(reply.result)
            self._note_process(rank, reply)
            raise self._error(rank, f"failed with {summary}", text, action=action)
        return reply

    def _end_of(self, error: BaseException) -> str:
        told = " ".join(str(error).split())
        if isinstance(error, self._ray.exceptions.RayActorError):
            return f"died for good (max_restarts={self._max_restarts}; Ray says: {told})"
        return f"failed: {type(error).__name__}: {told}"

    def _take_in(self, rank: int, method: str, arguments: Any, reply: Reply) -> Any:
        """The result of a command; of ``collect``, the batch's columns are written."""
        if method == "collect":
            _, slot = arguments
            for own, new in zip(self._slots[slot][rank], reply.leaves, strict=True):
                own[...] = new
        return serialize.loads(reply.result)

    def _note_process(self, rank: int, reply: Reply) -> None:
        process = self.processes[rank]
        process.pid, process.host, process.progress = reply.pid, reply.host, reply.progress

    def _note_restart(self, rank: int) -> int:
        """An actor is a new one, in which nothing runs; returns the number of its life."""
        rows = len(self._env_workers[rank].env_ranks)
        self._breaks.restarts += 1
        self._breaks.dropped_episodes += rows
        self._breaks.pending = True
        logger.log(
            f"{self._who(rank)} died, last seen {self._status_of(rank)}; Ray has restarted it, and "
            f"its {rows} environments begin new episodes. Restarts so far: "
            f"{self._breaks.restarts}, episodes dropped: {self._breaks.dropped_episodes}."
        )
        process = self.processes[rank]
        process.progress, process.look = (), None
        life = self._breaks.restarts
        self._env_workers[rank] = in_life(self._specs[rank].env_worker, life)
        return life

    # Watching.

    def _look_after(self, ranks: list[int]) -> None:
        """Notice whether these actors stand still though they should not.

        Raises:
            WorkerTimeout: one does.
        """
        now = time.monotonic()
        # If this process itself was stopped or starved, that is no fault of the actors.
        passed, self._looked = min(now - self._looked, 2 * GLANCE_S), now
        for rank in ranks:
            process = self.processes[rank]
            process.still_s = 0.0 if self._has_moved(process, now) else process.still_s + passed
            setting, limit_s = self._limit_of(process)
            if process.progress and process.still_s > SLOW * limit_s and self._is_gone(process):
                process.progress = ()  # it is waiting for a place to be started in
                setting, limit_s = self._limit_of(process)
            if process.still_s > limit_s:
                raise self._hung(rank, setting, limit_s)
            if process.still_s > SLOW * limit_s and not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self._who(rank)} has made no progress for {process.still_s:.3g} s, "
                    f"{self._status_of(rank)}; after {setting}={limit_s:g} the run ends. Raise it "
                    "if that is no fault."
                )

    def _limit_of(self, process: RemoteProcess) -> tuple[str, float]:
        return self._limits.of((process.progress or fresh_progress())[DOING])

    def _is_gone(self, process: RemoteProcess) -> bool:
        """Whether Ray knows that an actor has died; calls of it then wait, as of one that hangs."""
        actor_id = process.actor._actor_id.hex()
        known = self._ray._private.state.actors(actor_id)  # the public way needs a dashboard
        return bool(known) and known.get("State") != "ALIVE"

    def _has_moved(self, process: RemoteProcess, now: float) -> bool:
        """Ask an actor now and then where it is; whether it is somewhere else than before."""
        if process.look is None:
            if now - process.looked > LOOK_S:
                ask = process.actor.look.options(concurrency_group=WATCH, max_task_retries=0)
                process.look, process.looked = ask.remote(), now
            return False
        if not self._ray.wait([process.look], timeout=0)[0]:
            return False
        before = process.progress
        try:
            process.progress = self._ray.get(process.look)
        except self._ray.exceptions.RayError:  # it is dead at the moment
            process.progress = ()
        process.look = None
        return process.progress != before

    def _hung(self, rank: int, setting: str, limit_s: float) -> WorkerError:
        """End an actor that stands still; returns what it was doing, as the error to raise."""
        process, stacks = self.processes[rank], ""
        if process.pid < 0 or not process.progress:
            free = {k: v for k, v in self._ray.available_resources().items() if "CPU" in k}
            again = "" if process.pid < 0 else "again "
            what = f"was not started {again}within {limit_s:g} s ({setting})"
            return self._error(rank, f"{what}; free in the cluster: {free}", cls=WorkerTimeout)
        with contextlib.suppress(self._ray.exceptions.RayError):
            ask = process.actor.stacks.options(concurrency_group=WATCH, max_task_retries=0)
            stacks = self._ray.get(ask.remote(), timeout=PATIENCE_S)
        self._ray.kill(process.actor)
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
        place, pid = self._status_of(rank, action), self.processes[rank].pid
        said = f"{self._who(rank)} {what}"
        return cls(
            failure_text(said, f"{place}", "the worker", text, stacks),
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

    def _who(self, rank: int) -> str:
        process = self.processes[rank]
        return f"worker {rank} (a Ray actor, pid {process.pid} on {process.host})"

    def _status_of(self, rank: int, action: Any = None) -> Any:
        progress = self.processes[rank].progress or fresh_progress()
        return environment_status(progress, self._env_workers[rank], action)

    def shutdown(self) -> None:
        """Close environments, end all actors, leave the cluster. Can be called again."""
        processes, self.processes = self.processes, []
        try:
            if self._ray.is_initialized():
                self._end(processes)
        finally:
            self._cluster.close()

    def _end(self, processes: Sequence[RemoteProcess]) -> None:
        closing = [p.actor.close.options(max_task_retries=0).remote() for p in processes]
        if closing:
            self._ray.wait(closing, num_returns=len(closing), timeout=PATIENCE_S)
        for process in processes:
            self._ray.kill(process.actor)
