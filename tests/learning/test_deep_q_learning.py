"""Deep Q-learning solves what needs its abilities; slow: CartPole by the presets."""

import numpy as np
import pytest

from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.run import load, train

SMALL = dict(min_steps_learn=300, replay_size=5000, eps_steps=2000, target_update_interval=50)


def trained(algo_name, env, run_dir, **changes):
    """Mean return of 20 evaluation episodes, and the run."""
    options = RunOptions(algo_name=algo_name, env=env)
    for layer in layers(algo_name, env, "classic"):
        options = options.updated(layer)
    train(options.updated({"video": False, **changes}), run_dir)
    return np.mean(load(run_dir).evaluate(20).returns)


SELDOM = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("catdqn", "rainbow", "qrdqn", "iqn")
]


@pytest.mark.parametrize("algo_name", ["dqn", *SELDOM])
def test_credit_reaches_back_over_n_steps(algo_name, tmp_path):
    """Between the action and its reward nothing shows what was done, so one step does not do."""
    algo = dict(SMALL, replay_ratio=8, learning_rate=2e-3, n_step_return=5)
    if algo_name in ("catdqn", "rainbow"):
        algo.update(V_min=-2.0, V_max=2.0)
    score = trained(
        algo_name, "toy/delay", tmp_path / "run", steps=4000, algo=algo,
        agent=dict(hidden_sizes=[32]), env_args=dict(delay=4, n_actions=4),
    )  # fmt: skip
    assert score > 0.8


@pytest.mark.slow
def test_memory_needs_recurrence(tmp_path):
    """Chance is 0.5."""
    assert trained("r2d1", "toy/memory", tmp_path / "r2d1") == 1.0
    small = dict(SMALL, replay_ratio=8)
    assert trained("dqn", "toy/memory", tmp_path / "dqn", steps=20_000, algo=small) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("algo_name", ["dqn", "catdqn", "rainbow", "qrdqn", "iqn"])
def test_a_memory_remembers_the_cue(algo_name, tmp_path):
    agent = dict(memory="gru", memory_size=64)
    assert trained(algo_name, "toy/memory", tmp_path / "run", steps=10_000, agent=agent) == 1.0
    without = trained(algo_name, "toy/memory", tmp_path / "control", steps=10_000)
    assert without < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("algo_name", ["dqn", "catdqn", "rainbow", "qrdqn", "iqn"])
def test_presets_solve_cartpole(algo_name, seed, tmp_path):
    assert trained(algo_name, "CartPole-v1", tmp_path / "run", steps=100_000, seed=seed) >= 475


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_pqn_solves_cartpole_without_replay(seed, tmp_path):
    assert trained("pqn", "CartPole-v1", tmp_path / "run", steps=200_000, seed=seed) >= 475
