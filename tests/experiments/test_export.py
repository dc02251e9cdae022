"""Exported policies act as their agents, in every format, for every preset."""

import json
import math
import os
import shutil
import subprocess
import sys
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.experiments import export as export_module
from rlpyt.experiments import policy as policy_module
from rlpyt.experiments.build import EnvRecipe, build_agent, env_recipe, env_spaces
from rlpyt.experiments.export import SUFFIXES, GreedyPolicy
from rlpyt.experiments.presets.families import FAMILIES, TUNED
from rlpyt.experiments.run import Run
from rlpyt.experiments.settings import default_options
from rlpyt.models.network import VectorModel
from rlpyt.models.recurrent import MEMORIES
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.gym_wrapper import to_gym
from rlpyt.utils.buffer import leaves_of
from tests.algos.qpg.test_sac_parts import SPACES
from tests.cli.test_commands import rlpyt_command
from tests.hybrid_env import HybridEnv
from tests.masked_env import MaskedEnv
from tests.parts_env import PartsEnv

ENVS = {
    "classic": ("CartPole-v1", "Pendulum-v1"),
    "atari": ("pong",),
    "minatar": ("MinAtar/Breakout-v1",),
    "mujoco": ("Hopper-v5",),
}
CONTINUOUS = ("sac", "sac_v", "ddpg", "td3")
NARROW = dict(hidden_sizes=[16], encoder=dict(channels=[4], kernel_sizes=[3], strides=[1]))
HAS_ONNX = find_spec("onnxscript") is not None
FORMATS = [to for to in SUFFIXES if HAS_ONNX or to != "onnx"]
ONE_FORMAT = FORMATS[:1]  # ONNX if it is installed
requires_onnx = pytest.mark.skipif(not HAS_ONNX, reason="requires the extra onnx")


def run_of(algo, env, preset=None, **changes):
    """Return the run of an agent with random parameters and statistics."""
    options = default_options(algo, env, preset).updated(changes)
    recipe = env_recipe(env)
    spaces = env_spaces(recipe)
    return untrained(build_agent(options, spaces), recipe, spaces, f"{algo} on {env}")


def untrained(agent, recipe, spaces, name="untrained"):
    torch.manual_seed(0)
    agent.initialize(spaces)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            scale = parameter.std(correction=0).item() or 0.1  # biases are equal at first
            parameter.add_(0.3 * scale * torch.randn_like(parameter))
    if agent.has_obs_rms:
        rows = torch.from_numpy(np.stack([spaces.observation.null_value()] * 64))
        agent.update_obs_rms(rows + 1 + 2 * torch.randn(rows.shape))
    return Run(Path("run"), None, recipe, agent, 1, name)


def returns(run, act, max_steps=100):
    """Return the returns and actions of two episodes, or of their first steps, as numbers.

    Args:
        run: run with the environment.
        act: function of observation and reward in rlpyt's form, and of a flag that is True at the
            first step.
    """
    found = []
    with closing(run.env()) as env:
        for seed in range(2):
            env.seed(seed)
            observation, reward, done, total, t = env.reset(), 0.0, False, 0.0, 0
            while not done and t < max_steps:
                action = act(observation, reward, t == 0)
                found += [float(x) for leaf in leaves_of(action) for x in np.ravel(leaf)]
                observation, reward, done, _ = env.step(action)
                total, t = total + reward, t + 1
            found.append(total)
    return found


def agent_returns(run):
    def act(observation, reward, first):
        if first:
            run.reset()
        return run.act(observation, reward)

    return returns(run, act)


def policy_returns(run, policy):
    state = None
    spaces = run.agent.env_spaces
    revert = partial(to_gym, spaces.observation)

    def convert(action):
        space = spaces.action
        if isinstance(space, Composite):  # of an environment with rlpyt's own interface
            return space._make(action[name] for name in space.names)
        return space.convert(action) if hasattr(space, "convert") else action

    def act(observation, reward, first):
        nonlocal state
        action, state = policy.act(revert(observation), None if first else state, reward)
        return convert(action)

    return returns(run, act)


