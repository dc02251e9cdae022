"""Prioritized level replay: prefer levels with high learning potential."""

from typing import Any

import numpy as np

from rlpyt.curricula.base import Array, Curriculum, EpisodeResult, Score, effective_number
from rlpyt.curricula.scores import GaeMagnitude
from rlpyt.curricula.tasks import NumberedTasks
from rlpyt.utils.checks import check_range


def replay_probabilities(
    score: Array, last: Array, now: int, temperature: float, staleness: float
) -> Array:
    """Return the probabilities of replaying the seen levels (Jiang et al. 2021, section 3).

        P(i) = (1 - rho) P_S(i) + rho P_C(i)
        P_S(i) = h_i^(1/beta) / sum_j h_j^(1/beta),    h_i = 1 / rank(S_i)
        P_C(i) = (c - C_i) / sum_j (c - C_j)

    The highest score has rank 1; ties are ranked by index.

    Args:
        score: [N], S.
        last: [N] int64, C_i: the count when level i was last chosen.
        now: c, number of levels chosen so far.
        temperature: beta; towards 0 only the highest score is chosen, large values approach a
            uniform distribution.
        staleness: rho in [0, 1].

    Returns:
        [N] probabilities.
    """
    rank = np.empty(len(score))
    rank[np.argsort(-score, kind="stable")] = np.arange(1, len(score) + 1)
    by_score: Array = rank ** (-1 / temperature)
    age = (now - last).astype(np.float64)
    by_age: Array = age if age.any() else np.ones(len(age))
    p: Array = (1 - staleness) * by_score / by_score.sum() + staleness * by_age / by_age.sum()
    return p


class PrioritizedLevelReplay(Curriculum):
    """Curriculum that replays levels by their last score (Jiang et al. 2021).

    With probability n_seen / N, or ``replay_prob``, a level seen before is drawn by
    ``replay_probabilities``; otherwise an unseen one is drawn uniformly. A level is seen once its
    first episode has ended. Scores are the mean of ``score`` over the episode, computed before
    the agent learns from the batch, as in the paper.

    Args:
        tasks: number of levels.
        score: score of each step, see ``curricula.scores``.
        temperature: beta, 0.1-1; 0.1 in the paper.
        staleness: rho, 0-0.5; 0.1 in the paper.
        replay_prob: probability of replaying a level while there are unseen ones; ``None``: the
            fraction of levels seen.
        score_rate: weight of a new score against the old one, in (0, 1]; 1 in the paper.

    Raises:
        ValueError: a number is out of range.
    """

    _state = ("scores", "last", "seen", "begun", "now")

    def __init__(
        self,
        tasks: int | NumberedTasks,
        score: Score | None = None,
        temperature: float = 0.1,
        staleness: float = 0.1,
        replay_prob: float | None = None,
        score_rate: float = 1.0,
    ) -> None:
        super().__init__(tasks)
        check_range("temperature", temperature, low=0, open_low=True)
        check_range("staleness", staleness, low=0, high=1)
        check_range("score_rate", score_rate, low=0, high=1, open_low=True)
        if replay_prob is not None:
            check_range("replay_prob", replay_prob, low=0, high=1)
        self.score = GaeMagnitude() if score is None else score
        self.temperature, self.staleness = temperature, staleness
        self.replay_prob, self.score_rate = replay_prob, score_rate

    def initialize(self, rng: np.random.Generator) -> None:
        """Start a run with all levels unseen."""
        super().initialize(rng)
        N = self.n_tasks
        self.scores, self.last = np.zeros(N), np.zeros(N, np.int64)
        self.seen = np.zeros(N, bool)  # has a score
        self.begun = np.zeros(N, bool)  # was chosen
        self.now = 0

    @property
    def probabilities(self) -> Array:
        """Replay probability of each level, [N]; zero if unseen. Uniform if all are unseen."""
        if not self.seen.any():
            return np.full(self.n_tasks, 1 / self.n_tasks)
        p = np.zeros(self.n_tasks)
        score, last = self.scores[self.seen], self.last[self.seen]
        p[self.seen] = replay_probabilities(score, last, self.now, self.temperature, self.staleness)
        return p

    def sample(self, n: int) -> Array:
        """Draw n levels one after the other; each draw increases the staleness of the others."""
        return np.array([self._sample() for _ in range(n)], np.int64)

    def _sample(self) -> int:
        share = self.seen.mean() if self.replay_prob is None else self.replay_prob
        unseen = np.flatnonzero(~self.begun)
        if len(unseen) and not (self.seen.any() and self.rng.random() < share):
            level = int(self.rng.choice(unseen))
        else:
            level = int(self.rng.choice(self.n_tasks, p=self.probabilities))
        self.now += 1
        self.begun[level], self.last[level] = True, self.now
        return level

    def update(self, task: Any, result: EpisodeResult) -> None:
        """Update the score of a level by that of its episode.

        Raises:
            ValueError: the score is NaN or infinite.
        """
        if not np.isfinite(result.score):
            raise ValueError(
                f"score={result.score} of task {task} must be a finite number. Correct the score, "
                "or the values that it reads."
            )
        rate = self.score_rate if self.seen[task] else 1.0
        self.scores[task] += rate * (result.score - self.scores[task])
        self.seen[task] = self.begun[task] = True

    def drop_unfinished(self) -> None:
        """Treat levels without a finished episode as unseen again."""
        self.begun[:] = self.seen

    def statistics(self) -> dict[str, float]:
        """Return the number of levels seen and the effective number of levels replayed."""
        return {
            "CurriculumTasksSeen": int(self.seen.sum()),
            "CurriculumEffectiveTasks": effective_number(self.probabilities),
        }
