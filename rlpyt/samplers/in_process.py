"""An environment worker in the sampler's own process, commanded as worker processes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlpyt.errors import WorkerError
from rlpyt.utils.processes import raised_by_signal, summary_of

if TYPE_CHECKING:
    from rlpyt.processes.group import Meanwhile
    from rlpyt.samplers.surroundings import Surroundings


class InProcess:
    """A group of one environment worker, with the calls of a ``ChildGroup``.

    Args:
        worker: ``EnvWorker``, or an object with its methods.
        surroundings: keeps apart what its environments change in the process.
    """

    processes: Sequence[Any] = ()

    def __init__(self, worker: Any, surroundings: Surroundings) -> None:
        self.worker, self.surroundings = worker, surroundings

    def call(
        self, method: str, *arguments: object, meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """Run a method of the environment worker; return its result.

        Raises:
            WorkerError: an environment or the agent raised an exception that would end the program.
        """
        try:
            with self.surroundings.around():
                return [getattr(self.worker, method)(*arguments)]
        except Exception as error:
            error.add_note(f"({self.worker.where()})")
            raise
        except BaseException as error:
            if raised_by_signal(error):
                raise
            what = f"raised {summary_of(error).rstrip('.')}, {self.worker.where()}"
            raise WorkerError(f"the environment or agent {what}.") from error

    def call_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run a method as ``call`` does, with the only one of the argument lists."""
        return self.call(method, *arguments[0])

    def shutdown(self) -> None:
        """Close the environments."""
        with self.surroundings.checked():
            self.worker.close()
