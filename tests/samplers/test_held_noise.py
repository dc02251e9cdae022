"""Noise of actions that is held for several steps (`noise_hold`): its law, layouts, resume."""

from functools import cache

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.distributions.base import NoiseSpec
from rlpyt.envs.base import EnvSpaces
from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.policy_source import ActionNoise, HeldNoise
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import stream
from tests.algos.qpg.parts_qpg import AGENTS, CENTER, HALF, A, DriftEnv
from tests.samplers.test_matrix import SAMPLERS, collector_of

T, B, MU, SEED = 40, 4, 2.0, 9
K = np.arange(1, 17)


class Still(torch.nn.Module):
    """A policy of mean 0, whose arithmetic is exact."""

    def __init__(self, observation_shape, action_size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(action_size))

    def forward(self, observation, *rest):
        return self.weight.expand(*observation.shape[:-1], -1)


def still(kind="ddpg", **kwargs):
    given = dict(noise_hold=MU, action_std=0.1, ModelCls=Still, model_kwargs={}, **kwargs)
    return AGENTS[kind](**given)


def collect(SamplerCls, agent, n_batches=2, state=None, reset=True, **kwargs):
    """Some batches, from the start or a state, and the state after the first."""
    given = dict(env_kwargs=dict(pays=True), batch_T=T, batch_B=B, max_decorrelation_steps=5)
    given |= dict(CollectorCls=collector_of(SamplerCls, reset))
    sampler = SamplerCls(DriftEnv, **given | kwargs)
    torch.manual_seed(5)
    sampler.initialize(agent, dict(n_workers=2), seed=SEED if state is None else 1)
    try:
        assert state is None or sampler.load_state_dict(state)
        batches, states = [], []
        for itr in range(n_batches):
            batches.append(buffer_func(sampler.obtain_samples(itr)[0], torch.clone))
            states.append(sampler.state_dict())
            if sampler.eval_n_envs:
                sampler.evaluate_agent(itr)
        return batches, states[0]
    finally:
        sampler.shutdown()


def assert_same(batches, others, exact=True):
    for a, b in zip(map(leaves_of, batches), map(leaves_of, others), strict=True):
        for x, y in zip(a, b, strict=True):
            assert torch.equal(x, y) if exact else torch.allclose(x, y, rtol=1e-4, atol=1e-5)


def noise_of(batches, std=0.1):
    """The noise of `still` in consecutive batches, [n * T, B, A]."""
    return torch.cat([(x.agent.action - CENTER) / HALF for x in batches]).numpy() / std


def held(rows, steps, mu, done=()):
    """Noise [steps, rows, A] of one block, with episodes that start at (t, b) in ``done``."""
    source = HeldNoise(1, "test", range(rows), mu)
    noise = source.draw(steps, NoiseSpec("normal", (A,)))
    for t in range(steps):
        starts = np.zeros(rows, bool)
        starts[[b for time, b in done if time == t]] = True
        source.hold(t, noise[t], starts)
    return noise


# The law.


@pytest.mark.parametrize("mu", [0.0, 1.3, 2.0, 100.0])
def test_lengths_have_a_truncated_zeta_distribution(mu):
    expected = K**-mu / (K**-mu).sum()
    noise = held(2000, 60, mu)
    new = np.ones((61, 2000), bool)
    new[1:60] = (noise[1:] != noise[:-1]).any(-1)
    counts, n = np.zeros(17), 0
    for b in range(2000):
        starts = np.flatnonzero(new[:, b])
        lengths = np.diff(starts)[starts[:-1] < 60 - 16]  # those seen to their end
        counts += np.bincount(lengths, minlength=17)
        n += len(lengths)
    spread = np.sqrt(expected * (1 - expected) / n)
    assert counts[0] == 0 and n > 2000
    assert (np.abs(counts[1:] / n - expected) <= 5 * spread + 1 / n).all()


