"""Child side of process control: a child's specification, and the loop that runs commands."""

import contextlib
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from rlpyt.errors import WorkerError
from rlpyt.processes.status import WorkerStatus, allocate_progress
from rlpyt.utils import processes, serialize
from rlpyt.utils.stacks import StackFile

HIGHEST = "highest"  # torch's default
PICKLING_REMEDY = (
    "A worker does not run the script, and passes only named functions and classes of modules to "
    "processes that it starts. Move them to a module, or use the serial sampler"
)


def _matmul_precision() -> str:
    """Return this process's precision, without importing torch for it."""
    torch: Any = sys.modules.get("torch")
    try:
        return HIGHEST if torch is None else torch.get_float32_matmul_precision()
    except RuntimeError:  # set by torch's newer attributes, one for each kind of device
        return HIGHEST


@dataclass(frozen=True)
class ChildSpec:
    """Specification of a child, sent to its process when that starts.

    Attributes:
        rank: index of the child, as messages show it; -1 for the only one of its kind.
        build: function or class of a module. It is called in the child with this specification and
            returns a ``Child`` or another object with the same methods.
        payload: input of ``build``, which may contain classes of the user's script, shared memory
            and semaphores.
        progress: activity numbers of ``processes.status``, written by the child, read by the
            parent.
        stacks: file for the child's Python stacks.
        cpus: cores to run on; None: not pinned.
        torch_threads: number of torch threads; None: torch's default.
        matmul_precision: torch's precision of products of float32 matrices; that of the parent.
        life: 0 for the original child; each replacement of a child that died has a unique number.
    """

    rank: int
    build: Callable[["ChildSpec"], Any]
    payload: serialize.ByValue
    progress: Any = field(default_factory=lambda: allocate_progress(1)[0])
    stacks: StackFile = field(default_factory=StackFile)
    cpus: Sequence[int] | None = None
    torch_threads: int | None = 1
    matmul_precision: str = field(default_factory=_matmul_precision)
    life: int = 0


class Child:
    """Base class of the object that a child builds. A command is the name of one of its methods.

    Args:
        spec: specification of the child.
    """

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec

    def start(self) -> None:
        """Acquire resources; called once, before any command."""

    def where(self) -> WorkerStatus | None:
        """Return the child's activity when a command raised; None: the parent describes it."""
        return None

    def close(self) -> None:
        """Release everything."""


class Reply(NamedTuple):
    """A child's answer to a command.

    Attributes:
        kind: "ok", "error" (the child raised) or "raised" (a process that the child started
            failed); a transport also returns "ended" (the process has exited) and "stalled" (it
            stopped in the middle of a message).
        result: "ok": the serialized result; "error": (summary, traceback, ``WorkerStatus`` or
            None); "raised": the serialized ``WorkerError``; "ended": how it exited, as text.
    """

    kind: str
    result: Any = None


class Abandoned(Exception):
    """Raised in a child that waits for its parent, when the parent has given up."""


def command_loop(spec: ChildSpec, pipe: Connection) -> None:
    """Build an object and run its methods on command, until told to exit or the parent has died.

    Commands are (number, method, serialized arguments); replies are (number, ``Reply``). The
    first reply, number 0, says that ``start`` has returned.

    Args:
        spec: specification of this child.
        pipe: connection to the parent.
    """
    if spec.cpus:
        processes.pin(spec.cpus)
    spec.stacks.listen()
    if spec.torch_threads is not None:
        import torch

        torch.set_num_threads(spec.torch_threads)
    if spec.matmul_precision != HIGHEST:
        import torch

        torch.set_float32_matmul_precision(spec.matmul_precision)
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
            except BaseException as error:  # the parent decides what to do about it
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
        error: the exception.
        built: the child's object; None if it could not be built.
    """
    if isinstance(error, WorkerError) and error.pid >= 0:  # of a process that this one started
        return Reply("raised", serialize.dumps(error))
    status = None if built is None else built.where()
    summary = processes.summary_of(error)
    if isinstance(error, pickle.PicklingError):
        summary = f"{summary.rstrip('.')}. {PICKLING_REMEDY}"
    return Reply("error", (summary, processes.traceback_text(error), status))


def _send(pipe: Connection, reply: tuple[int, Reply]) -> bool:
    """Send a reply to the parent; return False if it has died."""
    with contextlib.suppress(OSError):
        pipe.send(reply)
        return True
    return False


def _receive(pipe: Connection) -> tuple[int, str, tuple[Any, ...]]:
    """Return the next command, which is "exit" if the parent has died."""
    try:
        number, method, arguments = pipe.recv()
    except (EOFError, OSError):
        return 0, "exit", ()
    return number, method, serialize.loads(arguments) if method != "exit" else ()
