"""Deep Q-learning from options, presets and rlpyt's configs."""

from functools import partial

import pytest
import torch

import rlpyt
from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.experiments.agents import Q_LEARNING, build_agent
from rlpyt.experiments.build import build_algo, env_recipe, env_spaces
from rlpyt.experiments.configs.atari.dqn import atari_dqn, atari_dqn_debug, atari_r2d1
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.compose import with_parts
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.registry import ALGORITHMS
from rlpyt.experiments.run import train
from rlpyt.experiments.scripts.train import TrainScript
from rlpyt.experiments.video import record_video
from rlpyt.models.dqn.noisy import noisy_layers
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.utils.names import UnknownName
from rlpyt.vis.curves import read_progress

ATARI_KEYS = {
    atari_dqn: "dqn double prioritized dueling double_pri_duel catdqn ernbw rmsprop fast_log "
    "short_run no_eval serial cpu debug debug_vec_eps async_big",
    atari_dqn_debug: "dqn double_pri_duel catdqn ernbw reset_collector monolithic_uniformframe "
    "uniform_noframe",
    atari_r2d1: "r2d1 r2d1_long r2d1_profile r2d1_prof_halftrain r2d1_prof_quartertrain "
    "r2d1_long_4tr async_gpu r2d1_test async_alt_pabti async_alt_dgx async_alt_got async_gpu_dgx",
}


def preset(algo_name, env, **changes):
    options = RunOptions(algo_name=algo_name, env=env)
    for layer in layers(algo_name, env, env_recipe(env).family):
        options = options.updated(layer)
    return options.updated(changes)


@pytest.mark.parametrize("env", ["CartPole-v1", "pong", "toy/memory", "MinAtar/Breakout-v1"])
@pytest.mark.parametrize("algo_name", Q_LEARNING)
def test_presets_make_an_algorithm_and_its_agent(algo_name, env):
    if env.startswith("MinAtar/"):
        pytest.importorskip("minatar")
    options = preset(algo_name, env)
    spaces = env_spaces(env_recipe(env))
    agent = build_agent(options, spaces)
    agent.initialize(spaces)
    algo = build_algo(options)
    assert type(algo).__name__ == ALGORITHMS[algo_name].split(":")[1]
    assert agent.recurrent == (algo_name == "r2d1")
    assert bool(noisy_layers(agent.model)) == (algo_name == "rainbow")
    if algo_name == "rainbow":
        assert algo.double_dqn and algo.prioritized_replay and algo.n_step_return == 3
        assert (agent.eps_init, agent.eps_final) == (0.0, 0.0)


def test_continuous_actions_are_refused():
    with pytest.raises(UnknownName, match="preset 'mujoco': 'dqn'. .*a2c, cem, "):
        preset("dqn", "HalfCheetah-v5")
    with pytest.raises(TypeError, match="Discrete action space"):
        build_agent(preset("dqn", "Pendulum-v1"), env_spaces(env_recipe("Pendulum-v1")))


@pytest.mark.parametrize("algo_name", ["dqn", "rainbow", "iqn", "r2d1"])
def test_a_run_trains_resumes_and_plays(algo_name, tmp_path):
    small = dict(
        steps=128,
        log_interval_steps=64,
        sampler=dict(batch_T=16, batch_B=2, max_decorrelation_steps=0),
        agent=dict(hidden_sizes=[8]),
        algo=dict(min_steps_learn=64, replay_ratio=2),
    )
    if algo_name == "r2d1":
        small["algo"].update(batch_T=4, batch_B=4, warmup_T=2, store_rnn_state_interval=2)
    options = preset(algo_name, "CartPole-v1", **small)
    train(options, tmp_path / "run")
    train(options.updated({"steps": 192}), tmp_path / "run", resume=True)
    run = rlpyt.load(tmp_path / "run")
    assert run.itr == 5
    assert run.evaluate(2).returns == run.evaluate(2).returns
    run.agent.deterministic = False
    run.reset()
    assert run.agent.distribution.epsilon == pytest.approx(0.001)  # not that before training