def load_in_numpy(path):
    """Load a policy as where onnxruntime is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        return rlpyt.load_policy(path)


def check(run, tmp_path, monkeypatch, formats=FORMATS, steps=20):
    """Export a run, traced once for all formats, and compare episodes."""
    traced = []

    def trace_once(policy):
        if not traced:
            traced.append(trace(policy))
        return traced[0]

    trace = export_module._traced
    monkeypatch.setattr(export_module, "_traced", trace_once)
    expected, policies = agent_returns(run), {}
    for to in formats:
        path = tmp_path / f"policy{SUFFIXES[to]}"
        assert run.export(path, to, steps) <= 1e-5
        policies[to] = rlpyt.load_policy(path)
        if to == "onnx":
            policies["numpy"] = load_in_numpy(path)
    for policy in policies.values():
        assert policy_returns(run, policy) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"policy{SUFFIXES[to]}" for to in formats}  # no temporary file
    return policies


@pytest.mark.parametrize(
    "encoder",
    [pytest.param(None, marks=pytest.mark.slow), {"kind": "impala", "spectral_norm": True}],
)
def test_a_policy_of_images_plays_the_same_episodes(encoder, tmp_path, monkeypatch):
    run = run_of("rainbow", "MinAtar/Seaquest-v1", agent={"model": {"encoder": encoder}})
    check(run, tmp_path, monkeypatch, ONE_FORMAT)
    assert len({*agent_returns(run)}) > 2  # it takes several actions


# The fixture `exported` has an LSTM. The conversion of GTrXL to ONNX takes most of a minute.
FAST_MEMORIES = {"gru": ["torch"], "mingru": ONE_FORMAT}


@pytest.mark.parametrize(
    ("memory", "formats"),
    [
        *FAST_MEMORIES.items(),
        *(pytest.param(memory, FORMATS, marks=pytest.mark.slow) for memory in MEMORIES),
    ],
)
def test_policies_with_any_memory_play_the_same_episodes(memory, formats, tmp_path, monkeypatch):
    run = run_of("ppo", "CartPole-v1", agent={"memory": memory, "memory_size": 8})
    check(run, tmp_path, monkeypatch, formats)


def cases():
    """Return (algorithm, environment, family, further settings) of all presets, and variants."""
    found = [
        (algo, env, family, {"hidden_sizes": [64]} if family == "atari" else {})
        for family, algos in FAMILIES.items()
        for algo in algos
        for env in ENVS[family]
        if family != "classic" or algo == "sac" or (env == "Pendulum-v1") is (algo in CONTINUOUS)
    ]
    found += [(algo, env, None, {}) for env, algos in TUNED.items() for algo in algos]
    pairs = [("ppo", "CartPole-v1"), ("a2c", "pong"), ("ppo", "pong"), ("ppo", "Hopper-v5")]
    found += [(*pair, None, {"recurrent": True}) for pair in pairs]
    gru = {"recurrent": True, "model": {"memory": "gru"}}
    found += [("ppo", "CartPole-v1", None, gru), ("r2d1", "toy/memory", None, gru)]
    found += [(algo, "Pendulum-v1", None, gru) for algo in ("sac", "td3")]
    return [*found, ("cem", "CartPole-v1", None, {"normalize_observation": True})]


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: "-".join(filter(None, case[:3])))
def test_every_preset_is_exported(case, tmp_path, monkeypatch):
    algo, env, family, agent = case
    check(run_of(algo, env, family, agent=agent), tmp_path, monkeypatch)


@pytest.mark.parametrize("formats", [["torch"], pytest.param(FORMATS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind",
    [
        "policy",
        "dqn",
        *(
            pytest.param(k, marks=pytest.mark.slow)
            for k in ("recurrent", "catdqn", "qrdqn", "r2d1")
        ),
    ],
)
def test_a_masked_policy_takes_valid_actions(kind, formats, tmp_path, monkeypatch):
    def make():
        return GymEnvWrapper(MaskedEnv())  # refuses invalid actions

    spaces = make().spaces
    if kind in ("policy", "recurrent"):
        agent = agent_for(spaces, recurrent=kind == "recurrent")
    else:
        agent = dqn_agent_for(kind, spaces)
    run = untrained(agent, EnvRecipe(make, {}, {}), spaces)
    policies = check(run, tmp_path, monkeypatch, formats)
    assert "observation.action_mask" in [x["name"] for x in policies[formats[0]].metadata["inputs"]]
    for deterministic in (True, False):
        assert len(run.evaluate(3, deterministic=deterministic).returns) == 3


def test_a_run_refuses_a_mask_that_allows_nothing():
    def make():
        return GymEnvWrapper(MaskedEnv(fault="empty", fault_at=2, length=20))

    run = untrained(agent_for(make().spaces), EnvRecipe(make, {}, {}), make().spaces)
    with (
        closing(run.env()) as env,
        pytest.raises(ValueError, match="must allow an action") as caught,
    ):
        run.play(env, seed=1)
    assert "In step 2 of an episode of <" in caught.value.__notes__[0]


class MaskedParts(PartsEnv):
    """Every choice is valid."""

    mask = np.ones(5, np.int8)

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation, {**info, "action_mask": self.mask}

    def step(self, action):
        *step, info = super().step(action)
        return *step, {**info, "action_mask": self.mask}


@pytest.mark.parametrize("EnvCls", [pytest.param(PartsEnv, marks=pytest.mark.slow), MaskedParts])
@pytest.mark.parametrize("formats", [["torch"], pytest.param(FORMATS, marks=pytest.mark.slow)])
def test_nested_observations_and_several_actions(formats, EnvCls, tmp_path, monkeypatch):
    def make():
        return GymEnvWrapper(EnvCls("several"))

    spaces = make().spaces
    agent = agent_for(spaces, recurrent=True, model_kwargs=NARROW)
    run = untrained(agent, EnvRecipe(make, {}, {}), spaces)
    policy = check(run, tmp_path, monkeypatch, formats)[formats[0]]
    env = EnvCls("several")  # gymnasium's own form: dicts, and categories that start at 1
    observation, _ = env.reset(seed=0)
    if EnvCls is MaskedParts:
        observation = {**observation, "action_mask": env.mask}
    action, state = policy.act(observation)
    assert env.action_space.contains(action)
    names = [entry["name"] for entry in policy.metadata["inputs"]]
    assert names[:4] == [f"observation.{x}" for x in ("at", "kind", "inner.image", "inner.flags")]
    assert [x.shape for x in state] == [(2,), (1, 64), (1, 64)]
    again, _ = policy.act(observation, state, 1.0)
    assert env.action_space.contains(again)
    for wrong in (state[:2], (*state, state[0]), (), 1.0):
        with pytest.raises(ValueError, match=r"state must have 3 arrays \(.*\), as .*, got \d arr"):
            policy.act(observation, wrong)
    arrays = policy.inputs(observation, state, 1.0)
    for n in (len(arrays) - 1, len(arrays) + 1):
        with pytest.raises(ValueError, match=rf"takes {len(arrays)} arrays \(obs.*\), got {n}\."):
            policy(*(2 * arrays)[:n])


@pytest.mark.parametrize("formats", [["torch"], pytest.param(FORMATS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "algo, action",
    [
        ("sac", "nested"),
        pytest.param("sac", "discrete", marks=pytest.mark.slow),
        pytest.param("ppo", "nested", marks=pytest.mark.slow),
    ],
)
def test_policies_over_several_parts(algo, action, formats, tmp_path, monkeypatch):
    def make():
        return GymEnvWrapper(HybridEnv(SPACES[action], masked=True))

    spaces = make().spaces
    agent = SacAgent(model_kwargs=NARROW) if algo == "sac" else agent_for(spaces, recurrent=True)
    run = untrained(agent, EnvRecipe(make, {}, {}), spaces)
    policy = check(run, tmp_path, monkeypatch, formats)[formats[0]]
    env = HybridEnv(SPACES[action], masked=True)
    observation, info = env.reset(seed=0)
    inputs = {"observation": observation, "action_mask": info["action_mask"].astype(np.int8)}
    with pytest.raises(ValueError, match="'observation.action_mask'"):
        policy.act({"observation": observation})
    with pytest.raises(ValueError, match="'observation.*', got array"):
        policy.act(np.zeros(3))
    with pytest.raises(ValueError, match="must allow an action"):
        policy.act({**inputs, "action_mask": 0 * inputs["action_mask"]})
    with pytest.raises(TypeError, match=r"named tuple .*Run.env\(\)"):
        run.act(observation)
    state = None
    for _ in range(2):
        chosen, state = policy.act(inputs, state)
        assert env.action_space.contains(chosen)


class Shifted(gymnasium.Env):
    """Discrete actions that start at 3; observations of float64."""

    action_space = gymnasium.spaces.Discrete(4, start=3)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(size=3), {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward, done = float(np.sum(action)), bool(self.np_random.random() < 0.1)
        return self.np_random.normal(size=3), reward, done, False, {}


class Reusing(Shifted):
    """Returns every observation in one array."""

    array = np.zeros(3)

    def reset(self, **kwargs):
        self.array[:], info = super().reset(**kwargs)
        return self.array, info

    def step(self, action):
        self.array[:], *rest = super().step(action)
        return (self.array, *rest)


class Exact(Shifted):
    """Continuous actions of float64, with bounds that float32 rounds up."""

    action_space = gymnasium.spaces.Box(
        np.array([-0.1, 0.1]), np.array([0.1, 0.7]), dtype=np.float64
    )


@pytest.mark.parametrize("Env", [Shifted, Exact, Reusing])
def test_actions_have_the_form_of_the_environment(Env, tmp_path, monkeypatch):
    def make():
        return GymEnvWrapper(Env())

    spaces = make().spaces
    run = untrained(agent_for(spaces), EnvRecipe(make, {}, {}), spaces)
    policy = check(run, tmp_path, monkeypatch, ONE_FORMAT)[ONE_FORMAT[0]]
    env = Env()
    observation, _ = env.reset(seed=1)
    for scale in (1, 1000):
        action, _ = policy.act(scale * observation)
        env.step(action)  # which checks it
        assert np.asarray(action).dtype == env.action_space.dtype


LSTM = dict(recurrent=True, normalize_observation=True, hidden_sizes=[20], model={"lstm_size": 10})
OBSERVATIONS = np.cos(np.arange(60.0).reshape(20, 3) ** 2).astype(np.float32)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run with a recurrent, normalizing policy, and its policy in all formats."""
    run, path = run_of("ppo", "Pendulum-v1", agent=LSTM), tmp_path_factory.mktemp("policy")
    with pytest.MonkeyPatch.context() as monkeypatch:
        check(run, path, monkeypatch)
    return run, path


