"""Evolution as an algorithm: what it hands out, what it learns from a batch, how it goes on."""

import csv

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import make
from rlpyt.es.agent import EsAgent
from rlpyt.es.algo import CemAlgo, CmaesAlgo, OpenaiEsAlgo
from rlpyt.es.collector import PopulationCollector
from rlpyt.experiments.build import build_algo, build_runner, env_recipe
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.run import load, train
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.logging.context import run_context
from tests.runners.test_minibatch_rl import unmeasured
from tests.samplers.ray_parts import cluster, importable  # noqa: F401

T, B = 40, 8
ALGOS = {"cmaes": CmaesAlgo, "cem": CemAlgo, "openai_es": OpenaiEsAlgo}
every = pytest.mark.parametrize("name", ALGOS)


def runner_for(algo, n_itr=4, Sampler=SerialSampler, Runner=MinibatchRl, sampler=None, **kwargs):
    evaluation = dict(eval_n_envs=2, eval_max_steps=2000, eval_max_trajectories=4)
    arguments = {
        "EnvCls": make,
        "env_kwargs": dict(id="CartPole-v1"),
        "batch_T": T,
        "batch_B": B,
        "CollectorCls": PopulationCollector,
        **(evaluation if Runner is MinibatchRlEval else {}),
        **(sampler or {}),
    }
    model_kwargs = dict(hidden_sizes=[4], normalize_observation=True)
    kwargs.setdefault("affinity", dict(n_workers=1))
    return Runner(
        algo=algo,
        agent=EsAgent(model_kwargs=model_kwargs),
        sampler=Sampler(**arguments),
        **{"n_steps": n_itr * T * B, "seed": 5, "log_interval_steps": T * B, **kwargs},
    )


def initialized(algo, **kwargs):
    runner = runner_for(algo, **kwargs)
    runner.startup()
    return runner


def step(runner, itr):
    """One iteration; returns [B] undiscounted returns, seeds and rows it was made with."""
    agent = runner.agent
    seeds, rows = agent.settings["seeds"].copy(), agent.population.rows.numpy().copy()
    agent.sample_mode(itr)
    samples, _ = runner.sampler.obtain_samples(itr)
    returns = samples.env.reward.sum(0).double().numpy()
    info = runner.algo.optimize_agent(itr, samples)
    return returns, seeds, rows, info


@every
def test_a_generation_is_told_with_the_returns_of_its_candidates(name):
    runner = initialized(ALGOS[name](episodes=2))
    try:
        strategy = runner.algo.strategy
        assert strategy.popsize == B // 2
        asked = runner.algo._solutions.copy()
        returns, seeds, rows, info = step(runner, 0)
        assert rows == pytest.approx(np.repeat(asked, 2, axis=0).astype(np.float32))
        assert seeds[0] != seeds[1] and np.array_equal(seeds, np.tile(seeds[:2], 4))
        fitness = returns.reshape(4, 2).mean(1)
        assert info.candidateReturn == pytest.approx(fitness.tolist())
        assert info.generationSteps == [int(returns.sum())]  # CartPole gives one a step
        assert runner.algo.statistics() == {"CumStepsTaken": int(returns.sum())}
        assert strategy.result.fbest == -fitness.max()
        assert strategy.result.xbest == pytest.approx(asked[np.argmax(fitness)])
        assert not np.array_equal(runner.agent.settings["seeds"], seeds)
        favorite = runner.agent.population.favorite().numpy()
        assert favorite == pytest.approx(strategy.mean.astype(np.float32))
    finally:
        runner.shutdown()


def test_a_generation_may_take_several_batches():
    runner = initialized(CmaesAlgo(popsize=8, episodes=3))
    try:
        algo, handed, returns, seeds = runner.algo, [], [], []
        asked = algo._solutions.copy()
        for itr in range(3):
            assert algo.update_counter == 0
            got, own_seeds, rows, info = step(runner, itr)
            handed.append(rows)
            returns.append(got)
            seeds.append(own_seeds)
            assert len(info.candidateReturn) == (8 if itr == 2 else 0)
        assert algo.update_counter == 1
        assert np.concatenate(handed) == pytest.approx(np.repeat(asked, 3, 0).astype(np.float32))
        seeds = np.concatenate(seeds).reshape(8, 3)
        assert (seeds == seeds[0]).all() and len(set(seeds[0])) == 3
        fitness = np.concatenate(returns).reshape(8, 3).mean(1)
        assert info.candidateReturn == pytest.approx(fitness.tolist())
    finally:
        runner.shutdown()


