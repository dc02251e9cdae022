"""A trained run in Python: load it, step it, play it."""

import copy
import random
import shutil
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.errors import DamagedFile
from rlpyt.experiments import run as run_module
from rlpyt.experiments.build import build_agent, env_recipe, env_spaces
from rlpyt.experiments.finish import save_evaluation
from rlpyt.experiments.hardware import affinity
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.policy import MISSING_REWARD
from rlpyt.experiments.presets.families import layers
from rlpyt.experiments.run import train
from rlpyt.experiments.video import record_video
from rlpyt.models.utils import matmul_precision
from rlpyt.runners.hooks import Hook, KeepBest
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.names import UnknownName, flattened
from rlpyt.utils.seed import get_seed, set_seed
from tests.shaped_env import SHAPES, ShapedEnv

needs_minatar = pytest.mark.skipif(find_spec("minatar") is None, reason="minatar is missing")


def tiny(env, algo_name="ppo", **changes):
    options = RunOptions(
        algo_name=algo_name,
        env=env,
        steps=32,
        log_interval_steps=32,
        algo={"minibatches": 2, "epochs": 1} if algo_name == "ppo" else {},
    )
    small = {"kind": "serial", "batch_T": 8, "batch_B": 2, "max_decorrelation_steps": 0}
    return options.updated({"sampler": small, **changes})


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs") / "cartpole"
    train(tiny("CartPole-v1"), run_dir)
    return run_dir


def test_three_lines_step_a_trained_agent(cartpole):
    run = rlpyt.load(cartpole)
    env = run.env()
    step = env.step(run.act(env.reset()))
    assert step.observation.shape == (4,) and step.reward == 1.0


def test_act_works_on_a_plain_gymnasium_environment(cartpole):
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    action = rlpyt.load(cartpole).act(observation)
    assert env.action_space.contains(action)


def test_act_refuses_what_training_refuses(cartpole):
    run = rlpyt.load(cartpole)
    with pytest.raises(ValueError, match=r"observation .*\(3,\); .*\(4,\)"):
        run.act(np.zeros(3, np.float32))


TRAINED_SHAPES = [
    *[("ppo", name) for name in SHAPES],
    *[("sac", name) for name in ("bits", "parts", "box")],
    *[(algo, name) for algo in ("a2c", "vtrace") for name in ("plain_grid", "box")],
    *[(algo, "box") for algo in ("td3", "ddpg")],
]


@pytest.mark.parametrize("algo, action", TRAINED_SHAPES)
def test_actions_of_any_shape_and_dtype_are_trained_played_and_exported(algo, action, tmp_path):
    settings = dict(min_steps_learn=16) if algo in ("sac", "td3", "ddpg") else {}
    settings |= dict(epochs=1, minibatches=1) if algo == "ppo" else {}
    kwargs = dict(env_args=dict(action=action), steps=32, progress=False, run_dir=tmp_path / "run")
    sampler = dict(kind="serial", batch_T=8, batch_B=2)
    run = rlpyt.train(algo, ShapedEnv, sampler=sampler, **kwargs, **settings)
    env, own = ShapedEnv(action), run.env()
    observation, _ = env.reset()
    own.reset()
    taken = run.act(observation)
    own.step(taken)
    own.step(own.action_space.sample())
    if action not in ("grid", "parts"):  # else in rlpyt's form: choices from 0, named tuples
        env.step(taken)
    if (algo == "ppo" and action in ("grid", "parts")) or algo == "td3":
        run.export(tmp_path / "policy.pt2", steps=5)
        env.step(rlpyt.load_policy(tmp_path / "policy.pt2").act(observation)[0])


def test_act_takes_and_returns_the_dicts_of_a_gymnasium_environment(tmp_path):
    env_args = dict(action="parts", dict_observation=True)
    sampler = dict(kind="serial", batch_T=8, batch_B=2)
    kwargs = dict(steps=16, progress=False, run_dir=tmp_path / "run", sampler=sampler)
    run = rlpyt.train("ppo", ShapedEnv, env_args=env_args, **kwargs)
    env, own = ShapedEnv(**env_args), run.env()
    observation, _ = env.reset()
    for _ in range(3):
        action = run.act(observation)
        observation = env.step(action)[0]
    named = run.act(own.reset())
    assert named._fields == ("a", "b", "c") and named.a.shape == (2, 2)
    with pytest.raises(ValueError, match=r"\['kind', 'my-key'\]"):
        run.act({"kind": 1})
    with pytest.raises(TypeError, match="parts kind, my_key"):
        run.act(np.zeros(2))
    with pytest.raises(ValueError, match=r"\['kind', 'my-key'\], got tuple"):
        run.act(env.reset())


