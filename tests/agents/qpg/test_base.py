"""Agents of continuous control: acting, noise, scales, targets, states."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.envs.toy import CountEnv
from rlpyt.models.qpg.mlp import QofMuMlpModel
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    CENTER,
    HALF,
    HIGH,
    LOW,
    NARROW,
    A,
    DriftEnv,
    assert_same_state,
    perceptron,
    pi_of,
    q_of,
    shake,
    to_unit,
)

B = 5
SPACES = DriftEnv().spaces
NORMALIZED = dict(normalize_observation=True, **NARROW)
EVERY = dict(model_kwargs=NORMALIZED, q_model_kwargs=NORMALIZED)
TARGETS = {"ddpg": {"target_model", "target_q_model"}, "td3": {"target_model", "target_q_model"},
           "sac": {"target_q_model"}, "sac_v": {"target_v_model"}}  # fmt: skip


def initialized(kind, **kwargs):
    torch.manual_seed(0)
    agent = AGENTS[kind](**kwargs)
    agent.initialize(SPACES)
    agent.sample_mode(0)
    return agent


def inputs(n=B, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, 3, generator=g), torch.rand(n, A, generator=g), torch.rand(n, generator=g)


def noise(n=B, seed=2):
    return torch.randn(n, A, generator=torch.Generator().manual_seed(seed))


# Targets and states.


@pytest.mark.parametrize("kind", AGENTS)
def test_targets_begin_equal_in_memory_of_their_own_and_follow(kind):
    agent = initialized(kind)
    found = {n for n in vars(agent) if n.startswith("target_") and n.endswith("model")}
    assert {n for n in found if getattr(agent, n) is not None} == TARGETS[kind]
    pairs = [(getattr(agent, n), getattr(agent, n.removeprefix("target_"))) for n in TARGETS[kind]]
    old = []
    for target, network in pairs:
        for a, b in zip(target.parameters(), network.parameters(), strict=True):
            assert torch.equal(a, b) and a.data_ptr() != b.data_ptr()
            assert not a.requires_grad and b.requires_grad
        shake(network, 1.0)
        old.append(copy.deepcopy(target.state_dict()))
    agent.update_target(0.25)
    for (target, network), before in zip(pairs, old):
        for k, now in target.state_dict().items():
            torch.testing.assert_close(now, 0.75 * before[k] + 0.25 * network.state_dict()[k])
    agent.update_target()
    for target, network in pairs:
        assert_same_state(dict(target.state_dict()), dict(network.state_dict()))


KEYS = {
    "ddpg": {"model", "q_model", "target_model", "target_q_model"},
    "td3": {"model", "q1_model", "q2_model", "target_model", "target_q1_model", "target_q2_model"},
    "sac": {"model", "q1_model", "q2_model", "target_q1_model", "target_q2_model"},
    "sac_v": {"model", "q1_model", "q2_model", "v_model", "target_v_model"},
}


def shaken(kind, **kwargs):
    """An agent whose networks and targets are all different."""
    agent = initialized(kind, **kwargs)
    for network in (agent.model, *agent._networks().values()):
        shake(network, 0.3)
    return agent


def values_of(agent, kind):
    """All that the agent computes from its networks."""
    seen = inputs()
    action = CENTER + HALF * torch.tanh(noise())
    found = [agent.q(*seen, action)]
    agent.eval_mode(0)
    found += leaves_of(agent.step(*seen))
    if kind in ("ddpg", "td3"):
        torch.manual_seed(3)
        found += [agent.q_at_mu(*seen), agent.target_q_at_mu(*seen)]
    else:
        agent.sample_mode(100)
        torch.manual_seed(3)
        found += agent.pi(*seen)[:2]
        found += (
            [agent.target_q(*seen, action)]
            if kind == "sac"
            else [agent.v(*seen), agent.target_v(*seen)]
        )
    return [x.detach() for x in found]


@pytest.mark.parametrize("own", [{}, EVERY], ids=["plain", "normalized"])
@pytest.mark.parametrize("kind", AGENTS)
def test_a_fresh_agent_of_its_state_acts_and_values_the_same(kind, own):
    agent = shaken(kind, **own)
    agent.update_obs_rms(7 * torch.rand(50, 3))
    state = pickle.loads(pickle.dumps(agent.state_dict()))
    assert state.keys() == KEYS[kind]
    expected = values_of(agent, kind)
    fresh = initialized(kind, **own)
    fresh.load_state_dict(state)
    initial = initialized(kind, initial_model_state_dict=state, **own)
    for other in (fresh, initial):
        for a, b in zip(values_of(other, kind), expected, strict=True):
            torch.testing.assert_close(a, b)
    shake(fresh.q_model, 1.0)
    assert_same_state(agent.state_dict(), state)


def test_a_policy_alone_can_be_what_to_begin_with():
    agent = shaken("sac")
    for state in (
        agent.model.state_dict(),
        {"model": agent.model.state_dict(), **agent.state_dict()},
    ):
        other = initialized("sac", initial_model_state_dict=state)
        assert_same_state(dict(other.model.state_dict()), dict(agent.model.state_dict()))
    ddpg = shaken("ddpg")
    other = initialized(
        "ddpg", initial_model_state_dict=ddpg.model.state_dict(),
        initial_q_model_state_dict=ddpg.q_model.state_dict(),
    )  # fmt: skip
    for name in ("model", "q_model"):
        own = dict(getattr(ddpg, name).state_dict())
        assert_same_state(dict(getattr(other, name).state_dict()), own)
        assert_same_state(dict(getattr(other, f"target_{name}").state_dict()), own)


def test_td3_begins_with_two_given_critics_or_none():
    state = shaken("td3").state_dict()
    both = dict(
        initial_q_model_state_dict=state["q1_model"], initial_q2_model_state_dict=state["q2_model"]
    )
    agent = initialized("td3", **both)
    for name in ("q1_model", "q2_model"):
        assert_same_state(agent.state_dict()[name], state[name])
        assert_same_state(agent.state_dict()[f"target_{name}"], state[name])
    for name, one in both.items():
        with pytest.raises(ValueError, match="give both"):
            initialized("td3", **{name: one})


def test_anothers_state_is_refused():
    state = initialized("sac").state_dict()
    with pytest.raises(ValueError, match="q3_model"):
        initialized("sac", n_critics=3).load_state_dict(state)
    with pytest.raises(ValueError, match="networks .*'q1_model'"):
        initialized("ddpg").load_state_dict(state)


@pytest.mark.parametrize("kind", ["td3", "sac", "sac_v"])
def test_a_members_state_is_that_of_a_single_model(kind):
    agent = shaken(kind)
    seen, action = inputs(), CENTER + HALF * torch.tanh(noise())
    out = agent.q(*seen, action)
    for i in range(2):
        alone = QofMuMlpModel((3,), action_size=A, **NARROW)
        alone.load_state_dict(agent.state_dict()[f"q{i + 1}_model"])
        own = alone(*seen, to_unit(action).float())
        torch.testing.assert_close(out[i], own)
        torch.testing.assert_close(agent.critic(i)(*seen, to_unit(action).float()), own)


class PlainCritic(QofMuMlpModel):
    """A user's critic, which knows nothing of several."""

    def __init__(self, observation_shape, action_size, hidden_sizes, **kwargs):
        super().__init__(observation_shape, hidden_sizes, action_size, **kwargs)


