"""Children in a Ray cluster: actors, which Ray starts again where they die.

Ray is imported when a cluster is connected to, and only then.
"""

import contextlib
import importlib
import math
import os
import signal
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
from rlpyt.processes.status import BUILDING, DOING, fresh_progress
from rlpyt.utils import serialize
from rlpyt.utils.processes import available_cpus

LOOK_S = 0.5  # interval at which an actor that takes its time is asked for its activity numbers
STACKS_S = 2.0  # time for a hung actor to send its stacks
WATCH = "watch"  # the thread of an actor that answers while a command runs


class ActorReply(NamedTuple):
    """A ``Reply`` on its way through Ray's object store.

    Attributes:
        kind: of the reply, or "fresh": the process is a new one, in which nothing was started.
        result: of the reply, serialized.
        arrays: those of ``WithArrays``.
        progress: activity numbers of ``processes.status``.
        pid, host: of the process.
    """

    kind: str
    result: bytes = b""
    arrays: tuple[Any, ...] = ()
    progress: tuple[int, ...] = ()
    pid: int = -1
    host: str = ""


class WithArrays(NamedTuple):
    """A method's result with arrays that travel without being serialized."""

    result: Any
    arrays: tuple[Any, ...]


class RayChild:
    """The actor: builds an object when told to, and runs its methods in order.

    Construction only remembers, since Ray constructs it again in a new process where the old one
    has died. Commands that Ray then repeats find nothing started, and say so; ``RayActors``
    decides how to continue.

    Args:
        recipe: serialized (rank, build, payload, torch_threads) of a ``ChildSpec``.
    """

    def __init__(self, recipe: bytes) -> None:
        self._recipe = recipe
        self._progress = fresh_progress()
        self._built: Any = None
        self._last = (-1, ActorReply("fresh"))

    def run(self, number: int, method: str, arguments: bytes, *objects: object) -> ActorReply:
        """Run a method of what was built.

        Args:
            number: of the command; the last one is not run again, its reply is returned again.
            method: its name; "start" builds the object first.
            arguments: serialized; of "start" the number of the actor's life.
            objects: further arguments, from Ray's object store.
        """
        if number == self._last[0]:  # Ray lost the reply
            return self._last[1]
        try:
            reply = self._run(method, serialize.loads(arguments), objects)
        except BaseException as error:  # whatever it is, the parent decides
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
            rank, build, payload, torch_threads = serialize.loads(self._recipe)
            if torch_threads is not None:
                torch.set_num_threads(torch_threads)
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

    def look(self) -> tuple[int, ...]:
        """Return the activity numbers; from another thread, while a command runs."""
        return tuple(self._progress)

    def stacks(self) -> str:
        """Return the stacks of all threads but the asking one; from another thread, too."""
        frames = sys._current_frames()
        frames.pop(threading.get_ident())
        return "\n\n".join("".join(traceback.format_stack(frame)) for frame in frames.values())

    def close(self) -> None:
        """Release what was built."""
        if self._built is not None:
            self._built.close()
            self._built = None


@dataclass
class Actor:
    """An actor as its parent sees it.

    Attributes:
        handle: Ray's.
        spec: its specification, with the activity numbers that were last seen.
        pid, host: of its process.
        runs: False before its process has been seen, and while it has none.
        seen: activity numbers that its process had last, once it was ready.
        command: to run, as (method, arguments).
        reference: Ray's, to the reply that is waited for.
        starting: True if that is the reply to a start after a restart.
        look: Ray's reference to activity numbers that were asked for.
        looked: when they were.
    """

    handle: Any
    spec: ChildSpec
    pid: int = -1
    host: str = "a node not known yet"
    runs: bool = False
    seen: tuple[int, ...] = tuple(fresh_progress())
    command: tuple[str, tuple[Any, ...]] = ("", ())
    reference: Any = None
    starting: bool = False
    look: Any = None
    looked: float = 0.0


