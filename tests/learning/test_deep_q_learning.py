"""Deep Q-learning solves what needs its abilities; slow: CartPole by the presets."""

import numpy as np
import pytest
import torch

from rlpyt.envs.toy import BanditEnv
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


class Arms(BanditEnv):
    """Rewards of 0 and 1, without a second step."""

    def __init__(self, *, seed=None):
        super().__init__((0.0, 1.0), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings, gap",
    [({}, 1.0), (dict(munchausen=0.9, munchausen_tau=0.1, munchausen_clip=-10.0), 10.0)],
    ids=["without", "with"],
)
def test_munchausen_widens_the_gap_between_actions(settings, gap, tmp_path):
    """By 1 / (1 - alpha) (Vieillard et al. 2020, section 4)."""
    trained(
        "dqn", f"{__name__}:Arms", tmp_path / "run", steps=1500, agent=dict(hidden_sizes=[16]),
        algo=dict(SMALL, min_steps_learn=100, replay_ratio=32, learning_rate=3e-3, **settings),
    )  # fmt: skip
    model = load(tmp_path / "run").agent.model
    (values,) = model(torch.ones(1, 1), torch.zeros(1, 2), torch.zeros(1)).detach().numpy()
    assert np.diff(values) == pytest.approx(gap, abs=0.05) and values[1] == pytest.approx(
        1, abs=0.05
    )


SELDOM = [
    pytest.param(name, 5, marks=pytest.mark.slow) for name in ("catdqn", "rainbow", "qrdqn", "iqn")
]


@pytest.mark.parametrize(
    "algo_name, n", [("dqn", 5), pytest.param("dqn", 1, marks=pytest.mark.slow), *SELDOM]
)
def test_credit_reaches_back_over_n_steps(algo_name, n, tmp_path):
    """Between the action and its reward nothing shows what was done, so one step does not do."""
    algo = dict(SMALL, replay_ratio=8, learning_rate=2e-3, n_step_return=n)
    if algo_name in ("catdqn", "rainbow"):
        algo.update(V_min=-2.0, V_max=2.0)
    score = trained(
        algo_name, "toy/delay", tmp_path / "run", steps=4000, algo=algo,
        agent=dict(hidden_sizes=[32]), env_args=dict(delay=4, n_actions=4),
    )  # fmt: skip
    assert (score > 0.8) == (n == 5)


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
