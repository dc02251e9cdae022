"""The parent's side: starts children, commands and watches them, turns failures into one error."""

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any, Protocol

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.processes.child import ChildSpec, Reply
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import BUILDING, DOING, RESETTING, WorkerStatus, activity
from rlpyt.utils import serialize
from rlpyt.utils.processes import describe_exit, failure_text

Replied = Callable[[int], bool]  # has this child ended its command? raises if one failed
Meanwhile = Callable[[Replied], None]  # what the parent does while the children work

GLANCE_S = 0.1  # the longest wait without a look at those who are waited for
SLOW = 0.75  # of a limit: longer standstills are worth a warning


@dataclass(frozen=True)
class Limits:
    """Time limits of a child without progress, in seconds, and the settings that they come from.

    Attributes:
        step_s: while it steps an environment, and for all activities not named below.
        reset_s: while it resets one.
        start_s: while it starts and builds its environments.
        step_setting, start_setting: names for messages.
    """

    step_s: float = 60.0
    reset_s: float = 300.0
    start_s: float = 300.0
    step_setting: str = "env_timeout"
    start_setting: str = "start_timeout_s"

    def of(self, doing: int) -> tuple[str, float]:
        """Return (name of the setting, seconds) for an activity of ``processes.status``."""
        if doing == BUILDING:
            return self.start_setting, self.start_s
        if doing == RESETTING:
            return "reset_timeout", self.reset_s
        return self.step_setting, self.step_s

    @property
    def longest_s(self) -> float:
        """Return the longest of them."""
        return max(self.step_s, self.reset_s, self.start_s)


