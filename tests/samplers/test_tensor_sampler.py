"""TensorSampler: environments whose tensors stay on their device."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.utils._python_dispatch import TorchDispatchMode

import rlpyt
from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import (
    CategoricalLstmAgent,
    CategoricalMlpAgent,
    GaussianLstmAgent,
    GaussianMlpAgent,
    agent_for,
)
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.sac import SAC
from rlpyt.distributions.base import NoiseSpec
from rlpyt.envs.tensor import TensorEnvs
from rlpyt.envs.vector import make_vec
from rlpyt.errors import NonFiniteError
from rlpyt.experiments.settings import default_options
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.policy_source import ActionNoise, HeldNoise
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.tensor_sampler import (
    HeldRowNoise,
    RowNoise,
    TensorCollector,
    TensorSampler,
)
from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of
from tests.tensor_envs import Facade, Groups, Images, Reach

SEED = 5
T, B = 6, 4


class StreamNoise(RowNoise):
    """Noise from the streams of the other samplers."""

    def __init__(self, seed: int, n: int, device: torch.device) -> None:
        self.streams = ActionNoise(SEED, "action", range(n))

    def draw(self, T: int, spec: Any) -> Any:
        noise = self.streams.draw(T, spec)
        return None if noise is None else torch.from_numpy(noise)


class NoiseOfRows(TensorCollector):
    """Draws actions from the streams of the other samplers."""

    def __init__(self, envs: TensorEnvs, *args: Any) -> None:
        super().__init__(envs, *args)
        self.noise = StreamNoise(SEED, envs.n, envs.device)


def sampled(
    sampler: Any, agent: Any, n: int, final_observation: bool = False, weights: Any = None
) -> list[Any]:
    """Return copies of n batches, with the lengths and returns of trajectories."""
    torch.manual_seed(0)
    sampler.initialize(agent, seed=SEED, bootstrap_value=True, final_observation=final_observation)
    if weights is not None:
        agent.load_state_dict(weights)
    batches = []
    for itr in range(n):
        samples, infos = sampler.obtain_samples(itr)
        trajectories = sorted((info.Length, info.Return, info.DiscountedReturn) for info in infos)
        batches.append((buffer_func(samples, lambda x: torch.as_tensor(x).clone()), trajectories))
    sampler.shutdown()
    return batches


def assert_equal_batches(ours: list[Any], others: list[Any], skip: tuple[str, ...] = ()) -> None:
    for (a, a_infos), (b, b_infos) in zip(ours, others, strict=True):
        assert a_infos == b_infos
        leaves = dict(_named_leaves(b))
        assert leaves.keys() == dict(_named_leaves(a)).keys()
        for name, leaf in _named_leaves(a):
            if name in skip:
                continue
            assert leaf.dtype == leaves[name].dtype, name
            both = leaf, leaves[name]
            if name == "agent.bootstrap_value":  # not read after a done
                both = tuple(x.masked_fill(a.env.done[-1], 0) for x in both)
            torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5, msg=name)


CASES = {
    "cartpole": ("CartPole-v1", dict(max_episode_steps=14), CategoricalMlpAgent),
    "cartpole with memory": ("CartPole-v1", dict(max_episode_steps=14), CategoricalLstmAgent),
    "pendulum": ("Pendulum-v1", dict(max_episode_steps=7), GaussianMlpAgent),
}


@pytest.mark.parametrize("five", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_batches_equal_those_of_an_ordinary_sampler(case: str, five: bool) -> None:
    id, kwargs, Agent = CASES[case]
    agent = partial(Agent, fast_acting=False)
    collected: list[Any] = []
    for make, Sampler, more in (
        (make_vec, SerialSampler, {}),
        (Facade, TensorSampler, dict(CollectorCls=NoiseOfRows)),
    ):
        env_kwargs = dict(
            id=id, **kwargs, **({} if make is make_vec else dict(seed=SEED, five=five))
        )
        settings = dict(batch_T=T, batch_B=B, max_decorrelation_steps=0)
        sampler = Sampler(make, env_kwargs, **settings, **more)
        collected.append(sampled(sampler, agent(), 12))
    assert_equal_batches(collected[1], collected[0])
    timeouts = [samples.env.env_info.timeout for samples, _ in collected[0]]
    assert torch.stack(timeouts).any()
    if case != "pendulum":
        ends = torch.stack([samples.env.done for samples, _ in collected[0]])
        assert (ends & ~torch.stack(timeouts)).any()


def test_final_observations_for_a_replay_equal_those_of_an_ordinary_sampler() -> None:
    batches = []
    for make, Sampler, more, extra in (
        (make_vec, SerialSampler, {}, {}),
        (Facade, TensorSampler, dict(CollectorCls=NoiseOfRows), dict(seed=SEED)),
    ):
        kwargs = dict(id="CartPole-v1", max_episode_steps=5, **extra)
        sampler = Sampler(make, kwargs, T, B, max_decorrelation_steps=0, **more)
        batches.append(sampled(sampler, CategoricalMlpAgent(fast_acting=False), 6, True))
    skip = ("env.final_observation",)
    assert_equal_batches(batches[1], batches[0], skip)
    n = 0
    for (ours, _), (other, _) in zip(*batches, strict=True):
        defined = ours.env.env_info.timeout.clone()
        n += int(defined.sum())
        defined[-1] = True
        torch.testing.assert_close(
            ours.env.final_observation[defined], other.env.final_observation[defined]
        )
    assert n


def test_noise_is_held_as_by_an_ordinary_sampler(monkeypatch: Any) -> None:
    held: Any = HeldRowNoise(0, B, torch.device("cpu"), mu=1.0)
    streams = ActionNoise(SEED, "action", range(B))
    monkeypatch.setattr(RowNoise, "draw", lambda self, *of: torch.from_numpy(streams.draw(*of)))
    plain, spec = HeldNoise(SEED, "action", range(B), mu=1.0), NoiseSpec("normal", (2,))
    rng, n_held = np.random.default_rng(0), 0
    done = np.zeros(B, bool)
    for _ in range(4):
        noise, expected = held.draw(T, spec), plain.draw(T, spec)
        for t in range(T):
            drawn = expected[t].copy()
            plain.hold(t, expected[t], done)
            assert torch.equal(noise[t], torch.from_numpy(expected[t]))
            n_held += (drawn != expected[t]).any(1).sum()
            done = rng.random(B) < 0.1
            held.reset_rows(torch.from_numpy(done))
    assert n_held > 20


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_held_noise_continues_from_a_saved_state(device: str) -> None:
    noises = [HeldRowNoise(seed, B, torch.device(device), mu=0.5) for seed in (1, 2)]
    spec = NoiseSpec("normal", (2,))
    noise = noises[0].draw(3, spec)
    assert [noise[t].shape for t in range(3)] == [(B, 2)] * 3
    if device == "meta":
        return
    noises[1].load_state_dict(noises[0].state_dict())
    first, second = (made.draw(T, spec) for made in noises)
    rows = [(first[t].clone(), second[t]) for t in range(T)]
    assert all(torch.equal(*pair) for pair in rows)
    for made in noises:
        made.start(7)
    assert torch.equal(noises[0].draw(1, spec)[0], noises[1].draw(1, spec)[0])


@pytest.mark.parametrize("Agent", [CategoricalMlpAgent, CategoricalLstmAgent])
def test_environments_may_overwrite_what_they_returned(Agent: Any) -> None:
    calm, hostile = (
        sampled(
            TensorSampler(
                Facade,
                dict(seed=SEED, hostile=hostile, max_episode_steps=7),
                T,
                B,
                CollectorCls=NoiseOfRows,
                max_decorrelation_steps=0,
            ),
            Agent(),
            8,
            final_observation=True,
        )
        for hostile in (False, True)
    )
    assert_equal_batches(hostile, calm)


def test_without_final_observations_the_last_ones_are_bootstrapped() -> None:
    sampler = TensorSampler(Reach, dict(limit=4), T, B, max_decorrelation_steps=0)
    for samples, _ in sampled(sampler, GaussianMlpAgent(), 2, final_observation=True):
        timeout = samples.env.env_info.timeout
        assert timeout.any() and not timeout.all()
        expected = torch.where(timeout, samples.agent.agent_info.value, 0)
        assert torch.equal(samples.agent.timeout_value, expected)
        final, observation = samples.env.final_observation, samples.env.observation
        assert torch.equal(final[timeout], observation[timeout])
        assert torch.equal(final[:-1][~timeout[:-1]], observation[:-1][~timeout[:-1]])


def test_final_observations_may_be_missing_in_steps_without_an_end() -> None:
    class Sometimes(Facade):
        def step(self, action: Any) -> Any:
            observation, reward, done, extras = super().step(action)
            if not done.any():
                del extras["final_obs"]
            return observation, reward, done, extras

    always, sometimes = (
        sampled(
            TensorSampler(make, dict(seed=SEED, max_episode_steps=7), T, B),
            CategoricalMlpAgent(),
            5,
            final_observation=True,
        )
        for make in (Facade, Sometimes)
    )
    skip = ("env.final_observation",)  # undefined where nothing was truncated
    assert_equal_batches(sometimes, always, skip)
    assert any(samples.agent.timeout_value.any() for samples, _ in always)


class HostReads(TorchDispatchMode):
    """Records operations that read the device on the host, or copy between devices."""

    READS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal", "item", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.n = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n += 1
        name = func.overloadpacket.__name__
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        devices = {x.device for x in (*args, result) if isinstance(x, torch.Tensor) and x.dim()}
        if name in self.READS or (name in ("_to_copy", "copy_") and len(devices) > 1):
            self.found.append(str(func))
        return result


@pytest.mark.parametrize(
    ("make", "Agent"),
    [
        (Reach, GaussianMlpAgent),
        (Reach, GaussianLstmAgent),
        (partial(Facade, seed=SEED, max_episode_steps=3), CategoricalMlpAgent),
    ],
)
def test_no_step_reads_the_device_on_the_host(make: Any, Agent: Any) -> None:
    sampler = TensorSampler(make, {}, T, B, max_decorrelation_steps=0)
    sampler.initialize(Agent(), seed=0, bootstrap_value=True)
    sampler.agent.sample_mode(0)
    mode = HostReads()
    with torch.no_grad(), mode:
        sampler.collector.run(T)
    assert mode.n > 10 * T
    assert not mode.found
    reads = HostReads()
    with torch.no_grad(), reads:  # what would be found
        bool(sampler.samples_pyt.env.done.any())
        torch.ones(3).to("meta")
    assert len(reads.found) == 2


@pytest.mark.parametrize("Agent", [GaussianMlpAgent, GaussianLstmAgent, SacAgent])
def test_steps_run_on_the_meta_device(Agent: Any) -> None:
    env_kwargs: dict[str, Any] = dict(device="meta")
    make: Any = Bounded if Agent is SacAgent else Reach
    sampler = TensorSampler(make, env_kwargs, T, B, max_decorrelation_steps=0)
    sampler.initialize(Agent(), seed=0, bootstrap_value=Agent is not SacAgent)
    with pytest.raises(ValueError, match="must be on the device of the environments, meta"):
        sampler.obtain_samples(0)
    agent = sampler.agent
    agent.device = torch.device("meta")
    agent.model.to("meta")
    agent.sample_mode(0)
    sampler.collector.run(T)
    samples = sampler.samples_pyt
    assert {leaf.device.type for leaf in leaves_of(samples)} == {"meta"}
    assert samples.env.observation.shape == (T, B, 2)


class Bounded(Reach):
    """``Reach`` with bounded actions."""

    single_action_space = spaces.Box(-1, 1, (2,), np.float32)


class Discrete(Reach):
    """``Reach`` with discrete actions, counted from 1."""

    single_action_space = spaces.Discrete(4, start=1)

    def step(self, actions: torch.Tensor) -> Any:
        assert actions.min() >= 1
        return super().step(Images.moves[actions - 1])


def runner_of(algo: Any, agent: Any, make: Any, n_steps: int, **kwargs: Any) -> Any:
    sampler = TensorSampler(make, {}, kwargs.pop("batch_T", 10), kwargs.pop("batch_B", 16))
    return MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        seed=1,
        affinity=dict(n_workers=1, master_torch_threads=1),
        log_interval_steps=n_steps,
        **kwargs,
    )


TRAINED = {
    "reach": (Reach, dict(model_kwargs=dict(hidden_sizes=[16]))),
    "images": (Images, dict(model_kwargs=dict(fc_sizes=16))),
    "images, lstm": (Images, dict(recurrent=True)),
    "reach, lstm": (Reach, dict(recurrent=True, model_kwargs=dict(lstm_size=8))),
    "reach, gru": (Reach, dict(recurrent=True, model_kwargs=dict(memory="gru", lstm_size=8))),
    "groups": (Groups, dict(policy_observation=["policy"], critic_observation=["critic"])),
}


def ppo() -> PPO:
    return PPO(minibatches=1, epochs=1)


@pytest.mark.parametrize(
    ("algo", "name"),
    [
        *((A2C, name) for name in TRAINED),
        *((VTrace, name) for name in ("images, lstm", "groups")),
        *((ppo, name) for name in ("reach", "reach, lstm")),
    ],
)
def test_policy_gradients_train(algo: Any, name: str) -> None:
    make, kwargs = TRAINED[name]
    envs = TensorEnvs(make(2), 0)
    agent = agent_for(envs.spaces, **kwargs)
    runner = runner_of(algo(), agent, make, 480)
    runner.train()
    assert runner.algo.update_counter >= 3
    assert runner.recent_return < 0
    assert all(torch.isfinite(p).all() for p in agent.parameters())


class Differentiable(Reach):
    def reset(self) -> Any:
        super().reset()
        return self.place.requires_grad_()


def test_gradients_through_the_environment_are_left_out() -> None:
    agents = []
    for make in (Reach, Differentiable):
        torch.manual_seed(0)
        agent = GaussianMlpAgent(model_kwargs=dict(hidden_sizes=[16]))
        runner_of(PPO(minibatches=2, epochs=1), agent, make, 240).train()
        agents.append(torch.cat([p.flatten() for p in agent.parameters()]))
    assert torch.equal(*agents)


def test_replays_are_filled() -> None:
    settings: Any = dict(batch_size=32, min_steps_learn=160, replay_ratio=1, replay_size=1600)
    small: Any = dict(model_kwargs=dict(hidden_sizes=[16]))
    spaces_of_discrete = TensorEnvs(Discrete(2), 0).spaces
    for algo, agent, make in (
        (
            SAC(**settings),
            SacAgent(**small, q_model_kwargs=dict(hidden_sizes=[16]), noise_hold=2),
            Bounded,
        ),
        (DQN(**settings), dqn_agent_for("dqn", spaces_of_discrete, **small), Discrete),
    ):
        runner = runner_of(algo, agent, make, 640)
        runner.train()
        assert runner.algo.update_counter > 10
        samples = runner.algo.replay_buffer.samples
        assert samples.reward[:40].any() and len(samples.reward) >= 40


@pytest.mark.slow
def test_ppo_learns_to_reach_the_origin() -> None:
    """A control that does not learn stays near -10."""
    returns = []
    for rate in (1e-2, 1e-12):
        algo = PPO(learning_rate=rate, discount=0.9, gae_lambda=0.9, minibatches=4)
        runner = runner_of(algo, GaussianMlpAgent(), Reach, 40_000, batch_B=64)
        runner.train()
        returns.append(runner.recent_return)
    assert returns[0] > -4 > -7 > returns[1]


def test_memory_and_previous_inputs_are_cleared_after_a_done() -> None:
    sampler = TensorSampler(Reach, dict(limit=3), 5, B, max_decorrelation_steps=0)
    ((samples, _),) = sampled(sampler, GaussianLstmAgent(), 1)
    state = leaves_of(samples.agent.agent_info.prev_rnn_state)
    for leaf in state:  # [T, B, N, H]; episodes begin in rows 0 and 3
        assert not leaf[0].any() and not leaf[3].any()
        assert leaf[1].any() and leaf[4].any()
    assert not samples.agent.prev_action[0].any()


def test_agents_with_their_own_state_are_reset_row_by_row() -> None:
    class Counting(GaussianMlpAgent):
        def reset_one(self, idx: int) -> None:
            reset.append(idx)

    reset: list[int] = []
    sampled(TensorSampler(Reach, dict(limit=3), 5, 2, max_decorrelation_steps=0), Counting(), 1)
    assert reset == [0, 1]


def test_resuming_continues_exactly_with_an_environment_that_has_a_state() -> None:
    class Stateful(Reach):
        def state_dict(self) -> dict[str, Any]:
            return {"place": self.place, "age": self.age, "rng": self.generator.get_state()}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.place, self.age = state["place"].clone(), state["age"].clone()
            self.generator.set_state(state["rng"])

    def started() -> Any:
        torch.manual_seed(0)
        sampler = TensorSampler(
            Stateful, dict(limit=7), T, B, max_decorrelation_steps=4, eval_n_envs=2,
            eval_max_steps=100, eval_max_trajectories=4,
        )  # fmt: skip
        sampler.initialize(GaussianLstmAgent(), seed=SEED, bootstrap_value=True)
        return sampler

    def batch(sampler: Any) -> list[Any]:
        samples, infos = sampler.obtain_samples(0)
        copy = buffer_func(samples, torch.clone)
        infos = [*infos, *sampler.evaluate_agent(0)]
        return [copy, [info.Return for info in infos]]

    first = started()
    for _ in range(3):
        batch(first)
    state = first.state_dict()
    (part,) = state["stations"]
    for place, key in ((part["envs"], 0), (part["evaluation"], "env")):
        place[key] = {name: x.clone() for name, x in place[key].items()}
    expected = [batch(first) for _ in range(3)]
    second = started()
    assert second.load_state_dict(state)
    second.agent.load_state_dict(first.agent.state_dict())
    for (samples, returns), (other, other_returns) in zip(
        [batch(second) for _ in range(3)], expected, strict=True
    ):
        assert returns == other_returns
        for a, b in zip(leaves_of(samples), leaves_of(other), strict=True):
            assert torch.equal(a, b)


def test_an_environment_without_a_state_starts_new_episodes_with_a_warning() -> None:
    class Stateless(Reach):
        """Of its own name, since each class warns once."""

    sampler = TensorSampler(Stateless, {}, T, B)
    sampler.initialize(GaussianMlpAgent(), seed=0)
    with pytest.warns(UserWarning, match="Stateless has no state_dict"):
        state = sampler.state_dict()
    assert not sampler.load_state_dict(state)


def test_evaluations_run_equal_numbers_of_episodes() -> None:
    class Uneven(Reach):
        """Rows whose episodes have different lengths, which are also their returns."""

        def step(self, actions: torch.Tensor) -> Any:
            self.age += 1
            done = self.age >= torch.arange(1, self.num_envs + 1)
            self.age.masked_fill_(done, 0)
            return self.place, torch.ones(self.num_envs), done, {}

    sampler = TensorSampler(
        Uneven, {}, T, B, eval_n_envs=3, eval_max_steps=3000, eval_max_trajectories=6
    )
    sampler.initialize(GaussianLstmAgent(), seed=0)
    sampler.obtain_samples(0)
    before = buffer_func(sampler.agent.prev_rnn_state, torch.clone)
    for itr in range(2):
        infos = sampler.evaluate_agent(itr)
        assert sorted(info.Length for info in infos) == [1, 1, 2, 2, 3, 3]
        assert all(info.Return == info.Length for info in infos)
    sampler.agent.sample_mode(1)
    for a, b in zip(leaves_of(before), leaves_of(sampler.agent.prev_rnn_state), strict=True):
        assert torch.equal(a, b)


def test_runs_evaluate(tmp_path: Any) -> None:
    sampler = TensorSampler(
        Reach, {}, 10, 16, eval_n_envs=4, eval_max_steps=200, eval_max_trajectories=8
    )
    runner = MinibatchRlEval(
        algo=PPO(), agent=GaussianMlpAgent(), sampler=sampler, n_steps=480, seed=0
    )
    runner.train()
    assert runner.recent_return < 0


@pytest.mark.parametrize(("given", "length"), [(None, 3), ({}, 10), ({"limit": 4}, 4)])
def test_evaluations_have_their_own_arguments(given: Any, length: int) -> None:
    sampler = TensorSampler(
        Reach,
        {"limit": 3},
        T,
        B,
        eval_n_envs=1,
        eval_max_steps=100,
        eval_max_trajectories=1,
        eval_env_kwargs=given,
    )
    sampler.initialize(GaussianMlpAgent(), seed=0)
    sampler.obtain_samples(0)
    assert [info.Length for info in sampler.evaluate_agent(0)] == [length]


def test_decorrelation_steps_precede_the_first_batch() -> None:
    first = sampled(
        TensorSampler(Reach, dict(limit=1000), T, B, max_decorrelation_steps=2 * T),
        GaussianMlpAgent(),
        1,
    )
    later = sampled(
        TensorSampler(Reach, dict(limit=1000), T, B, max_decorrelation_steps=0),
        GaussianMlpAgent(),
        3,
    )
    assert torch.equal(first[0][0].env.observation, later[2][0].env.observation)


def test_actions_are_clipped_for_the_environment_and_recorded_without() -> None:
    class Watching(Bounded):
        def step(self, actions: torch.Tensor) -> Any:
            assert actions.abs().max() <= 1
            return super().step(actions)

    ((samples, _),) = sampled(TensorSampler(Watching, {}, T, B), GaussianMlpAgent(), 1)
    assert samples.agent.action.abs().max() > 1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (dict(deterministic_acting=True), "deterministic_acting is for single environments"),
        (dict(env_kwargs=[{}] * B), "env_kwargs is for single environments"),
        (dict(TrajInfoCls=dict), "TrajInfoCls is for single environments"),
    ],
)
def test_arguments_for_single_environments_are_refused(kwargs: Any, message: str) -> None:
    sampler = TensorSampler(Reach, batch_T=T, batch_B=B, **kwargs)
    with pytest.raises(ValueError, match=message):
        sampler.initialize(GaussianMlpAgent(), seed=0)


def test_an_ordinary_collector_is_refused() -> None:
    sampler = TensorSampler(Reach, batch_T=T, batch_B=B, CollectorCls=SerialSampler.CollectorCls)
    with pytest.raises(TypeError, match="must be a subclass of TensorCollector"):
        sampler.initialize(GaussianMlpAgent(), seed=0)


def test_numbers_that_are_not_finite_end_the_run() -> None:
    class Broken(Reach):
        def step(self, actions: torch.Tensor) -> Any:
            observation, reward, done, extras = super().step(actions)
            reward[2] = torch.where(self.age[2] == 3, torch.nan, reward[2])
            return observation, reward, done, extras

    sampler = TensorSampler(Broken, {}, T, B)
    sampler.initialize(GaussianMlpAgent(), seed=0)
    with pytest.raises(NonFiniteError, match="reward must be finite, got nan, in row 2 after step"):
        for itr in range(3):
            sampler.obtain_samples(itr)
    sampler.shutdown()

    class Accepting(TensorCollector):
        check_finite = False

    sampler = TensorSampler(Broken, {}, T, B, CollectorCls=Accepting)
    sampler.initialize(GaussianMlpAgent(), seed=0)
    assert torch.stack(
        [sampler.obtain_samples(i)[0].env.reward.isnan().any() for i in range(3)]
    ).any()


def test_train_chooses_the_sampler_by_the_environment(tmp_path: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        run = rlpyt.train(
            "ppo", Reach, steps=640, run_dir=tmp_path / "a", batch_T=10, batch_B=16, progress=False
        )
        assert run.options.sampler.kind == "tensor"
        rlpyt.train(
            "a2c",
            partial(Facade, seed=3),
            steps=256,
            run_dir=tmp_path / "b",
            sampler="tensor",
            batch_B=4,
            progress=False,
            eval_interval_steps=128,
            eval_episodes=2,
        )


@pytest.mark.parametrize(
    ("algo", "make"),
    [("sac", Bounded), ("flashsac", Bounded), ("dqn", Discrete), ("pqn", Discrete)],
)
def test_presets_leave_the_sampler_to_the_environment(algo: str, make: Any) -> None:
    assert default_options(algo, make).sampler.kind == "tensor"
