"""Curricula of the package ``syllabus-rl`` in our samplers."""

import random
import warnings
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult
from rlpyt.curricula.tasks import TaskSpace
from rlpyt.utils.seed import undisturbed


class SyllabusCurriculum(Curriculum):
    """Lets a curriculum of Syllabus (Sullivan et al. 2025) choose tasks.

    It is asked by ``sample(k)``, and told by ``update_on_episode`` and, where an episode had
    progress, ``update_task_progress``; of tasks both sides mean the encoded form. Its random
    numbers come from our stream, whatever else draws from numpy's and Python's generators.

    Curricula that need every step, or the policy's rollouts, cannot be told: for prioritised
    level replay take ours.

    Args:
        curriculum: ``syllabus.core.Curriculum``, without its synchronisation wrapper.
        tasks: as of ``Curriculum``; ``None``: as many as its task space has.

    Raises:
        TypeError: it is no curriculum of Syllabus.
        ValueError: it needs updates at every step.
    """

    def __init__(
        self, curriculum: Any, tasks: int | TaskSpace | tuple[Any, Any] | None = None
    ) -> None:
        if not (hasattr(curriculum, "sample") and hasattr(curriculum, "num_tasks")):
            raise TypeError(f"{curriculum!r:.100} must be a curriculum of syllabus.core.")
        super().__init__(int(curriculum.num_tasks) if tasks is None else tasks)
        if getattr(curriculum, "requires_step_updates", False):
            raise ValueError(
                f"{type(curriculum).__name__} wants to hear of every step, and samplers tell of "
                "episodes: take another curriculum."
            )
        self.curriculum = curriculum

    def sample(self, n: int) -> Array:
        """As the curriculum chooses, in as many calls as it takes."""
        with undisturbed():
            seed = int(self.rng.integers(2**32, dtype=np.uint32))
            np.random.seed(seed)
            random.seed(seed)
            chosen: list[Any] = []
            while len(chosen) < n:  # some return one task, however many were asked for
                chosen += list(np.atleast_1d(self.curriculum.sample(k=n - len(chosen))))
        return self.space.check(np.stack(chosen))

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Tell it of the episode."""
        told = (result.return_, result.length, task, result.progress)
        self.curriculum.update_on_episode(*told, env_id=result.env)
        if result.progress:
            self.curriculum.update_task_progress(task, result.progress, env_id=result.env)

    def state_dict(self) -> dict[str, Any]:
        """Our stream, and the curriculum's state where it can tell it."""
        state = super().state_dict()
        if hasattr(self.curriculum, "state_dict"):
            state["curriculum"] = self.curriculum.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on; a curriculum that could not tell its state begins anew, with a warning."""
        super().load_state_dict(state)
        if "curriculum" in state and hasattr(self.curriculum, "load_state_dict"):
            self.curriculum.load_state_dict(state["curriculum"])
        else:
            warnings.warn(
                f"{type(self.curriculum).__name__} has no state_dict: it has forgotten what it "
                "knew before the checkpoint."
            )
