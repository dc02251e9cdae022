"""A single function call in a child process: whatever it does, this process continues."""

from collections.abc import Callable, Generator
from typing import Any

from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import BUILDING, WorkerStatus
from rlpyt.utils.serialize import ByValue

CLEANUP_S = 10.0  # longest wait for a generator's cleaning up


class Call(Child):
    """Calls a function when it starts; the payload is (function, arguments)."""

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
    starts_others: bool = False,
) -> Any:
    """Call a function in a child process and return its result.

    Args:
        function, args: may be defined in scripts and notebooks; as the result, they are pickled.
            Of a generator function the result is the first value, and what comes after it is
            cleaning up, which takes ``CLEANUP_S`` at most.
        start_method: of the process.
        timeout_s: seconds that it may take.
        what: description of the call, for messages.
        starts_others: whether the function may start processes.

    Raises:
        WorkerError: it raised there, or the process died.
        WorkerTimeout: it did not end within ``timeout_s``.
    """
    child = ChildGroup(
        what,
        [ChildSpec(-1, Call, ByValue((function, args)), torch_threads=None)],
        lambda spec: WorkerStatus(BUILDING, text=""),
        Limits(start_s=timeout_s, start_setting="timeout_s"),
        Pipes(start_method, daemon=not starts_others),
    )
    try:
        return child.call("result")[0]
    finally:
        child.shutdown(CLEANUP_S)