def test_act_takes_numbers_of_another_byte_order(cartpole):
    run = rlpyt.load(cartpole)
    observation = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    with pytest.raises(TypeError, match=r"must be an array, .* got \(array"):
        run.act((observation, {}))  # what reset returns
    assert run.act(observation.astype(">f4")) == run.act(observation)
    assert run.act(observation[::-1]) == run.act(observation[::-1].copy())  # a view


def test_the_loaded_parameters_are_the_trained_ones(cartpole):
    run = rlpyt.load(cartpole)
    saved = torch.load(cartpole / "params.pkl", weights_only=True)["agent_state_dict"]
    loaded = run.agent.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)


def test_deterministic_actions_are_the_most_likely(cartpole):
    run = rlpyt.load(cartpole)
    for observation in np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32):
        inputs = torch.as_tensor(observation)[None], torch.zeros(1, dtype=torch.int64)
        dist_info, _ = run.agent(*inputs, torch.zeros(1))
        assert run.act(observation) == dist_info.prob.argmax().item()


def test_actions_are_sampled_if_not_deterministic(cartpole):
    run = rlpyt.load(cartpole)
    drawn = {int(run.act(np.zeros(4, np.float32), deterministic=False)) for _ in range(60)}
    assert drawn == {0, 1}


def test_a_recurrent_agent_remembers_until_reset(tmp_path):
    train(tiny("toy/memory", agent={"recurrent": True}, algo={"minibatches": 1}), tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    observation = run.env().reset()
    states = []
    for _ in range(2):
        run.act(observation)
        states.append(run.agent.prev_rnn_state)
        run.act(observation, 1.0)
        assert not _same(run.agent.prev_rnn_state, states[-1])
        run.reset()
    assert _same(*states)


def test_acting_with_memory_warns_once_if_the_reward_is_missing(tmp_path, recwarn):
    settings = dict(agent={"recurrent": True}, algo={"minibatches": 1})
    train(tiny("CartPole-v1", **settings), tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    run.export(tmp_path / "policy.pt2", steps=2)
    policy = rlpyt.load_policy(tmp_path / "policy.pt2")
    observation = run.env().reset()
    recwarn.clear()
    for _ in range(2):
        run.reset()
        run.act(observation)  # the first step of an episode has none
        run.act(observation, 1.0)
        _, state = policy.act(observation)
        policy.act(observation, state, 1.0)
    run.play(run.env())
    assert not [w for w in recwarn if "reward" in str(w.message)]
    _, state = policy.act(observation)
    for _ in range(2):
        run.act(observation)
        policy.act(observation, state)
    assert [str(w.message) for w in recwarn if "reward" in str(w.message)] == 2 * [MISSING_REWARD]


class Rewarded(torch.nn.Module):
    """A policy without memory, which may read the previous reward."""

    def __init__(self, observation_shape, output_size, reads=True):
        super().__init__()
        self.pi, self.v = torch.nn.Linear(5, output_size), torch.nn.Linear(5, 1)
        self.reads = reads

    def forward(self, observation, prev_action, prev_reward):
        reward = prev_reward if self.reads else torch.zeros_like(prev_reward)
        x = torch.cat([observation, reward.unsqueeze(-1)], -1)
        return torch.softmax(self.pi(x), -1), self.v(x).squeeze(-1)


@pytest.mark.parametrize("reads", [True, False])
def test_acting_warns_if_a_model_without_memory_misses_the_reward(reads, tmp_path, recwarn):
    agent = {"model_cls": f"{__name__}:Rewarded", "model": {"reads": reads}}
    train(tiny("CartPole-v1", agent=agent), tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    observation = run.env().reset()
    recwarn.clear()
    run.act(observation)
    run.act(observation, 1.0)
    assert not [w for w in recwarn if "reward" in str(w.message)]
    for _ in range(2):
        run.act(observation)
    found = [str(w.message) for w in recwarn if "reward" in str(w.message)]
    assert found == [MISSING_REWARD] * reads


def test_other_episodes_leave_no_trace_in_the_one_that_is_acted_in(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    settings = dict(agent={"recurrent": True}, algo={"minibatches": 1})
    train(tiny("CartPole-v1", **settings), tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    observation = run.env().reset()
    run.act(observation)
    state = run.agent.prev_rnn_state
    run.act(observation, 1.0)
    expected = run.agent.prev_rnn_state
    others = [
        lambda: run.evaluate(1),
        lambda: run.play(run.env()),
        lambda: record_video(run, tmp_path / "video.gif", max_steps=3),
    ]
    for play in others:
        run.reset()
        run.act(observation)
        play()
        assert _same(run.agent.prev_rnn_state, state)
        run.act(observation, 1.0)
        assert _same(run.agent.prev_rnn_state, expected)


def test_what_is_done_with_a_trained_agent_leaves_the_random_numbers_of_the_program(
    cartpole, tmp_path
):
    run = rlpyt.load(cartpole)
    actions = [
        lambda: rlpyt.load(cartpole),
        lambda: run.evaluate(1),
        lambda: run.evaluate(1, deterministic=False),
        lambda: run.export(tmp_path / "policy.pt2", steps=2),
    ]
    for act in actions:
        set_seed(17)
        expected = random.random(), np.random.rand(), torch.rand(1).item()
        set_seed(17)
        act()
        assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
        assert get_seed() == 17


def test_a_training_in_a_hook_leaves_the_random_numbers_of_the_outer_one(tmp_path):
    states = []

    class Inner(Hook):
        def on_iteration(self, runner, itr):
            before = torch.get_rng_state()
            train(tiny("CartPole-v1", seed=1), tmp_path / f"inner_{itr}")
            states.append(torch.equal(torch.get_rng_state(), before))

    train(tiny("CartPole-v1"), tmp_path / "outer", hooks=[Inner()])
    assert states == [True, True]


@pytest.mark.parametrize("given, used", [(None, "high"), ("medium", "medium")])
def test_matrices_are_multiplied_with_the_precision_of_the_options(given, used, tmp_path):
    found = []

    class Look(Hook):
        def on_iteration(self, runner, itr):
            found.append(torch.get_float32_matmul_precision())

    with matmul_precision("high"):  # of the script
        train(tiny("CartPole-v1", matmul_precision=given), tmp_path / "run", hooks=[Look()])
        assert torch.get_float32_matmul_precision() == "high"
    assert found == [used, used]


def test_evaluation_plays_complete_episodes_from_the_seed(cartpole):
    run = rlpyt.load(cartpole)
    first, again, other = run.evaluate(3), run.evaluate(3), run.evaluate(3, seed=5)
    assert first == again == run.evaluate(3.0)
    assert first.returns != other.returns
    assert first.returns == tuple(float(n) for n in first.lengths)
    with pytest.raises(ValueError, match="episodes=0"):
        run.evaluate(0)


class Lives(gymnasium.Env):
    """Games of three lives, which ``reset`` starts and seeds after the last one only."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    lives = 0

    def reset(self, seed=None, options=None):
        if self.lives == 0:
            super().reset(seed=seed)
            self.lives = 3
        return self.observe(), {}

    def step(self, action):
        lost = self.np_random.random() < 0.2
        self.lives -= lost
        return self.observe(), float(self.np_random.integers(1000)), bool(lost), False, {}

    def observe(self):
        return self.np_random.random(2).astype(np.float32)


def test_evaluation_repeats_episodes_of_an_environment_that_ignores_some_seeds(tmp_path):
    train(tiny(Lives, "a2c"), tmp_path)
    run = rlpyt.load(tmp_path)
    first, again = run.evaluate(4), run.evaluate(4)
    assert first.returns == again.returns


class Endless(gymnasium.Env):
    """Ten numbers in turn; episodes with odd numbers end, after three steps."""

    observation_space = gymnasium.spaces.Box(0, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    number = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.number = 0, self.number + 1 if seed is None else seed
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        return self.observe(), 1.0, self.t == 3 and self.number % 2 == 1, False, {}

    def observe(self):
        return np.array([self.t % 10, 1], np.float32)


class LateCategory(gymnasium.Env):
    """Its third observation is no element of its space, if it is ``late``."""

    observation_space = gymnasium.spaces.Dict(
        a=gymnasium.spaces.Discrete(3), b=gymnasium.spaces.Box(-1, 1, (2,))
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, late=False):
        self.late = late

    def reset(self, seed=None, options=None):
        self.t = 0
        return {"a": 1, "b": np.zeros(2, np.float32)}, {}

    def step(self, action):
        self.t += 1
        a = 3 if self.late and self.t == 2 else 1
        return {"a": a, "b": np.zeros(2, np.float32)}, 1.0, self.t == 4, False, {}


def test_evaluation_names_a_category_outside_of_its_space(tmp_path):
    train(tiny(LateCategory, "a2c"), tmp_path)
    run = rlpyt.load(tmp_path, env=LateCategory, env_args=dict(late=True))
    with pytest.raises(ValueError, match=r"observation.a is outside the bounds \[0, 2\]"):
        run.evaluate(1)


class LateObservation(LateCategory):
    """Environment that returns `wrong` as its second observation."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, wrong=None):
        super().__init__()
        self.wrong = np.zeros(2) if wrong is None else wrong

    def reset(self, seed=None, options=None):
        return super().reset(seed=seed)[0]["b"], {}

    def step(self, action):
        observation, *rest = super().step(action)
        wrong = None if self.wrong is False else self.wrong
        return wrong if self.t == 2 else observation["b"], *rest


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (np.zeros((1, 2)), ValueError, r"observation has shape \(1, 2\); expected \(2,\)"),
        (np.zeros(2, complex), TypeError, "observation is a ndarray"),
        ("left", TypeError, "observation is a str"),
        (False, TypeError, "the observation must be an array"),  # returns None
        (np.full(2, np.nan), None, "LateObservation: observations must be finite"),
        (np.full(2, np.inf), None, "LateObservation: observations must be finite"),
    ],
)
def test_evaluation_checks_observations_as_training_does(wrong, error, message, tmp_path):
    train(tiny(LateObservation, "a2c"), tmp_path)
    run = rlpyt.load(tmp_path, env=LateObservation, env_args=dict(wrong=wrong))
    if error is not None:
        with pytest.raises(error, match=message):
            run.evaluate(1)
        return
    with pytest.warns(UserWarning, match=message) as said:
        run.evaluate(3)
    assert len([w for w in said if "finite" in str(w.message)]) == 1


class Unbounded(LateObservation):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)


def test_another_warning_does_not_hide_that_of_nan(tmp_path):
    train(tiny(Unbounded, "a2c"), tmp_path)
    run = rlpyt.load(tmp_path, env=Unbounded)
    with pytest.warns(UserWarning, match="float32"):
        run.act(np.full(2, 1e9, np.float32))
    with pytest.warns(UserWarning, match="must be finite"):
        run.act(np.full(2, np.nan, np.float32))


class NoArguments(LateCategory):
    def __init__(self):
        super().__init__()


def test_another_environment_has_the_arguments_given_with_it(tmp_path):
    train(tiny(LateCategory, "a2c", env_args={"late": False}), tmp_path)
    assert rlpyt.load(tmp_path, env=NoArguments, env_args={}).evaluate(1).lengths == (4,)
    with pytest.raises(TypeError, match="late"):
        rlpyt.load(tmp_path, env=NoArguments)


def test_evaluation_ends_where_episodes_do_not(tmp_path, monkeypatch):
    options = tiny(f"{__name__}:Endless", eval_max_steps=7)
    train(options, tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="2 of 3 episodes .* 7 steps .*--max-steps") as said:
        result = run.evaluate(3, max_steps=7)
    assert len(said) == 1
    assert (result.returns, result.lengths, result.unfinished) == ((7, 3, 7), (7, 3, 7), 2)
    assert "2 of them unfinished" in str(result) and result.as_dict()["unfinished"] == 2
    monkeypatch.setattr(run_module, "EVAL_STEPS", 20)  # the default
    with pytest.warns(UserWarning, match="1 of 1 episodes .* 20 steps"):
        assert run.evaluate(1).lengths == (20,)
    with pytest.raises(ValueError, match="max_steps"):
        run.evaluate(1, max_steps=0)


def test_the_default_limit_of_an_evaluation_is_no_shorter_than_a_time_limit(cartpole, monkeypatch):
    monkeypatch.setattr(run_module, "EVAL_STEPS", 3)
    assert rlpyt.load(cartpole).evaluate(2).unfinished == 0


def test_evaluations_and_rows_have_intervals_of_their_own(tmp_path):
    settings = dict(steps=160, eval_interval_steps=64, eval_episodes=2)
    train(tiny("CartPole-v1", log_interval_steps=32, **settings), tmp_path / "a")
    rows = read_progress(tmp_path / "a")
    evaluated = np.isfinite(rows["ReturnAverage"])
    steps = rows["Diagnostics/CumSteps"]
    assert [*steps] == [0, 32, 64, 96, 128, 160] and [*steps[evaluated]] == [0, 64, 128, 160]
    assert np.isfinite(rows["Training/ReturnAverage"][-1])


@pytest.mark.parametrize("algo_name", ["ppo", "a2c"])
def test_evaluations_in_training_play_the_most_likely_actions(algo_name, tmp_path):
    """In a bandit without noise all episodes then have the return of those after training."""
    settings = dict(eval_interval_steps=16, eval_episodes=8)
    train(tiny("toy/bandit", algo_name, **settings), tmp_path)
    rows = read_progress(tmp_path)
    evaluated = np.isfinite(rows["ReturnAverage"])
    assert evaluated.sum() == 3 and not rows["ReturnStd"][evaluated].any()
    assert [*rlpyt.load(tmp_path).evaluate(4).returns] == [rows["ReturnAverage"][-1]] * 4


def test_the_best_agent_is_kept_and_loaded(tmp_path, monkeypatch):
    returns = iter([5.0, 9.0, 7.0])
    monkeypatch.setattr(KeepBest, "on_log", scored_by(returns, KeepBest.on_log))
    train(tiny("CartPole-v1", steps=96, keep_best=True), tmp_path / "run")
    best, last = rlpyt.load(tmp_path / "run", best=True), rlpyt.load(tmp_path / "run")
    assert (best.itr, last.itr, best.best, last.best) == (3, 5, True, False)
    kept = torch.load(tmp_path / "run" / "best.pkl", weights_only=True)
    assert kept["return_"] == 9 and kept["cum_steps"] == 64
    states = [run.agent.state_dict() for run in (best, last)]
    assert all(torch.equal(x, kept["agent_state_dict"][k]) for k, x in states[0].items())
    assert not all(torch.equal(x, states[1][k]) for k, x in states[0].items())
    train(tiny("CartPole-v1"), tmp_path / "without")
    with pytest.raises(FileNotFoundError, match=r"best\.pkl: .*keep_best=True"):
        rlpyt.load(tmp_path / "without", best=True)


def test_the_evaluation_of_an_earlier_agent_is_removed(tmp_path):
    options = tiny("CartPole-v1")
    train(options, tmp_path, finish=save_evaluation)
    train(options, tmp_path, resume=True)  # complete: no iteration
    assert (tmp_path / "evaluation.json").exists()
    train(options.updated({"steps": 2 * options.steps}), tmp_path, resume=True)
    assert not (tmp_path / "evaluation.json").exists()


def scored_by(returns, on_log):
    return lambda hook, runner, row: on_log(hook, runner, {**row, "ReturnAverage": next(returns)})


@pytest.mark.parametrize(
    "algo_name,env,kwargs",
    [
        ("ppo", "Pendulum-v1", {}),
        ("sac", "Pendulum-v1", dict(algo=dict(min_steps_learn=10**4))),
        ("dqn", "CartPole-v1", dict(algo=dict(min_steps_learn=10**4))),
        ("cem", "CartPole-v1", {}),
    ],
)
def test_a_run_starts_from_the_agent_of_another(algo_name, env, kwargs, tmp_path):
    kwargs = {**kwargs, "agent": dict(hidden_sizes=[4], normalize_observation=True)}
    train(tiny(env, algo_name, **kwargs, seed=1), tmp_path / "first")
    first = rlpyt.load(tmp_path / "first").agent.state_dict()
    started = {}

    class Look(Hook):
        def on_start(self, runner):
            started.update(copy.deepcopy(runner.agent.state_dict()))

    options = tiny(env, algo_name, **kwargs, init_from=str(tmp_path / "first"))
    train(options, tmp_path / "second", hooks=[Look()])
    a, b = flattened(first), flattened(started)
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
    assert any("obs_rms" in key and x.any() for key, x in a.items())
    shutil.rmtree(tmp_path / "first")  # not needed any more
    rlpyt.load(tmp_path / "second")
    train(options.updated({"steps": 64}), tmp_path / "second", resume=True)


def test_init_from_takes_a_best_agent_and_reaches_workers(tmp_path):
    train(tiny("CartPole-v1", keep_best=True, log_interval_steps=16), tmp_path / "first")
    file = tmp_path / "first" / "best.pkl"
    torch.save({"itr": 3, "agent_state_dict": zeros_of(file)}, file)
    sampler = dict(kind="cpu", n_workers=1)
    options = tiny("CartPole-v1", init_from=str(file), sampler=sampler, steps=16)
    train(options.updated({"algo": {"learning_rate": 1e-30}}), tmp_path / "second")
    state = rlpyt.load(tmp_path / "second").agent.state_dict()
    assert all(x.abs().max() < 1e-20 for x in state.values())


def zeros_of(file):
    state = torch.load(file, weights_only=True)["agent_state_dict"]
    return {name: torch.zeros_like(x) for name, x in state.items()}


@pytest.mark.parametrize("value", ["list", "sparse", "meta"])
def test_init_from_names_parameters_that_are_no_plain_tensors(cartpole, tmp_path, value):
    file = tmp_path / "params.pkl"
    saved = torch.load(cartpole / "params.pkl", weights_only=True)
    name, x = next((k, v) for k, v in saved["agent_state_dict"].items() if v.ndim == 2)
    other = {"list": x.tolist, "sparse": x.to_sparse, "meta": lambda: x.to("meta")}[value]()
    saved["agent_state_dict"][name] = other
    torch.save(saved, file)
    with pytest.raises(DamagedFile, match=f"agent of init_from=.* cannot be loaded .*{name}"):
        train(tiny("CartPole-v1", init_from=str(file)), tmp_path / "run")


def test_an_agent_that_does_not_fit_is_named_by_parameter_and_shape(cartpole, tmp_path):
    def start(env="CartPole-v1", **agent):
        train(tiny(env, init_from=str(cartpole), agent=agent), tmp_path / "run")

    with pytest.raises(ValueError, match=r"weight .*\(64, 4\), .*\(8, 4\)"):
        start(hidden_sizes=[8])
    with pytest.raises(ValueError, match=r"obs_rms.mean .*none, .*\(4,\)"):
        start(normalize_observation=True)
    with pytest.raises(ValueError, match=r"weight .*\(2, 64\), .*\(3, 64\)"):
        start("Acrobot-v1")
    with pytest.raises(FileNotFoundError, match="init_from: .*'nowhere'"):
        train(tiny("CartPole-v1", init_from="nowhere"), tmp_path / "run")
    several = str(cartpole.parent)
    with pytest.raises(FileNotFoundError, match="Give one of them, such as"):
        train(tiny("CartPole-v1", init_from=several), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_short_runs_have_ten_rows_by_default(tmp_path):
    options = tiny("CartPole-v1", steps=160, log_interval_steps=None)
    train(options, tmp_path / "run")
    assert len(read_progress(tmp_path / "run")["ReturnAverage"]) == 10
    found = {n: options.updated({"steps": n}).log_steps for n in (7, 90_000, 500_000, 1_000_000)}
    assert found == {7: 1, 90_000: 9_000, 500_000: 10_000, 1_000_000: 20_000}
    assert options.updated({"steps": 10**8}).log_steps == 50_000
    assert options.updated({"steps": 10**8, "log_interval_steps": 7}).log_steps == 7


def test_an_evaluation_in_training_that_its_limit_ends_is_named(tmp_path):
    settings = dict(eval_interval_steps=16, eval_episodes=4, eval_max_steps=7)
    with pytest.warns(UserWarning, match=r"[0-2] of 4 .* eval_max_steps=28 ") as said:
        train(tiny(f"{__name__}:Endless", **settings), tmp_path / "run")
    assert sum("eval_max_steps" in str(w.message) for w in said) == 1


def test_a_run_without_snapshot_says_so(cartpole, tmp_path):
    (tmp_path / "config.json").write_text((cartpole / "config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"params\.pkl"):
        rlpyt.load(tmp_path)


@pytest.mark.parametrize(
    ("env_id", "family"),
    [
        ("CartPole-v1", "classic"),
        ("Blackjack-v1", "classic"),  # also a game of the Atari
        ("HalfCheetah-v5", "mujoco"),
        ("toy/memory", "classic"),
        pytest.param("MinAtar/Freeway-v0", "minatar", marks=needs_minatar),
        ("ALE/Pong-v5", "atari"),
        ("pong", "atari"),
    ],
)
def test_environments_know_their_family(env_id, family):
    assert env_recipe(env_id).family == family


def test_atari_versions_decide_about_sticky_actions():
    sticky = {
        name: env_recipe(name).kwargs["repeat_action_probability"]
        for name in ("ALE/MsPacman-v5", "MsPacmanNoFrameskip-v4", "ms_pacman")
    }
    assert sticky == {"ALE/MsPacman-v5": 0.25, "MsPacmanNoFrameskip-v4": 0.0, "ms_pacman": 0.0}
    recipe = env_recipe("ms_pacman", {"repeat_action_probability": 0.5})
    assert recipe.kwargs["repeat_action_probability"] == 0.5
    assert (recipe.kwargs["game"], recipe.eval_kwargs["episodic_lives"]) == ("ms_pacman", False)


def test_a_normalizing_agent_is_loaded_with_its_statistics(tmp_path):
    train(tiny("Pendulum-v1", agent={"normalize_observation": True}), tmp_path / "run")
    agent = rlpyt.load(tmp_path / "run").agent
    assert agent.model.obs_rms.count == 32
    plain = build_agent(tiny("Pendulum-v1"), agent.env_spaces)
    plain.initialize(agent.env_spaces)
    assert not hasattr(plain.model, "obs_rms")


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("algo_name", ["ppo", "a2c"])
def test_presets_of_mujoco_give_an_agent_that_normalizes(algo_name, recurrent):
    options = tiny("HalfCheetah-v5", algo_name, agent={"recurrent": recurrent})
    for layer in layers(algo_name, options.env, env_recipe(options.env).family):
        options = options.updated(layer)
    spaces = env_spaces(env_recipe(options.env))
    agent = build_agent(options, spaces)
    agent.initialize(spaces)
    assert agent.model.obs_rms.mean.shape == spaces.observation.shape


def test_images_are_not_to_be_normalized():
    recipe = env_recipe("pong")
    options = tiny("pong", agent={"normalize_observation": True})
    with pytest.raises(ValueError, match="pong .*images"):
        build_agent(options, env_spaces(recipe))


def test_unknown_toys_and_devices_are_refused():
    with pytest.raises(UnknownName, match="; .*'memory'"):
        env_recipe("toy/memroy")
    with pytest.raises(ValueError, match="device='gpu'"):
        affinity(tiny("CartPole-v1", device="gpu"))


def _same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other))


ON_PARTS = [("ppo", "discrete"), ("dqn", "discrete"), ("sac", "box")]


@pytest.mark.parametrize("algo_name,action", ON_PARTS)
def test_observations_of_several_parts_are_trained_on_and_played(algo_name, action, tmp_path):
    convolutions = dict(channels=[4], kernel_sizes=[3], strides=[1], feature_size=8)
    replay = dict(batch_size=8, replay_ratio=2, min_steps_learn=16, replay_size=100)
    options = tiny(
        "tests.parts_env:PartsEnv",
        algo_name,
        env_args=dict(action=action),
        agent=dict(model=dict(encoder=convolutions)),
    )
    train(options if algo_name == "ppo" else options.updated({"algo": replay}), tmp_path / "run")
    run = rlpyt.load(tmp_path / "run")
    env = run.env()
    step = env.step(run.act(env.reset()))
    assert step.observation.inner.image.shape == (6, 6, 3)
