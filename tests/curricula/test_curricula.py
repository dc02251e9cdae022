"""Each curriculum against its definition, written out."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from rlpyt.curricula.base import Curriculum, EpisodeResult, effective_number
from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.learning_progress import LearningProgress, learning_progress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay, replay_probabilities
from rlpyt.curricula.sequential import Sequential, Stage
from rlpyt.curricula.tasks import BoxTasks, NumberedTasks, task_space
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler


def begun(curriculum, seed=0):
    curriculum.initialize(np.random.default_rng(seed))
    return curriculum


def result(return_=0.0, length=10, score=0.0):
    return EpisodeResult(return_, length, score)


# Tasks.


def test_tasks_are_numbers_or_vectors_between_bounds():
    assert task_space(4) == NumberedTasks(4)
    box = task_space(([0, 1], [2, 1]))
    assert box == BoxTasks((0.0, 1.0), (2.0, 1.0)) and task_space(box) is box
    drawn = box.draw(np.random.default_rng(0), 100)
    assert drawn.shape == (100, 2) and (drawn[:, 1] == 1).all()
    assert drawn[:, 0].min() < 0.1 and drawn[:, 0].max() > 1.9
    assert box.check([[0.5, 1]]).tolist() == [[0.5, 1.0]]


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, ([0], [1, 2]), ([1], [0]), "ten"])
def test_other_tasks_are_refused(wrong):
    with pytest.raises(ValueError, match="number of tasks"):
        task_space(wrong)


def test_tasks_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"\[0, 4\)"):
        NumberedTasks(4).check([0, 4])
    with pytest.raises(ValueError, match="integers"):
        NumberedTasks(4).check([0.5])
    with pytest.raises(ValueError, match=r"must be in \[\("):
        BoxTasks((0.0,), (1.0,)).check([[1.5]])
    with pytest.raises(ValueError, match=r"\[n, 1\]"):
        BoxTasks((0.0,), (1.0,)).check([0.5])


# Domain randomization.


def test_all_tasks_are_equally_likely():
    counts = np.bincount(begun(DomainRandomization(5)).sample(10_000), minlength=5)
    assert (abs(counts - 2000) < 4 * math.sqrt(2000 * 0.8)).all()
    among = begun(DomainRandomization(5, among=[1, 3])).sample(1000)
    assert set(among) == {1, 3} and abs((among == 1).sum() - 500) < 65
    assert begun(DomainRandomization(([0.0], [1.0]))).sample(3).shape == (3, 1)
    with pytest.raises(ValueError, match=r"\[0, 5\)"):
        DomainRandomization(5, among=[5])


# Sequences.


def stages(**end):
    return Sequential(
        [Stage(DomainRandomization(6, among=[0]), **end), Stage(DomainRandomization(6, among=[5]))]
    )


@pytest.mark.parametrize(
    ("end", "episodes"),
    [
        (dict(episodes=3), 3),
        (dict(steps=35), 4),  # of 10 each
        (dict(return_=2.0, window=2), 4),  # returns 0, 1, 2, 3: the last two are 2.5 on average
        (dict(return_=2.0, window=1), 3),
        (dict(return_=-9.0, window=5), 5),  # not before the window is full
        (dict(return_=99.0, episodes=6), 6),
    ],
)
def test_a_stage_ends_when_its_condition_holds(end, episodes):
    curriculum = begun(stages(**end))
    for i in range(episodes):
        assert curriculum.sample(2).tolist() == [0, 0] and curriculum.statistics() == {
            "CurriculumStage": 0
        }
        curriculum.update(0, result(return_=float(i)))
    assert curriculum.sample(2).tolist() == [5, 5]
    for _ in range(20):
        curriculum.update(5, result())  # the last one stays
    assert curriculum.stage == 1


def test_another_number_of_stages_cannot_be_restored():
    saved = begun(stages(episodes=3)).state_dict()
    other = begun(Sequential([Stage(DomainRandomization(6))]))
    with pytest.raises(ValueError, match="stages of a curriculum must be 2, got 1"):
        other.load_state_dict(saved)


def test_stages_may_have_equal_scores_that_have_no_hash():
    @dataclass
    class Score:
        factor: float

        def __call__(self, samples):
            return self.factor * samples.env.reward

    levels = [PrioritizedLevelReplay(3, score=Score(2.0)) for _ in range(2)]
    assert Sequential([Stage(levels[0], steps=1), Stage(levels[1])]).score == Score(2.0)


def test_invalid_sequences_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        Sequential([])
    with pytest.raises(ValueError, match="stage 0 never ends"):
        stages()
    with pytest.raises(ValueError, match="stage 1 has"):
        Sequential([Stage(DomainRandomization(3), steps=1), Stage(DomainRandomization(4))])
    levels = [PrioritizedLevelReplay(3, score=score) for score in (np.ones, np.zeros)]
    with pytest.raises(ValueError, match="different scores"):
        Sequential([Stage(levels[0], steps=1), Stage(levels[1])])
    inner = Stage(PrioritizedLevelReplay(3))
    assert Sequential([Stage(DomainRandomization(3), steps=1), inner]).score is not None


# Learning progress.


def test_learning_progress_by_hand():
    fast, slow = np.array([0.5, 0.2, 0.9]), np.array([0.1, 0.2, 1.0])
    np.testing.assert_allclose(learning_progress(fast, slow, None), [0.4, 0, 0.1])
    # f(p) with theta 0.1: f(0.5) = 0.45 / 0.5, f(0.1) = 0.09 / 0.18, f(0.9) = 0.81 / 0.82, f(1) = 1
    expected = [0.9 - 0.5, 0, 1 - 0.81 / 0.82]
    np.testing.assert_allclose(learning_progress(fast, slow, 0.1), expected)


def test_tasks_are_chosen_by_progress():
    curriculum = begun(LearningProgress(3, rate_fast=0.5, rate_slow=0.25, epsilon=0.3))
    np.testing.assert_allclose(curriculum.probabilities, 1 / 3)
    for task, return_ in [(0, 4.0), (0, 8.0), (2, 1.0), (2, 0.0)]:
        curriculum.update(task, result(return_))
    # Task 0: both 4; fast 6, slow 4.5. Task 2: both 1; fast 0.5, slow 0.875.
    progress = np.array([1.5, 0, 0.375])
    expected = 0.7 * progress / 1.875 + 0.1
    np.testing.assert_allclose(curriculum.probabilities, expected)
    counts = np.bincount(curriculum.sample(10_000), minlength=3) / 10_000
    np.testing.assert_allclose(counts, expected, atol=0.02)
    assert curriculum.statistics()["CurriculumTasksSeen"] == 2


def test_success_may_be_anything_of_an_episode():
    curriculum = begun(LearningProgress(2, success=lambda r: float(r.length > 5), p_theta=0.1))
    curriculum.update(1, result(return_=99.0, length=7))
    assert curriculum.fast.tolist() == [0, 1]
    with pytest.raises(ValueError, match="success=99.0"):
        begun(LearningProgress(2, p_theta=0.1)).update(0, result(99.0))
    with pytest.raises(ValueError, match="epsilon"):
        LearningProgress(2, epsilon=0.0)
    with pytest.raises(ValueError, match="numbered"):
        begun(LearningProgress(([0.0], [1.0])))


# Prioritised level replay.


def plain_replay_probabilities(scores, last, now, beta, rho):
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    weights = [(1 / (1 + order.index(i))) ** (1 / beta) for i in range(len(scores))]
    ages = [now - t for t in last]
    if sum(ages) == 0:
        ages = [1] * len(ages)
    return [
        (1 - rho) * w / sum(weights) + rho * age / sum(ages)
        for w, age in zip(weights, ages, strict=True)
    ]


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_replay_probabilities_are_those_of_the_paper(beta, rho):
    scores, last = [0.5, 2.0, 2.0, -1.0], [7, 9, 4, 9]
    p = replay_probabilities(np.array(scores), np.array(last), 9, beta, rho)
    np.testing.assert_allclose(p, plain_replay_probabilities(scores, last, 9, beta, rho))
    assert p.sum() == pytest.approx(1)


def test_replay_probabilities_by_hand():
    score, last = np.array([1.0, 5.0]), np.array([6, 8])
    p = replay_probabilities(score, last, 10, temperature=0.5, staleness=0.25)
    # ranks 2 and 1, squared: 1/4 and 1, so 1/5 and 4/5; ages 4 and 2, so 2/3 and 1/3
    np.testing.assert_allclose(p, [0.75 / 5 + 0.25 * 2 / 3, 0.75 * 4 / 5 + 0.25 / 3])
    same = replay_probabilities(score, np.array([10, 10]), 10, 0.5, 1.0)
    np.testing.assert_allclose(same, [0.5, 0.5])  # no level is stale


class PlainLevelReplay:
    """The paper's way to choose, level by level, with the same stream of random numbers."""

    def __init__(self, n, beta, rho, rng):
        self.n, self.beta, self.rho, self.rng = n, beta, rho, rng
        self.score, self.last, self.c = {}, {}, 0

    def sample(self):
        unseen = [i for i in range(self.n) if i not in self.last]
        replay = bool(self.score) and (not unseen or self.rng.random() < len(self.score) / self.n)
        if unseen and not replay:
            level = int(self.rng.choice(unseen))
        else:
            seen = sorted(self.score)
            scores, last = [self.score[i] for i in seen], [self.last[i] for i in seen]
            p = plain_replay_probabilities(scores, last, self.c, self.beta, self.rho)
            every = np.zeros(self.n)
            every[seen] = p
            level = int(self.rng.choice(self.n, p=every))
        self.c += 1
        self.last[level] = self.c
        return level