@pytest.mark.parametrize("kind", ["td3", "sac"])
def test_a_users_critics_are_several_by_the_same_names(kind):
    agent = initialized(kind)
    other = AGENTS[kind]()
    other.QModelCls = PlainCritic
    other.initialize(SPACES)
    assert other.state_dict().keys() == agent.state_dict().keys()
    other.load_state_dict(agent.state_dict())
    for a, b in zip(values_of(agent, kind), values_of(other, kind), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("joint", [True, False], ids=["one optimizer", "one each"])
@pytest.mark.parametrize("kind", ["sac", "sac_v"])
def test_critics_are_separate_only_for_an_optimizer_each(kind, joint):
    agent = initialized(kind, q_model_kwargs=NORMALIZED, model_kwargs=NORMALIZED)
    shake(agent.q_model, 1.0)  # so that targets differ
    agent.has_joint_optimizer = joint
    state, action = agent.state_dict(), torch.rand(B, A)
    before = agent.q(*inputs(), action).detach()
    parts = [agent.q1_parameters(), agent.q2_parameters()]
    for name, parameters in zip(("q1_model", "q2_model"), map(list, parts)):
        assert all(p.is_leaf != joint for p in parameters)
        named = agent.q_model.members[0] if not joint else agent.q_model
        for (key, _), p in zip(named.named_parameters(), parameters, strict=True):
            assert torch.equal(p, state[name][key])
    after = agent.q(*inputs(), action)
    assert isinstance(after, torch.Tensor if joint else tuple)
    assert torch.allclose(torch.stack([*after]), before, atol=1e-6)
    assert_same_state(agent.state_dict(), state)
    if not joint:
        for q in after:  # one backward pass each
            q.sum().backward()
        agent.update_target(1.0)
        updated = agent.state_dict()
        if kind == "sac":
            assert_same_state(updated["target_q2_model"], updated["q2_model"])


def test_models_by_their_names():
    agent = initialized("sac_v")
    seen, unit = inputs(), torch.zeros(B, A)
    pi, q1, q2, v = agent.models
    assert pi is agent.model and v is agent.v_model
    both = torch.stack([q1(*seen, unit), q2(*seen, unit)])
    torch.testing.assert_close(both, agent.q(*seen, CENTER.expand(B, A)))
    assert initialized("sac").models.v is None


# Statistics of observations.


@pytest.mark.parametrize("kind", AGENTS)
def test_all_networks_see_by_the_same_statistics(kind):
    extra = dict(v_model_kwargs=NORMALIZED) if kind == "sac_v" else {}
    agent = initialized(kind, **EVERY, **extra)
    data = 3 + 5 * torch.rand(40, 3)
    agent.update_obs_rms(data)
    for network in agent._networks().values():
        kept = network.obs_rms.state_dict()
        torch.testing.assert_close(kept["mean"], data.double().mean(0))
        torch.testing.assert_close(kept["var"], data.double().var(0, correction=0))
        assert float(kept["count"]) == 40
    agent.update_target(0.3)
    assert float(agent.model.obs_rms.count) == 40
    kept = agent.model.obs_rms.state_dict()
    torch.testing.assert_close(kept["mean"], data.double().mean(0))


def test_critics_alone_may_see_by_statistics():
    """Those of critics whose policy keeps none are fed as well, or refused; not left at zero."""
    try:
        agent = initialized("sac", q_model_kwargs=NORMALIZED)
    except ValueError:
        return
    agent.update_obs_rms(3 + 5 * torch.rand(40, 3))
    assert float(agent.q_model.obs_rms.count) == 40


@pytest.mark.parametrize("kind", ["td3", "sac"])
def test_users_critics_see_by_them_too(kind):
    agent = AGENTS[kind](**EVERY)
    agent.QModelCls = PlainCritic
    agent.initialize(SPACES)
    agent.update_obs_rms(3 + 5 * torch.rand(40, 3))
    for network in (agent.q_model, agent.target_q_model):
        assert [float(member.obs_rms.count) for member in network.members] == [40, 40]


# Acting.


def as_numpy(tree):
    return buffer_func(tree, lambda x: x.numpy())


ACTING = {
    "ddpg": {}, "ddpg, clipped": dict(action_std=0.8, action_noise_clip=0.3),
    "ddpg, small": dict(model_kwargs=dict(output_max=0.5, **NARROW)), "td3": {}, "sac": {},
    "sac, squash": dict(action_squash=0.7), "sac_v": {}, "sac, normalized": EVERY,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["warm-up", "sample", "eval"])
@pytest.mark.parametrize("name", ACTING)
def test_acting_in_numpy_is_acting_in_torch(name, mode):
    agent = initialized(name.split(",")[0], **ACTING[name])
    agent.update_obs_rms(3 * torch.rand(20, 3))
    agent.give_min_itr_learn(3)
    if mode == "eval":
        agent.eval_mode(5)
    else:
        agent.sample_mode(2 if mode == "warm-up" else 3)
    agent.set_noise(noise())
    action, info = agent.step(*inputs())
    found, parameters, last = agent.fast_policy()(inputs()[0].numpy(), noise().numpy())
    np.testing.assert_allclose(found, action.numpy(), rtol=1e-4, atol=1e-5)
    leaves = [x.numpy() for x in leaves_of(info)]
    for a, b in zip((*parameters, last), leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_numpy_can_be_turned_off():
    assert initialized("sac", fast_acting=False).fast_policy() is None

    class Own(SacAgent):
        def step(self, *args):
            return super().step(*args)

    agent = Own()
    agent.initialize(SPACES)
    assert agent.fast_policy() is None


@pytest.mark.parametrize("kind", ["sac", "sac_v"])
def test_gaussian_agents_squash_their_samples_into_the_space(kind):
    agent = shaken(kind)
    agent.set_noise(noise())
    action, info = agent.step(*inputs())
    expected, _ = pi_of(agent, inputs()[0], noise())
    torch.testing.assert_close(action.double(), CENTER + HALF * expected, rtol=1e-4, atol=1e-5)
    out = perceptron(agent.state_dict()["model"], inputs()[0].double())
    mean, log_std = info.dist_info
    torch.testing.assert_close(torch.cat([mean, log_std], -1).double(), out, rtol=1e-4, atol=1e-5)


def test_deterministic_agents_add_noise_within_bounds():
    agent = shaken("ddpg", action_std=0.9, action_noise_clip=0.6)
    agent.set_noise(noise())
    action, info = agent.step(*inputs())
    mu = torch.tanh(perceptron(agent.state_dict()["model"], inputs()[0].double()))
    unit = (mu + (0.9 * noise()).clamp(-0.6, 0.6)).clamp(-1, 1)
    torch.testing.assert_close(action.double(), CENTER + HALF * unit, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(info.mu.double(), mu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", AGENTS)
def test_evaluation_is_without_noise(kind):
    agent = shaken(kind)
    agent.eval_mode(0)
    actions = [agent.step(*inputs()).action for _ in range(2)]
    torch.testing.assert_close(*actions, rtol=0, atol=1e-6)
    out = perceptron(agent.state_dict()["model"], inputs()[0].double())[:, :A]
    expected = CENTER + HALF * torch.tanh(out)
    torch.testing.assert_close(actions[0].double(), expected, rtol=1e-4, atol=1e-5)
    agent.sample_mode(0)
    assert not torch.equal(agent.step(*inputs()).action, actions[0])


@pytest.mark.parametrize("kind", AGENTS)
def test_evaluation_draws_as_sampling_does_when_it_is_asked_to(kind):
    agent = shaken(kind)
    agent.give_min_itr_learn(3)
    drawn = []
    for in_evaluation in (True, False):
        agent.sample_mode(5)
        if in_evaluation:
            agent.eval_mode(1)
            agent.set_deterministic(False, 1)  # learning has begun in any case
        agent.set_noise(noise())
        drawn.append(agent.step(*inputs()).action)
    assert torch.equal(*drawn)
    agent.eval_mode(5)
    likeliest = agent.step(*inputs()).action
    assert not torch.equal(likeliest, drawn[0])
    agent.set_deterministic(False, 5)
    agent.set_deterministic(True, 5)
    assert torch.equal(agent.step(*inputs()).action, likeliest)


def deviation(agent):
    """Of samples before they are squashed or clipped, in units of [-1, 1]."""
    with torch.no_grad():
        for p in agent.model.parameters():
            p.zero_()
    observation = torch.zeros(4000, 3)
    action, _ = agent.step(observation, torch.zeros(4000, A), torch.zeros(4000))
    unit = to_unit(action)
    before = torch.atanh(unit.clamp(-1 + 1e-7, 1 - 1e-7)) if "Sac" in type(agent).__name__ else unit
    return float(before.std())


@pytest.mark.parametrize(
    "kind, kwargs, first, then",
    [
        ("td3", dict(pretrain_std=0.25, action_std=0.1), 0.25, 0.1),
        ("sac", dict(pretrain_std=0.75), 0.75, 1.0),  # exp(0)
        ("sac", dict(pretrain_std=None), 1.0, 1.0),
        ("sac_v", dict(pretrain_std=0.5), 0.5, 1.0),
        ("td3", dict(pretrain_std="uniform", action_std=0.1), 3**-0.5, 0.1),
        ("sac", dict(pretrain_std="uniform"), math.pi / 12**0.5, 1.0),  # atanh of uniform numbers
        ("ddpg", dict(action_std=0.2), 0.2, 0.2),
    ],
)
def test_actions_are_spread_widely_until_learning_begins(kind, kwargs, first, then):
    agent = initialized(kind, **kwargs)
    agent.give_min_itr_learn(3)
    for itr, std in [(0, first), (2, first), (3, then), (9, then)]:
        agent.sample_mode(itr)
        assert deviation(agent) == pytest.approx(std, rel=0.05)
    agent.train_mode(0)
    if kind.startswith("sac"):  # losses are of the policy, never of the spread
        assert agent.distribution.std is None


@pytest.mark.parametrize("kind", ["td3", "sac"])
def test_a_changed_spread_acts_in_the_next_iteration(kind):
    agent = initialized(kind)
    agent.give_min_itr_learn(3)
    agent.pretrain_std = 0.1
    agent.sample_mode(1)
    assert deviation(agent) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("kind", AGENTS)
def test_recorded_actions_fill_the_space_and_stay_in_it(kind):
    agent = initialized(kind)
    agent.distribution.set_std(3.0)
    action, _ = agent.step(*inputs(2000))
    for i in range(A):
        assert action[:, i].min() >= LOW[i] and action[:, i].max() <= HIGH[i]
        reach = 0.02 * (HIGH[i] - LOW[i])
        assert action[:, i].min() < LOW[i] + reach and action[:, i].max() > HIGH[i] - reach


class Probe(nn.Module):
    """A critic that shows what it is given."""

    n_quantiles = 4  # numbers that it shows of each row

    def __init__(self, observation_shape, action_size):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))

    def forward(self, observation, prev_action, prev_reward, action):
        return torch.cat([prev_action, action], -1) + self.w


@pytest.mark.parametrize("kind", ["sac", "td3", "ddpg"])
def test_critics_see_actions_and_previous_ones_in_units(kind):
    agent = AGENTS[kind](q_model_kwargs={})
    agent.QModelCls = Probe
    agent.initialize(SPACES)
    agent.observation_only = False
    corners = torch.tensor([LOW, HIGH, tuple(CENTER.tolist())])
    units = torch.tensor([[-1.0, -1], [1, 1], [0, 0]])
    seen = agent.q(torch.zeros(3, 3), corners, torch.zeros(3), corners.flip(0))
    expected = torch.cat([units, units.flip(0)], -1)
    torch.testing.assert_close(seen, expected if kind == "ddpg" else torch.stack([expected] * 2))


def test_critics_that_look_at_previous_actions_see_units_whatever_the_policy_looks_at():
    """Policies of ours look at observations only; a user's critic may look further."""
    agent = AGENTS["ddpg"](q_model_kwargs={})
    agent.QModelCls = Probe
    agent.initialize(SPACES)
    corners = torch.tensor([LOW, HIGH])
    seen = agent.q(torch.zeros(2, 3), corners, torch.zeros(2), corners)
    assert seen.tolist() == [[-1] * 4, [1] * 4]


def test_likelihood_is_a_density_in_units_of_one():
    """Whatever the space's size: so target entropies mean the same everywhere."""
    found = []
    for low, high in ((-1, 1), (0, 100)):
        torch.manual_seed(0)
        agent = AGENTS["sac"]()
        agent.initialize(DriftEnv(low=[low] * A, high=[high] * A).spaces)
        torch.manual_seed(1)
        action, log_pi, _ = agent.pi(*inputs())
        found.append(((action - (low + high) / 2) / ((high - low) / 2), log_pi))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_gradients_reach_the_policy_through_its_actions():
    agent = initialized("sac")
    agent.train_mode(0)
    action, log_pi, _ = agent.pi(*inputs())
    assert action.requires_grad and log_pi.requires_grad
    agent.q(*inputs(), action).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in agent.model.parameters())
    action, log_pi, _ = agent.pi(*inputs(), reparameterize=False)
    assert not action.requires_grad and log_pi.requires_grad


def test_quantiles_and_many_critics():
    agent = shaken(
        "sac", n_critics=4, q_model_kwargs=dict(n_quantiles=6, layer_norm=True, **NARROW)
    )
    action = CENTER + HALF * torch.tanh(noise())
    assert agent.q(*inputs(), action).shape == (4, B, 6)
    assert agent.target_q(*inputs(), action).shape == (4, B, 6)
    assert len(agent.state_dict()) == 9
    plain = shaken("sac", n_critics=4, q_model_kwargs=dict(n_quantiles=6, **NARROW))
    expected = q_of(plain, "q3_model", inputs()[0], to_unit(action))
    torch.testing.assert_close(
        plain.q(*inputs(), action)[2].double(), expected, rtol=1e-4, atol=1e-5
    )


def test_targets_keep_their_dropout():
    agent = initialized("sac", q_model_kwargs=dict(dropout=0.5, **NARROW))
    action = CENTER.expand(B, A)
    assert not torch.equal(agent.target_q(*inputs(), action), agent.target_q(*inputs(), action))


# In samplers.


def collect(SamplerCls, agent, min_itr_learn=2):
    sampler = SamplerCls(
        EnvCls=DriftEnv, env_kwargs=dict(pays=True), batch_T=6, batch_B=4, max_decorrelation_steps=5
    )
    torch.manual_seed(5)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=11, final_observation=True)
    try:
        agent.give_min_itr_learn(min_itr_learn)  # after workers have started, as algorithms do
        out = []
        for itr in range(4):
            agent.sample_mode(itr)
            samples, infos = sampler.obtain_samples(itr)
            out.append(([x.numpy().copy() for x in leaves_of(samples)], len(infos)))
        return out
    finally:
        sampler.shutdown()


