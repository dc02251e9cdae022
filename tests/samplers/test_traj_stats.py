import numpy as np
import pytest

from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.traj_stats import BatchTrajStats

T, B = 5, 3


def _step_by_step(infos, reward, ended, new):
    done = []
    for b in range(reward.shape[1]):
        for t in range(reward.shape[0]):
            infos[b].step(None, None, reward[t, b], None, None, None)
            if ended[t, b]:
                done.append(infos[b].terminate(None))
                infos[b] = new()
    return done


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.7, 1.0])
def test_whole_batches_count_as_steps_do(discount, chance):
    rng = np.random.default_rng(3)

    def new():
        return TrajInfo(_discount=discount)

    slow = [new() for _ in range(B)]
    stats = BatchTrajStats([new() for _ in range(B)], discount)
    for _ in range(6):
        reward = rng.integers(-1, 2, (T, B)).astype(np.float32) * 0.5
        ended = rng.random((T, B)) < chance
        expected = _step_by_step(slow, reward, ended, new)
        got = stats.add(reward, ended, new)
        assert len(got) == len(expected)
        for g, e in zip(got, expected):
            for key in ("Length", "Return", "NonzeroRewards", "DiscountedReturn"):
                assert g[key] == pytest.approx(e[key], abs=1e-9), key
                assert type(g[key]) is type(e[key])


def test_sums_go_on_from_started_trajectories():
    started = [TrajInfo() for _ in range(2)]
    started[1].step(None, None, 2.0, None, None, None)
    stats = BatchTrajStats(started, 1.0)
    reward = np.ones((3, 2), np.float32)
    ended = np.array([[0, 0], [0, 0], [1, 1]], bool)
    a, b = stats.add(reward, ended, TrajInfo)
    assert (a.Length, a.Return, b.Length, b.Return) == (3, 3.0, 4, 5.0)


def test_state_survives_a_checkpoint():
    stats = BatchTrajStats([TrajInfo()], 0.9)
    stats.add(np.ones((4, 1), np.float32), np.zeros((4, 1), bool), TrajInfo)
    other = BatchTrajStats([TrajInfo()], 0.9)
    other.load_state_dict(stats.state_dict())
    ended = np.array([[1]], bool)
    one = np.ones((1, 1), np.float32)
    assert stats.add(one, ended, TrajInfo)[0] == other.add(one, ended, TrajInfo)[0]