@pytest.mark.parametrize("algo_name", ["dqn", "r2d1"])
def test_minatar_is_learned_from_boolean_images(algo_name, tmp_path):
    pytest.importorskip("minatar")
    small = dict(steps=1280, log_interval_steps=640, algo=dict(min_steps_learn=960))
    options = preset(algo_name, "MinAtar/Breakout-v1", **small)
    train(options, tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    updates = read_progress(tmp_path / "run")["Diagnostics/CumUpdates"]
    assert updates[-1] >= 2 and run.evaluate(2).returns
    first = next(p for p in run.agent.model.parameters() if p.dim() == 4)
    assert first.shape == (16, 4, 3, 3)
    assert record_video(run, tmp_path / "film.mp4", max_steps=5) == 5


def linear_layers(model):
    return [module for module in model.modules() if isinstance(module, torch.nn.Linear)]


def test_options_of_the_network_reach_the_model():
    spaces = env_spaces(env_recipe("CartPole-v1"))
    options = preset("dqn", "CartPole-v1", agent=dict(dueling=True, hidden_sizes=[8, 6]))
    agent = build_agent(options, spaces)
    agent.initialize(spaces)
    assert agent.model.head.value.model[0].out_features == 6 and agent.eps_final == 0.04
    noisy = build_agent(preset("dqn", "CartPole-v1", agent=dict(noisy=True)), spaces)
    assert (noisy.eps_init, noisy.eps_final) == (0.0, 0.0)
    args = dict(eps_init=0.5)
    both = build_agent(preset("dqn", "CartPole-v1", agent=dict(noisy=True, args=args)), spaces)
    assert (both.eps_init, both.eps_final) == (0.5, 0.04)
    qr = build_agent(preset("qrdqn", "CartPole-v1", agent=dict(args=dict(n_quantiles=7))), spaces)
    assert qr.n_quantiles == 7
    images = env_spaces(env_recipe("pong"))
    for agent in (dict(hidden_sizes=[32, 16]), dict(model=dict(hidden_sizes=[32, 16]))):
        for algo_name in ("ppo", "dqn", "r2d1"):
            built = build_agent(preset(algo_name, "pong", agent=agent), images)
            built.initialize(images)
            assert {32, 16} <= {layer.out_features for layer in linear_layers(built.model)}


@pytest.mark.parametrize(
    "algo_name,agent,message",
    [
        ("ppo", dict(dueling=True), "agent.dueling"),
        ("a2c", dict(noisy=True), "a2c .*discrete"),
    ],
)
def test_options_that_contradict_are_refused(algo_name, agent, message):
    spaces = env_spaces(env_recipe("CartPole-v1"))
    with pytest.raises(ValueError, match=message):
        build_agent(preset(algo_name, "CartPole-v1", agent=agent), spaces)


@pytest.mark.parametrize("module", ATARI_KEYS, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_configs_of_rlpyt_are_arguments_of_its_classes(module):
    assert set(module.configs) == set(ATARI_KEYS[module].split())
    built = []
    for key, config in module.configs.items():
        recurrent, categorical = module is atari_r2d1, key in ("catdqn", "ernbw")
        Algo = R2D1 if recurrent else CategoricalDQN if categorical else DQN
        if key == "rmsprop":
            Algo = partial(DQN, OptimCls=torch.optim.RMSprop)
        Agent = AtariR2d1Agent if recurrent else AtariCatDqnAgent if categorical else AtariDqnAgent
        script = TrainScript(module.configs, Algo, Agent, GpuSampler, AtariEnv)
        runner = script.runner(config, affinity={})
        assert runner.n_steps > runner.algo.min_steps_learn
        AtariEnv(**config["eval_env"])
        if (Agent, config["model"], config["env"]) not in built:  # models take a second each
            built.append((Agent, config["model"], config["env"]))
            runner.agent.initialize(AtariEnv(**config["env"]).spaces)


def test_variants_leave_what_they_extend_alone():
    base = dict(algo=dict(a=1, b=2), steps=3)
    made = with_parts(base, algo=dict(b=5), steps=4, sampler=dict(c=6))
    assert made == dict(algo=dict(a=1, b=5), steps=4, sampler=dict(c=6))
    assert base == dict(algo=dict(a=1, b=2), steps=3)