def assert_same(a, b):
    for (leaves, n), (others, m) in zip(a, b, strict=True):
        assert n == m
        for x, y in zip(leaves, others, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["td3", "sac"])
def test_same_batches_with_workers_warm_up_included(kind):
    wide = dict(td3=dict(pretrain_std="uniform"), sac=dict(pretrain_std=0.05))[kind]
    make = lambda **kw: AGENTS[kind](**wide, **kw)
    serial = collect(SerialSampler, make())
    assert_same(serial, collect(CpuSampler, make()))
    assert_same(serial, collect(SerialSampler, make(fast_acting=False)))
    other = collect(SerialSampler, make(), min_itr_learn=0)
    changed = [
        any(not np.array_equal(x, y) for x, y in zip(a, b)) for (a, _), (b, _) in zip(serial, other)
    ]
    assert changed[:2] == [True, True]


@pytest.mark.parametrize("kind", ["sac"])
def test_same_batches_from_an_action_server(kind):
    assert_same(collect(SerialSampler, AGENTS[kind]()), collect(GpuSampler, AGENTS[kind]()))


# Spaces and settings that do not fit.


@pytest.mark.parametrize("kind", AGENTS)
def test_spaces_without_bounds_are_refused(kind):
    spaces = DriftEnv(low=[-1, -np.inf], high=[1, np.inf]).spaces
    with pytest.raises(ValueError, match="component 1 .*RescaleAction"):
        AGENTS[kind]().initialize(spaces)


