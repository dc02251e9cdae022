"""How tasks get from a curriculum into the environments of a sampler, and results back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.traj_stats import BatchTrajStats
from rlpyt.utils.seed import stream

FIRST = 2  # tasks for each environment before anything is known of the length of episodes


class TaskFlow:
    """Keeps each environment supplied with tasks, and tells the curriculum what came of them.

    The sampler has one, in its own process, and calls it once per batch. Every batch says by
    itself which task each step was of (``env_info.task``), so results depend on nothing but the
    batch, and are the same in all layouts. Each environment has about as many tasks in stock as
    episodes ended lately in one batch, plus one; every task that was chosen is played, in order.

    Args:
        curriculum: what chooses them; it begins a new run.
        B: environments.
        seed, rank: of the sampler; where there are several, each has a curriculum of its own.
    """

    def __init__(self, curriculum: Curriculum, B: int, seed: int, rank: int = 0) -> None:
        self.curriculum, self.B = curriculum, B
        curriculum.initialize(stream(seed, "curriculum", rank))
        self.stock = np.zeros(B, np.int64)  # tasks that wait in each environment
        self.wanted = FIRST
        self._begin_episodes()

    def _begin_episodes(self) -> None:
        empty = [TrajInfo() for _ in range(self.B)]
        self._returns = BatchTrajStats(empty, discount=1)
        self._scores = BatchTrajStats(empty, discount=1)

    def choose(self) -> list[Array]:
        """Tasks to add to the stock of each environment, [B] arrays [n_b, ...]."""
        missing = np.maximum(self.wanted - self.stock, 0)
        n = int(missing.sum())
        tasks = self.curriculum.sample(n) if n else np.zeros(0, np.int64)
        tasks = self.curriculum.space.check(tasks) if n else tasks
        if len(tasks) != n:
            raise ValueError(
                f"{type(self.curriculum).__name__}.sample({n}) returned {len(tasks)} tasks."
            )
        return np.split(tasks, np.cumsum(missing)[:-1])

    def note_stock(self, stock: Sequence[int]) -> None:
        """How many tasks each environment has waiting, after it was given some."""
        self.stock[:] = stock

    def hear(self, samples: Any, interrupted: bool = False) -> None:
        """Tell the curriculum of all episodes that ended in a batch, by environment, then time.

        Args:
            samples: numpy ``Samples`` [T, B].
            interrupted: whether the batch does not follow the one before, as ``BaseSampler`` says;
                all episodes then count from its first row on.
        """
        if interrupted:
            self._begin_episodes()
            self.curriculum.drop_unfinished()
        env, score = samples.env, self.curriculum.score
        ended = np.asarray(getattr(env.env_info, "traj_done", env.done), bool)
        sums = self._returns.add(env.reward, ended, TrajInfo)
        score_sums = sums
        if score is not None:
            score_sums = self._scores.add(np.asarray(score(samples)), ended, TrajInfo)
        bs, ts = np.nonzero(ended.T)
        progress = getattr(env.env_info, "task_completion", None)
        for b, t, episode, scored in zip(bs, ts, sums, score_sums, strict=True):
            result = EpisodeResult(
                return_=episode.Return,
                length=episode.Length,
                score=float("nan") if score is None else scored.Return / scored.Length,
                progress=0.0 if progress is None else float(progress[t, b]),
                env=int(b),
            )
            task = env.env_info.task[t, b]
            self.curriculum.update(int(task) if np.ndim(task) == 0 else np.array(task), result)
        n_ended = ended.sum(0)
        self.stock = np.maximum(self.stock - n_ended, 0)
        self.wanted = int(n_ended.max()) + 1

    def state_dict(self) -> dict[str, Any]:
        """The curriculum's state, and episodes in progress."""
        return {
            "curriculum": self.curriculum.state_dict(),
            "stock": self.stock.copy(),
            "wanted": self.wanted,
            "returns": self._returns.state_dict(),
            "scores": self._scores.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], exact: bool) -> None:
        """Go on from a saved state.

        Args:
            state: as ``state_dict`` gave it.
            exact: whether the environments go on, too; else they have begun new episodes, of
                tasks that were chosen before anything was known.
        """
        self.curriculum.load_state_dict(state["curriculum"])
        self._begin_episodes()
        if exact:
            self.stock[:], self.wanted = state["stock"], int(state["wanted"])
            self._returns.load_state_dict(state["returns"])
            self._scores.load_state_dict(state["scores"])
        else:
            self.curriculum.drop_unfinished()
