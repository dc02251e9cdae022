import numpy as np
import pytest

from rlpyt.envs.toy import CountEnv, MemoryEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from tests.envs.vector.vector_parts import SEEDS, assert_same, oracle, run


def test_rows_are_the_single_environments_step_by_step():
    envs = oracle(length=3, life=2)
    seen = run(envs, T=12)
    singles = [CountEnv(length=3, life=2) for _ in SEEDS]
    for env, seed in zip(singles, SEEDS, strict=True):
        env.seed(seed)
    np.testing.assert_array_equal(seen[0], [env.reset() for env in singles])
    for t in range(12):
        o, r, d, timeout, over, rows, first = seen[1 + 7 * t : 8 + 7 * t]
        for i, env in enumerate(singles):
            step = env.step((i + t) % 3)
            np.testing.assert_array_equal(o[i], step.observation)
            assert (r[i], d[i]) == (step.reward, step.done)
            assert (timeout[i], over[i]) == (step.env_info.timeout, step.env_info.traj_done)
            assert (i in rows) == step.env_info.traj_done
            if step.env_info.traj_done:
                np.testing.assert_array_equal(first[list(rows).index(i)], env.reset())


def test_env_info_has_the_fields_of_the_single_environments():
    envs = oracle()
    envs.reset()
    info = envs.step(np.array([2, 0, 1])).env_info
    assert info._fields == ("timeout", "traj_done", "action")
    assert info.action.tolist() == [2, 0, 1] and info.action.dtype == np.int64


def test_waiting_rows_stand_still():
    envs = oracle(n=2, length=2, fixed=True, end="truncation")
    envs.seed([1, 2])
    envs.reset()
    for _ in range(2):
        step = envs.step(np.zeros(2, int))
    assert step.env_info.timeout.all()
    envs.reset_rows(np.array([0]))
    step = envs.step(np.zeros(2, int))
    assert step.observation.tolist() == [[1, 1, 1], [2, 0, 2]]
    assert step.reward.tolist() == [101, 0]
    assert step.done.tolist() == step.env_info.traj_done.tolist() == [False, True]
    assert step.env_info.timeout.tolist() == [False, False]


def test_resumes_exactly_with_a_row_waiting():
    envs, again = oracle(length=3), oracle(length=3)
    run(envs, T=5, wait=lambda t, row: row == 2)
    again.set_state(envs.get_state())

    def go_on(envs):
        seen = []
        for _ in range(6):
            step = envs.step(np.zeros(3, int))
            rows = np.flatnonzero(step.env_info.traj_done)[:1]
            seen += [np.array(x) for x in (*step[:3], rows, envs.reset_rows(rows))]
        return seen

    assert_same(go_on(again), go_on(envs))


def test_resumes_where_every_row_waits():
    envs, again = oracle(n=1, length=1), oracle(n=1, length=1)
    run(envs, T=1, seeds=[5], wait=lambda t, row: True)
    again.set_state(envs.get_state())
    step = again.step(np.zeros(1, int))
    assert step.done.all() and step.env_info.traj_done.all() and step.reward[0] == 0
    assert again.reset_rows(np.array([0])).tolist() == [[5, 1, 0]]


def test_state_is_none_if_an_environment_cannot_tell():
    class Mute(CountEnv):
        def get_state(self):
            return None

    assert SerialVectorEnv([CountEnv(), Mute()]).get_state() is None


def test_environments_must_be_alike():
    with pytest.raises(ValueError, match="environment 1 has"):
        SerialVectorEnv([CountEnv(), MemoryEnv()])
    with pytest.raises(ValueError, match="at least one"):
        SerialVectorEnv([])


def test_actions_are_checked_and_closing_closes_all():
    closed = []

    class Closing(CountEnv):
        def close(self):
            closed.append(self)

    envs = SerialVectorEnv([Closing(), Closing()])
    envs.reset()
    with pytest.raises(ValueError, match="row 1 is 3"):
        envs.step(np.array([0, 3]))
    envs.close()
    assert closed == envs.envs


class Shrinking(CountEnv):
    """Gives an observation of one number in the second reset or the third step."""

    def __init__(self, where):
        super().__init__()
        self.where, self.n = where, dict(reset=0, step=0)

    def _cut(self, observation, where):
        self.n[where] += 1
        here = where == self.where and self.n[where] == dict(reset=2, step=3)[where]
        return observation[:1] if here else observation

    def reset(self):
        return self._cut(super().reset(), "reset")

    def step(self, action):
        step = super().step(action)
        return step._replace(observation=self._cut(step.observation, "step"))


@pytest.mark.parametrize("where", ["reset", "step"])
def test_observations_of_another_shape_are_not_broadcast(where):
    envs = SerialVectorEnv([CountEnv(), Shrinking(where)])
    envs.reset()
    action = np.zeros(2, int)
    envs.step(action)
    envs.step(action)
    with pytest.raises(ValueError, match=r"environment 1 .*\(3,\), got \(1,\)"):
        if where == "step":
            envs.step(action)
        envs.reset()


def test_observations_may_be_lists():
    class Listing(CountEnv):
        def reset(self):
            return super().reset().tolist()

    assert SerialVectorEnv([Listing(rank=4)]).reset().tolist() == [[4, 0, 0]]
