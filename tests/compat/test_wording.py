"""Messages to code written for rlpyt of 2019 and for other libraries.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.compat.segment_tree import SumTree
from rlpyt.compat.syllabus_curriculum import SyllabusCurriculum
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.array import select_at_indexes
from rlpyt.utils.misc import extract_sequences, iterate_mb_idxs
from tests.wording import check


def sampler_of(**kwargs):
    sampler = SerialSampler(CountEnv, **{"env_kwargs": {}, "batch_T": 2, "batch_B": 4, **kwargs})
    sampler.initialize(CategoricalMlpAgent())


MESSAGES = {
    "kwargs by environment": (
        ValueError,
        lambda: sampler_of(env_kwargs=[{}] * 3),
        "env_kwargs must have one dictionary for each environment, batch_B=4, got 3.",
    ),
    "kwargs of another type": (
        TypeError,
        lambda: sampler_of(env_kwargs="rank"),
        (
            "env_kwargs must be a dictionary, or a list of dictionaries, one for each "
            "environment, got 'rank'."
        ),
    ),
    "curriculum": (
        TypeError,
        lambda: SyllabusCurriculum("uniform"),
        "'uniform' must be a curriculum of syllabus.core.",
    ),
    "capacity of a tree": (
        ValueError,
        lambda: SumTree(0),
        "capacity=0 must be at least 1.",
    ),
    "minibatch size": (
        ValueError,
        lambda: iterate_mb_idxs(11, 12),
        (
            "minibatch_size=12 must be in [1, data_length=11]. Use fewer minibatches or a "
            "larger batch."
        ),
    ),
    "sequence length": (
        ValueError,
        lambda: extract_sequences(np.zeros((6, 2)), [0], [0], 7),
        "T must be at most the 6 time steps in array_or_tensor, got 7.",
    ),
    "selection": (
        ValueError,
        lambda: select_at_indexes(np.zeros((5, 3), int), np.zeros((3, 5, 4))),
        (
            "array of shape (3, 5, 4) must have shape (5, 3) + (n, ...), the shape of indexes "
            "plus the dimension to select from."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
