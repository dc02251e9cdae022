"""Environments of the learning experiments; those of further packages only where they exist."""

import gymnasium
import numpy as np
import pytest
import torch

from benchmarks import tasks
from rlpyt.envs.base import build_env
from rlpyt.testing import check_encoder


def test_positions_leave_out_the_velocities():
    env = build_env(tasks.positions, dict(id="Pendulum-v1"))
    observations = [env.reset(), *(env.step(np.ones(1, np.float32)).observation for _ in range(3))]
    assert env.observation_space.shape == (2,)  # cosine and sine
    assert np.allclose([np.linalg.norm(o) for o in observations], 1)
    assert env.horizon == 200


def test_memory_len_shows_the_bit_at_the_first_step_only():
    pytest.importorskip("bsuite")
    env = build_env(tasks.bsuite, dict(experiment="memory_len", memory_length=4))
    env.seed(0)
    rewards, bits = [], []
    for _ in range(4):
        shown = env.reset()[0, -1]
        steps = [env.step(int(shown > 0)) for _ in range(5)]
        assert [step.done for step in steps] == [False] * 4 + [True]
        assert not any(step.observation[0, -1] for step in steps[1:])
        rewards.append(steps[-1].reward)
        bits.append(shown)
    assert rewards == [1.0] * 4 and len(set(bits)) == 2


def test_the_query_of_memory_size_is_shown_as_a_one_hot_vector():
    space = gymnasium.spaces.Box(0, 2, (1, 5), np.float32)  # 0, 1 and 2 are numbers of a query
    assert check_encoder(tasks.ShowQuery, space).ok
    encoder = tasks.ShowQuery(space.shape, scale=5.0)
    features = encoder(torch.tensor([[[0.5, 2, 1, -1, 1]], [[1.0, 0, 0, 0, 0]]]))
    assert features.tolist() == [[0.5, 0, 0, 5, 1, -1, 1], [1, 5, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("task", ["RepeatPrevious", "CountRecall", "Autoencode"])
def test_tasks_of_popgym_play(task):
    pytest.importorskip("popgym")
    from rlpyt.experiments.build import env_recipe

    env = env_recipe(f"popgym:popgym-{task}Easy-v0").make()
    env.seed(0)
    env.reset()
    steps = [env.step(env.action_space.sample())]
    while not steps[-1].done:
        steps.append(env.step(env.action_space.sample()))
    assert 50 <= len(steps) <= 103 and abs(sum(step.reward for step in steps)) < 1.01