@pytest.mark.parametrize("kind", sorted(set(AGENTS) - {"sac"}))
def test_discrete_actions_are_refused_with_algorithms_that_take_them(kind):
    with pytest.raises(TypeError, match="ppo or a2c.*dqn"):
        AGENTS[kind]().initialize(CountEnv().spaces)


@pytest.mark.parametrize("kind", AGENTS)
def test_an_empty_range_is_refused(kind):
    spaces = DriftEnv()
    spaces._action_space = FloatBox([-1, 2], [1, 2])
    with pytest.raises(ValueError, match="empty range"):
        AGENTS[kind]().initialize(spaces.spaces)


@pytest.mark.parametrize(
    "kind, bad, message",
    [
        ("ddpg", dict(action_std=-1), "action_std"),
        ("ddpg", dict(action_std=float("nan")), "action_std"),
        ("ddpg", dict(action_noise_clip=0), "action_noise_clip"),
        ("ddpg", dict(n_critics=0), "n_critics"),
        ("td3", dict(pretrain_std=-0.1), "pretrain_std"),
        ("td3", dict(pretrain_std=math.inf), "pretrain_std=inf"),
        ("td3", dict(pretrain_std=None), '"uniform" .*TD3, got None'),
        ("ddpg", dict(action_std=math.inf), "action_std=inf"),
        ("td3", dict(pretrain_std="even"), "pretrain_std=.even."),
        ("td3", dict(target_noise_std=-0.1), "target_noise_std"),
        ("td3", dict(target_noise_clip=-0.1), "noise_clip"),
        ("td3", dict(n_critics=0), "n_critics"),
        ("sac", dict(action_squash=0), "action_squash"),
        ("sac", dict(action_squash=1.5), "action_squash"),
        ("sac", dict(pretrain_std=-1), "pretrain_std"),
        ("sac", dict(n_critics=1.5), "n_critics"),
    ],
)
def test_bad_settings_are_refused(kind, bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        initialized(kind, **bad)


def test_agents_pickle_before_they_are_initialized():
    for kind in AGENTS:
        assert type(pickle.loads(pickle.dumps(AGENTS[kind]()))).__name__ in (
            "DdpgAgent", "Td3Agent", "SacAgent",
        )  # fmt: skip
    assert Td3Agent().n_critics == SacAgent().n_critics == 2


class SharedEncoder(QofMuMlpModel):
    def __init__(self, *args, n_critics=None, **kwargs):
        super().__init__(*args, n_critics=n_critics, **kwargs)
        self.encoder = nn.Linear(5, 7)


@pytest.mark.parametrize(
    "kind,QModelCls,more,said",
    [
        ("td3", SharedEncoder, {}, r"encoder\.weight of shape \[7, 5\]"),
        (
            "sac",
            QofMuMlpModel,
            dict(nonlinearity=nn.PReLU),
            r"mlp\.model\.1\.weight",
        ),
        (
            "sac",
            QofMuMlpModel,
            dict(nonlinearity=lambda: nn.Softmax(-1)),
            "mixes .*elementwise",
        ),
    ],
)
def test_critics_in_one_model_must_be_independent(kind, QModelCls, more, said):
    agent = AGENTS[kind](q_model_kwargs=dict(hidden_sizes=[8], **more))
    agent.QModelCls = QModelCls
    with pytest.raises(ValueError, match=said):
        agent.initialize(SPACES)


def test_trying_out_leaves_no_trace():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    agent = AGENTS["sac"](q_model_kwargs=dict(hidden_sizes=[8], dropout=0.5))
    agent.initialize(SPACES)
    assert all(m.training for m in agent.q_model.modules())
    torch.manual_seed(3)
    with torch.random.fork_rng():
        agent._check_critics()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("kind", AGENTS)
def test_modes_reach_all_trained_networks_but_no_target(kind):
    agent = initialized(kind)
    networks = {"model": agent.model, **agent._networks()}
    for enter, training in ((agent.train_mode, True), (agent.eval_mode, False)):
        enter(0)
        for name, network in networks.items():
            expected = training and not name.startswith("target")
            assert all(m.training == expected for m in network.modules()), name


def test_a_policys_state_alone_may_be_given_by_its_name():
    policy = initialized("sac").state_dict()["model"]
    agent = AGENTS["sac"](initial_model_state_dict={"model": policy})
    agent.initialize(SPACES)
    for name, values in agent.state_dict()["model"].items():
        assert torch.equal(values, policy[name])
