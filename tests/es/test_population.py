"""Many policies side by side, and episodes of each: what a plain loop over them would give."""

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from rlpyt.envs.gym import make
from rlpyt.envs.toy import ReachEnv
from rlpyt.envs.vector.make import make_vec
from rlpyt.es.agent import EsAgent
from rlpyt.es.collector import PopulationCollector
from rlpyt.es.model import EsPolicyModel, Population
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple

T, B = 60, 6


class OwnModel(nn.Module):
    """A user's model, which only vmap can call for many."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.a = nn.Linear(observation_shape[0], 5)
        self.b = nn.Linear(5, output_size)
        self.register_buffer("shift", torch.ones(5))

    def forward(self, observation, prev_action=None, prev_reward=None):
        return self.b(torch.sin(self.a(observation)) + self.shift)


def hooked(model):
    model.mlp.register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


def patched(model):
    model.heads = lambda features: 2 * model.mlp(features)
    return model


def unbiased(model):
    model.mlp.model[0] = nn.Linear(4, model.mlp.model[0].out_features, bias=False)
    return model


MODELS = {
    "tanh": lambda: EsPolicyModel((4,), 3),
    "linear": lambda: EsPolicyModel((4,), 3, hidden_sizes=[]),
    "two layers": lambda: EsPolicyModel((4,), 3, hidden_sizes=[8, 5], nonlinearity=nn.ReLU),
    "unknown layer": lambda: EsPolicyModel((4,), 3, nonlinearity=nn.SiLU),
    "normalized": lambda: EsPolicyModel((4,), 3, normalize_observation=True, norm_obs_clip=1.0),
    "pictures": lambda: EsPolicyModel((2, 2), 3),
    "hooked": lambda: hooked(EsPolicyModel((4,), 3)),
    "patched": lambda: patched(EsPolicyModel((4,), 3)),
    "unbiased": lambda: unbiased(EsPolicyModel((4,), 3)),
    "own": lambda: OwnModel((4,), 3),
}


@pytest.mark.parametrize("kind", MODELS)
def test_rows_act_as_their_policies_would_alone(kind):
    torch.manual_seed(0)
    policy = MODELS[kind]()
    if kind == "normalized":
        policy.update_obs_rms(torch.randn(50, 4) * 2 + 1)
    population = Population(policy, 7)
    population.rows.normal_()
    shape = (2, 2) if kind == "pictures" else (4,)
    observation = torch.randn(3, *shape)
    rows = [5, 0, 2]
    got = population.row_policies(rows)(observation.numpy())
    for i, row in enumerate(rows):
        population.set_favorite(population.rows[row].numpy())
        assert torch.equal(population.favorite(), population.rows[row])
        with torch.no_grad():
            alone = policy(observation[i : i + 1])[0]
        assert got[i] == pytest.approx(alone.numpy(), abs=1e-5)


@pytest.mark.parametrize("nonlinearity", [nn.Tanh, nn.SiLU])
def test_observations_may_be_composite(nonlinearity):
    """In numpy, and by vmap, which is for layers that numpy does not know."""
    Pair = namedarraytuple("Pair", ["a", "b"])
    torch.manual_seed(0)
    population = Population(EsPolicyModel(Pair((4,), (2, 2)), 3, nonlinearity=nonlinearity), 2)
    population.rows.normal_()
    observation = Pair(torch.randn(2, 4), torch.randn(2, 2, 2))
    got = population.row_policies([1, 0])(buffer_func(observation, torch.Tensor.numpy))
    for i, row in enumerate([1, 0]):
        population.set_favorite(population.rows[row].numpy())
        with torch.no_grad():
            alone = population.policy(observation[i : i + 1])[0]
        assert got[i] == pytest.approx(alone.numpy(), abs=1e-5)


def test_row_policies_keep_the_parameters_at_their_creation():
    population = Population(EsPolicyModel((4,), 2), 2)
    x = np.ones((2, 4), np.float32)
    act = population.row_policies([0, 1])
    before = act(x).copy()
    population.rows.zero_()
    assert np.array_equal(act(x), before)
    assert not population.row_policies([0, 1])(x).any()


def sampler_for(Sampler=SerialSampler, EnvCls=make, env_id="CartPole-v1", T=T, n_workers=1, **more):
    torch.manual_seed(3)
    sampler = Sampler(
        EnvCls=EnvCls,
        env_kwargs={} if env_id is None else dict(id=env_id),
        batch_T=T,
        batch_B=B,
        CollectorCls=PopulationCollector,
        **more,
    )
    agent = EsAgent(model_kwargs=dict(hidden_sizes=[5]))
    sampler.initialize(agent, affinity=dict(n_workers=n_workers), seed=1)
    return sampler, agent


def hand_out(agent, seeds):
    rng = np.random.default_rng(0)
    agent.population.rows.numpy()[:] = rng.normal(size=agent.population.rows.shape)
    agent.settings["seeds"][:] = seeds


def collect(seeds, n_batches=2, **kwargs):
    """Copies of batches, and the trajectories of each."""
    sampler, agent = sampler_for(**kwargs)
    batches = []
    try:
        for itr in range(n_batches):
            hand_out(agent, np.asarray(seeds) + itr)
            agent.sample_mode(itr)
            samples, infos = sampler.obtain_samples(itr)
            batches.append((buffer_func(samples, lambda x: x.numpy().copy()), infos))
        rows = agent.population.rows.numpy().copy()
        return batches, rows, agent
    finally:
        sampler.shutdown()


def plain_episode(agent, parameters, seed, T, env_id):
    """One episode of one policy, as a script would run it: observations, rewards."""
    env = gymnasium.make(env_id)
    agent.population.set_favorite(parameters)
    observation, _ = env.reset(seed=seed)
    observations, rewards = [], []
    for _ in range(T):
        observations.append(observation)
        with torch.no_grad():
            output = agent.population.policy(torch.from_numpy(observation)[None])[0].numpy()
        if agent.scale is None:
            action = int(output.argmax())
        else:
            low, high = env.action_space.low, env.action_space.high
            action = np.clip(agent.scale.to_space(output), low, high)
        observation, reward, terminated, truncated, _ = env.step(action)
        rewards.append(reward)
        if terminated or truncated:
            break
    env.close()
    return np.array(observations), np.array(rewards)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_a_batch_is_one_episode_of_each_candidate(env_id):
    seeds = [4, 9, 4, 9, 4, 9]
    batches, rows, agent = collect(seeds, env_id=env_id)
    lengths = []
    for itr, (samples, infos) in enumerate(batches):
        for b in range(B):
            observation, reward = plain_episode(agent, rows[b], seeds[b] + itr, T, env_id)
            n = len(reward)
            lengths.append(n)
            tolerance = dict(rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(samples.env.observation[:n, b], observation, **tolerance)
            np.testing.assert_allclose(samples.env.reward[:n, b], reward, **tolerance)
            for leaf in (samples.env.observation, samples.env.reward, samples.agent.action):
                assert not leaf[n:, b].any()
            assert samples.env.done[n:, b].all()
            assert not samples.env.done[: n - 1, b].any()
            assert infos[b].Length == n
            assert infos[b].Return == pytest.approx(reward.sum(), rel=1e-3)
    if env_id == "CartPole-v1":
        assert min(lengths) < 15 < max(lengths)  # some rested while others went on
    else:
        assert set(lengths) == {T}  # cut off long before the time limit


class LastPosition(TrajInfo):
    """Of a user's own: its step is called after every step."""

    def step(self, observation, *rest):
        super().step(observation, *rest)
        self.Last = float(observation[0])


