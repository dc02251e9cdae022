"""Children in a Ray cluster: actors, which Ray restarts if they die.

Ray is imported only when connecting to a cluster.
"""

import contextlib
import importlib
import math
import os
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from rlpyt.processes.child import ChildSpec, Reply, failure_reply
from rlpyt.processes.status import ACTIVITY, BUILDING, fresh_progress
from rlpyt.utils import serialize
from rlpyt.utils.extras import needing
from rlpyt.utils.processes import available_cpus, set_signal_handlers, signal_handlers

PROGRESS_S = 0.5  # seconds between two requests for the activity numbers of a busy actor
STACKS_S = 2.0  # time for a hung actor to send its stacks
WATCH = "watch"  # concurrency group: an actor's thread that answers while a command runs


class ActorReply(NamedTuple):
    """A ``Reply`` in Ray's object store.

    Attributes:
        kind: kind of the reply, or "fresh": a new process in which nothing was started yet.
        result: result of the reply, serialized.
        arrays: arrays of ``WithArrays``.
        progress: activity numbers of ``processes.status``.
        pid, host: identity of the process.
    """

    kind: str
    result: bytes = b""
    arrays: tuple[Any, ...] = ()
    progress: tuple[int, ...] = ()
    pid: int = -1
    host: str = ""


class WithArrays(NamedTuple):
    """A method's result, with arrays that are sent without pickling."""

    result: Any
    arrays: tuple[Any, ...]


class RayChild:
    """Ray actor that builds an object on command and runs its methods in order.

    The constructor only stores its argument, since Ray calls it again in a new process if the old
    one has died. Commands that Ray then repeats are answered by "fresh", and ``RayActors`` decides
    how to continue.

    Args:
        recipe: serialized (rank, build, payload, torch_threads, matmul_precision) of a
            ``ChildSpec``.
    """

    def __init__(self, recipe: bytes) -> None:
        self._recipe = recipe
        self._progress = fresh_progress()
        self._built: Any = None
        self._last = (-1, ActorReply("fresh"))

    def run(self, number: int, method: str, arguments: bytes, *objects: object) -> ActorReply:
        """Run a method of the object.

        Args:
            number: number of the command. If it is that of the last command, its reply is returned
                again.
            method: name of the method; "start" builds the object first.
            arguments: serialized arguments; for "start" ``ChildSpec.life``.
            objects: further arguments, from Ray's object store.
        """
        if number == self._last[0]:  # Ray lost the reply
            return self._last[1]
        try:
            reply = self._run(method, serialize.loads(arguments), objects)
        except BaseException as error:  # the parent decides what to do about it
            failed = failure_reply(error, self._built)
            reply = ActorReply(failed.kind, serialize.dumps(failed.result))
        reply = reply._replace(
            progress=tuple(self._progress), pid=os.getpid(), host=socket.gethostname()
        )
        self._last = (number, reply)
        return reply

    def _run(
        self, method: str, arguments: tuple[Any, ...], objects: tuple[object, ...]
    ) -> ActorReply:
        if method == "start":
            rank, build, payload, torch_threads, precision = serialize.loads(self._recipe)
            if torch_threads is not None:
                torch.set_num_threads(torch_threads)
            torch.set_float32_matmul_precision(precision)
            carried = serialize.ByValue(payload)
            (life,) = arguments
            self._built = build(ChildSpec(rank, build, carried, self._progress, life=life))
            arguments = ()
        elif self._built is None:
            return ActorReply("fresh")
        result = getattr(self._built, method)(*arguments, *objects)
        if isinstance(result, WithArrays):
            return ActorReply("ok", serialize.dumps(result.result), result.arrays)
        return ActorReply("ok", serialize.dumps(result))

    def read_progress(self) -> tuple[int, ...]:
        """Return the activity numbers; called from another thread while a command runs."""
        return tuple(self._progress)

    def stacks(self) -> str:
        """Return the stacks of all threads except the calling one."""
        frames = sys._current_frames()
        frames.pop(threading.get_ident())
        return "\n\n".join("".join(traceback.format_stack(frame)) for frame in frames.values())

    def close(self) -> None:
        """Close the object."""
        if self._built is not None:
            self._built.close()
            self._built = None


@dataclass
class Actor:
    """Parent's record of an actor.

    Attributes:
        handle: Ray's handle.
        spec: specification, with the last known activity numbers.
        pid, host: identity of its process.
        runs: True if it is known to have a process.
        last_progress: last activity numbers of its process after it was ready.
        command: current command, as (method, arguments).
        reference: Ray's reference to the pending reply.
        starting: True if that is the reply to a start after a restart.
        progress_reply: Ray's reference to requested activity numbers.
        asked_at: time of the last request.
    """

    handle: Any
    spec: ChildSpec
    pid: int = -1
    host: str = "a node not known yet"
    runs: bool = False
    last_progress: tuple[int, ...] = tuple(fresh_progress())
    command: tuple[str, tuple[Any, ...]] = ("", ())
    reference: Any = None
    starting: bool = False
    progress_reply: Any = None
    asked_at: float = 0.0