def test_a_recurrent_normalizing_policy_plays_the_same_episodes(exported):
    _, path = exported  # compared by the fixture
    assert len(list(path.iterdir())) == len(FORMATS)


def test_a_batch_has_the_parameters_of_the_distribution(exported):
    run, path = exported
    policy = rlpyt.load_policy(path / "policy.pt2")
    n = len(OBSERVATIONS)
    state = [np.stack([x] * n) for x in policy.initial_state]
    outputs = policy(OBSERVATIONS, np.ones(n, np.float32), *state)
    names = [f"next_state.{x}" for x in ("action", "h", "c")]
    assert list(outputs) == ["action", *names, "distribution.mean", "distribution.log_std"]
    with torch.no_grad():
        inputs = torch.from_numpy(OBSERVATIONS), torch.zeros(n, 1), torch.ones(n)
        dist_info, _, _ = run.agent(*inputs, None)
    for name, expected in dist_info.items():
        np.testing.assert_allclose(outputs[f"distribution.{name}"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs["action"], outputs["distribution.mean"].clip(-2, 2))


def test_the_file_has_neither_the_value_network_nor_paths_of_this_machine(exported):
    _, path = exported
    used = 3 * 20 + 20 + 4 * 10 * (20 + 2 + 10 + 2) + 10 + 1 + 1  # MLP, LSTM, mean, log_std
    used += 2 * 3  # mean and variance of observations
    program = torch.export.load(path / "policy.pt2")
    assert sum(x.numel() for x in program.state_dict.values()) == used
    for file in path.iterdir():
        assert str(Path(rlpyt.__file__).parent).encode() not in file.read_bytes()


@requires_onnx
@pytest.mark.parametrize("missing", [(), ("onnxruntime",)], ids=["onnxruntime", "numpy"])
def test_an_onnx_policy_needs_neither_torch_nor_rlpyt(missing, exported, tmp_path):
    run, path = exported
    shutil.copy(policy_module.__file__, tmp_path / "policy.py")
    np.save(tmp_path / "observations.npy", OBSERVATIONS)
    code = f"""
import json, sys, numpy as np
sys.modules.update(dict.fromkeys({missing!r}))
from policy import load_policy
policy, state, actions = load_policy({str(path / "policy.onnx")!r}), None, []
for observation in np.load("observations.npy"):
    action, state = policy.act(observation, state, 1.0)
    actions.append(action.tolist())
assert not {{"torch", "rlpyt"}} & set(sys.modules)
print(json.dumps(actions))
"""
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.')\n{code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    run.reset()
    expected = [run.act(observation, 1.0) for observation in OBSERVATIONS]
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=1e-5, atol=1e-6)


