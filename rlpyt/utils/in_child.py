"""A function called once, in a process of its own: whatever it does, this one goes on."""

import contextlib
import socket
from collections.abc import Generator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.utils import processes, serialize
from rlpyt.utils.stacks import StackFile

PATIENCE_S = 10.0


class _Call(NamedTuple):
    function_and_args: bytes
    stacks: StackFile


def run_in_child(
    function: Any,
    *args: Any,
    start_method: str | None = None,
    timeout_s: float = 300.0,
    what: str = "trying out the environment",
    starts_others: bool = False,
) -> Any:
    """Call a function in a process of its own and return its result.

    Args:
        function, args: may be defined in scripts and notebooks; as the result, they are pickled.
            Of a generator function the result is the first value, and what comes after it is
            cleaning up, which nobody waits for longer than ``PATIENCE_S``.
        start_method: of the process.
        timeout_s: seconds that it may take.
        what: it is that is done, for messages.
        starts_others: whether the function may start processes of its own.

    Raises:
        WorkerError: it raised there, or the process died.
        WorkerTimeout: it did not end within ``timeout_s``.
    """
    recipe = serialize.dumps((function, args))
    context = processes.start_context(start_method)
    processes.check_files_for(1)
    stacks = StackFile()
    call = _Call(recipe, stacks)
    with processes.starting_children():
        process, pipe = processes.start_child(
            context, _run_once, call, f"a process for {what}", daemon=not starts_others
        )
    try:
        processes.bound_waits(pipe, timeout_s)
        if not wait([pipe, process.sentinel], timeout_s):
            shown = stacks.ask(process.pid)
            process.kill()
            raise _error(
                WorkerTimeout, what, process, f"did not end within {timeout_s:g} s", stacks=shown
            )
        try:
            ok, result = pipe.recv()
        except (EOFError, OSError):
            process.join(1.0)
            end = processes.describe_exit(process.exitcode)
            raise _error(
                WorkerError, what, process, f"failed: its process {end}", stacks=stacks.text()
            ) from None
        if not ok:
            summary, text = result
            raise _error(WorkerError, what, process, f"failed with {summary}", text)
        return serialize.loads(result)
    finally:
        processes.stop([process], PATIENCE_S)
        pipe.close()


def _error(
    cls: type[WorkerError], what: str, process: Any, how: str, text: str = "", stacks: str = ""
) -> WorkerError:
    said = f"{what} (pid {process.pid} on {socket.gethostname()}) {how}"
    message = processes.failure_text(said, "", "the process", text, stacks)
    return cls(message, pid=process.pid, traceback=text, stacks=stacks)


def _run_once(call: _Call, pipe: Connection) -> None:
    call.stacks.listen()
    rest = None
    try:
        function, args = serialize.loads(call.function_and_args)
        result = function(*args)
        if isinstance(result, Generator):
            rest, result = result, next(result)
        reply: Any = (True, serialize.dumps(result))
    except BaseException as error:
        reply = (False, (processes.summary_of(error), processes.traceback_text(error)))
    with contextlib.suppress(OSError):  # a parent that was interrupted does not wait for it
        pipe.send(reply)
    if rest is not None:
        rest.close()