def test_correlations_have_the_closed_form():
    """Lag k of a stationary renewal process: sum over n > k of (n - k) P(n) / E n."""
    prob = K**-MU / (K**-MU).sum()
    noise = held(5000, 60, MU)[40:].astype(np.float64)
    N = len(noise[0]) * A
    assert abs(noise.mean()) < 5 * 2 / np.sqrt(N) and abs(noise.var() - 1) < 5 * 2 / np.sqrt(N)
    for lag in range(1, 17):
        expected = (np.maximum(K - lag, 0) * prob).sum() / (K * prob).sum()
        found = (noise[lag:] * noise[:-lag]).mean() if lag < len(noise) else 0
        assert abs(found - expected) < 5 * 2 / np.sqrt(N), lag
    assert abs((noise[:, 1:] * noise[:, :-1]).mean()) < 5 * 2 / np.sqrt(N)  # of other rows
    assert abs((noise[..., 0] * noise[..., 1]).mean()) < 5 * 2 / np.sqrt(N)


def test_an_episode_starts_with_new_noise_and_a_new_count():
    n = 5000
    noise = held(n, 12, 0.0, done=[(5, b) for b in range(n)])
    assert (noise[4] != noise[5]).all()
    assert abs((noise[4] * noise[5]).mean()) < 5 / np.sqrt(n * A)
    kept = (noise[6:] == noise[5]).all(-1).mean(1)  # P(n > k) is (16 - k) / 16
    assert np.allclose(kept, (16 - K[:6]) / 16, atol=5 * 0.5 / np.sqrt(n))


# Samplers.


def test_batches_hold_noise_as_a_plain_loop_does():
    batches = serial(True)
    done = torch.cat([x.env.done for x in batches]).numpy()
    above = [(K[k:] ** -MU).sum() / (K**-MU).sum() for k in range(1, 16)]
    for b in range(B):
        rng, left, starts, expected, fresh = stream(SEED, "action", b), 0, False, [], 0
        for t in range(2 * T):
            *z, last = rng.standard_normal(A + 1, np.float32)
            if left == 0 or starts:
                fresh, noise = fresh + 1, z
                tail = 0.5 * torch.special.erfc(torch.tensor(float(last)).double() / 2**0.5)
                left = 1 + sum(float(tail) < p for p in above)
            left, starts = left - 1, done[t, b]
            expected.append(noise)
        assert 10 < fresh < 2 * T
        assert np.allclose(noise_of(batches)[:, b], np.clip(expected, -10, 10), atol=1e-4)


def test_the_current_policy_is_used_within_a_hold():
    batches, _ = collect(SerialSampler, AGENTS["sac"](noise_hold=MU, pretrain_std=None))
    info, action = batches[0].agent.agent_info.dist_info, batches[0].agent.action
    sample = torch.atanh(((action - CENTER) / HALF).double().clamp(-1 + 1e-7, 1 - 1e-7))
    noise = (sample - info.mean) / info.log_std.clamp(-20, 2).exp()
    same = ((noise[1:] - noise[:-1]).abs() < 1e-3).all(-1)
    moved = (info.mean[1:] - info.mean[:-1]).abs().sum(-1) > 1e-4
    assert 0.2 < same.float().mean() < 0.8 and (same & moved).float().mean() > 0.2


@cache
def serial(reset):
    return collect(SerialSampler, still(), reset=reset)[0]


@pytest.mark.parametrize("SamplerCls, reset", [*zip(SAMPLERS, [True, False] * 2)])
def test_batches_and_resumed_batches_are_the_same_in_every_layout(SamplerCls, reset):
    batches, state = collect(SamplerCls, still(), reset=reset)
    assert_same(serial(reset), batches)
    assert_same(batches[1:], collect(SamplerCls, still(), 1, state, reset)[0])


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_agents_in_numpy_and_torch_hold_the_same_noise(kind):
    numpy, _ = collect(SerialSampler, AGENTS[kind](noise_hold=MU))
    slow = AGENTS[kind](noise_hold=MU, fast_acting=False)
    assert_same(numpy, collect(SerialSampler, slow)[0], exact=False)


