"""Curriculum by absolute learning progress."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult, effective_number
from rlpyt.curricula.tasks import NumberedTasks
from rlpyt.utils.checks import check_range


def learning_progress(fast: Array, slow: Array, p_theta: float | None) -> Array:
    """Return the absolute learning progress of each task.

        LP_i = |f(fast_i) - f(slow_i)|,    f(p) = p (1 - theta) / (p + theta (1 - 2 p))

    (Kanitscheider et al. 2021). f amplifies differences between low probabilities of success,
    where they are small but matter most.

    Args:
        fast, slow: [N], averages of success over fewer and more episodes.
        p_theta: theta in (0, 1); 0.5 and ``None`` leave averages unchanged.

    Returns:
        [N], at least 0.
    """
    if p_theta is not None:
        fast, slow = (p * (1 - p_theta) / (p + p_theta * (1 - 2 * p)) for p in (fast, slow))
    difference: Array = np.abs(fast - slow)
    return difference


class LearningProgress(Curriculum):
    """Curriculum by absolute learning progress (Portelas 2020; Kanitscheider et al. 2021).

        fast_i <- fast_i + rate_fast (s - fast_i)
        slow_i <- slow_i + rate_slow (fast_i - slow_i)
        P(i) = (1 - epsilon) LP_i / sum_j LP_j + epsilon / N

    where s is the success of an episode of task i; both averages start at the first one. Without
    any progress all tasks are equally likely. Unlike in Kanitscheider et al., sampling is not
    restricted to the tasks with the highest progress.

    Args:
        tasks: number of tasks.
        success: function for the success of an episode; by default its return. With ``p_theta``
            it must be in [0, 1].
        rate_fast, rate_slow: weight of a new episode, in (0, 1].
        epsilon: fraction of tasks drawn uniformly, in (0, 1]; needed to try tasks for the first
            time.
        p_theta: theta of ``learning_progress``, at most 0.99; 0.1 in the paper.

    Raises:
        ValueError: a number is out of range, or tasks are not numbered.
    """

    _state = ("fast", "slow", "n_played")

    def __init__(
        self,
        tasks: int | NumberedTasks,
        success: Callable[[EpisodeResult], float] | None = None,
        rate_fast: float = 0.1,
        rate_slow: float = 0.1,
        epsilon: float = 0.1,
        p_theta: float | None = None,
    ) -> None:
        super().__init__(tasks)
        self._uniform = np.full(self.n_tasks, 1 / self.n_tasks)
        for name, value in (
            ("rate_fast", rate_fast), ("rate_slow", rate_slow), ("epsilon", epsilon)
        ):  # fmt: skip
            check_range(name, value, low=0, high=1, open_low=True)
        if p_theta is not None:
            check_range("p_theta", p_theta, low=0, high=0.99, open_low=True)
        self.success, self.p_theta, self.epsilon = success, p_theta, epsilon
        self.rate_fast, self.rate_slow = rate_fast, rate_slow

    def initialize(self, rng: np.random.Generator) -> None:
        """Start a run and reset all averages."""
        super().initialize(rng)
        self.fast, self.slow = np.zeros(self.n_tasks), np.zeros(self.n_tasks)
        self.n_played = np.zeros(self.n_tasks, np.int64)

    @property
    def probabilities(self) -> Array:
        """Probability of each task, [N]."""
        progress = learning_progress(self.fast, self.slow, self.p_theta)
        if not progress.any():
            return self._uniform
        share: Array = progress / progress.sum()
        return (1 - self.epsilon) * share + self.epsilon * self._uniform

    def sample(self, n: int) -> Array:
        """Draw n tasks by learning progress."""
        return self.rng.choice(self.n_tasks, size=n, p=self.probabilities)

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Update the averages of the task.

        Raises:
            ValueError: success is NaN or infinite, or outside [0, 1] and ``p_theta`` is set.
        """
        success = result.return_ if self.success is None else self.success(result)
        if self.p_theta is not None and not 0 <= success <= 1:
            raise ValueError(
                f"success={success} must be in [0, 1]. Set success, or leave out p_theta."
            )
        if not np.isfinite(success):
            raise ValueError(f"success={success} of task {task} must be a finite number.")
        if self.n_played[task] == 0:
            self.fast[task] = self.slow[task] = success
        self.fast[task] += self.rate_fast * (success - self.fast[task])
        self.slow[task] += self.rate_slow * (self.fast[task] - self.slow[task])
        self.n_played[task] += 1

    def statistics(self) -> dict[str, float]:
        """Return the number of tasks played and the effective number of tasks."""
        return {
            "CurriculumTasksSeen": int((self.n_played > 0).sum()),
            "CurriculumEffectiveTasks": effective_number(self.probabilities),
        }
