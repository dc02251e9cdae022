"""A single function call in a child process, which may crash or hang without harm to this one."""

from collections.abc import Callable, Generator
from typing import Any

from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import BUILDING, WorkerStatus
from rlpyt.utils.serialize import ByValue

CLEANUP_S = 10.0  # time limit for a generator to clean up


class Call(Child):
    """A child that calls a function when it starts; the payload is (function, arguments)."""

    _generator: Generator[Any, None, None] | None = None

    def start(self) -> None:
        """Call the function."""
        function, args = self.spec.payload.value
        self._result = function(*args)
        if isinstance(self._result, Generator):
            self._generator = self._result
            self._result = next(self._generator)

    def result(self) -> Any:
        """Return the function's result."""
        return self._result

    def close(self) -> None:
        """Let a generator clean up."""
        if self._generator is not None:
            self._generator.close()


def run_in_child(
    function: Callable[..., Any],
    *args: object,
    start_method: str | None = None,
    timeout_s: float = 300.0,
    what: str = "trying out the environment",
) -> Any:
    """Call a function in a child process and return its result.

    Args:
        function, args: function and its arguments, pickled; they may be defined in scripts and
            notebooks. The result is pickled, too. The result of a generator function is its first
            value; the code after it is run as cleanup, for at most ``CLEANUP_S``.
        start_method: start method of the process.
        timeout_s: time limit in seconds.
        what: description of the call, for messages.

    Raises:
        WorkerError: the function raised, or the process died.
        WorkerTimeout: the call did not end within ``timeout_s``.
    """
    child = ChildGroup(
        what,
        [ChildSpec(-1, Call, ByValue((function, args)), torch_threads=None)],
        lambda spec: WorkerStatus(BUILDING, text=""),
        Limits(start_s=timeout_s, start_setting="timeout_s"),
        Pipes(start_method),
    )
    try:
        return child.call("result")[0]
    finally:
        child.shutdown(CLEANUP_S)
