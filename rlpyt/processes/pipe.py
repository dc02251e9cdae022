"""Children on this machine: multiprocessing processes that receive commands over pipes."""

import contextlib
import pickle
import socket
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from rlpyt.processes.child import ChildSpec, Reply, command_loop
from rlpyt.utils import processes, serialize

EXIT_S = 5.0  # time for a process to exit after it has closed its pipe


class Pipes:
    """Transport between a ``ChildGroup`` and processes of this machine.

    Args:
        start_method: start method of the processes, see ``utils.processes.start_context``.

    Attributes:
        processes: multiprocessing processes, in the order of their specifications.
    """

    def __init__(self, start_method: str | None = None) -> None:
        self._start_method = start_method
        self.processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._numbers: list[int] = []  # number of the last command, by child
        self._specs: list[ChildSpec] = []
        self._longest_s = 0.0  # time limit of a single read from or write to a pipe

    def start(self, specs: Sequence[ChildSpec], names: Sequence[str], longest_s: float) -> None:
        """Start a process for each specification, see ``Transport``.

        Raises:
            WorkerError: the operating system cannot start a process.
        """
        processes.check_files_for(len(specs))
        self._specs, self._longest_s = list(specs), longest_s
        with processes.starting_children():
            for spec, name in zip(specs, names, strict=True):
                process, pipe = self._start(spec, name)
                self.processes.append(process)
                self._pipes.append(pipe)
                self._numbers.append(0)

    def restart(self, child: int, spec: ChildSpec, name: str) -> None:
        """Stop a child that failed, and start another one in its place; see ``Transport``."""
        processes.stop([self.processes[child]], 0.1)
        self._pipes[child].close()
        spec.stacks.forget()
        with processes.starting_children():
            self.processes[child], self._pipes[child] = self._start(spec, name)
        self._specs[child], self._numbers[child] = spec, 0

    def _start(self, spec: ChildSpec, name: str) -> tuple[Any, Connection]:
        """Start a process; return it and the pipe to it."""
        context = processes.start_context(self._start_method)
        process, pipe = processes.start_child(context, command_loop, spec, name)
        processes.bound_waits(pipe, self._longest_s)
        return process, pipe

    def send(self, child: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Send a command; ``receive`` reports a child that has exited."""
        self._numbers[child] += 1
        with contextlib.suppress(OSError):
            self._pipes[child].send((self._numbers[child], method, packed(arguments)))

    def receive(self, children: Collection[int], timeout_s: float) -> list[tuple[int, Reply]]:
        """Wait for replies of these children; return (child, reply) for each that arrived."""
        ends: dict[Any, int] = {self._pipes[child]: child for child in children}
        ends |= {self.processes[child].sentinel: child for child in children}
        ready = {ends[end] for end in wait(list(ends), timeout_s)}
        return [(child, self._reply_of(child)) for child in sorted(ready)]

    def _reply_of(self, child: int) -> Reply:
        pipe, process = self._pipes[child], self.processes[child]
        try:
            while pipe.poll(0) or process.is_alive():
                number, reply = pipe.recv()
                # Skip a late reply to an abandoned command, unless the child failed.
                if number == self._numbers[child] or reply.kind != "ok":
                    return Reply(*reply)
        except BlockingIOError:
            return Reply("stalled")
        except (EOFError, OSError):
            pass
        process.join(EXIT_S)
        return Reply("ended", processes.describe_exit(process.exitcode))

    def refresh_progress(self, child: int) -> None:
        """Do nothing: activity numbers in shared memory are always up to date."""

    def not_running_reason(self, child: int) -> str:
        """Return "": children on this machine always have a process."""
        return ""

    def identity(self, child: int) -> str:
        """Return a description of the child's process, for messages."""
        return f"pid {self.processes[child].pid} on {socket.gethostname()}"

    def stacks(self, child: int) -> str:
        """Return the Python stacks of a child; empty if they are not available."""
        process, stacks = self.processes[child], self._specs[child].stacks
        return stacks.ask(process.pid) if process.exitcode is None else stacks.text()

    def kill(self, child: int) -> None:
        """Kill a process; ``stop`` kills the processes that it started."""
        with contextlib.suppress(OSError):
            self.processes[child].kill()

    def stop(self, patience_s: float) -> None:
        """Tell all children to exit, and kill those that do not. Can be called again."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send((0, "exit", b""))
        try:
            processes.stop(self.processes, patience_s)
        finally:
            for pipe in self._pipes:
                pipe.close()
            self._pipes, self._numbers = [], []
        self.processes = []  # after an interrupt they are stopped again at exit


def packed(arguments: tuple[Any, ...]) -> bytes:
    """Serialize arguments by value: a pipe would share a tensor's memory, and keep a socket."""
    plain = all(isinstance(x, int | float | str | bytes | None) for x in arguments)
    return pickle.dumps(arguments) if plain else serialize.dumps(arguments)