def test_without_common_random_numbers_environments_keep_their_streams():
    runner = initialized(CmaesAlgo(common_random_numbers=False))
    try:
        assert (runner.agent.settings["seeds"] == -1).all()
        step(runner, 0)
        assert (runner.agent.settings["seeds"] == -1).all()
    finally:
        runner.shutdown()


def test_observation_statistics_are_those_of_steps_that_were_taken():
    runner = initialized(CmaesAlgo())
    try:
        runner.agent.sample_mode(0)
        samples, infos = runner.sampler.obtain_samples(0)
        taken = [samples.env.observation[: info.Length, b] for b, info in enumerate(infos)]
        expected = torch.cat(taken)
        runner.algo.optimize_agent(0, samples)
        rms = runner.agent.population.policy.obs_rms
        assert rms.count == len(expected) < T * B
        kept = rms.state_dict()["mean"]
        assert kept.numpy() == pytest.approx(expected.double().mean(0).numpy())
    finally:
        runner.shutdown()


def trained(run_dir, algo, n_itr, **kwargs):
    runner = runner_for(algo, n_itr, **kwargs)
    with run_context(run_dir, 0, "run", resume="resume_from" in kwargs):
        runner.train()
    with open(run_dir / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    return runner, [*map(unmeasured, rows)]


@pytest.mark.parametrize(
    ("Sampler", "Runner"), [(SerialSampler, MinibatchRlEval), (CpuSampler, MinibatchRl)]
)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(Sampler, Runner, tmp_path):
    algo = dict(popsize=12, episodes=2)  # three batches each: stopped in the middle of one
    parts = dict(Sampler=Sampler, Runner=Runner)
    whole, rows = trained(tmp_path / "a", CmaesAlgo(**algo), 8, **parts)
    trained(tmp_path / "b", CmaesAlgo(**algo), 4, **parts)
    resumed, again = trained(
        tmp_path / "b",
        CmaesAlgo(**algo),
        8,
        resume_from=tmp_path / "b" / "checkpoint",
        **{**parts, "seed": 99},
    )
    assert resumed.start_itr == 4
    a, b = whole.agent.state_dict(), resumed.agent.state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert np.array_equal(whole.agent.population.rows, resumed.agent.population.rows)
    assert rows == again
    finished = [float(row["candidateReturnAverage"]) for row in rows]
    assert np.isfinite(finished).sum() == 2  # generations of three batches, in eight
    taken = [float(row["Diagnostics/CumStepsTaken"]) for row in rows]
    budget = [float(row["Diagnostics/CumSteps"]) for row in rows]
    of_batches = [
        float(row["generationStepsAverage"])
        for row in rows
        if row["generationStepsAverage"] != "nan"
    ]
    assert np.cumsum(of_batches).tolist() == taken[-8:] and taken[-1] < budget[-1] == 8 * T * B


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_a_learning_rate_given_at_a_resume_is_in_force(decay, tmp_path):
    def final(run_dir, n_itr, rate, **kwargs):
        algo = OpenaiEsAlgo(learning_rate=rate, learning_rate_decay=decay)
        runner, _ = trained(run_dir, algo, n_itr, **kwargs)
        return runner.algo.strategy.learning_rate

    first = final(tmp_path, 2, 0.1)
    assert first == pytest.approx(0.1 * decay**2)
    resumed = final(tmp_path, 4, 0.01, resume_from=tmp_path / "checkpoint")
    assert resumed == pytest.approx(0.01 * decay**4)


def test_episodes_that_are_cut_are_reported_once(recwarn):
    for steps, expected in ((500, 0), (5, 1)):
        recwarn.clear()
        runner = initialized(CmaesAlgo(), sampler=dict(batch_T=steps))
        for itr in range(2):
            samples, _ = runner.sampler.obtain_samples(itr)
            samples.env.done[-1] |= steps == 500  # CartPole's limit
            runner.algo.optimize_agent(itr, samples)
        cut = [w for w in recwarn if "sampler.batch_T=" in str(w.message)]
        assert len(cut) == expected


def test_actions_of_several_bits_are_refused():
    space = gymnasium.spaces.MultiBinary(2)
    with pytest.raises(TypeError, match="Box"):
        EsAgent().initialize(EnvSpaces(FloatBox(-1, 1, (3,)), GymSpaceWrapper(space)))


def test_cmaes_learns_cartpole(tmp_path):
    larger = dict(batch_T=200, batch_B=24)
    runner = runner_for(CmaesAlgo(sigma0=1.0), sampler=larger, n_steps=12 * 200 * 24)
    means = []
    optimize = runner.algo.optimize_agent

    def noting(itr, samples):
        info = optimize(itr, samples)
        means.append(np.mean(info.candidateReturn))
        return info

    runner.algo.optimize_agent = noting
    runner.train()
    assert means[0] < 60
    assert np.mean(means[-3:]) > 100


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match="episodes=0"):
        CmaesAlgo(episodes=0)
    with pytest.raises(ValueError, match="sigma0=0"):
        CemAlgo(sigma0=0)
    with pytest.raises(ValueError, match="elite_frac=2"):
        CemAlgo(elite_frac=2)
    with pytest.raises(ValueError, match="learning_rate"):
        OpenaiEsAlgo(learning_rate=-1.0)
    algo = CmaesAlgo(episodes=3)
    with pytest.raises(ValueError, match="Try batch_B=9"):
        algo.checked_popsize(8)
    with pytest.raises(ValueError, match="Try batch_B=5"):
        CmaesAlgo(popsize=5, episodes=3).checked_popsize(8)
    arguments = dict(n_itr=1, batch_spec=None, examples=None)
    with pytest.raises(TypeError, match="EsAgent, got CategoricalMlpAgent"):
        algo.initialize(CategoricalMlpAgent(), mid_batch_reset=False, **arguments)


