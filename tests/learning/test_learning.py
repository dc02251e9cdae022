"""Each algorithm learns what its probe asks for, in seconds; with the command line's parts."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.envs.toy import BanditEnv, DelayEnv, MemoryEnv
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import set_seed


def learn(EnvCls, algo, n_steps, memory=None, T=20, B=16, **env_kwargs):
    """Train, and return the mean return of the last fifth of all trajectories."""
    set_seed(3)
    torch.set_num_threads(1)
    sampler = SerialSampler(
        EnvCls=EnvCls, env_kwargs=env_kwargs, batch_T=T, batch_B=B, max_decorrelation_steps=0
    )
    model_kwargs = {} if memory is None else dict(memory=memory)
    spaces = EnvCls(**env_kwargs).spaces
    agent = agent_for(spaces, recurrent=memory is not None, model_kwargs=model_kwargs)
    sampler.initialize(agent, seed=3, bootstrap_value=True)
    n_itr = n_steps // (T * B)
    algo.initialize(agent, n_itr, sampler.batch_spec, mid_batch_reset=True)
    returns = []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, infos = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
        returns += [info.Return for info in infos]
    return float(np.mean(returns[-len(returns) // 5 :]))


def ppo(**kwargs):
    settings = dict(learning_rate=3e-3, gae_lambda=0.95, ratio_clip=0.2, normalize_advantage=True)
    return PPO(**{**settings, **kwargs})


def a2c(**kwargs):
    return A2C(**{**dict(learning_rate=1e-2, gae_lambda=0.95, normalize_advantage=True), **kwargs})


@pytest.mark.parametrize("algo", [ppo, a2c])
def test_finds_the_best_arm(algo):
    best = max(BanditEnv().means)
    assert learn(BanditEnv, algo(), 8_000) > 0.8 * best


@pytest.mark.parametrize("algo", [pytest.param(ppo, marks=pytest.mark.slow), a2c])
def test_credits_the_first_action(algo):
    assert learn(DelayEnv, algo(), 20_000) > 0.8


class Small(DelayEnv):
    """Rewards that are a thousand times smaller."""

    def step(self, action):
        step = super().step(action)
        return step._replace(reward=1e-3 * step.reward)


@pytest.mark.slow
@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_small_rewards_need_normalized_advantages(normalize_advantage):
    """The bonus for entropy is larger than they are; chance is 0.5."""
    algo = ppo(entropy_loss_coeff=0.01, normalize_advantage=normalize_advantage)
    assert (1e3 * learn(Small, algo, 12_000) > 0.8) == normalize_advantage


MEMORIES = ["lstm", "gru", "ln_lstm", "mingru", dict(kind="gtrxl", window=8)]


@pytest.mark.slow
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
@pytest.mark.parametrize("algo,n_steps,T", [(ppo, 20_000, 20), (a2c, 24_000, 8)])
def test_every_memory_remembers_the_cue(algo, n_steps, T, memory):
    """Chance is 0.5."""
    assert learn(MemoryEnv, algo(), n_steps, memory=memory, T=T, delay=3) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("algo,n_steps,T", [(ppo, 20_000, 20), (a2c, 24_000, 8)])
def test_without_memory_the_cue_is_lost(algo, n_steps, T):
    assert learn(MemoryEnv, algo(), n_steps, memory=None, T=T, delay=3) < 0.6


@pytest.mark.slow
def test_ppo_balances_the_pole():
    algo = ppo(learning_rate=1e-3, epochs=10, entropy_loss_coeff=0.0)
    assert learn(make, algo, 30_000, T=64, B=8, id="CartPole-v1") > 100


@pytest.mark.slow
def test_mixed_precision_trains():
    assert learn(DelayEnv, ppo(mixed_precision=True), 20_000) > 0.8


@pytest.mark.slow
def test_compiled_loss_trains():
    assert learn(DelayEnv, ppo(compile="loss"), 20_000) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("algo,n_steps", [("ppo", 100_000), ("a2c", 300_000)])
def test_presets_solve_cartpole(algo, n_steps, seed, tmp_path):
    from rlpyt.cli.main import main
    from rlpyt.experiments.run import load

    run_dir = tmp_path / "run"
    command = ["train", algo, "CartPole-v1", "--steps", n_steps, "--seed", seed, "--no-video"]
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, command), "--run-dir", str(run_dir)])
    assert not stopped.value.code
    assert np.mean(load(run_dir).evaluate(20).returns) >= 475
