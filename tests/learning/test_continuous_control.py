"""Critics and policies of continuous control learn; fast: a task with a mask."""

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.toy import ReachEnv
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.run import load, train
from rlpyt.utils.logging.progress_csv import read_progress

EVERY = ["ddpg", "td3", "sac", "crossq", "xqc", "simba", "flashsac", "sac_v"]
SMALL = dict(
    min_steps_learn=200, replay_size=5000, batch_size=64, replay_ratio=64, learning_rate=3e-3
)


def trained(algo_name, env, run_dir, **changes):
    """Mean return of 20 evaluation episodes."""
    options = RunOptions(algo_name=algo_name, env=env)
    for layer in layers(algo_name, env, "classic"):
        options = options.updated(layer)
    train(options.updated({"video": False, **changes}), run_dir)
    return np.mean(load(run_dir).evaluate(20).returns)


def on_reach(algo_name, run_dir, agent_args=None, agent=None, **algo):
    """The return of an episode of ten steps; uniform actions get -6.7, the middle one -3.3."""
    extra = {"reward_scale": 30.0} if algo_name == "sac_v" else {}
    return trained(
        algo_name, "toy/reach", run_dir, steps=1_600, algo={**SMALL, **extra, **algo},
        agent={"hidden_sizes": [32], "args": agent_args or {}, **(agent or {})},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("algo_name", EVERY)
def test_policies_fill_the_bounds_of_the_space(algo_name, tmp_path):
    assert on_reach(algo_name, tmp_path / "run") > -0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "agent_args,algo",
    [
        ({"n_critics": 4}, dict(n_target_critics=2)),
        ({"q_model_kwargs": {"layer_norm": True, "dropout": 0.01}}, {}),
        ({"q_model_kwargs": {"n_quantiles": 8}}, dict(n_drop_quantiles=1)),
        ({}, dict(prioritized_replay=True, n_step_return=2)),
        ({}, dict(fixed_alpha=0.01)),
    ],
    ids=["redq", "droq", "tqc", "prioritised n-step", "fixed temperature"],
)
def test_variants_of_sac_learn_it_too(agent_args, algo, tmp_path):
    assert on_reach("sac", tmp_path / "run", agent_args, **algo) > -0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings, learns", [(dict(normalize_reward=True), True), (dict(reward_scale=300.0), False)]
)
def test_atoms_need_rewards_that_fit_them(settings, learns, tmp_path):
    atoms = {"q_model_kwargs": {"n_atoms": 51}}
    assert (on_reach("sac", tmp_path / "run", atoms, **settings) > -0.5) == learns


class Large(ReachEnv):
    """Rewards that are a thousand times larger."""

    def step(self, action):
        step = super().step(action)
        return step._replace(reward=1e3 * step.reward)


@pytest.mark.slow
@pytest.mark.parametrize(
    "critics, normalize_reward, learns",
    [({}, False, False), ({}, True, True), ({"n_atoms": 51}, True, True)],
    ids=["values", "values, normalized", "atoms, normalized"],
)
def test_large_rewards_need_to_be_normalized(critics, normalize_reward, learns, tmp_path):
    """-48 to -73 against -2,672 and -4,300 of two seeds each."""
    mean = trained(
        "sac", f"{__name__}:Large", tmp_path / "run", steps=1_600,
        algo=dict(SMALL, normalize_reward=normalize_reward),
        agent={"hidden_sizes": [32], "args": {"q_model_kwargs": critics}},
    )  # fmt: skip
    assert (mean > -500) == learns


@pytest.mark.slow
@pytest.mark.parametrize("interval, learns", [(2, True), (10**6, False)])
def test_a_policy_learns_at_its_own_updates(interval, learns, tmp_path):
    assert (on_reach("sac", tmp_path / "run", policy_update_interval=interval) > -0.5) == learns


class Noise(gymnasium.Env):
    """Rewards of mean 0 and variance 1 in 20 steps, whatever is done."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 20
        return self._observation(), {}

    def step(self, action):
        self.left -= 1
        return self._observation(), self.np_random.normal(), False, self.left == 0, {}

    def _observation(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)


def values_of_noise(run_dir, steps, agent_args, **algo):
    """Mean of the critics' values at the end of training; right ones are 0."""
    trained(
        "sac", f"{__name__}:Noise", run_dir, steps=steps,
        algo={**SMALL, "discount": 0.95, "fixed_alpha": 1e-6, **algo},
        agent={"hidden_sizes": [64], "args": agent_args},
    )  # fmt: skip
    return read_progress(run_dir)["qEnsembleMeanAverage"][-1]


@pytest.mark.slow
def test_quantiles_that_are_dropped_lower_the_values(tmp_path):
    """By 1.7 with each of two seeds, where values of 0 are overestimated by 0.3 and 0.9."""
    quantiles = {"q_model_kwargs": {"n_quantiles": 8}}
    values = [
        values_of_noise(tmp_path / f"run_{n}", 1_500, quantiles, n_drop_quantiles=n) for n in (0, 2)
    ]
    assert values[0] > 0 > values[1] + 0.5


