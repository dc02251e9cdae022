"""Random tasks from a fixed distribution."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum
from rlpyt.curricula.tasks import TaskSpace


class DomainRandomization(Curriculum):
    """Curriculum that draws all tasks uniformly (Tobin et al. 2017); the baseline of curricula.

    Args:
        tasks: as for ``Curriculum``.
        among: numbers of the tasks to choose from; ``None`` for all.

    Raises:
        ValueError: ``among`` is empty, or has a task that does not exist.
    """

    def __init__(
        self, tasks: int | TaskSpace | tuple[Any, Any], among: Sequence[int] | None = None
    ) -> None:
        super().__init__(tasks)
        self.among = None
        if among is not None:
            if not len(among):
                raise ValueError(
                    f"among={among!r} must contain at least one of the {self.n_tasks} tasks."
                )
            self.among = self.space.check(np.asarray(among))

    def sample(self, n: int) -> Array:
        """Draw n tasks uniformly."""
        if self.among is None:
            return self.space.draw(self.rng, n)
        return self.among[self.rng.integers(len(self.among), size=n)]
