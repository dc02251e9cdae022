"""What a curriculum is: it chooses the tasks of episodes, and hears what came of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rlpyt.curricula.tasks import NumberedTasks, TaskSpace, task_space
from rlpyt.envs.state import pack, pack_rng, set_rng, unpack

Array = np.ndarray[Any, Any]
Score = Callable[[Any], Array]  # samples [T, B] -> of each step, [T, B]


class EpisodeResult(NamedTuple):
    """What came of one episode.

    Attributes:
        return_: sum of its rewards.
        length: its steps.
        score: mean over its steps of what the curriculum's ``score`` gives; NaN without one.
        progress: ``env_info.task_completion`` of its last step, 1 for a task that was solved; 0 in
            environments without that field.
        env: in which environment of the sampler.
    """

    return_: float
    length: int
    score: float = float("nan")
    progress: float = 0.0
    env: int = 0


class Curriculum:
    """Base of curricula. A sampler that is given one asks it, and tells it, once per batch.

    It lives in the process of the sampler, so it need not know of workers. It is constructed with
    settings alone; ``initialize`` begins a run.

    Args:
        tasks: how many there are, or bounds ``(low, high)`` of tasks that are vectors.

    Attributes:
        space: the tasks.
        score: which quantity of each step it wants the mean of, or ``None``; see
            ``curricula.scores``.
        rng: its stream of random numbers, from ``initialize`` on.
    """

    score: Score | None = None
    rng: np.random.Generator
    _state: tuple[str, ...] = ()  # attributes that a checkpoint keeps, see ``envs.state``

    def __init__(self, tasks: int | TaskSpace | tuple[Any, Any]) -> None:
        self.space = task_space(tasks)

    @property
    def n_tasks(self) -> int:
        """The number of tasks.

        Raises:
            ValueError: they are not numbered.
        """
        if not isinstance(self.space, NumberedTasks):
            raise ValueError(f"{type(self).__name__} needs numbered tasks, got {self.space}.")
        return self.space.n

    def initialize(self, rng: np.random.Generator) -> None:
        """Begin a run, as if there had been none before."""
        self.rng = rng

    def sample(self, n: int) -> Array:
        """Choose tasks for n episodes that begin in the near future.

        Returns:
            [n] int64, or [n, D] float64 for vectors.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement sample.")

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Take the result of an episode into account.

        Args:
            task: int, or [D] float64.
            result: of the episode.
        """

    def drop_unfinished(self) -> None:
        """Expect no result of tasks that were chosen and not heard of: environments began anew."""

    def statistics(self) -> dict[str, float]:
        """What a row of progress.csv says about it, always under the same names."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """All that it has learnt, and its random stream, as a plain tree.

        Raises:
            TypeError: one of ``_state`` is no plain value.
        """
        return {"rng": pack_rng(self.rng), **{name: self._packed(name) for name in self._state}}

    def _packed(self, name: str) -> Any:
        try:
            return pack(getattr(self, name))
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}._state names {name!r}, and {error} A checkpoint keeps "
                "numbers, strings, arrays, and lists, tuples and dicts (with string keys) of such."
            ) from None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""
        set_rng(self.rng, state["rng"])
        for name in self._state:
            setattr(self, name, unpack(state[name]))


def effective_number(probabilities: Array) -> float:
    """The number of equally likely tasks that would be as hard to foresee: exp of the entropy."""
    p = probabilities[probabilities > 0]
    return float(np.exp(-(p * np.log(p)).sum()))
