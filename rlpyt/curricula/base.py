"""Curriculum interface: choose the tasks of episodes and process their results."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rlpyt.curricula.tasks import NumberedTasks, TaskSpace, task_space
from rlpyt.envs.state import pack, pack_rng, set_rng, unpack
from rlpyt.utils.recorded import Recorded

Array = np.ndarray[Any, Any]
Score = Callable[[Any], Array]  # samples [T, B] -> score of each step [T, B]


class EpisodeResult(NamedTuple):
    """Result of one episode.

    Attributes:
        return_: sum of rewards.
        length: number of steps.
        score: mean of the curriculum's ``score`` over the steps; NaN without one.
        progress: ``env_info.task_completion`` of the last step, 1 for a solved task; 0 in
            environments without that field.
        env: index of the environment in the sampler.
    """

    return_: float
    length: int
    score: float = float("nan")
    progress: float = 0.0
    env: int = 0


class Curriculum(Recorded):
    """Base class of curricula. Samplers call ``sample`` and ``update`` once per batch.

    A curriculum runs in the process of the sampler, independent of workers. The constructor takes
    settings only; ``initialize`` starts a run.

    Args:
        tasks: number of tasks, or bounds ``(low, high)`` for tasks that are vectors.

    Attributes:
        space: the task space.
        score: function for the score of each step, or ``None``; see ``curricula.scores``.
        rng: random generator, set by ``initialize``.
    """

    score: Score | None = None
    values: tuple[float, float] | None = None  # discount and gae_lambda of the agent's values
    rng: np.random.Generator
    _state: tuple[str, ...] = ()  # attributes saved in checkpoints, see ``envs.state``

    def __init__(self, tasks: int | TaskSpace | tuple[Any, Any]) -> None:
        self.space = task_space(tasks)

    @property
    def n_tasks(self) -> int:
        """Number of tasks.

        Raises:
            ValueError: tasks are not numbered.
        """
        if not isinstance(self.space, NumberedTasks):
            raise ValueError(f"{type(self).__name__} needs numbered tasks, got {self.space}.")
        return self.space.n

    def initialize(self, rng: np.random.Generator) -> None:
        """Start a run and reset all state."""
        self.rng = rng

    def sample(self, n: int) -> Array:
        """Choose tasks for the next n episodes to start.

        Returns:
            [n] int64, or [n, D] float64 for vectors.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement sample.")

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Process the result of an episode.

        Args:
            task: task of the episode, int or [D] float64.
            result: result of the episode.
        """

    def drop_unfinished(self) -> None:
        """Discard tasks without a result, since their environments were restarted."""

    def statistics(self) -> dict[str, float]:
        """Return values to log in progress.csv, always with the same keys."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the attributes named in ``_state`` and the random stream as a plain tree.

        Raises:
            TypeError: an attribute in ``_state`` cannot be stored in a plain tree.
        """
        return {"rng": pack_rng(self.rng), **{name: self._packed(name) for name in self._state}}

    def _packed(self, name: str) -> Any:
        try:
            return pack(getattr(self, name))
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}._state contains {name!r}: {error} Checkpoints support "
                "numbers, strings, arrays, and lists, tuples and dicts (with string keys) of them."
            ) from None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``.

        Raises:
            ValueError: a number or array has become something else, or an array of another shape.
        """
        set_rng(self.rng, state["rng"])
        for name in self._state:
            value, own = unpack(state[name]), getattr(self, name)
            for kind in (np.ndarray, int | float):
                if isinstance(own, kind) and not isinstance(value, kind):
                    was = type(own).__name__
                    raise ValueError(f"{name} of a curriculum must be {was}, got {value!r:.80}.")
            if isinstance(own, np.ndarray) and value.shape != own.shape:
                raise ValueError(
                    f"{name} of a curriculum must have shape {own.shape}, got {value.shape}. "
                    "Resume with the number of tasks of the run."
                )
            setattr(self, name, value)


def effective_number(probabilities: Array) -> float:
    """Return the effective number of tasks, the exponential of the entropy."""
    p = probabilities[probabilities > 0]
    return float(np.exp(-(p * np.log(p)).sum()))