class RayActors:
    """Transport between a ``ChildGroup`` and actors of a Ray cluster.

    Ray restarts an actor that dies, at most ``max_restarts`` times. Then its object is built again,
    and the command during which it died is repeated from the start.

    Args:
        cluster: connection to the cluster; closed by ``stop``.
        options: options of the actors, passed to Ray's ``options``.
        max_restarts: maximum number of restarts of each actor; -1: unlimited.
        on_restart: function called after a restart with the actor's specification, which has the
            last known activity numbers, and a description of the process that died; returns the
            new ``ChildSpec.life``.
        on_arrays: function called with an actor's index and the arrays of a ``WithArrays`` result.

    Attributes:
        processes: records of the actors.
    """

    def __init__(
        self,
        cluster: "Cluster",
        options: dict[str, Any],
        max_restarts: int,
        on_restart: Callable[[ChildSpec, str], int],
        on_arrays: Callable[[int, tuple[Any, ...]], None],
    ) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._max_restarts = max_restarts
        self._options = {"num_cpus": 1, **options}
        self._options |= dict(max_restarts=max_restarts, max_task_retries=-1)
        self._on_restart, self._on_arrays = on_restart, on_arrays
        self._number = 0
        self.processes: list[Actor] = []

    def start(self, specs: Sequence[ChildSpec], names: Sequence[str], longest_s: float) -> None:
        """Start an actor for each specification, whose activity numbers are lists."""
        actor_class = self._ray.remote(concurrency_groups={WATCH: 1})(RayChild)
        for child, spec in enumerate(specs):
            torch_settings = spec.torch_threads, spec.matmul_precision
            recipe = (spec.rank, spec.build, spec.payload.value, *torch_settings)
            handle = actor_class.options(**self._options).remote(serialize.dumps(recipe))
            self.processes.append(Actor(handle, spec))
            self.send(child, "start", (0,))

    def send(self, child: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Send a command; arguments that are references to Ray's objects come last."""
        actor = self.processes[child]
        actor.command, actor.starting = (method, arguments), False
        self._submit(actor, method, arguments)

    def _submit(self, actor: Actor, method: str, arguments: tuple[Any, ...]) -> None:
        self._number += 1
        objects = [x for x in arguments if isinstance(x, self._ray.ObjectRef)]
        packed = serialize.dumps(arguments[: len(arguments) - len(objects)])
        actor.asked_at = time.monotonic()
        actor.reference = actor.handle.run.remote(self._number, method, packed, *objects)

    def receive(self, children: Collection[int], timeout_s: float) -> list[tuple[int, Reply]]:
        """Wait for replies of these children; return (child, reply) for each that arrived."""
        waiting = {self.processes[child].reference: child for child in children}
        ready, _ = self._ray.wait(list(waiting), timeout=timeout_s)
        replies = [(waiting[reference], self._take(waiting[reference])) for reference in ready]
        return [(child, reply) for child, reply in replies if reply is not None]

    def _take(self, child: int) -> Reply | None:
        """Return an actor's reply, or None if its command had to be sent again."""
        actor = self.processes[child]
        try:
            reply: ActorReply = self._ray.get(actor.reference)
        except self._ray.exceptions.RayError as error:
            return Reply("ended", self._describe_end(error))
        if reply.kind == "fresh":
            actor.spec.progress[:] = actor.last_progress
            life = self._on_restart(actor.spec, self.identity(child))
            self._note_no_process(actor)
            actor.progress_reply, actor.starting = None, True
            self._submit(actor, "start", (life,))
            return None
        actor.pid, actor.host, actor.runs = reply.pid, reply.host, True
        actor.spec.progress[:] = actor.last_progress = reply.progress
        if reply.kind != "ok":
            return Reply(reply.kind, serialize.loads(reply.result))
        if actor.starting:
            self.send(child, *actor.command)
            return None
        if reply.arrays:
            self._on_arrays(child, reply.arrays)
        return Reply("ok", reply.result)

    def _describe_end(self, error: BaseException) -> str:
        message = " ".join(str(error).split())
        if isinstance(error, self._ray.exceptions.RayActorError):
            limit = f"max_restarts={self._max_restarts}"
            return f"died and was not restarted ({limit}; Ray says: {message})"
        return f"failed: {type(error).__name__}: {message}"

    def _note_no_process(self, actor: Actor) -> None:
        """Record that an actor has no process; the time limit for starting applies from now on."""
        actor.runs = False
        actor.spec.progress[:] = fresh_progress()

    def refresh_progress(self, child: int) -> None:
        """Request an actor's activity numbers every ``PROGRESS_S``, and record the reply."""
        actor, now = self.processes[child], time.monotonic()
        if actor.progress_reply is None:
            if now - actor.asked_at > PROGRESS_S:
                ask = actor.handle.read_progress.options(
                    concurrency_group=WATCH, max_task_retries=0
                )
                actor.progress_reply, actor.asked_at = ask.remote(), now
        elif self._ray.wait([actor.progress_reply], timeout=0)[0]:
            try:
                actor.spec.progress[:] = numbers = self._ray.get(actor.progress_reply)
                if numbers[ACTIVITY] != BUILDING:  # else it may be a new process
                    actor.last_progress = numbers
            except self._ray.exceptions.RayError:  # it has died and may be restarted
                self._note_no_process(actor)
            actor.progress_reply = None
        elif actor.runs and now - actor.asked_at > PROGRESS_S / 2:
            actor.asked_at = now
            if self._is_dead(actor):  # waiting for a node to restart on
                self._note_no_process(actor)

    def _is_dead(self, actor: Actor) -> bool:
        """Return True if Ray knows that an actor is dead; calls to it then wait as if it hung."""
        known = self._ray._private.state.actors(actor.handle._actor_id.hex())
        return bool(known) and known.get("State") != "ALIVE"  # the public API needs a dashboard

    def not_running_reason(self, child: int) -> str:
        """Return the free resources of the cluster if an actor has no process, else ""."""
        if self.processes[child].runs:
            return ""
        free = {k: v for k, v in self._ray.available_resources().items() if "CPU" in k}
        return f"free in the cluster: {free}"

    def identity(self, child: int) -> str:
        """Return a description of the actor's process, for messages."""
        actor = self.processes[child]
        return f"a Ray actor, pid {actor.pid} on {actor.host}"

    def stacks(self, child: int) -> str:
        """Return the Python stacks of an actor; empty if they are not available."""
        stacks = ""
        with contextlib.suppress(self._ray.exceptions.RayError):
            watch = self.processes[child].handle.stacks
            ask = watch.options(concurrency_group=WATCH, max_task_retries=0)
            stacks = self._ray.get(ask.remote(), timeout=STACKS_S)
        return stacks

    def kill(self, child: int) -> None:
        """Kill an actor."""
        self._ray.kill(self.processes[child].handle)

    def stop(self, patience_s: float) -> None:
        """Close the objects, end all actors, disconnect. Can be called again."""
        actors, self.processes = self.processes, []
        try:
            if self._ray.is_initialized():
                closing = [a.handle.close.options(max_task_retries=0).remote() for a in actors]
                if closing:
                    self._ray.wait(closing, num_returns=len(closing), timeout=patience_s)
                for actor in actors:
                    self._ray.kill(actor.handle)
        finally:
            self._cluster.close()


def import_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        ImportError: it is not installed; the message gives the command.
    """
    with needing("RaySampler", "ray"):
        module = importlib.import_module("ray")
    return module


class Cluster:
    """A connection to a Ray cluster; an existing connection is used and left open.

    Args:
        address: address of a cluster; ``None``: the program's existing connection, else
            ``RAY_ADDRESS``, else a new cluster on this machine.
        settings: further arguments of ``ray.init``, if there is no connection yet.
        cpus: number of CPUs that the actors need; a new cluster on this machine has at least as
            many (``num_cpus``).

    Raises:
        ImportError: ray is not installed.
        ConnectionError: no cluster answers at the address.
    """

    def __init__(self, address: str | None, settings: dict[str, Any], cpus: float) -> None:
        with signals_kept():  # ray installs its signal handlers
            self.ray = import_ray()
            self._ours = not self.ray.is_initialized()
            if self._ours:
                address = address or os.environ.get("RAY_ADDRESS") or "local"
                if address == "local":
                    enough = max(len(available_cpus()), math.ceil(cpus))
                    settings = {"include_dashboard": False, "num_cpus": enough, **settings}
                self.ray.init(address=address, **settings)
        have = self.ray.cluster_resources().get("CPU", 0)
        if have < cpus:
            warnings.warn(
                f"the actors ask for {cpus:g} CPUs, and the Ray cluster has {have:g}; unless it "
                "grows, some will never start. Take fewer actors, or a smaller num_cpus in "
                "actor_options."
            )

    def close(self) -> None:
        """Disconnect, and stop a cluster that was started here. Can be called again."""
        if self._ours:
            self._ours = False
            self.ray.shutdown()


@contextlib.contextmanager
def signals_kept() -> Iterator[None]:
    """Restore this process's signal handlers afterwards."""
    handlers = signal_handlers()
    try:
        yield
    finally:
        set_signal_handlers(handlers)
