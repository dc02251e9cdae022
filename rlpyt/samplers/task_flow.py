"""Transfer of tasks from a curriculum to a sampler's environments, and of results back."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.env_batch import needs_reset
from rlpyt.samplers.traj_stats import BatchTrajStats
from rlpyt.utils.seed import stream

INITIAL_QUEUE = 2  # tasks queued for each environment while the lengths of episodes are unknown


class TaskFlow:
    """Queues tasks for each environment, and reports the results of episodes to the curriculum.

    The sampler's process calls it once per batch. Every batch records the task of each step
    (``env_info.task``), so results depend only on the batch and are the same in all layouts. Each
    environment's queue is filled to n + 1 tasks, where n is the maximum number of episodes that an
    environment ended in the last batch. Every chosen task is played, in order.

    Args:
        curriculum: curriculum that chooses the tasks; it is initialized here.
        B: number of environments.
        seed: seed of the run.
        rank: index of the sampler; each of several samplers has its own curriculum.
    """

    def __init__(self, curriculum: Curriculum, B: int, seed: int, rank: int = 0) -> None:
        self.curriculum, self.B = curriculum, B
        curriculum.initialize(stream(seed, "curriculum", rank))
        score: Any = curriculum.score
        values = curriculum.values
        self._score = score if values is None else score.for_values(*values)
        self.queued = np.zeros(B, np.int64)  # number of tasks queued in each environment
        self.wanted = INITIAL_QUEUE  # number of tasks to queue in each environment
        self._begin_episodes()

    def abandon(self) -> None:
        """Forget unfinished episodes: the environments start new ones."""
        self._begin_episodes()
        self.curriculum.drop_unfinished()

    def _begin_episodes(self) -> None:
        empty = [TrajInfo() for _ in range(self.B)]
        self._returns = BatchTrajStats(empty, discount=1)
        self._scores = BatchTrajStats(empty, discount=1)

    def draw(self, envs: range) -> list[Array]:
        """Return the first tasks of these environments, which are new, arrays [2, ...]."""
        self.queued[envs] = 0
        return self._split(np.full(len(envs), INITIAL_QUEUE))

    def choose(self) -> list[Array]:
        """Return the tasks to add to the queue of each environment, [B] arrays [n_b, ...]."""
        return self._split(np.maximum(self.wanted - self.queued, 0))

    def _split(self, missing: Array) -> list[Array]:
        """Choose this many tasks for each environment."""
        n = int(missing.sum())
        tasks = self.curriculum.sample(n) if n else np.zeros(0, np.int64)
        tasks = self.curriculum.space.check(tasks) if n else tasks
        if len(tasks) != n:
            raise ValueError(
                f"{type(self.curriculum).__name__}.sample({n}) returned {len(tasks)} tasks."
            )
        return np.split(tasks, np.cumsum(missing)[:-1])

    def set_queued(self, queued: Sequence[int]) -> None:
        """Set the number of tasks queued in each environment [B]."""
        self.queued[:] = queued

    def report(self, samples: Any, interrupted: bool = False) -> None:
        """Report all episodes that ended in a batch, ordered by environment, then time.

        Args:
            samples: numpy ``Samples`` [T, B].
            interrupted: the batch does not continue the previous one
                (``BaseSampler.interrupted``), so new episodes start in its first row.
        """
        if interrupted:
            self.abandon()
        env, score = samples.env, self._score
        dropped = np.broadcast_to(np.asarray(getattr(env, "void", False), bool), env.done.shape)
        ended = np.asarray(needs_reset(env), bool) | dropped
        sums = self._returns.add(env.reward, ended, TrajInfo)
        score_sums = sums
        if score is not None:
            score_sums = self._scores.add(np.asarray(score(samples)), ended, TrajInfo)
        bs, ts = np.nonzero(ended.T)
        progress = getattr(env.env_info, "task_completion", None)
        for b, t, episode, scored in zip(bs, ts, sums, score_sums, strict=True):
            if dropped[t, b]:
                continue
            result = EpisodeResult(
                return_=episode.Return,
                length=episode.Length,
                score=float("nan") if score is None else scored.Return / scored.Length,
                progress=0.0 if progress is None else float(progress[t, b]),
                env=int(b),
            )
            task = env.env_info.task[t, b]
            self.curriculum.update(int(task) if np.ndim(task) == 0 else np.array(task), result)
        if dropped.any():
            self.curriculum.drop_unfinished()
        ended[1:] &= ~(dropped[1:] & dropped[:-1])  # one episode for adjacent rows
        n_ended = ended.sum(0)
        self.queued = np.maximum(self.queued - n_ended, 0)
        self.wanted = int(n_ended.max()) + 1

    def state_dict(self) -> dict[str, Any]:
        """Return the curriculum's state, and that of unfinished episodes."""
        return {
            "curriculum": self.curriculum.state_dict(),
            "stock": self.queued.copy(),
            "wanted": self.wanted,
            "returns": self._returns.state_dict(),
            "scores": self._scores.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], exact: bool) -> None:
        """Load a state from ``state_dict``.

        Args:
            state: the state.
            exact: True if the environments resume, too; otherwise they have started new episodes.
        """
        self.curriculum.load_state_dict(state["curriculum"])
        self._begin_episodes()
        if exact:
            self.queued[:], self.wanted = state["stock"], int(state["wanted"])
            self._returns.load_state_dict(state["returns"])
            self._scores.load_state_dict(state["scores"])
        else:
            self.curriculum.drop_unfinished()