class Observations(gymnasium.Env):
    """Environment whose observation has an image, categories, bits and numbers."""

    observation_space = gymnasium.spaces.Dict(
        image=gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8),
        kind=gymnasium.spaces.Discrete(4, start=2),
        kinds=gymnasium.spaces.MultiDiscrete([2, 5]),
        bits=gymnasium.spaces.MultiBinary(3),
        count=gymnasium.spaces.Box(0, 9, (2,), np.int16),
        position=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


REFUSED = {
    "float image": ("image", lambda x: (x / 255).astype(np.float32), r"image is float32.*uint8"),
    "whole float image": ("image", lambda x: x.astype(np.float32), "image is float32"),
    "image above": ("image", lambda x: x.astype(np.int64) + 300, r"image .*bounds \[0, 255\]"),
    "image below": ("image", lambda x: np.full(x.shape, -1), r"image .*bounds \[0, 255\]"),
    "fraction": ("kind", lambda x: 2.7, r"kind is float64.*int64"),
    "category above": ("kind", lambda x: 6, r"kind .*bounds \[2, 5\].*6"),
    "category below": ("kind", lambda x: 1, r"kind .*bounds \[2, 5\].*1"),
    "one category above": ("kinds", lambda x: np.array([2, 2]), r"kinds .*bounds \[0, 4\]"),
    "bits": ("bits", lambda x: np.array([0.5, 0, 1]), "bits is float64"),
    "large bits": ("bits", lambda x: np.array([256, 0, 1]), r"bits .*bounds \[-128, 127\]"),
    "NaN": ("count", lambda x: np.array([np.nan, 0]), "count is float64"),
    "large count": ("count", lambda x: np.array([40_000, 0]), r"count .*bounds"),
    "text": ("position", lambda x: np.array(["0.5", "1"]), "position is a ndarray"),
    "none": ("position", lambda x: None, "position is a NoneType"),
}


