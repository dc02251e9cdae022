"""The child's side: the specification it is started with, and the loop that runs commands."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from rlpyt.errors import WorkerError
from rlpyt.processes.status import WorkerStatus, allocate_progress
from rlpyt.utils import processes, serialize
from rlpyt.utils.stacks import StackFile


@dataclass(frozen=True)
class ChildSpec:
    """Everything that a child is started with; travels while the process is being started.

    Attributes:
        rank: index of the child, as messages show it; -1 for the only one of its kind.
        build: a function or class of a module; called in the child with this specification, it
            returns a ``Child`` or another object with its methods.
        payload: input of ``build``, which may contain classes of the user's script, and shared
            memory and semaphores.
        progress: activity numbers of ``processes.status``, written by the child, read by the
            parent.
        stacks: file for the child's Python stacks.
        cpus: cores to run on; None: not pinned.
        torch_threads: of the child; None: torch's default.
        life: 0; in a child that replaces one which has died, another number in every such case.
    """

    rank: int
    build: Callable[["ChildSpec"], Any]
    payload: serialize.ByValue
    progress: Any = field(default_factory=lambda: allocate_progress(1)[0])
    stacks: StackFile = field(default_factory=StackFile)
    cpus: Sequence[int] | None = None
    torch_threads: int | None = 1
    life: int = 0


class Child:
    """Base class of what a child builds. Commands name further methods.

    Args:
        spec: of the child.
    """

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec

    def start(self) -> None:
        """Acquire what is needed; afterwards the child runs commands."""

    def where(self) -> WorkerStatus | None:
        """Return what the child was doing when a command raised; None: as its parent sees it."""
        return None

    def close(self) -> None:
        """Release everything."""


class Reply(NamedTuple):
    """A child's answer to a command.

    Attributes:
        kind: "ok", "error" (of the child), "raised" (by a process further down); from a transport
            also "ended" (the process is gone) and "stalled" (it stopped within a message).
        result: "ok": the serialized result; "error": (summary, traceback, ``WorkerStatus`` or
            None); "raised": the serialized ``WorkerError``; "ended": how, as text.
    """

    kind: str
    result: Any = None


class Abandoned(Exception):
    """Raised in a child that waits for its parent, when the parent has given up."""


def command_loop(spec: ChildSpec, pipe: Connection) -> None:
    """Build an object and run its methods on command, until told to exit or the parent is gone.

    Commands are (number, method, serialized arguments); answers are (number, ``Reply``). The
    first answer, number 0, says that ``start`` has returned.

    Args:
        spec: of this child.
        pipe: to the parent.
    """
    if spec.cpus:
        processes.pin(spec.cpus)
    spec.stacks.listen()
    if spec.torch_threads is not None:
        import torch

        torch.set_num_threads(spec.torch_threads)
    built: Child | None = None
    number, method, arguments = 0, "", ()
    try:
        while True:
            try:
                result = None
                if built is None:
                    built = spec.build(spec)
                    built.start()
                else:
                    result = getattr(built, method)(*arguments)
                reply = Reply("ok", serialize.dumps(result))
            except Abandoned:
                return
            except BaseException as error:  # whatever it is, the parent decides
                _send(pipe, (number, failure_reply(error, built)))
                return
            if not _send(pipe, (number, reply)):
                return
            number, method, arguments = _receive(pipe)
            if method == "exit":
                return
    finally:
        if built is not None:
            built.close()
        processes.end_descendants()


def failure_reply(error: BaseException, built: Child | None) -> Reply:
    """Return the reply to a command that raised.

    Args:
        error: what was raised.
        built: the child's object; None if it could not be built.
    """
    if isinstance(error, WorkerError) and error.pid >= 0:  # it names the process that failed
        return Reply("raised", serialize.dumps(error))
    status = None if built is None else built.where()
    return Reply("error", (processes.summary_of(error), processes.traceback_text(error), status))


def _send(pipe: Connection, reply: tuple[int, Reply]) -> bool:
    """Send to the parent; return False if it is gone."""
    with contextlib.suppress(OSError):
        pipe.send(reply)
        return True
    return False


def _receive(pipe: Connection) -> tuple[int, str, tuple[Any, ...]]:
    """Return the next command, which is "exit" if the parent is gone."""
    try:
        number, method, arguments = pipe.recv()
    except (EOFError, OSError):
        return 0, "exit", ()
    return number, method, serialize.loads(arguments) if method != "exit" else ()
