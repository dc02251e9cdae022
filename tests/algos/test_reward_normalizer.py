"""Normalized rewards: the plain definition, and the same in every sampler, resume and rank."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.reward_normalizer import RewardNormalizer
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

T, B = 5, 4


class Plain:
    """The definition, step by step: data of all steps so far, one scale for a batch."""

    def __init__(self, discount, n=B):
        self.discount, self.data, self.running = discount, [], [0.0] * n

    def __call__(self, reward, done, waits=False):
        for b in range(reward.shape[1]):
            over = False
            for t in range(reward.shape[0]):
                if over:  # waits for the end of the batch
                    continue
                self.running[b] = self.discount * self.running[b] + float(reward[t, b])
                self.data.append(self.running[b])
                if done[t, b]:
                    self.running[b], over = 0.0, waits
        self.scale = np.sqrt(np.var(self.data) + 1e-8)
        return np.clip(np.asarray(reward, np.float64) / self.scale, -10, 10)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_rewards_are_divided_by_the_deviation_of_running_returns(discount, waits):
    rng = np.random.default_rng(1)
    normalizer = RewardNormalizer(B, discount, torch.device("cpu"))
    plain = Plain(discount)
    n_batches = 30
    for i in range(n_batches):
        reward = rng.normal(3, 5, (T, B)).astype(np.float32)
        if i + 1 == n_batches:
            reward[0, 0] = 1e5  # clipped
        done = rng.random((T, B)) < 0.3
        if waits:
            done = np.maximum.accumulate(done)
            reward[1:][done[:-1]] = 0
        valid = torch.from_numpy(np.roll(~done, 1, axis=0)).float()
        valid[0] = 1
        found = normalizer(
            torch.from_numpy(reward), torch.from_numpy(done), valid if waits else None
        )
        np.testing.assert_allclose(found, plain(reward, done, waits), rtol=1e-5)
        assert found.dtype == torch.float32 and found.shape == (T, B)
        assert normalizer.scale == pytest.approx(plain.scale, rel=1e-9)
    assert found[0, 0] == 10


def test_rewards_are_unchanged_while_returns_do_not_vary():
    normalizer = RewardNormalizer(B, 0.9, torch.device("cpu"))
    assert normalizer.scale == 1
    found = normalizer(torch.full((1, B), 3.0), torch.ones(1, B, dtype=torch.bool))
    assert torch.equal(found, torch.full((1, B), 3.0)) and normalizer.scale == 1


def batches(algo, SamplerCls=SerialSampler, EnvCls=CountEnv, n=3, **kwargs):
    """Train on n batches; yield each batch before training, and after."""
    torch.manual_seed(0)
    agent = CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
    env_kwargs = {} if EnvCls is not CountEnv else dict(length=4)
    sampler = SamplerCls(EnvCls=EnvCls, env_kwargs=env_kwargs, batch_T=T, batch_B=B, **kwargs)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=3, bootstrap_value=True)
    try:
        algo.initialize(agent, n, sampler.batch_spec, mid_batch_reset=sampler.mid_batch_reset)
        for itr in range(n):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            agent.train_mode(itr)
            yield samples
            algo.optimize_agent(itr, samples)
    finally:
        sampler.shutdown()


def vector(num_envs):
    return SerialVectorEnv([CountEnv(length=4) for _ in range(num_envs)])


vector.batched = True

LAYOUTS = [
    (SerialSampler, CountEnv, CpuResetCollector),
    (SerialSampler, CountEnv, CpuWaitResetCollector),
    (CpuSampler, CountEnv, CpuResetCollector),
    (CpuSampler, vector, CpuResetCollector),
]


@pytest.mark.parametrize("SamplerCls,EnvCls,Collector", LAYOUTS)
def test_every_sampler_gives_the_same_scale(SamplerCls, EnvCls, Collector):
    algo, plain = A2C(normalize_reward=True, discount=0.9), Plain(0.9)
    waits = Collector is CpuWaitResetCollector
    for samples in batches(algo, SamplerCls, EnvCls, CollectorCls=Collector):
        plain(samples.env.reward.numpy(), samples.env.done.numpy(), waits)
    assert algo.reward_normalizer.scale == pytest.approx(plain.scale, rel=1e-9)
    assert algo.statistics()["RewardScale"] == algo.reward_normalizer.scale > 50


@pytest.mark.parametrize(
    "make", [lambda **k: PPO(minibatches=1, epochs=1, **k), A2C, VTrace], ids=["ppo", "a2c", "v"]
)
def test_algorithms_train_on_normalized_rewards_and_leave_the_batch_alone(make):
    algo, plain = make(normalize_reward=True, discount=0.9), Plain(0.9)
    seen = []
    process = algo.process_returns
    algo.process_returns = lambda samples, *args: (seen.append(samples), process(samples, *args))[1]
    for samples in batches(algo):
        before = samples.env.reward.clone()
        seen.append(plain(before.numpy(), samples.env.done.numpy()))
        raw = samples
    expected, given = seen[0::2], seen[1::2]
    assert len(expected) == len(given) == 3
    for reward, batch in zip(expected, given, strict=True):
        np.testing.assert_allclose(batch.env.reward, reward, rtol=1e-5)
        assert batch.agent.timeout_value is not None
    assert torch.equal(raw.env.reward, before)
    plainly = make(discount=0.9)
    list(batches(plainly, n=1))
    assert plainly.reward_normalizer is None and "RewardScale" not in plainly.statistics()


def test_statistics_survive_a_checkpoint_and_new_episodes_start_at_zero():
    algo, other = (A2C(normalize_reward=True, discount=0.9) for _ in range(2))
    list(batches(algo, n=2))
    list(batches(other, n=1))
    other.load_state_dict(algo.state_dict())
    reward, done = torch.ones(T, B), torch.zeros(T, B, dtype=torch.bool)
    state = algo.reward_normalizer.state_dict()
    assert np.count_nonzero(state["return"])
    a, b = (x.reward_normalizer(reward, done) for x in (algo, other))
    assert torch.equal(a, b)
    assert algo.reward_normalizer.scale == other.reward_normalizer.scale
    algo.interrupt()
    assert not algo.reward_normalizer.state_dict()["return"].any()
    old = algo.state_dict()
    del old["reward_normalizer"]  # of a run without it
    other.load_state_dict(old)


def test_level_replay_is_refused_before_anything_starts():
    curriculum = PrioritizedLevelReplay(4)
    sampler = SerialSampler(CartPoleLevels, {}, batch_T=8, batch_B=2, curriculum=curriculum)
    agent = CategoricalMlpAgent()
    runner = MinibatchRl(
        algo=PPO(normalize_reward=True), agent=agent, sampler=sampler, n_steps=16, seed=0
    )
    with pytest.raises(ValueError, match="normalize_reward .*GaeMagnitude"):
        runner.train()
