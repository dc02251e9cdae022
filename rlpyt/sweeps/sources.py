"""Where further jobs of a sweep come from, once those known from the start are under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlpyt.errors import RlpytError
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory, State


class SourceError(RlpytError, RuntimeError):
    """No further job would help, so the sweep ends; the message says what to mend first."""


class Source(Protocol):
    """Decides what to run next; the launcher asks it in its own thread.

    After a launcher's death the next one tells the source of all jobs that are over, in the order
    of their numbers, before it asks for anything. Any method may raise ``SourceError``.

    Attributes:
        noun: what a job is called.
    """

    noun: str

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """One more job, added to the sweep; ``None`` if there is none now."""

    def ended(self, job: JobDirectory, state: State) -> None:
        """A job is done, failed or pruned."""

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Look at what runs; asks runs to end with ``job.tell(number, "pruned")``."""

    def is_over(self) -> bool:
        """Whether there will never be a further job."""

    def n_jobs(self) -> int:
        """How many there will be in all, as far as that is known."""


class NoSource:
    """All jobs were known from the start."""

    noun = "run"

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """None."""
        return None

    def ended(self, job: JobDirectory, state: State) -> None:
        """Changes nothing."""

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Sees nothing."""

    def is_over(self) -> bool:
        """Always."""
        return True

    def n_jobs(self) -> int:
        """None of its own."""
        return 0