def test_recurrent_agents_resume_both_states():
    memory = dict(hidden_sizes=[8], memory="gru", lstm_size=4)
    kwargs = dict(noise_hold=MU, model_kwargs=memory)
    recurrent, state = collect(SerialSampler, AGENTS["sac"](**kwargs))
    assert_same(recurrent[1:], collect(SerialSampler, AGENTS["sac"](**kwargs), 1, state)[0])


def test_networks_act_in_workers_as_in_one_process_with_tiles():
    kwargs = dict(deterministic_acting=True)
    own, _ = collect(SerialSampler, AGENTS["td3"](noise_hold=MU), **kwargs)
    assert_same(own, collect(CpuSampler, AGENTS["td3"](noise_hold=MU), **kwargs)[0])


def test_evaluation_is_without_it_and_changes_nothing():
    between, _ = collect(SerialSampler, still(), eval_n_envs=2, eval_max_steps=40)
    assert_same(serial(True), between)
    sampler = SerialSampler(
        DriftEnv, batch_T=8, batch_B=2, CollectorCls=CpuResetCollector, eval_n_envs=2,
        eval_max_steps=40,
    )  # fmt: skip
    sampler.initialize(still(), seed=1)
    sampler.evaluate_agent(0)
    assert type(sampler.eval_collector._rollout.policy.noise) is ActionNoise
    sampler.shutdown()


def test_the_update_draws_noise_of_its_own():
    agents = [AGENTS["sac"](noise_hold=hold) for hold in (None, MU)]
    drawn = []
    for agent in agents:
        torch.manual_seed(0)
        agent.initialize(DriftEnv().spaces)
        agent.train_mode(0)
        inputs = torch.ones(3, 3), torch.zeros(3, A), torch.zeros(3)
        drawn.append([agent.pi(*inputs)[0] for _ in range(2)])
    assert torch.equal(drawn[0][0], drawn[1][0]) and torch.equal(drawn[0][1], drawn[1][1])
    assert not torch.equal(*drawn[1])


def test_states_are_those_of_plain_noise_with_two_further_keys():
    _, plain = collect(SerialSampler, AGENTS["ddpg"]())
    _, state = collect(SerialSampler, AGENTS["ddpg"](noise_hold=MU))
    keys = [set(x["stations"][0]["collector"]["noise"][0]) for x in (plain, state)]
    assert keys[1] - keys[0] == {"held", "left"}
    collect(SerialSampler, AGENTS["ddpg"](), 1, state)  # with the other setting
    collect(SerialSampler, AGENTS["ddpg"](noise_hold=MU), 1, plain)


# Refusals.


@pytest.mark.parametrize("value", [-1, 101, float("nan"), "zeta", True])
def test_the_exponent_is_checked(value):
    with pytest.raises((ValueError, TypeError), match="noise_hold"):
        AGENTS["td3"](noise_hold=value)


def test_discrete_actions_are_refused():
    spaces = EnvSpaces(DriftEnv().spaces.observation, IntBox(0, 3))
    with pytest.raises(ValueError, match=r"noise_hold must be None for .*got 2.0"):
        SacAgent(noise_hold=2.0).initialize(spaces)
    with pytest.raises(TypeError, match="noise_hold"):
        DqnAgent(noise_hold=2.0)


def test_samplers_without_the_noise_of_each_environment_are_refused():
    class Own(SerialSampler):
        class CollectorCls(BaseCollector):
            pass

    sampler = Own(DriftEnv, batch_T=4, batch_B=2)
    with pytest.raises(ValueError, match="noise_hold must be None with CollectorCls, got 2.0"):
        sampler.initialize(still(), seed=0)
