"""One curriculum after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult


@dataclass(frozen=True)
class Stage:
    """A part of a sequential curriculum; it ends as soon as one of its conditions holds.

    Attributes:
        curriculum: chooses the tasks meanwhile.
        steps: environment steps in whole episodes.
        episodes: so many have ended.
        return_: the mean return of the last ``window`` episodes is at least this.
        window: episodes; earlier than after so many the return does not count.
    """

    curriculum: Curriculum
    steps: int | None = None
    episodes: int | None = None
    return_: float | None = None
    window: int = 50

    @property
    def ends(self) -> bool:
        """Whether there is a condition at all."""
        return not (self.steps is None and self.episodes is None and self.return_ is None)


class Sequential(Curriculum):
    """Goes through stages; the last one stays.

    Tasks that were chosen before a stage ended are still played, a few in each environment, and
    their results count for the next one.

    Args:
        stages: in order, over the same tasks; all but the last must be able to end.

    Raises:
        ValueError: there are none, their tasks differ, or one never ends.
    """

    _state = ("stage", "_steps", "_episodes", "_returns")

    def __init__(self, stages: Sequence[Stage]) -> None:
        if not stages:
            raise ValueError("a sequential curriculum needs at least one stage.")
        super().__init__(stages[0].curriculum.space)
        for i, stage in enumerate(stages):
            if stage.curriculum.space != self.space:
                raise ValueError(f"stage {i} has {stage.curriculum.space}, stage 0 {self.space}.")
            if i + 1 < len(stages) and not stage.ends:
                raise ValueError(f"stage {i} never ends: give it steps, episodes or return_.")
        scores = {stage.curriculum.score for stage in stages} - {None}
        if len(scores) > 1:
            raise ValueError("the stages' curricula want different scores; give them the same.")
        self.stages = list(stages)
        self.score = next(iter(scores), None)

    def initialize(self, rng: np.random.Generator) -> None:
        """Begin with the first stage."""
        super().initialize(rng)
        for stage, own in zip(self.stages, rng.spawn(len(self.stages)), strict=True):
            stage.curriculum.initialize(own)
        self._enter(0)

    def _enter(self, stage: int) -> None:
        self.stage = stage
        self._steps = self._episodes = 0
        self._returns: list[float] = []

    def sample(self, n: int) -> Array:
        """As the stage's curriculum does."""
        return self.stages[self.stage].curriculum.sample(n)

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Tell the stage's curriculum; go on to the next stage when it is time."""
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
        """Tell all stages' curricula."""
        for stage in self.stages:
            stage.curriculum.drop_unfinished()

    def statistics(self) -> dict[str, float]:
        """The stage, counted from 0."""
        return {"CurriculumStage": self.stage}

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, and the states of all stages' curricula."""
        inner = [stage.curriculum.state_dict() for stage in self.stages]
        return {**super().state_dict(), "stages": inner}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""
        super().load_state_dict(state)
        for stage, inner in zip(self.stages, state["stages"], strict=True):
            stage.curriculum.load_state_dict(inner)
