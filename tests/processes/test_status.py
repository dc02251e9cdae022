"""Activity numbers in words."""

from types import SimpleNamespace

import pytest

from rlpyt.processes.status import (
    ACTING,
    BUILDING,
    EVAL,
    IDLE,
    RESETTING,
    STEPPING,
    ChildEnvs,
    allocate_progress,
    child_status,
    environment_status,
    fresh_progress,
)
from rlpyt.utils.seed import env_seed

ENVS = ChildEnvs(
    EnvCls=dict, env_kwargs=[{"id": "a"}, {"id": "b"}], env_ranks=[4, 5],
    eval_env_kwargs=[{"id": "e"}], eval_env_ranks=[2], seed=1,
)  # fmt: skip


def numbers(row, step, itr, doing, evaluation=0):
    progress = fresh_progress()
    progress[:5] = row, step, itr, doing, evaluation
    return progress


def test_a_step_is_described_with_environment_seed_and_action():
    status = environment_status(numbers(1, 3, 8, STEPPING), ENVS, [0.5])
    seed = env_seed(1, 5)
    assert str(status) == (
        f"while stepping environment 5, dict(id='b'); seed {seed}; iteration 8, step 3 of the "
        "batch; last action [0.5]"
    )
    assert (status.env_index, status.seed, status.itr, status.step) == (5, seed, 8, 3)


@pytest.mark.parametrize(
    "progress, expected",
    [
        (numbers(0, -1, -1, BUILDING), "while building environment 4, dict(id='a'); seed "),
        (numbers(-1, -1, -1, BUILDING), "before making dict(id='a')"),
        (numbers(0, 2, -1, RESETTING), "; step 2 of the random steps before the first batch"),
        (numbers(0, 6, 3, STEPPING, 1), "while stepping evaluation environment 2, dict(id='e')"),
        (numbers(0, 2, 3, ACTING), "while choosing actions for environments dict(id='a')"),
        (numbers(0, -1, 3, IDLE), "between batches with environments dict(id='a'); iteration 3"),
    ],
)  # fmt: skip
def test_what_a_process_does_is_described(progress, expected):
    status = environment_status(progress, ENVS, [1])
    assert expected in str(status) and status.evaluation == bool(progress[EVAL])


def test_other_children_are_starting_idle_or_working():
    progress = allocate_progress(2)
    assert progress.tolist() == [fresh_progress()] * 2
    spec = SimpleNamespace(progress=progress[1])
    said = [str(child_status(spec))]
    for doing in (IDLE, STEPPING):
        progress[1, 3] = doing
        said.append(str(child_status(spec)))
    assert said == ["while starting", "between two commands", "while working"]
