"""Adapter for curricula of the package ``syllabus-rl``."""

import random
import warnings
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult
from rlpyt.curricula.tasks import TaskSpace
from rlpyt.utils.seed import undisturbed


class SyllabusCurriculum(Curriculum):
    """Adapter of a curriculum of Syllabus (Sullivan et al. 2025).

    Calls ``sample(k)``, ``update_on_episode`` and, for episodes with progress,
    ``update_task_progress``, with tasks in encoded form. The curriculum's random numbers come
    from this object's stream, independent of other uses of numpy's and Python's generators.

    Curricula that need every step, or the policy's rollouts, are not supported. For prioritized
    level replay, use ``PrioritizedLevelReplay``.

    Args:
        curriculum: ``syllabus.core.Curriculum``, without its synchronization wrapper.
        tasks: as for ``Curriculum``; ``None`` takes the number of tasks of its task space.

    Raises:
        TypeError: ``curriculum`` is not a curriculum of Syllabus.
        ValueError: ``curriculum`` requires updates at every step.
    """

    def __init__(
        self, curriculum: Any, tasks: int | TaskSpace | tuple[Any, Any] | None = None
    ) -> None:
        if not (hasattr(curriculum, "sample") and hasattr(curriculum, "num_tasks")):
            raise TypeError(f"{curriculum!r:.100} must be a curriculum of syllabus.core.")
        super().__init__(int(curriculum.num_tasks) if tasks is None else tasks)
        if getattr(curriculum, "requires_step_updates", False):
            raise ValueError(
                f"{type(curriculum).__name__} requires updates at every step, but samplers update "
                "curricula once per episode. Use another curriculum."
            )
        self.curriculum = curriculum

    def sample(self, n: int) -> Array:
        """Draw n tasks from the curriculum, in several calls if necessary."""
        with undisturbed():
            seed = int(self.rng.integers(2**32, dtype=np.uint32))
            np.random.seed(seed)
            random.seed(seed)
            chosen: list[Any] = []
            while len(chosen) < n:  # some always return one task
                chosen += list(np.atleast_1d(self.curriculum.sample(k=n - len(chosen))))
        return self.space.check(np.stack(chosen))

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Update the curriculum by the result of an episode."""
        episode = (result.return_, result.length, task, result.progress)
        self.curriculum.update_on_episode(*episode, env_id=result.env)
        if result.progress:
            self.curriculum.update_task_progress(task, result.progress, env_id=result.env)

    def state_dict(self) -> dict[str, Any]:
        """Return the random stream, and the curriculum's state if it has ``state_dict``."""
        state = super().state_dict()
        if hasattr(self.curriculum, "state_dict"):
            state["curriculum"] = self.curriculum.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state; a curriculum without ``state_dict`` restarts, with a warning."""
        super().load_state_dict(state)
        if "curriculum" in state and hasattr(self.curriculum, "load_state_dict"):
            self.curriculum.load_state_dict(state["curriculum"])
        else:
            warnings.warn(
                f"{type(self.curriculum).__name__} has no state_dict: its state before the "
                "checkpoint is lost."
            )