@pytest.fixture(scope="module")
def policy_of_parts(tmp_path_factory):
    """Return a run whose observation has many parts, and its exported policy."""
    run, path = run_of("ppo", Observations), tmp_path_factory.mktemp("parts") / "policy.pt2"
    run.export(path, steps=3)
    return run, rlpyt.load_policy(path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_input_cannot_hold_is_refused_and_not_cast(name, policy_of_parts):
    part, change, message = REFUSED[name]
    run, policy = policy_of_parts
    observation, _ = Observations().reset(seed=0)
    policy.act(observation)
    observation[part] = change(observation[part])
    with pytest.raises((ValueError, TypeError), match=rf"(?s)^observation\.{message}"):
        policy.act(observation)
    if part in ("image", "kind", "kinds"):
        with pytest.raises(ValueError, match="^observation"):
            run.act(observation)


def test_numbers_that_an_input_can_hold_are_converted(policy_of_parts):
    _, policy = policy_of_parts
    observation, _ = Observations().reset(seed=0)
    expected = policy.inputs(observation)
    wide = {key: np.asarray(x, np.int64) for key, x in observation.items() if key != "position"}
    wide |= {"kind": int(observation["kind"]), "position": observation["position"].tolist()}
    wide["count"] = observation["count"].astype(float)  # whole numbers
    for found, x in zip(policy.inputs(wide), expected, strict=True):
        assert found.dtype == x.dtype and np.array_equal(found, x)


def test_a_policy_of_an_earlier_release_has_no_bounds(policy_of_parts):
    _, policy = policy_of_parts
    bounds = {x["name"]: (x["low"], x["high"]) for x in policy.metadata["inputs"] if "low" in x}
    expected = {"image": (0, 255), "kind": (2, 5), "kinds": (0, [1, 4])}
    assert bounds == {f"observation.{name}": pair for name, pair in expected.items()}
    entries = [
        {key: x for key, x in entry.items() if key not in ("low", "high")}
        for entry in policy.metadata["inputs"]
    ]
    earlier = policy_module.Policy(policy._function, {**policy.metadata, "inputs": entries})
    observation, _ = Observations().reset(seed=0)
    observation["kind"] = 9
    kind = earlier.inputs(observation)[[x["name"] for x in entries].index("observation.kind")]
    assert kind.tolist() == [9]
    observation["image"] = observation["image"] / 255
    with pytest.raises(ValueError, match="image is float64"):
        earlier.act(observation)


def test_exporting_does_not_change_the_run(tmp_path):
    run = run_of("dqn", "CartPole-v1")
    before = agent_returns(run)
    run.export(tmp_path / "policy.pt2", steps=1)
    assert agent_returns(run) == before


def test_the_command_exports_and_reports_the_difference(tmp_path, capsys):
    flags = "--steps 64 --sampler.kind serial --sampler.batch-T 8 --no-video --eval-episodes 1"
    run_dir = str(tmp_path / "run")
    assert rlpyt_command("train", "ppo", "CartPole-v1", *flags.split(), "--run-dir", run_dir) == 0
    capsys.readouterr()
    assert rlpyt_command("export", run_dir, "--to", "torch") == 0
    assert "Largest difference from the agent in 100 steps: " in capsys.readouterr().out
    run = rlpyt.load(run_dir)
    policy = rlpyt.load_policy(tmp_path / "run" / "policy.pt2")
    assert policy.metadata["name"] == "ppo on CartPole-v1"
    assert policy_returns(run, policy) == agent_returns(run)
    output = str(tmp_path / "policy.pt2")
    assert rlpyt_command("export", run_dir, "--to", "onnx", "--output", output) == 2
    assert "must end in .onnx" in capsys.readouterr().err


# Agents that cannot be exported.


class Untraceable(VectorModel):
    def __init__(self, observation_shape, output_size):
        super().__init__(observation_shape)
        self.linear = torch.nn.Linear(self.observation_size, output_size)

    def heads(self, features):
        x = self.linear(features)
        if x.sum() > 0:
            x = x * 2
        return torch.softmax(x, -1), x[..., 0]


class Untranslated(Untraceable):
    def heads(self, features):
        x = self.linear(features)
        return torch.softmax(torch.special.bessel_j0(x), -1), x[..., 0]


class FixedBatch(Untraceable):
    def heads(self, features):
        x = self.linear(features) + torch.zeros(len(features), 2)
        return torch.softmax(x, -1), x[..., 0]


class Random(Untraceable):
    def heads(self, features):
        x = self.linear(features)
        return torch.softmax(x + torch.rand_like(x), -1), x[..., 0]


class Remembering(BaseAgent):
    """An agent that acts by a counter which is not a recurrent state."""

    def __init__(self):
        super().__init__(ModelCls=torch.nn.Identity)
        self.t = 0

    def step(self, observation, prev_action, prev_reward):
        self.t += 1
        action = torch.full(prev_reward.shape, self.t % 2)
        return AgentStep(action, AgentStep(action, None))


def cartpole_run(agent):
    recipe = env_recipe("CartPole-v1")
    spaces = env_spaces(recipe)
    agent.initialize(spaces)
    return Run(Path("run"), None, recipe, agent, 1, "custom")


@pytest.mark.parametrize(
    ("Model", "message"),
    [
        (Untraceable, r"`if x.sum\(\) > 0:` \(.*test_export.py:\d+\)"),
        (FixedBatch, r"batch size .* len\(x\)"),
        pytest.param(Untranslated, "to ONNX: .*bessel_j0.*to torch", marks=requires_onnx),
        (Random, r"random .*aten.rand_like.default in `.*features.*`"),
    ],
)
def test_the_operation_that_prevents_an_export_is_named(Model, message, tmp_path):
    run = cartpole_run(agent_for(env_spaces(env_recipe("CartPole-v1")), ModelCls=Model))
    with pytest.raises(ValueError, match=message) as error:
        run.export(tmp_path / f"policy{SUFFIXES[ONE_FORMAT[0]]}")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
    run.act(np.zeros(4, np.float32))  # the agent can still act


def test_an_agent_with_hidden_memory_is_refused_and_the_old_file_is_kept(tmp_path):
    path = tmp_path / "policy.pt2"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="actions .*observation"):
        cartpole_run(Remembering()).export(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"onnx\. .*\[onnx\]'"):
        run_of("ppo", "CartPole-v1").export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [f"policy{SUFFIXES[to]}" for to in FORMATS])