@pytest.mark.parametrize(("settings", "batch_B"), [({}, 4), ({"episodes": 2}, 8)])
def test_a_saved_state_of_another_generation_size_is_refused(settings, batch_B):
    runner = initialized(CmaesAlgo())
    state = runner.algo.state_dict()
    runner.shutdown()
    other = initialized(CmaesAlgo(**settings), sampler=dict(batch_B=batch_B))
    try:
        before = other.algo.state_dict()["strategy"]
        with pytest.raises(ValueError, match="popsize=4 .*popsize=8 and episodes=1"):
            other.algo.load_state_dict(state)
        assert np.array_equal(other.algo.state_dict()["strategy"]["C"], before["C"])
    finally:
        other.shutdown()


def test_an_error_in_a_derived_popsize_names_the_batch_size():
    runner = runner_for(OpenaiEsAlgo(), sampler=dict(batch_B=5))
    try:
        with pytest.raises(ValueError, match="popsize=5 .*batch_B=5 / episodes=1"):
            runner.startup()
    finally:
        runner.shutdown()


def test_other_collectors_and_ranks_are_refused():
    runner = initialized(CmaesAlgo())
    arguments = dict(n_itr=1, batch_spec=runner.sampler.batch_spec, examples=None)
    try:
        with pytest.raises(ValueError, match="CollectorCls=PopulationCollector"):
            runner.algo.initialize(runner.agent, mid_batch_reset=True, **arguments)
        with pytest.raises(ValueError, match="world_size .*got 2"):
            runner.algo.initialize(runner.agent, mid_batch_reset=False, world_size=2, **arguments)
    finally:
        runner.shutdown()


def options_for(name, env="CartPole-v1", **changes):
    options = RunOptions(algo_name=name, env=env)
    for layer in layers(name, env, env_recipe(env).family):
        options = options.updated(layer)
    return options.updated(changes)


@every
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "HalfCheetah-v5"])
def test_presets_make_runs(name, env, tmp_path):
    options = options_for(name, env)
    build_algo(options).checked_popsize(options.sampler.batch_B)
    runner = build_runner(options, tmp_path)
    assert runner.n_steps >= 20 * runner.sampler.batch_size
    assert runner.sampler.CollectorCls is PopulationCollector


@every
def test_a_run_trains_and_is_loaded(name, tmp_path):
    small = {"kind": "serial", "batch_T": T, "batch_B": B}
    run_dir = tmp_path / "run"
    options = options_for(name, steps=3 * T * B, log_interval_steps=T * B, sampler=small)
    train(options, run_dir)
    result = load(run_dir).evaluate(episodes=2)
    assert len(result.returns) == 2


def test_options_that_do_not_fit_are_refused(tmp_path):
    for sampler in ({"kind": "gpu"}, {"asynchronous": True}):
        with pytest.raises(ValueError, match="serial, cpu or ray"):
            build_runner(options_for("cmaes", sampler=sampler), tmp_path)
    with pytest.raises(ValueError, match="without memory"):
        build_runner(options_for("cmaes", agent={"recurrent": True}), tmp_path)
    with pytest.raises(ValueError, match="cmaes .*minatar"):
        options_for("cmaes", "MinAtar/Breakout-v1")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_ray_actors_evaluate_the_same_candidates_as_this_process():
    from rlpyt.samplers.ray_sampler import RaySampler

    favorites = []
    for Sampler in (SerialSampler, RaySampler):
        runner = runner_for(CmaesAlgo(), 3, Sampler, affinity=dict(n_workers=2))
        runner.train()
        favorites.append(runner.agent.population.favorite())
    assert torch.equal(*favorites)