OTHERS = {
    "vector": dict(EnvCls=make_vec),
    "workers": dict(Sampler=CpuSampler, n_workers=3),
    "vector in workers": dict(Sampler=CpuSampler, EnvCls=make_vec, n_workers=2),
    "own TrajInfo": dict(TrajInfoCls=LastPosition),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_same_batches_wherever_they_are_collected(kind):
    seeds = [4, 9, 4, 9, 4, 9]
    plain, _, _ = collect(seeds)
    other, _, _ = collect(seeds, **OTHERS[kind])
    for (a, infos), (b, other_infos) in zip(plain, other, strict=True):
        for x, y in (
            (a.env.observation, b.env.observation),
            (a.env.reward, b.env.reward),
            (a.env.done, b.env.done),
            (a.agent.action, b.agent.action),
        ):
            np.testing.assert_allclose(x, y, atol=1e-5)
        for one, two in zip(infos, other_infos, strict=True):
            assert {key: two[key] for key in one if not key.startswith("_")} == pytest.approx(
                {key: value for key, value in one.items() if not key.startswith("_")}
            )
            if kind == "own TrajInfo":
                assert np.isfinite(two.Last)


def test_rows_of_one_candidate_and_one_seed_have_the_same_episode():
    sampler, agent = sampler_for()
    try:
        agent.population.rows[:] = agent.population.rows[0]
        agent.settings["seeds"][:] = [7, 7, 7, 8, 8, 8]
        samples, _ = sampler.obtain_samples(0)
        observation = samples.env.observation.numpy()
        for b in (1, 2):
            assert np.array_equal(observation[:, 0], observation[:, b])
        assert not np.array_equal(observation[0, 0], observation[0, 3])
    finally:
        sampler.shutdown()


def test_without_seeds_every_environment_keeps_its_own_stream():
    sampler, agent = sampler_for()
    try:
        agent.settings["seeds"][:] = -1
        first = sampler.obtain_samples(1)[0].env.observation[0].numpy().copy()
        second = sampler.obtain_samples(2)[0].env.observation[0].numpy().copy()
        assert len(np.unique(np.concatenate([first, second]), axis=0)) == 2 * B
    finally:
        sampler.shutdown()


def test_evaluation_is_of_the_favorite():
    more = dict(eval_n_envs=2, eval_max_steps=2000, eval_max_trajectories=4)
    sampler, agent = sampler_for(**more)
    try:
        agent.population.rows.fill_(0)
        agent.population.set_favorite(np.zeros(agent.population.rows.shape[1]))
        agent.population.policy.mlp.model[-1].bias.data[1] = 1.0  # always to the right: 8 to 11
        agent.eval_mode(0)
        infos = sampler.evaluate_agent(0)
        assert len(infos) == 4
        assert all(8 <= info.Length <= 11 for info in infos)
    finally:
        sampler.shutdown()


def test_an_agent_in_another_process_is_refused():
    with pytest.raises(Exception, match="SerialSampler, CpuSampler or RaySampler"):
        sampler_for(Sampler=GpuSampler)


def test_the_gpu_is_refused():
    with pytest.raises(ValueError, match="on the CPU"):
        EsAgent().to_device(0)


def test_actions_of_a_box_come_in_its_units():
    sampler, agent = sampler_for(EnvCls=ReachEnv, env_id=None, T=5)
    try:
        assert agent.scale is not None
        samples, _ = sampler.obtain_samples(0)
        assert samples.agent.action.shape[:2] == (5, B)
        assert samples.agent.action.dtype == torch.float32
    finally:
        sampler.shutdown()