def test_a_damaged_file_is_named(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK" + bytes(100))
    loaders = [rlpyt.load_policy, load_in_numpy] if name == "policy.onnx" else [rlpyt.load_policy]
    for load in loaders:
        with pytest.raises(ValueError, match=f"{name} .*damaged"):
            load(tmp_path / name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the content of an exported policy in ONNX."""
    path = tmp_path_factory.mktemp("whole") / "policy.onnx"
    run_of("ppo", "CartPole-v1").export(path)
    return path.read_bytes()


@requires_onnx
@pytest.mark.parametrize("load", [rlpyt.load_policy, load_in_numpy])
def test_a_damaged_policy_fails_when_it_is_loaded_not_when_it_acts(load, whole, tmp_path):
    import onnx

    metadata = json.loads(onnx.load_from_string(whole).metadata_props[0].value)

    def check(change):
        model = onnx.load_from_string(whole)
        change(model)
        (tmp_path / "damaged.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(ValueError, match="damaged.onnx .*damaged"):
            load(tmp_path / "damaged.onnx")

    for at, node in enumerate(onnx.load_from_string(whole).graph.node):
        check(lambda model, at=at: setattr(model.graph.node[at], "op_type", "NoSuchOperation"))
        if node.output[0] in ("action", "distribution.prob"):
            check(lambda model, at=at: model.graph.node.pop(at))
    unnamed = json.dumps({key: metadata[key] for key in metadata if key != "name"})
    check(lambda model: setattr(model.metadata_props[0], "value", unnamed))
    for part in ("inputs", "outputs"):
        for changed in ({"shape": [3, 7]}, {"dtype": "int16"}, {"name": "else"}, {"shape": None}):
            if part == "inputs" and "name" in changed:
                continue  # the order of the inputs counts
            entries = [{**metadata[part][0], **changed}, *metadata[part][1:]]
            text = json.dumps({**metadata, part: entries})
            check(lambda model, text=text: setattr(model.metadata_props[0], "value", text))


@requires_onnx
@pytest.mark.parametrize("load", [rlpyt.load_policy, load_in_numpy])
def test_a_policy_reads_no_other_file(load, whole, tmp_path, monkeypatch):
    import onnx
    from onnx.external_data_helper import set_external_data

    monkeypatch.chdir(tmp_path)
    model = onnx.load_from_string(whole)
    weights = next(x for x in model.graph.initializer if len(x.dims) == 2)
    weights.raw_data = onnx.numpy_helper.to_array(weights).tobytes()
    Path("mine.bin").write_bytes(weights.raw_data)
    set_external_data(weights, "mine.bin")
    weights.ClearField("raw_data")
    Path("policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="policy.onnx .*damaged"):
        load("policy.onnx")


@pytest.mark.parametrize("initial", [None, [0, math.inf]])
def test_an_initial_state_that_is_not_finite_is_refused(initial):
    entry = dict(name="state.h", dtype="float32", shape=[2], initial=initial)
    with pytest.raises(ValueError, match="initial state must be finite"):
        policy_module.Policy(lambda *inputs: inputs, dict(inputs=[entry], outputs=[]))


def test_a_policy_in_onnx_names_what_it_requires(tmp_path, monkeypatch):
    (tmp_path / "policy.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="onnxruntime, or onnx"):
        rlpyt.load_policy(tmp_path / "policy.onnx")


def test_a_pipe_in_place_of_a_policy_is_refused(tmp_path):
    os.mkfifo(tmp_path / "policy.pt2")
    with pytest.raises(ValueError, match="regular file"):
        rlpyt.load_policy(tmp_path / "policy.pt2")
    with pytest.raises(FileNotFoundError):
        rlpyt.load_policy(tmp_path / "none.pt2")


def test_an_environment_that_changes_the_directory_keeps_the_path(tmp_path, monkeypatch):
    run = run_of("ppo", "CartPole-v1")
    make = run.env

    def wandering():
        os.chdir("/")
        return make()

    monkeypatch.setattr(run, "env", wandering)
    monkeypatch.chdir(tmp_path)
    run.export("policy.pt2")
    assert os.getcwd() == str(tmp_path) and (tmp_path / "policy.pt2").exists()


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.onnx, \.pt2.*policy\.bin"):
        run_of("ppo", "CartPole-v1").export(tmp_path / "policy.bin")
    (tmp_path / "policy.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=r"policy\.bin .*\.onnx, \.pt2"):
        rlpyt.load_policy(tmp_path / "policy.bin")


def test_a_policy_can_be_evaluated_by_torch_itself():
    policy = GreedyPolicy(run_of("ppo", "CartPole-v1").agent)
    action, prob = policy(torch.randn(3, 4))
    assert torch.equal(action, prob.argmax(-1))
