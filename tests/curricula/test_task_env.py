"""Environments that take a task at each reset."""

import gymnasium
import numpy as np
import pytest

from rlpyt.curricula.env import TaskEnv, TaskEnvs
from rlpyt.curricula.tasks import BoxTasks, NumberedTasks
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import BanditEnv, CountEnv
from rlpyt.testing import check_env


class LevelEnv(CountEnv):
    """Task k has episodes of k + 1 steps."""

    def __init__(self, **kwargs):
        super().__init__(fixed=True, **kwargs)
        self.given = []

    def set_task(self, task):
        self.given.append(task)
        self.length = task + 1


def episode(env):
    """(task of the episode as every step tells it, its length)."""
    env.reset()
    told = []
    while True:
        step = env.step(0)
        told.append(step.env_info.task)
        if step.env_info.traj_done:
            (task,) = set(told)
            return task, len(told)


def test_tasks_are_played_in_order_and_the_last_one_again():
    env = TaskEnv(LevelEnv(), NumberedTasks(5))
    assert env.assign([3, 1]) == 2
    assert env.assign(np.array([0])) == 3
    assert [episode(env) for _ in range(5)] == [(3, 4), (1, 2), (0, 1), (0, 1), (0, 1)]
    assert env.assign([]) == 0 and episode(env) == (0, 1)
    assert env.assign([4]) == 1 and episode(env) == (4, 5)
    assert all(type(task) is int for task in env.env.given)


def test_without_assignment_tasks_are_drawn_by_seed():
    def drawn(seed, n=40):
        env = TaskEnv(LevelEnv(), NumberedTasks(3))
        env.seed(seed)
        return [episode(env)[0] for _ in range(n)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) == {0, 1, 2}


def test_other_fields_are_kept_and_equal_infos_are_cached():
    env = TaskEnv(CartPoleLevels(4), NumberedTasks(4))
    env.assign([2])
    env.reset()
    _, first, second = (env.step(a).env_info for a in (0, 1, 0))
    assert first._fields == ("timeout", "task") and first == (False, 2)
    assert first is second  # so that the sampler need not write it again
    assert env.horizon == 500 and env.n_levels == 4 and env.action_space.n == 2


def test_an_existing_field_task_is_replaced():
    class Named(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self):
            self.task = 0

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {"task": 99.0}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, True, False, {"task": 99.0}

    env = TaskEnv(GymEnvWrapper(Named()), NumberedTasks(4))
    env.assign([3])
    env.reset()
    info = env.step(0).env_info
    assert info.task == 3 and info._fields.count("task") == 1


def test_vectors_and_attributes():
    class Gravity(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self):
            self.task = None

        def reset(self, *, seed=None, options=None):
            return np.asarray(self.task, np.float32), {}

        def step(self, action):
            return np.asarray(self.task, np.float32), 0.0, True, False, {}

    env = TaskEnv(GymEnvWrapper(gymnasium.wrappers.TimeLimit(Gravity(), 5)), BoxTasks((0,), (1,)))
    env.assign([[0.25]])
    assert env.reset().tolist() == [0.25] and env.step(0).env_info.task.tolist() == [0.25]


def test_environments_that_take_no_task_are_refused():
    with pytest.raises(TypeError, match="set_task"):
        TaskEnv(BanditEnv(), NumberedTasks(3))

    def batches(num_envs):
        raise AssertionError

    batches.batched = True
    with pytest.raises(ValueError, match="batches makes batches"):
        TaskEnvs(batches, NumberedTasks(3))
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        TaskEnv(LevelEnv(), NumberedTasks(3)).assign([3])


def test_a_state_holds_the_tasks():
    first, second = (TaskEnv(CartPoleLevels(9), NumberedTasks(9)) for _ in range(2))
    first.assign([8, 4, 2])
    first.seed(3)
    first.reset()
    first.step(0)
    second.set_state(first.get_state())
    for env in (first, second):
        assert env.task == 8 and env.unwrapped.gravity == 25.0
    np.testing.assert_array_equal(first.step(1).observation, second.step(1).observation)
    for expected in (4, 2, 2):
        np.testing.assert_array_equal(first.reset(), second.reset())
        assert first.task == second.task == expected


def test_wrapped_environments_keep_the_contract():
    make = TaskEnvs(CartPoleLevels, NumberedTasks(6))
    report = check_env(make, dict(n_levels=6), max_steps=300)
    assert not [finding for finding in report.findings if finding.level == "error"], str(report)


def test_levels_of_cartpole_get_harder():
    env = CartPoleLevels(3)
    shown = []
    for level in range(3):
        env.set_task(level)
        cart = env.unwrapped
        shown.append((cart.length, cart.gravity))
        assert cart.polemass_length == pytest.approx(0.1 * cart.length)
    assert shown == [(0.5, 9.8), (pytest.approx(0.28), pytest.approx(17.4)), (0.06, 25.0)]
    with pytest.raises(ValueError, match="level=3"):
        env.set_task(3)