def test_level_replay_equals_its_plain_definition():
    n, scores = 6, np.random.default_rng(3)
    ours = begun(PrioritizedLevelReplay(n, temperature=0.4, staleness=0.2), seed=1)
    plain = PlainLevelReplay(n, 0.4, 0.2, np.random.default_rng(1))
    chosen = []
    for _ in range(300):
        level = ours.sample(1)[0]
        assert level == plain.sample()
        score = float(scores.normal() + level)
        ours.update(level, result(score=score))
        plain.score[level] = score
        chosen.append(level)
    counts = np.bincount(chosen[-200:], minlength=n)
    assert counts[-1] > counts[0] and counts.min() > 0  # higher scores, and no level forgotten


def test_levels_in_play_are_not_started_twice():
    curriculum = begun(PrioritizedLevelReplay(5))
    assert sorted(curriculum.sample(5).tolist()) == [0, 1, 2, 3, 4]
    assert set(curriculum.sample(50).tolist()) <= set(range(5))  # no score yet: any level
    curriculum.update(3, result(score=1.0))
    assert curriculum.probabilities.tolist() == [0, 0, 0, 1, 0]
    assert curriculum.sample(4).tolist() == [3] * 4


def test_a_score_that_is_not_finite_is_refused():
    curriculum = begun(PrioritizedLevelReplay(3))
    with pytest.raises(ValueError, match="score=nan of task 1"):
        curriculum.update(1, result(score=float("nan")))


