"""Errors of our own, where a caller may want to react."""


class RlpytError(Exception):
    """Base of the errors defined here."""


class WorkerError(RlpytError, RuntimeError):
    """A worker process failed: its environment or agent raised, it exited, was killed or hung.

    Attributes:
        worker: index of the worker.
        pid: its process id.
        env_index: global index of the environment it was occupied with, or -1.
        step: time step in the batch it was occupied with, or -1.
        traceback: the original traceback as text, empty if the process died without one.
    """

    def __init__(
        self,
        message: str,
        worker: int = -1,
        pid: int = -1,
        env_index: int = -1,
        step: int = -1,
        traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.worker = worker
        self.pid = pid
        self.env_index = env_index
        self.step = step
        self.traceback = traceback


class WorkerTimeout(WorkerError, TimeoutError):
    """A worker made no progress for longer than the sampler allows."""


class NonFiniteError(RlpytError, ArithmeticError):
    """A loss, gradient or model output is NaN or infinite; the message names its source."""
