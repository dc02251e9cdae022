"""Messages of replays, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.collections import namedarraytuple
from tests.wording import check

Step = namedarraytuple("Step", ["observation", "action", "reward", "done"])
EXAMPLE = Step(np.zeros(4, np.float32), np.int64(0), np.float32(0), np.bool_(False))


def replay(Cls=UniformReplayBuffer, **settings):
    return Cls(**{"example": EXAMPLE, "size": 20, "B": 2, **settings})


def steps(T, B=2, size=4):
    reward, done = np.zeros((T, B), np.float32), np.zeros((T, B), bool)
    return Step(np.zeros((T, B, size), np.float32), np.zeros((T, B), int), reward, done)


MESSAGES = {
    "example": (
        TypeError,
        lambda: replay(example=namedarraytuple("X", ["observation", "done"])(0, 0)),
        (
            "the example must be a named tuple with observation, action, reward, done, got X "
            "which has no action, reward. Derive a replay that stores them in another way from "
            "BaseReplayBuffer."
        ),
    ),
    "size": (
        ValueError,
        lambda: replay(size=2),
        (
            "size must be at least 6 (3 rows of 2 environments), got 2 (1 rows): a sample "
            "needs 1 rows before and 1 after its first row."
        ),
    ),
    "size of sequences": (
        ValueError,
        lambda: replay(UniformSequenceReplayBuffer, size=8, batch_T=8, rnn_state_interval=0),
        (
            "size must be at least 20 (10 rows of 2 environments), got 8 (4 rows): a sample "
            "needs 1 rows before and 8 after its first row."
        ),
    ),
    "samples": (
        TypeError,
        lambda: replay().append_samples(dict(steps(5).items())),
        (
            "samples must be a named tuple with the fields of the example, got dict. Use "
            "rlpyt.utils.collections.namedarraytuple."
        ),
    ),
    "number of environments": (
        ValueError,
        lambda: replay().append_samples(steps(5, B=1)),
        "samples must be [T, B=2] with at most 10 rows, the rows of the replay, got [5, 1].",
    ),
    "shape of a part": (
        ValueError,
        lambda: replay().append_samples(steps(5, size=3)),
        "samples.observation must be ['T', 'B', 4], as in the example, got ['T', 'B', 3].",
    ),
    "empty": (
        ReplayNotReady,
        lambda: replay().sample_batch(4),
        (
            "no row can be sampled yet: 0 rows of 2 environments have been written to 10 rows, "
            "and none has all rows before and after it that a sample needs. Sample later "
            "(min_steps_learn), or sample shorter sequences."
        ),
    ),
    "batch size": (
        ValueError,
        lambda: replay().sample_batch(0),
        "batch_B=0 must be at least 1.",
    ),
    "exponent": (
        ValueError,
        lambda: replay(PrioritizedReplayBuffer, beta=2),
        "beta=2 must be in [0, 1].",
    ),
    "no priorities": (
        TypeError,
        lambda: replay().update_batch_priorities(np.ones(3)),
        "a uniform replay has no priorities to update. Use a prioritized replay.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