class Transport(Protocol):
    """Interface of what carries commands and replies: ``Pipes``, or actors of a Ray cluster."""

    @property
    def processes(self) -> list[Any]:
        """The children, each with its ``pid``; none after ``stop``."""

    def start(self, specs: Sequence[ChildSpec], names: Sequence[str], longest_s: float) -> None:
        """Start the children. The first reply of each says that it is ready."""

    def send(self, child: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Send a command."""

    def receive(self, children: Collection[int], timeout_s: float) -> list[tuple[int, Reply]]:
        """Wait for replies of these children; return those that have come, with their children."""

    def look(self, child: int) -> None:
        """Update the activity numbers in the child's specification."""

    def absence(self, child: int) -> str:
        """Return why a child does not run though it should; empty if it runs."""

    def identity(self, child: int) -> str:
        """Return which process this is, for messages."""

    def stacks(self, child: int) -> str:
        """Return the Python stacks of a child, as far as they can be had."""

    def kill(self, child: int) -> None:
        """Kill a child."""

    def stop(self, patience_s: float) -> None:
        """Let all children exit, and kill those that do not. Can be called again."""


class ChildGroup:
    """A group of child processes of one kind.

    Starts them, sends commands, collects replies. While it waits it watches for death and
    standstill. Any failure ends all children, and is raised as one ``WorkerError``: which child,
    what happened, what it was doing, with the child's traceback or stacks.

    Args:
        name: of one child, for messages, such as "worker"; without ranks, what the child does.
        specs: one per child.
        describe: returns the ``WorkerStatus`` of a specification's child from its activity
            numbers.
        limits: time limits for progress.
        transport: to the children; processes of this machine by default.
        poll: called at least every ``GLANCE_S`` while the group waits; may raise.
        n_elsewhere: number of processes of the same kind that are no children.
        release: called before the children are stopped, to release those that wait for this
            process.
        cleanup: called after all children are gone.
        wait: wait until all children are ready.

    Raises:
        WorkerError: a child could not be started, or failed before it was ready.
    """

    def __init__(
        self,
        name: str,
        specs: Sequence[ChildSpec],
        describe: Callable[[ChildSpec], WorkerStatus] = activity,
        limits: Limits | None = None,
        transport: Transport | None = None,
        poll: Callable[[], None] | None = None,
        n_elsewhere: int = 0,
        release: Callable[[], None] | None = None,
        cleanup: Callable[[], None] | None = None,
        wait: bool = True,
    ) -> None:
        self.name, self._specs, self._describe = name, specs, describe
        self._limits = limits or Limits()
        self._transport: Transport = transport or Pipes()
        self._poll, self._release, self._cleanup = poll, release, cleanup
        self._n_elsewhere, self._total = n_elsewhere, len(specs) + n_elsewhere
        self._warned = False
        self._ends: dict[int, tuple[int, str, str]] = {}
        self._failed = ""  # the first line of the error after which all children were ended
        # Before multiprocessing joins its children at exit, whatever was imported first.
        self._at_exit = Finalize(None, self.shutdown, exitpriority=10)
        names = [
            f"a process for {name}" if spec.rank < 0 else f"{name} {spec.rank} of {self._total}"
            for spec in specs
        ]
        try:
            self._transport.start(specs, names, self._limits.longest_s)
            self._begin_waiting()
            if wait:
                self._gather()
        except BaseException:
            self.shutdown(patience_s=0.1)
            raise

    @property
    def processes(self) -> list[Any]:
        """The children, each with its ``pid``; none after ``shutdown``."""
        return self._transport.processes

    def call(
        self, method: str, *arguments: object, meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """Have every child run a method of what it has built.

        Args:
            method: its name.
            arguments: of the method.
            meanwhile: called while the children work, with ``replied``; an action server.

        Returns:
            The results, by child.

        Raises:
            WorkerError: a child failed; all are gone when this is raised.
        """
        return self.call_each(method, [arguments] * len(self._specs), meanwhile)

    def call_each(
        self, method: str, arguments: Sequence[tuple[Any, ...]], meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """As ``call``, with the arguments of each child."""
        if not self.processes:
            plural = f"{self.name}es" if self.name.endswith("s") else f"{self.name}s"
            why = self._failed or "they were shut down"
            raise WorkerError(f"the {plural} are gone: {why.rstrip('.')}. Initialize again.")
        try:
            for child, own in zip(range(len(self._specs)), arguments, strict=True):
                self._transport.send(child, method, own)
            self._begin_waiting()
            if meanwhile is not None:
                meanwhile(self.replied)
            return self._gather()
        except BaseException as error:
            if isinstance(error, WorkerError):
                self._failed = str(error).partition("\n")[0]
            self.shutdown()
            raise

    def begin(self, method: str, *arguments: object) -> None:
        """Send a command whose reply nobody waits for."""
        for child in range(len(self._specs)):
            self._transport.send(child, method, arguments)

    def replied(self, child: int) -> bool:
        """Return True if this child has ended its command; while it has not, it is watched.

        Raises:
            WorkerError: some child failed, or this one makes no progress.
        """
        self._glance(0)
        self._watch([child])
        return child in self._replies

    def _begin_waiting(self) -> None:
        self._replies: dict[int, Any] = {}
        self._still_s = [0.0] * len(self._specs)  # how long each has been standing still
        self._seen = [tuple(spec.progress) for spec in self._specs]
        self._looked = time.monotonic()

    def _missing(self) -> list[int]:
        return [child for child in range(len(self._specs)) if child not in self._replies]

    def _gather(self) -> list[Any]:
        """Wait for all replies, watching for death and standstill."""
        while missing := self._missing():
            self._glance(GLANCE_S)
            self._watch(missing)
        return [self._replies[child] for child in range(len(self._specs))]

    def _glance(self, timeout_s: float) -> None:
        """Take in the replies that have come."""
        if self._poll is not None:
            self._poll()
        for child, reply in self._transport.receive(self._missing(), timeout_s):
            self._replies[child] = self._result_of(child, reply)

    def _watch(self, children: Sequence[int]) -> None:
        """Warn of children that stand still, and end one that has done so for too long."""
        now = time.monotonic()
        # If this process itself was stopped or starved, that is no fault of the children.
        passed, self._looked = min(now - self._looked, 2 * GLANCE_S), now
        for child in children:
            if child in self._replies:
                continue
            self._transport.look(child)
            seen = tuple(self._specs[child].progress)
            moved = seen != self._seen[child]
            self._still_s[child] = 0.0 if moved else self._still_s[child] + passed
            self._seen[child] = seen
            setting, limit_s = self._limits.of(seen[DOING])
            if self._still_s[child] > limit_s:
                raise self._hung(child, setting, limit_s)
            if self._still_s[child] > SLOW * limit_s and not self._warned:
                self._warned = True
                status = self._describe(self._specs[child])
                where = f", {status}" if f"{status}" else ""
                warnings.warn(
                    f"{self._name_of(child)} has made no progress for {self._still_s[child]:.3g} "
                    f"s{where}; after {setting}={limit_s:g} it is killed. Raise the limit if that "
                    "is no fault."
                )

    def _result_of(self, child: int, reply: Reply) -> Any:
        match reply.kind:
            case "ok":
                return serialize.loads(reply.result)
            case "raised":
                error = serialize.loads(reply.result)
                error.add_note(f"(It is a worker of {self._name_of(child)}.)")
                raise error
            case "error":
                summary, traceback, status = reply.result
                raise self._error(child, f"failed with {summary}", traceback, status=status)
            case "stalled":
                raise self._hung(child, "the limit", self._limits.longest_s)
        raise self._error(child, reply.result, stacks=self._transport.stacks(child))

    def _hung(self, child: int, setting: str, limit_s: float) -> WorkerError:
        """End a child that stands still; return the error to raise."""
        limit = f"{limit_s:g} s ({setting})"
        absence = self._transport.absence(child)
        if absence:
            return self._error(
                child, f"was not started within {limit}; {absence}", cls=WorkerTimeout
            )
        stacks = self._transport.stacks(child)
        self._transport.kill(child)
        what = f"has made no progress for {limit} and was killed"
        return self._error(child, what, stacks=stacks, cls=WorkerTimeout)

    def _name_of(self, child: int) -> str:
        rank = self._specs[child].rank
        number = "" if rank < 0 else f" {rank}"
        if self._n_elsewhere:
            number += f" of {self._total}"
        return f"{self.name}{number} ({self._transport.identity(child)})"

    def _error(
        self,
        child: int,
        what: str,
        traceback: str = "",
        stacks: str = "",
        status: WorkerStatus | None = None,
        cls: type[WorkerError] = WorkerError,
    ) -> WorkerError:
        """Return the error about a child's failure.

        Args:
            child: which.
            what: happened to it.
            traceback, stacks: of the child, as text; empty if there are none.
            status: what it was doing; None: as far as its activity numbers tell.
            cls: of the error.
        """
        status, rank = status or self._describe(self._specs[child]), self._specs[child].rank
        whose = "the process" if rank < 0 else f"the {self.name}"
        said = f"{self._name_of(child)} {what}"
        return cls(
            failure_text(said, f"{status}", whose, traceback, stacks),
            worker=rank,
            pid=self.processes[child].pid,
            env_index=status.env_index,
            step=status.step,
            traceback=traceback,
            itr=status.itr,
            evaluation=status.evaluation,
            seed=status.seed,
            stacks=stacks,
        )

    def ended(self) -> list[tuple[int, str, str]]:
        """Return (rank, how, traceback) of the children that have ended after ``begin``.

        The traceback is empty if the process ended without one.
        """
        for child, process in enumerate(self.processes):
            if process.exitcode is not None and child not in self._ends:
                how, traceback = describe_exit(process.exitcode), ""
                for _, reply in self._transport.receive([child], 0):
                    if reply.kind == "error":
                        summary, traceback, _ = reply.result
                        how = f"failed with {summary}"
                self._ends[child] = self._specs[child].rank, how, traceback
        return list(self._ends.values())

    def stacks_of(self, rank: int) -> str:
        """Return the Python stacks of the child with this rank; empty if it is no child."""
        children = [c for c, spec in enumerate(self._specs) if spec.rank == rank]
        return "".join(self._transport.stacks(child) for child in children if self.processes)

    def kill(self) -> None:
        """Kill all children at once; ``shutdown`` ends what they have started."""
        for child in range(len(self.processes)):
            self._transport.kill(child)

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all children, whatever their state. Can be called again."""
        self._at_exit.cancel()
        if self._release is not None:
            self._release()
        try:
            self._transport.stop(patience_s)
        finally:
            self._replies = {}
            if self._cleanup is not None:
                self._cleanup()
