"""Curricula of syllabus-rl: a stand-in of the same interface, and the package itself."""

import random

import numpy as np
import pytest

from rlpyt.curricula.base import EpisodeResult
from rlpyt.curricula.syllabus import SyllabusCurriculum
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.parts import EchoAgent


class StandIn:
    """The methods of ``syllabus.core.Curriculum`` that its synchronization layer and rlpyt call."""

    requires_step_updates = False
    num_tasks = 6

    def __init__(self):
        self.told, self.solved = [], []

    def sample(self, k=1):
        return [int(task) for task in np.random.choice(self.num_tasks, size=k)]

    def update_on_episode(self, episode_return, length, task, progress, env_id=None):
        self.told.append((episode_return, length, task, progress, env_id))

    def update_task_progress(self, task, progress, env_id=None):
        self.solved.append((task, progress, env_id))


def begun(inner, **kwargs):
    curriculum = SyllabusCurriculum(inner, **kwargs)
    curriculum.initialize(np.random.default_rng(7))
    return curriculum


def test_it_samples_and_is_updated():
    inner = StandIn()
    curriculum = begun(inner)
    assert curriculum.n_tasks == 6
    tasks = curriculum.sample(8)
    assert tasks.shape == (8,) and tasks.dtype == np.int64
    curriculum.update(4, EpisodeResult(2.5, 9, progress=1.0, env=3))
    curriculum.update(1, EpisodeResult(0.5, 2))
    assert inner.told == [(2.5, 9, 4, 1.0, 3), (0.5, 2, 1, 0.0, 0)]
    assert inner.solved == [(4, 1.0, 3)]


def test_its_random_numbers_come_from_the_curriculums_stream():
    class Plain(StandIn):
        def sample(self, k=1):
            return [random.randrange(6) for _ in range(k)]

    plain = begun(Plain()).sample(50).tolist()
    random.seed(123)
    before = random.getstate()
    assert begun(Plain()).sample(50).tolist() == plain
    assert random.getstate() == before
    chosen = begun(StandIn()).sample(50).tolist()
    np.random.seed(123)
    before = np.random.get_state()[1].tolist()
    assert begun(StandIn()).sample(50).tolist() == chosen
    assert np.random.get_state()[1].tolist() == before


def test_curricula_that_return_one_task_are_called_again():
    class One(StandIn):
        def sample(self, k=1):
            return super().sample(1)

    assert begun(One()).sample(5).shape == (5,)


def test_vectors():
    class Box(StandIn):
        num_tasks = None

        def sample(self, k=1):
            return [np.array([0.5, 1.5])] * k

    tasks = begun(Box(), tasks=([0, 1], [1, 2])).sample(3)
    assert tasks.tolist() == [[0.5, 1.5]] * 3


def test_curricula_that_require_every_step_are_refused():
    class Steps(StandIn):
        requires_step_updates = True

    with pytest.raises(ValueError, match="Steps .*every step"):
        SyllabusCurriculum(Steps())


def test_state_where_there_is_one():
    class Stateful(StandIn):
        def state_dict(self):
            return {"n": len(self.told)}

        def load_state_dict(self, state):
            self.told = [None] * state["n"]

    first, second = begun(Stateful()), begun(Stateful())
    first.update(0, EpisodeResult(1.0, 1))
    first.sample(3)
    second.load_state_dict(first.state_dict())
    assert len(second.curriculum.told) == 1
    assert second.sample(9).tolist() == first.sample(9).tolist()
    with pytest.warns(UserWarning, match="StandIn .*state_dict"):
        begun(StandIn()).load_state_dict(begun(StandIn()).state_dict())


class LevelEnv(CountEnv):
    def __init__(self):
        super().__init__(fixed=True)

    def set_task(self, task):
        self.length = task + 1


def play(curriculum, n_batches=6):
    sampler = SerialSampler(
        LevelEnv, {}, batch_T=12, batch_B=3, max_decorrelation_steps=0, curriculum=curriculum
    )
    sampler.initialize(EchoAgent(), seed=2)
    tasks = [sampler.obtain_samples(i)[0].env.env_info.task.tolist() for i in range(n_batches)]
    sampler.shutdown()
    return tasks


def test_it_works_in_a_sampler():
    inner = StandIn()
    tasks = play(SyllabusCurriculum(inner))
    assert {length for _, length, *_ in inner.told} <= {task[2] + 1 for task in inner.told}
    assert all(length == task + 1 for _, length, task, _, _ in inner.told)
    assert tasks == play(SyllabusCurriculum(StandIn()))


@pytest.fixture
def curricula():
    """Return syllabus.curricula, without the ``np.seterr(all="raise")`` of its import."""
    with np.errstate():
        return pytest.importorskip("syllabus.curricula")


@pytest.mark.parametrize(
    "name, args, expected",
    [
        ("DomainRandomization", {}, set(range(6))),
        ("BatchedDomainRandomization", dict(batch_size=4), set(range(6))),
        ("Constant", dict(default_task=3), {3}),
    ],
)
def test_the_packages_curricula(curricula, name, args, expected):
    from syllabus.task_space import DiscreteTaskSpace

    inner = getattr(curricula, name)(task_space=DiscreteTaskSpace(6), **args)
    assert set(np.ravel(play(SyllabusCurriculum(inner), 12))) == expected


def test_the_packages_prioritised_level_replay_is_refused(curricula):
    from syllabus.task_space import DiscreteTaskSpace

    space = LevelEnv().observation_space
    inner = curricula.PrioritizedLevelReplay(DiscreteTaskSpace(6), space)
    with pytest.raises(ValueError, match="PrioritizedLevelReplay .*every step"):
        SyllabusCurriculum(inner)


def test_the_packages_sequences(curricula):
    from syllabus.task_space import DiscreteTaskSpace

    inner = curricula.SequentialCurriculum([1, 5], ["episodes>=10"], DiscreteTaskSpace(6))
    tasks = play(SyllabusCurriculum(inner), 12)
    assert set(np.ravel(tasks[0])) == {1} and set(np.ravel(tasks[-1])) == {5}


def test_objects_that_are_not_curricula_are_refused():
    with pytest.raises(TypeError, match="syllabus.core"):
        SyllabusCurriculum(object())
