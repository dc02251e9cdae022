"""Lives, which several sources tell, on a script."""

import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs.vector.source import SourceAdapter

# One row a line: lives after each step, and where it terminates or is truncated (T, S).
SCRIPT = [
    ([3, 2, 2, 1, 0], {4: "T"}),
    ([3, 3, 2, 2, 2], {2: "S"}),  # a life lost at the time limit: no timeout
    ([2, 2, 2, 2, 2], {3: "S"}),
]


class Script:
    def __init__(self):
        self.t = -1

    def step(self, action):
        self.t += 1
        t = self.t
        lives = np.array([row[0][t] for row in SCRIPT], np.int32)
        flags = [[row[1].get(t) == flag for row in SCRIPT] for flag in "TS"]
        observation = np.full((3, 1), t, np.float32)
        return observation, np.ones(3), *map(np.array, flags), {"lives": lives}


class Scripted(SourceAdapter):
    def __init__(self, **kwargs):
        box = spaces.Box(0, 99, (1,), np.float32)
        super().__init__(Script(), 3, box, spaces.Discrete(2), **kwargs)

    def _source_reset(self, seeds):
        return np.zeros((3, 1), np.float32), {"lives": np.array([3, 3, 3])}

    def _source_reset_rows(self, rows):
        return np.zeros((len(rows), 1), np.float32), {"lives": np.full(len(rows), 9)}


@pytest.mark.parametrize("life_loss", [True, False])
def test_lost_lives(life_loss):
    envs = Scripted(life_loss=life_loss)
    envs.reset()
    seen = []
    for _ in range(4):
        step = envs.step(np.zeros(3, int))
        seen.append([x.astype(int).tolist() for x in (step.done, *step.env_info[:])])
        envs.reset_rows(np.flatnonzero(step.env_info.traj_done))
    none = [0, 0, 0]
    if life_loss:
        assert seen == [
            [[0, 0, 1], none, none],
            [[1, 0, 0], none, none],
            [[0, 1, 0], none, [0, 1, 0]],
            [[1, 1, 1], [0, 0, 1], [0, 0, 1]],  # row 1: 9 lives were told at its reset
        ]
    else:
        assert [done for done, _, _ in seen] == [none, none, [0, 1, 0], [0, 0, 1]]
        assert [timeout for _, timeout, _ in seen] == [none, none, [0, 1, 0], [0, 0, 1]]
    last = envs.step(np.zeros(3, int))  # row 0 is over, row 2 was reset to 9 lives
    assert last.env_info.traj_done.tolist() == [True, False, False]
    assert last.done.tolist() == [True, False, life_loss]


def test_lives_that_a_source_tells_of_the_next_episode_are_none_of_this_one():
    envs = Scripted(life_loss=True)
    envs._lives_at_end = False
    envs.reset()
    for _ in range(3):
        step = envs.step(np.zeros(3, int))
    assert step.env_info.timeout.tolist() == [False, True, False]
