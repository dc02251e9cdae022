"""Task spaces: numbered tasks, or vectors within bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NumberedTasks:
    """Task space of the integers 0 to n - 1."""

    n: int

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw n tasks uniformly; return [n] int64."""
        return rng.integers(self.n, size=n)

    def check(self, tasks: Any) -> Array:
        """Check tasks [n] and return them as int64.

        Raises:
            ValueError: a task is not in this space.
        """
        given = np.asarray(tasks)
        if given.ndim != 1 or not np.all((given >= 0) & (given < self.n) & (given == given // 1)):
            raise ValueError(f"tasks {given!r:.100} must be integers in [0, {self.n}).")
        return given.astype(np.int64)


@dataclass(frozen=True)
class BoxTasks:
    """Task space of vectors of D numbers within bounds, such as masses and lengths."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw n tasks uniformly; return [n, D] float64."""
        return rng.uniform(self.low, self.high, (n, len(self.low)))

    def check(self, tasks: Any) -> Array:
        """Check tasks [n, D] and return them as float64.

        Raises:
            ValueError: a task is not in this space.
        """
        given = np.asarray(tasks, np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.low):
            raise ValueError(
                f"tasks must have shape [n, {len(self.low)}], got {list(given.shape)}."
            )
        if not np.all((given >= self.low) & (given <= self.high)):
            raise ValueError(f"tasks must be in [{self.low}, {self.high}], got {given!r:.100}.")
        return given


TaskSpace = NumberedTasks | BoxTasks


def task_space(tasks: int | TaskSpace | tuple[Sequence[float], Sequence[float]]) -> TaskSpace:
    """Build a task space from the number of tasks, or from bounds (low, high).

    Raises:
        ValueError: ``tasks`` is neither of these.
    """
    if isinstance(tasks, NumberedTasks | BoxTasks):
        return tasks
    if isinstance(tasks, int | np.integer) and not isinstance(tasks, bool) and tasks > 0:
        return NumberedTasks(int(tasks))
    if isinstance(tasks, tuple) and len(tasks) == 2:
        low, high = (np.atleast_1d(np.asarray(bound, np.float64)) for bound in tasks)
        finite = bool(np.isfinite([low, high]).all()) if low.shape == high.shape else False
        if finite and low.ndim == 1 and np.all(low <= high):
            return BoxTasks(tuple(low.tolist()), tuple(high.tolist()))
    raise ValueError(
        f"tasks={tasks!r:.100} must be the number of tasks, or a pair (low, high) of finite bounds."
    )
