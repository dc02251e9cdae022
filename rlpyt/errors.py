"""Named errors that a caller may handle, and exit codes."""

from typing import Any

USAGE = 2  # exit code of an invalid request; trying again would not help


class RlpytError(Exception):
    """Base of the errors defined here."""


class DamagedFile(RlpytError, ValueError):
    """File that is damaged, or asks for more than a file may; the message names it."""


class UntrustedFile(RlpytError, ValueError):
    """File of unknown origin that refers to code or files that it must not use."""


class WorkerError(RlpytError, RuntimeError):
    """A worker process failed: its environment or agent raised, it exited, was killed or hung.

    Attributes:
        worker: index of the worker.
        pid: its process id.
        env_index: global index of the environment it was occupied with, or -1.
        step: time step in the batch it was occupied with, or -1.
        traceback: the original traceback as text, empty if the process died without one.
        itr: iteration of the run, or -1 before the first.
        evaluation: whether the environment is one of those for evaluation, which count by
            themselves.
        seed: that the environment was given, or ``None``.
        stacks: Python stacks of the process when it was killed by a fault of its own or hung.
    """

    def __init__(
        self,
        message: str,
        worker: int = -1,
        pid: int = -1,
        env_index: int = -1,
        step: int = -1,
        traceback: str = "",
        itr: int = -1,
        evaluation: bool = False,
        seed: int | None = None,
        stacks: str = "",
    ) -> None:
        super().__init__(message)
        self.worker = worker
        self.pid = pid
        self.env_index = env_index
        self.step = step
        self.traceback = traceback
        self.itr = itr
        self.evaluation = evaluation
        self.seed = seed
        self.stacks = stacks


class WorkerTimeout(WorkerError, TimeoutError):
    """A worker made no progress for longer than the sampler allows."""


class RankError(WorkerError):
    """A rank of a run over several processes failed; all of them are stopped.

    Attributes:
        rank: which; others are those of ``WorkerError``.
    """

    def __init__(
        self,
        message: str,
        rank: int = -1,
        pid: int = -1,
        traceback: str = "",
        itr: int = -1,
        stacks: str = "",
    ) -> None:
        super().__init__(message, pid=pid, traceback=traceback, itr=itr, stacks=stacks)
        self.rank = rank


class RankTimeout(RankError, TimeoutError):
    """A rank kept the others waiting for longer than the runner allows."""


class ConcurrentRunError(RlpytError, RuntimeError):
    """Another thread of this process is training; trainings need a process each."""


class RunComplete(RlpytError, ValueError):
    """The run that is to be resumed already has all its steps."""


class NonFiniteError(RlpytError, ArithmeticError):
    """A loss, gradient or model output is NaN or infinite; the message names its source.

    Attributes:
        update: of an update of an algorithm its arguments, and the states of torch's random
            generators before it; else ``None``.
    """

    update: tuple[tuple[Any, ...], dict[str, Any]] | None = None


class NonFiniteGradient(NonFiniteError):
    """A gradient is NaN or infinite, although the loss of this rank is finite."""


class ReplayNotReady(RlpytError, RuntimeError):
    """The replay holds too few rows to sample from; sample later."""


def itr_of(error: BaseException) -> int:
    """Return the iteration of a run in which the error was raised; -1: before or outside of it.

    Runners set ``itr`` on what is raised in training, whatever its class.
    """
    itr = getattr(error, "itr", -1)
    return itr if isinstance(itr, int) else -1