def test_replay_prob_and_score_rate():
    curriculum = begun(PrioritizedLevelReplay(100, replay_prob=1.0, score_rate=0.25))
    first = int(curriculum.sample(1)[0])
    curriculum.update(first, result(score=8.0))  # the first counts in full
    curriculum.update(first, result(score=0.0))
    assert curriculum.scores[first] == 6.0
    assert curriculum.sample(9).tolist() == [first] * 9
    with pytest.raises(ValueError, match="temperature"):
        PrioritizedLevelReplay(3, temperature=0.0)
    with pytest.raises(ValueError, match="staleness"):
        PrioritizedLevelReplay(3, staleness=1.5)


# All of them.

ALL = {
    "random": lambda: DomainRandomization(7),
    "box": lambda: DomainRandomization(([0.0, 1.0], [1.0, 3.0])),
    "sequential": lambda: Sequential(
        [Stage(DomainRandomization(7), episodes=12), Stage(PrioritizedLevelReplay(7))]
    ),
    "progress": lambda: LearningProgress(7),
    "replay": lambda: PrioritizedLevelReplay(7),
}


def go_on(curriculum, n, seed):
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(n):
        for task in curriculum.sample(3):
            chosen.append(np.asarray(task).tolist())
            curriculum.update(task, result(*rng.normal(size=1), 10, rng.random()))
    return chosen


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_a_saved_curriculum_continues_exactly(make, tmp_path):
    from rlpyt.utils.checkpoint import load_checkpoint, save_checkpoint

    first = begun(make(), seed=4)
    go_on(first, 10, seed=0)
    save_checkpoint(tmp_path, {"curriculum": first.state_dict()}, meta={})
    second = begun(make(), seed=5)
    second.load_state_dict(load_checkpoint(tmp_path).state["curriculum"])
    assert go_on(first, 30, seed=1) == go_on(second, 30, seed=1)
    assert first.statistics() == second.statistics()


