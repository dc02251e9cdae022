"""Parent side of process control: start children, command and watch them, report failures."""

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any, Protocol
from weakref import WeakSet

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.processes.child import ChildSpec, Reply
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import ACTIVITY, BUILDING, RESETTING, WorkerStatus, child_status
from rlpyt.utils import serialize
from rlpyt.utils.processes import describe_exit, failure_text, first_line

Replied = Callable[[int], bool]  # returns True if this child has replied; raises if one failed
Meanwhile = Callable[[Replied], None]  # work of the parent while the children run a command

POLL_S = 0.1  # seconds between two checks of the children
WARN_FRACTION = 0.75  # fraction of a time limit without progress after which to warn


@dataclass(frozen=True)
class Limits:
    """Seconds that a child may take without progress, and the names of these settings.

    Attributes:
        step_s: limit while stepping an environment, and for all activities not named below.
        reset_s: limit while resetting an environment.
        start_s: limit while the process starts and builds its environments.
        step_setting, start_setting: names of the settings, for messages.
    """

    step_s: float = 60.0
    reset_s: float = 300.0
    start_s: float = 300.0
    step_setting: str = "env_timeout"
    start_setting: str = "start_timeout_s"

    def of(self, activity: int) -> tuple[str, float]:
        """Return (name of the setting, seconds) for an activity of ``processes.status``."""
        if activity == BUILDING:
            return self.start_setting, self.start_s
        if activity == RESETTING:
            return "reset_timeout", self.reset_s
        return self.step_setting, self.step_s

    @property
    def longest_s(self) -> float:
        """Return the longest of the three limits."""
        return max(self.step_s, self.reset_s, self.start_s)