class RayActors:
    """Transport between a ``ChildGroup`` and actors of a Ray cluster.

    An actor that dies is restarted by Ray, as often as ``max_restarts`` says. Then its object is
    built again, and the command in which it died is run again as a whole.

    Args:
        cluster: connected; closed by ``stop``.
        options: of the actors, as Ray's ``options`` takes them.
        max_restarts: of each actor; -1 for any number.
        on_restart: called for an actor that was restarted, with its specification, in which the
            activity numbers are those last seen, and the process that died, for messages; returns
            the number of its new life, ``ChildSpec.life``.
        on_arrays: called with the index of an actor and the arrays of a ``WithArrays`` result.

    Attributes:
        processes: the actors.
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
        """Start an actor for each specification. The first reply of each says that it is ready.

        Args:
            specs: of the children; their activity numbers are lists.
            names, longest_s: not used.
        """
        actor_class = self._ray.remote(concurrency_groups={WATCH: 1})(RayChild)
        for child, spec in enumerate(specs):
            recipe = (spec.rank, spec.build, spec.payload.value, spec.torch_threads)
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
        actor.looked = time.monotonic()
        actor.reference = actor.handle.run.remote(self._number, method, packed, *objects)

    def receive(self, children: Collection[int], timeout_s: float) -> list[tuple[int, Reply]]:
        """Wait for replies of these children; return those that have come, with their children."""
        waiting = {self.processes[child].reference: child for child in children}
        ready, _ = self._ray.wait(list(waiting), timeout=timeout_s)
        replies = [(waiting[reference], self._take(waiting[reference])) for reference in ready]
        return [(child, reply) for child, reply in replies if reply is not None]

    def _take(self, child: int) -> Reply | None:
        """Take an actor's reply; return None if its command had to be sent again."""
        actor = self.processes[child]
        try:
            reply: ActorReply = self._ray.get(actor.reference)
        except self._ray.exceptions.RayError as error:
            return Reply("ended", self._end_of(error))
        if reply.kind == "fresh":
            actor.spec.progress[:] = actor.seen
            life = self._on_restart(actor.spec, self.identity(child))
            self._note_absence(actor)
            actor.look, actor.starting = None, True
            self._submit(actor, "start", (life,))
            return None
        actor.pid, actor.host, actor.runs = reply.pid, reply.host, True
        actor.spec.progress[:] = actor.seen = reply.progress
        if reply.kind != "ok":
            return Reply(reply.kind, serialize.loads(reply.result))
        if actor.starting:
            self.send(child, *actor.command)
            return None
        if reply.arrays:
            self._on_arrays(child, reply.arrays)
        return Reply("ok", reply.result)

    def _end_of(self, error: BaseException) -> str:
        told = " ".join(str(error).split())
        if isinstance(error, self._ray.exceptions.RayActorError):
            return f"died for good (max_restarts={self._max_restarts}; Ray says: {told})"
        return f"failed: {type(error).__name__}: {told}"

    def _note_absence(self, actor: Actor) -> None:
        """Note that an actor has no process: it has the time of a start from now on."""
        actor.runs = False
        actor.spec.progress[:] = fresh_progress()

    def look(self, child: int) -> None:
        """Ask an actor now and then for its activity numbers, and note those that have come."""
        actor, now = self.processes[child], time.monotonic()
        if actor.look is None:
            if now - actor.looked > LOOK_S:
                ask = actor.handle.look.options(concurrency_group=WATCH, max_task_retries=0)
                actor.look, actor.looked = ask.remote(), now
        elif self._ray.wait([actor.look], timeout=0)[0]:
            try:
                actor.spec.progress[:] = numbers = self._ray.get(actor.look)
                if numbers[DOING] != BUILDING:  # else it may be a new process
                    actor.seen = numbers
            except self._ray.exceptions.RayError:  # it is dead at the moment
                self._note_absence(actor)
            actor.look = None
        elif actor.runs and now - actor.looked > LOOK_S / 2:
            actor.looked = now
            if self._is_gone(actor):  # and waits for a node to be started on
                self._note_absence(actor)

    def _is_gone(self, actor: Actor) -> bool:
        """Return True if Ray knows that an actor is dead; calls then wait, as if it hung."""
        known = self._ray._private.state.actors(actor.handle._actor_id.hex())
        return bool(known) and known.get("State") != "ALIVE"  # the public way needs a dashboard

    def absence(self, child: int) -> str:
        """Return what is free in the cluster if an actor does not run; empty if it runs."""
        if self.processes[child].runs:
            return ""
        free = {k: v for k, v in self._ray.available_resources().items() if "CPU" in k}
        return f"free in the cluster: {free}"

    def identity(self, child: int) -> str:
        """Return which process this is, for messages."""
        actor = self.processes[child]
        return f"a Ray actor, pid {actor.pid} on {actor.host}"

    def stacks(self, child: int) -> str:
        """Return the Python stacks of an actor, as far as they can be had."""
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
        """Close what was built, end all actors, leave the cluster. Can be called again."""
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
    """Return the library.

    Raises:
        ImportError: it is not installed; the message says how to.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ImportError(f"RaySampler needs ray ({error}): pip install 'rlpyt[ray]'.") from error


class Cluster:
    """A connection to a Ray cluster; what was there before is left as it was.

    Args:
        address: of a cluster; ``None``: the connection that this program has, or what
            ``RAY_ADDRESS`` says, or a cluster on this machine, started for the purpose.
        settings: further arguments of ``ray.init``, if there is no connection yet.
        cpus: a cluster on this machine is started with at least so many (``num_cpus``).

    Raises:
        ImportError: ray is not installed.
        ConnectionError: nothing answers at the address.
    """

    def __init__(self, address: str | None, settings: dict[str, Any], cpus: float) -> None:
        with _signals_kept():  # ray has handlers of its own
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
        """Disconnect, and end a cluster that was started here; can be called again."""
        if self._ours:
            self._ours = False
            self.ray.shutdown()


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep this process's handlers of signals."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None:  # one that was not set from Python
                    signal.signal(number, handler)
