"""Curriculum that consists of several curricula in sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult
from rlpyt.utils.checks import whole_number


@dataclass(frozen=True)
class Stage:
    """Stage of a sequential curriculum; it ends as soon as one of its conditions holds.

    Attributes:
        curriculum: chooses the tasks during this stage.
        steps: number of environment steps in completed episodes.
        episodes: number of completed episodes.
        return_: mean return of the last ``window`` episodes to reach.
        window: number of episodes of the mean; ``return_`` is not checked before.

    Raises:
        TypeError, ValueError: ``steps``, ``episodes`` or ``window`` is not a whole number above 0.
    """

    curriculum: Curriculum
    steps: int | None = None
    episodes: int | None = None
    return_: float | None = None
    window: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "episodes", "window"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole_number(name, number, 1))

    @property
    def ends(self) -> bool:
        """True if the stage has a condition to end."""
        return not (self.steps is None and self.episodes is None and self.return_ is None)


class Sequential(Curriculum):
    """Curriculum that runs stages in order; the last one does not end.

    Tasks chosen before a stage ended are still played, a few in each environment, and their
    results count for the next stage.

    Args:
        stages: the stages, with the same tasks; all but the last need a condition to end.

    Raises:
        ValueError: ``stages`` is empty, their tasks or scores differ, or one never ends.
    """

    _state = ("stage", "_steps", "_episodes", "_returns")

    def __init__(self, stages: Sequence[Stage]) -> None:
        if not stages:
            raise ValueError("stages must contain at least one stage.")
        super().__init__(stages[0].curriculum.space)
        for i, stage in enumerate(stages):
            if stage.curriculum.space != self.space:
                raise ValueError(
                    f"stage {i} has {stage.curriculum.space}, expected {self.space} as in stage 0."
                )
            if i + 1 < len(stages) and not stage.ends:
                raise ValueError(f"stage {i} never ends. Set steps, episodes or return_.")
        scores = [s for stage in stages if (s := stage.curriculum.score) is not None]
        if any(score != scores[0] for score in scores):
            raise ValueError(
                "curricula of stages have different scores. Use the same score for all."
            )
        self.stages = list(stages)
        self.score = scores[0] if scores else None

    def initialize(self, rng: np.random.Generator) -> None:
        """Start a run with the first stage."""
        super().initialize(rng)
        for stage, own in zip(self.stages, rng.spawn(len(self.stages)), strict=True):
            stage.curriculum.initialize(own)
        self._enter(0)

    def _enter(self, stage: int) -> None:
        self.stage = stage
        self._steps = self._episodes = 0
        self._returns: list[float] = []

    def sample(self, n: int) -> Array:
        """Draw n tasks from the current stage's curriculum."""
        return self.stages[self.stage].curriculum.sample(n)

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Update the current stage's curriculum; start the next stage if a condition holds."""
        stage = self.stages[self.stage]
        stage.curriculum.update(task, result)
        self._steps += result.length
        self._episodes += 1
        self._returns = [*self._returns, float(result.return_)][-stage.window :]
        if self.stage + 1 < len(self.stages) and self._is_over(stage):
            self._enter(self.stage + 1)

    def _is_over(self, stage: Stage) -> bool:
        full = len(self._returns) == stage.window
        mean = float(np.mean(self._returns))
        return (
            (stage.steps is not None and self._steps >= stage.steps)
            or (stage.episodes is not None and self._episodes >= stage.episodes)
            or (stage.return_ is not None and full and mean >= stage.return_)
        )

    def drop_unfinished(self) -> None:
        """Call ``drop_unfinished`` of all stages' curricula."""
        for stage in self.stages:
            stage.curriculum.drop_unfinished()

    def statistics(self) -> dict[str, float]:
        """Return the index of the current stage."""
        return {"CurriculumStage": self.stage}

    def state_dict(self) -> dict[str, Any]:
        """Return the progress in stages and the states of all stages' curricula."""
        inner = [stage.curriculum.state_dict() for stage in self.stages]
        return {**super().state_dict(), "stages": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``.

        Raises:
            ValueError: it has another number of stages, or see ``Curriculum``.
        """
        if len(state["stages"]) != len(self.stages):
            raise ValueError(
                f"stages of a curriculum must be {len(state['stages'])}, got {len(self.stages)}. "
                "Resume with the stages of the run."
            )
        super().load_state_dict(state)
        for stage, inner in zip(self.stages, state["stages"], strict=True):
            stage.curriculum.load_state_dict(inner)