class Transport(Protocol):
    """Interface to child processes, implemented by ``Pipes`` and ``RayActors``."""

    @property
    def processes(self) -> list[Any]:
        """Return the children, each with a ``pid``; none after ``stop``."""

    def start(self, specs: Sequence[ChildSpec], names: Sequence[str], longest_s: float) -> None:
        """Start the children. The first reply of each says that it is ready.

        Args:
            specs: specifications of the children.
            names: names of the processes.
            longest_s: time limit of a single read from or write to a pipe.
        """

    def restart(self, child: int, spec: ChildSpec, name: str) -> None:
        """Stop a child that failed, and start another one in its place, as ``start`` does."""

    def send(self, child: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Send a command."""

    def receive(self, children: Collection[int], timeout_s: float) -> list[tuple[int, Reply]]:
        """Wait for replies of these children; return (child, reply) for each that arrived."""

    def refresh_progress(self, child: int) -> None:
        """Update the activity numbers in the child's specification."""

    def not_running_reason(self, child: int) -> str:
        """Return why a child has no process; empty if it runs."""

    def identity(self, child: int) -> str:
        """Return a description of the child's process, for messages."""

    def stacks(self, child: int) -> str:
        """Return the Python stacks of a child; empty if they are not available."""

    def kill(self, child: int) -> None:
        """Kill a child."""

    def stop(self, patience_s: float) -> None:
        """Let all children exit, and kill those that do not. Can be called again."""


class Healer(Protocol):
    """Interface of what decides whether children that fail are replaced.

    Attributes:
        substitutes: results of a child that failed during a command, by command; any other command
            is repeated by its successor.
    """

    substitutes: dict[str, Any]

    def admit(self, child: int, error: WorkerError) -> None:
        """Take note of a failure; raise if the child is not to be replaced."""

    def successor(self, spec: ChildSpec) -> ChildSpec:
        """Return the specification of the child that replaces the one of ``spec``."""


class ChildGroup:
    """A group of child processes of one kind.

    It starts the children, sends commands and collects replies. While waiting, it detects children
    that exit or make no progress. Any failure stops all children and raises one ``WorkerError``
    that names the child and what it was doing, with the child's traceback or stacks. With a
    ``healer``, children that it admits are replaced after the command instead.

    Args:
        name: singular name for messages, such as "worker"; of a child without rank, its task.
        specs: specification of each child.
        describe: function that returns a child's ``WorkerStatus``, given its specification with
            the current activity numbers.
        limits: time limits for progress.
        transport: connection to the children; ``None``: processes of this machine.
        poll: function called at least every ``POLL_S`` while the group waits; may raise.
        n_in_other_groups: number of processes of the same kind in other groups.
        release: function called before the children are stopped, to release those that wait for
            this process.
        cleanup: function called after all children have ended.
        wait: wait until all children are ready.
        healer: decides which children that fail during a command are replaced; ``None``: none.

    Raises:
        WorkerError: a child could not be started, or failed before it was ready.
    """

    def __init__(
        self,
        name: str,
        specs: Sequence[ChildSpec],
        describe: Callable[[ChildSpec], WorkerStatus] = child_status,
        limits: Limits | None = None,
        transport: Transport | None = None,
        poll: Callable[[], None] | None = None,
        n_in_other_groups: int = 0,
        release: Callable[[], None] | None = None,
        cleanup: Callable[[], None] | None = None,
        wait: bool = True,
        healer: Healer | None = None,
    ) -> None:
        self.name, self._specs, self._describe = name, list(specs), describe
        self._healer: Healer | None = None  # until all children have started
        self._lost: list[int] = []  # children that failed in this command and are to be replaced
        self._limits = limits or Limits()
        self._transport: Transport = transport or Pipes()
        self._poll, self._release, self._cleanup = poll, release, cleanup
        self._n_in_other_groups, self._total = n_in_other_groups, len(specs) + n_in_other_groups
        self._warned = False
        self._exits: dict[int, tuple[int, str, str]] = {}
        self._failure = ""  # first line of the error after which all children were stopped
        GROUPS.add(self)
        # Before multiprocessing joins its children at exit, whatever was imported first.
        self._at_exit = Finalize(None, self.shutdown, exitpriority=10)
        self._names = names = [
            f"a process for {name}" if spec.rank < 0 else f"{name} {spec.rank} of {self._total}"
            for spec in specs
        ]
        try:
            self._transport.start(specs, names, self._limits.longest_s)
            self._begin_waiting()
            if wait:
                self._gather()
            self._healer = healer
        except BaseException:
            self.shutdown(patience_s=0.1)
            raise

    @property
    def processes(self) -> list[Any]:
        """Return the children, each with a ``pid``; none after ``shutdown``."""
        return self._transport.processes

    def call(
        self, method: str, *arguments: object, meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """Run a method of the object that each child has built.

        Args:
            method: name of the method.
            arguments: arguments of the method.
            meanwhile: function called with ``replied`` while the children work, such as an action
                server.

        Returns:
            Results, in the order of the children.

        Raises:
            WorkerError: a child failed; all children have been stopped.
        """
        return self.call_each(method, [arguments] * len(self._specs), meanwhile)

    def call_each(
        self, method: str, arguments: Sequence[tuple[Any, ...]], meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """Run a method as ``call`` does, with separate arguments for each child."""
        if not self.processes:
            plural = f"{self.name}es" if self.name.endswith("s") else f"{self.name}s"
            why = self._failure or "they were shut down"
            raise WorkerError(f"the {plural} are not running: {why}. Initialize again.")
        try:
            for child, args in zip(range(len(self._specs)), arguments, strict=True):
                self._transport.send(child, method, args)
            self._begin_waiting()
            if meanwhile is not None:
                meanwhile(self.replied)
            results = self._gather()
            return self._heal(method, arguments, results) if self._lost else results
        except BaseException as error:
            if isinstance(error, WorkerError):
                self._failure = first_line(error)
            self.shutdown()
            raise

    def begin(self, method: str, *arguments: object) -> None:
        """Send a command without waiting for replies."""
        for child in range(len(self._specs)):
            self._transport.send(child, method, arguments)

    def replied(self, child: int) -> bool:
        """Return True if this child has replied to its command; else check its progress.

        Raises:
            WorkerError: a child failed, or this one makes no progress.
        """
        self._receive_replies(0)
        self._watch([child])
        return child in self._replies

    def _heal(
        self, method: str, arguments: Sequence[tuple[Any, ...]], results: list[Any]
    ) -> list[Any]:
        """Replace the children that failed in a command; return the results of all."""
        assert self._healer is not None
        substitutes = self._healer.substitutes
        while self._lost:
            starting, self._lost = self._lost, []
            for child in starting:
                self._specs[child] = self._healer.successor(self._specs[child])
                self._transport.restart(child, self._specs[child], self._names[child])
            self._begin_waiting(starting)
            self._gather()
            ready = [child for child in starting if child not in self._lost]
            for child in ready:
                results[child] = substitutes.get(method)
            if method not in substitutes:
                for child in ready:
                    self._transport.send(child, method, arguments[child])
                self._begin_waiting(ready)
                replies = self._gather()
                for child in ready:
                    results[child] = replies[child]
        return results

    def _fail(self, child: int, error: WorkerError) -> None:
        """Raise this error of a child, unless the child is to be replaced."""
        if self._healer is None:
            raise error
        self._healer.admit(child, error)
        self._lost.append(child)
        self._replies[child] = None

    def _begin_waiting(self, children: Sequence[int] | None = None) -> None:
        """Prepare to wait for replies of these children; ``None``: of all."""
        others = () if children is None else set(range(len(self._specs))).difference(children)
        self._replies: dict[int, Any] = dict.fromkeys(others)
        self._idle_s = [0.0] * len(self._specs)  # time without progress, by child
        self._last_progress = [tuple(spec.progress) for spec in self._specs]
        self._last_check = time.monotonic()

    def _missing(self) -> list[int]:
        return [child for child in range(len(self._specs)) if child not in self._replies]

    def _gather(self) -> list[Any]:
        """Wait for all replies; raise if a child exits or makes no progress."""
        while missing := self._missing():
            self._receive_replies(POLL_S)
            self._watch(missing)
        return [self._replies[child] for child in range(len(self._specs))]

    def _receive_replies(self, timeout_s: float) -> None:
        """Store the replies that arrive within this time."""
        if self._poll is not None:
            self._poll()
        for child, reply in self._transport.receive(self._missing(), timeout_s):
            try:
                self._replies[child] = self._result_of(child, reply)
            except WorkerError as error:
                self._fail(child, error)

    def _watch(self, children: Sequence[int]) -> None:
        """Warn of a child without progress; raise if its time limit has passed."""
        now = time.monotonic()
        # Do not count time during which this process itself was suspended.
        passed, self._last_check = min(now - self._last_check, 2 * POLL_S), now
        for child in children:
            if child in self._replies:
                continue
            self._transport.refresh_progress(child)
            progress = tuple(self._specs[child].progress)
            moved = progress != self._last_progress[child]
            self._idle_s[child] = 0.0 if moved else self._idle_s[child] + passed
            self._last_progress[child] = progress
            setting, limit_s = self._limits.of(progress[ACTIVITY])
            if self._idle_s[child] > limit_s:
                self._fail(child, self._timeout_error(child, setting, limit_s))
            elif self._idle_s[child] > WARN_FRACTION * limit_s and not self._warned:
                self._warned = True
                status = self._describe(self._specs[child])
                where = f", {status}" if f"{status}" else ""
                warnings.warn(
                    f"{self._name_of(child)} has made no progress for {self._idle_s[child]:.3g} "
                    f"s{where}. It is killed after {setting}={limit_s:g}. Raise {setting} if it "
                    "may take this long."
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
                raise self._timeout_error(child, "the limit", self._limits.longest_s)
        # "ended": the process has exited.
        raise self._error(child, reply.result, stacks=self._transport.stacks(child))

    def _timeout_error(self, child: int, setting: str, limit_s: float) -> WorkerError:
        """Kill a child that makes no progress; return the error to raise."""
        limit = f"{limit_s:g} s ({setting})"
        not_running_reason = self._transport.not_running_reason(child)
        if not_running_reason:
            return self._error(
                child, f"was not started within {limit}; {not_running_reason}", cls=WorkerTimeout
            )
        stacks = self._transport.stacks(child)
        self._transport.kill(child)
        what = f"has made no progress for {limit} and was killed"
        return self._error(child, what, stacks=stacks, cls=WorkerTimeout)

    def _name_of(self, child: int) -> str:
        rank = self._specs[child].rank
        number = "" if rank < 0 else f" {rank}"
        if self._n_in_other_groups:
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
            child: index of the child.
            what: what happened, as text.
            traceback, stacks: the child's, as text; empty if there are none.
            status: activity of the child; None: described by its activity numbers.
            cls: class of the error.
        """
        status, rank = status or self._describe(self._specs[child]), self._specs[child].rank
        whose = "the process" if rank < 0 else f"the {self.name}"
        event = f"{self._name_of(child)} {what}"
        return cls(
            failure_text(event, f"{status}", whose, traceback, stacks),
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

    def activities(self) -> dict[int, tuple[str, float]]:
        """Return what each child is doing, and for how long without progress [s], by pid."""
        found = zip(self.processes, self._specs, self._idle_s)
        return {
            process.pid: (f"{self._describe(spec)}".removeprefix("while "), seconds)
            for process, spec, seconds in found
        }

    def ended(self) -> list[tuple[int, str, str]]:
        """Return (rank, how, traceback) of the children that have ended after ``begin``.

        The traceback is empty if the process ended without one.
        """
        for child, process in enumerate(self.processes):
            if process.exitcode is not None and child not in self._exits:
                how, traceback = describe_exit(process.exitcode), ""
                for _, reply in self._transport.receive([child], 0):
                    if reply.kind == "error":
                        summary, traceback, _ = reply.result
                        how = f"failed with {summary}"
                self._exits[child] = self._specs[child].rank, how, traceback
        return list(self._exits.values())

    def stacks_of(self, rank: int) -> str:
        """Return the Python stacks of the child with this rank; empty if there is none."""
        children = [c for c, spec in enumerate(self._specs) if spec.rank == rank]
        return "".join(self._transport.stacks(child) for child in children if self.processes)

    def kill(self) -> None:
        """Kill all children at once; ``shutdown`` also ends the processes that they started."""
        for child in range(len(self.processes)):
            self._transport.kill(child)

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all children in any state. Can be called again."""
        try:
            if self._release is not None:
                self._release()
            self._transport.stop(patience_s)
        finally:
            self._replies = {}
            if self._cleanup is not None:
                self._cleanup()
        self._at_exit.cancel()  # last: after an interrupt the children are stopped at exit


GROUPS: WeakSet[ChildGroup] = WeakSet()  # of this process
