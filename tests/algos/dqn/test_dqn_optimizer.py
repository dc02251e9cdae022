"""Arguments of the optimizer of Q-learning."""

import pytest
import torch

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from tests.algos.dqn.parts_dqn import AGENTS, B, T, prepared

SMALL = dict(min_steps_learn=2 * T * B, replay_size=40 * B, batch_size=16, replay_ratio=2)


def group(algo):
    return algo.optimizer.param_groups[0]


@pytest.mark.parametrize("kwargs, eps", [({}, 0.01 / 8), ({"eps": 1e-8}, 1e-8)])
def test_adam_has_a_large_epsilon_unless_told_otherwise(kwargs, eps):
    algo = DQN(**{**SMALL, "batch_size": 8}, optim_kwargs=kwargs or None)
    prepared(algo, AGENTS["dqn"]())
    assert group(algo)["eps"] == pytest.approx(eps)
    assert algo.optim_kwargs == {"eps": eps}  # also for optimizers that an override makes


def test_other_optimizers_keep_their_own_defaults():
    algo = DQN(**SMALL, OptimCls=torch.optim.RMSprop)
    prepared(algo, AGENTS["dqn"]())
    assert group(algo)["eps"] == torch.optim.RMSprop([torch.zeros(1)]).defaults["eps"]


def test_r2d1_has_the_epsilon_of_its_paper():
    assert R2D1().optim_kwargs == {"eps": 1e-3}


def test_a_loaded_optimizer_goes_on_with_the_learning_rate_of_the_algorithm():
    first = DQN(**{**SMALL, "learning_rate": 1e-3})
    prepared(first, AGENTS["dqn"]())
    second = DQN(**{**SMALL, "learning_rate": 2e-4})
    prepared(second, AGENTS["dqn"]())
    second.load_optim_state_dict(first.optim_state_dict())
    assert group(second)["lr"] == 2e-4
