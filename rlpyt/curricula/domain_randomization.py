"""Tasks at random, from a distribution that stays as it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum
from rlpyt.curricula.tasks import TaskSpace


class DomainRandomization(Curriculum):
    """Every task is as likely as any other (Tobin et al. 2017); the baseline of all curricula.

    Args:
        tasks: as of ``Curriculum``.
        among: numbers of the tasks to choose from; ``None`` for all.

    Raises:
        ValueError: a task of ``among`` does not exist.
    """

    def __init__(
        self, tasks: int | TaskSpace | tuple[Any, Any], among: Sequence[int] | None = None
    ) -> None:
        super().__init__(tasks)
        self.among = None
        if among is not None:
            if not len(among):
                raise ValueError(f"among={among!r} names no task of {self.n_tasks}.")
            self.among = self.space.check(np.asarray(among))

    def sample(self, n: int) -> Array:
        """Draw uniformly."""
        if self.among is None:
            return self.space.draw(self.rng, n)
        return self.among[self.rng.integers(len(self.among), size=n)]