@pytest.mark.slow
def test_the_minimum_over_more_critics_lowers_the_values(tmp_path):
    """REDQ; with one, two and five of five critics 0.54, 0.35 and 0.14, means of three seeds."""
    one, two, five = (
        values_of_noise(tmp_path / f"run_{n}", 1_500, {"n_critics": 5}, n_target_critics=n)
        for n in (1, 2, 5)
    )
    assert one - 0.05 > two > five + 0.05


@pytest.mark.slow
def test_dropout_lowers_the_values_of_many_updates(tmp_path):
    """DroQ, with ten updates per step; 2.2 and 0.9 without and with, means of three seeds."""
    without, dropout = (
        values_of_noise(
            tmp_path / f"run_{p}", 400, {"q_model_kwargs": {"layer_norm": True, "dropout": p}},
            replay_ratio=640, min_steps_learn=100,
        )
        for p in (0, 0.1)
    )  # fmt: skip
    assert without > dropout + 0.4


@pytest.mark.slow
@pytest.mark.parametrize(
    "residual, n, learns", [("simba", 12, True), ("bro", 12, True), (None, 25, False)]
)
def test_deep_networks_learn_with_residual_blocks_only(residual, n, learns, tmp_path):
    """-0.04 to -0.26 against -3.4, the return of the middle action, of two seeds each."""
    deep = {"hidden_sizes": [16] * n, "model": {"residual": residual}}
    assert (on_reach("sac", tmp_path / "run", agent=deep) > -0.5) == learns


@pytest.mark.slow
@pytest.mark.parametrize(
    "normalization, joint, learns",
    [("batch_renorm", True, True), (None, True, False), ("batch_renorm", False, False)],
    ids=["crossq", "not normalized", "targets evaluated separately"],
)
def test_crossq_needs_both_of_its_parts(normalization, joint, learns, tmp_path):
    """With a high learning rate; -160 to -220 against -590 to -1060 of two seeds each."""
    networks = {"hidden_sizes": [64, 64], "normalization": normalization}
    mean = trained(
        "crossq", "Pendulum-v1", tmp_path / "run", steps=2_500,
        algo=dict(joint_critics=joint, learning_rate=5e-3, min_steps_learn=300, batch_size=128,
                  replay_ratio=128),
        agent=dict(model={"normalization": normalization},
                   args={"target_critics": not joint, "q_model_kwargs": networks}),
    )  # fmt: skip
    assert (mean > -400) == learns


class Far(gymnasium.Env):
    """Reward 100 at 2 from the start, in 50 steps of at most 0.1.

    Steps that are independent and uniform have gone 0.41 by then, a fifth of it (standard
    deviation).
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.left = 0.0, 50
        return self._observation(), {}

    def step(self, action):
        self.position += 0.1 * float(action[0])
        self.left -= 1
        far = abs(self.position) >= 2
        return self._observation(), 100.0 * far, far, self.left == 0, {}

    def _observation(self):
        return np.array([self.position / 2], np.float32).clip(-1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("noise_hold, learns", [(0, True), (None, False)])
def test_noise_that_is_held_reaches_what_is_far(noise_hold, learns, tmp_path):
    """Six of six seeds against one of six, where the policy's mean moved by chance."""
    returns = [
        trained(
            "sac", f"{__name__}:Far", tmp_path / f"run_{seed}", steps=4_000, seed=seed,
            algo=dict(SMALL, discount=0.97, fixed_alpha=1.0),
            agent={"hidden_sizes": [32], "args": {"noise_hold": noise_hold}},
        )
        for seed in (0, 1)
    ]  # fmt: skip
    assert (min(returns) == 100) == learns


@pytest.mark.parametrize(
    "env, steps, least",
    [
        ("toy/mask", 700, 4.75),  # of 5
        pytest.param("toy/hybrid", 2_000, 4.75, marks=pytest.mark.slow),
        pytest.param("CartPole-v1", 20_000, 475, marks=pytest.mark.slow),
    ],
)
def test_sac_learns_discrete_and_hybrid_actions(env, steps, least, tmp_path):
    assert trained("sac", env, tmp_path / "run", steps=steps) >= least


@pytest.mark.slow
@pytest.mark.parametrize("env, lost", [("toy/mask", "mask"), ("toy/hybrid", "hybrid")])
def test_sac_does_not_learn_them_without_mask_or_amount(env, lost, tmp_path):
    assert trained("sac", env, tmp_path / "run", env_args={"without": lost}, steps=3_000) < 4.75


@pytest.mark.slow
@pytest.mark.parametrize("algo_name", EVERY)
def test_presets_solve_pendulum(algo_name, tmp_path):
    steps = 40_000 if algo_name == "ddpg" else 20_000
    assert trained(algo_name, "Pendulum-v1", tmp_path / "run", steps=steps) >= -200
