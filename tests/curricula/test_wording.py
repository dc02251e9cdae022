"""Messages of curricula, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest

from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.curricula.sequential import Sequential, Stage
from rlpyt.curricula.tasks import BoxTasks, NumberedTasks, task_space
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.wording import check


def without_success():
    curriculum = LearningProgress(3, success=lambda _: np.nan)
    curriculum.initialize(np.random.default_rng(0))
    return curriculum


MESSAGES = {
    "tasks": (
        ValueError,
        lambda: task_space("ten"),
        "tasks='ten' must be the number of tasks, or a pair (low, high) of finite bounds.",
    ),
    "infinite bounds": (
        ValueError,
        lambda: task_space((0.0, np.inf)),
        "tasks=(0.0, inf) must be the number of tasks, or a pair (low, high) of finite bounds.",
    ),
    "window of a stage": (
        ValueError,
        lambda: Stage(DomainRandomization(3), return_=1.0, window=0),
        "window=0 must be at least 1.",
    ),
    "success that is no number": (
        ValueError,
        lambda: without_success().update(1, None),
        "success=nan of task 1 must be a finite number.",
    ),
    "number outside": (
        ValueError,
        lambda: NumberedTasks(4).check([0, 4]),
        "tasks array([0, 4]) must be integers in [0, 4).",
    ),
    "no number": (
        ValueError,
        lambda: NumberedTasks(4).check([0.5]),
        "tasks array([0.5]) must be integers in [0, 4).",
    ),
    "point outside": (
        ValueError,
        lambda: BoxTasks((0.0,), (1.0,)).check([[1.5]]),
        "tasks must be in [(0.0,), (1.0,)], got array([[1.5]]).",
    ),
    "numbered tasks": (
        ValueError,
        lambda: LearningProgress(([0.0], [1.0])),
        "LearningProgress needs numbered tasks, got BoxTasks(low=(0.0,), high=(1.0,)).",
    ),
    "endless stage": (
        ValueError,
        lambda: Sequential([Stage(DomainRandomization(3)), Stage(DomainRandomization(3))]),
        "stage 0 never ends. Set steps, episodes or return_.",
    ),
    "range": (
        ValueError,
        lambda: PrioritizedLevelReplay(3, temperature=0),
        "temperature=0 must be in (0, inf].",
    ),
    "curriculum of a sampler": (
        TypeError,
        lambda: SerialSampler(CountEnv, {}, batch_T=2, batch_B=1, curriculum="level-replay"),
        (
            "curriculum='level-replay' must be a curriculum, such as "
            "rlpyt.curricula.prioritized.PrioritizedLevelReplay(64)."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