@pytest.mark.parametrize(
    "cls,name,wrong",
    [
        (PrioritizedLevelReplay, "now", {}),
        (PrioritizedLevelReplay, "seen", True),
        (LearningProgress, "slow", -1),
    ],
)
def test_a_saved_state_of_other_types_is_refused(cls, name, wrong):
    curriculum = begun(cls(7), seed=4)
    with pytest.raises(ValueError, match=f"^{name} of a curriculum must be"):
        curriculum.load_state_dict({**curriculum.state_dict(), name: wrong})


@pytest.mark.parametrize("cls", [PrioritizedLevelReplay, LearningProgress])
def test_a_saved_state_of_another_number_of_tasks_is_refused(cls):
    saved = begun(cls(6), seed=4).state_dict()
    with pytest.raises(ValueError, match=r"must have shape \(8,\), got \(6,\)"):
        begun(cls(8), seed=4).load_state_dict(saved)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_initialize_resets_all_state(make):
    curriculum = begun(make(), seed=4)
    chosen = go_on(curriculum, 20, seed=0)
    assert go_on(begun(curriculum, seed=4), 20, seed=0) == chosen


def test_the_effective_number_of_tasks():
    assert effective_number(np.full(8, 1 / 8)) == pytest.approx(8)
    assert effective_number(np.array([0, 1.0, 0])) == pytest.approx(1)


def test_a_curriculum_must_choose():
    with pytest.raises(NotImplementedError, match="Curriculum .*sample"):
        begun(Curriculum(3)).sample(1)


def test_state_that_a_checkpoint_cannot_store_is_named():
    class Listening(DomainRandomization):
        _state = ("heard",)
        heard = [EpisodeResult(1.0, 2)]

    listening = Listening(3)
    listening.initialize(np.random.default_rng(0))
    with pytest.raises(TypeError, match="Listening._state .*'heard': EpisodeResult"):
        listening.state_dict()


def test_samplers_refuse_objects_that_are_not_curricula():
    for wrong in (PrioritizedLevelReplay, "level-replay"):
        with pytest.raises(TypeError, match="curriculum.*PrioritizedLevelReplay"):
            SerialSampler(CountEnv, {}, batch_T=2, batch_B=1, curriculum=wrong)


def test_progress_is_of_numbered_tasks():
    with pytest.raises(ValueError, match="LearningProgress .*numbered"):
        LearningProgress(([0.0], [1.0]))
