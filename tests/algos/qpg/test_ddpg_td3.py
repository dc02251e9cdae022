"""DDPG and TD3: losses, updates and targets against plain definitions."""

from contextlib import nullcontext

import pytest
import torch

from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.models.qpg.mlp import QofMuMlpModel
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    HALF,
    SMALL,
    A,
    B,
    ContinuousTruncationEnv,
    DriftEnv,
    Knowing,
    T,
    Telling,
    assert_same_state,
    feed,
    fill,
    level,
    mu_of,
    one_update,
    prepared,
    q_of,
    ranked,
    sampled,
    standalone,
    to_unit,
)

ALGOS = {"ddpg": DDPG, "td3": TD3, "sac": SAC, "sac_v": SAC_V}


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("limit", [1e6, 4.0])
def test_ddpg_critic_loss_is_its_definition(prioritized, n_step, limit):
    algo = DDPG(
        discount=0.9, prioritized_replay=prioritized, n_step_return=n_step, q_target_clip=limit,
        **SMALL,
    )  # fmt: skip
    agent = AGENTS["ddpg"]()
    batch = sampled(algo, agent)
    if prioritized:
        batch = ranked(algo, batch)
    batch.return_[::2] *= -1  # for targets below minus the limit
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    q = q_of(agent, "q_model", seen, to_unit(batch.action))
    next_q = q_of(agent, "target_q_model", after, mu_of(agent, "target_model", after))
    losses, apart, limited = [], [], set()
    for b in range(30):
        y = float(batch.return_[b]) + float(batch.discount_n[b]) * float(next_q[b])
        limited |= {y > 0} if abs(y) > limit else set()
        y = min(max(y, -limit), limit)
        weight = float(batch.is_weights[b]) if prioritized else 1.0
        losses.append(weight * 0.5 * (y - float(q[b])) ** 2)
        apart.append(abs(y - float(q[b])))
    assert algo.q_loss(batch).item() == pytest.approx(sum(losses) / 30, rel=1e-4)
    assert algo.recorded.current["tdAbsErr"].tolist() == pytest.approx(apart, rel=1e-3, abs=1e-4)
    assert limited == ({True, False} if limit == 4.0 else set())
    valid = torch.zeros(30)
    valid[[3, 8]] = 1
    assert algo.q_loss(batch, valid).item() == pytest.approx((losses[3] + losses[8]) / 2, rel=1e-4)
    assert not prioritized or len(set(batch.is_weights.tolist())) > 3


@pytest.mark.parametrize("kind", ["ddpg", "td3"])
def test_policy_loss_is_minus_the_first_critics_value(kind):
    algo, agent = ALGOS[kind](**SMALL), AGENTS[kind]()
    batch = sampled(algo, agent)
    seen = batch.agent_inputs.observation
    name = "q_model" if kind == "ddpg" else "q1_model"
    expected = -q_of(agent, name, seen, mu_of(agent, "model", seen)).mean()
    loss = algo.mu_loss(batch)
    assert loss.item() == pytest.approx(float(expected), rel=1e-5)
    if kind == "td3":
        other = -q_of(agent, "q2_model", seen, mu_of(agent, "model", seen)).mean()
        assert abs(float(other - expected)) > 1e-3
    valid = torch.zeros(30)
    valid[[3, 8]] = 1
    two = -q_of(agent, name, seen, mu_of(agent, "model", seen))[[3, 8]].mean()
    assert algo.mu_loss(batch, valid).item() == pytest.approx(float(two), rel=1e-4)


@pytest.mark.parametrize("noise_clip", [None, 0.3])
def test_td3_target_is_the_lesser_critic_at_a_smoothed_action(noise_clip):
    algo = TD3(discount=0.9, n_step_return=2, **SMALL)
    agent = AGENTS["td3"](target_noise_std=0.6, target_noise_clip=noise_clip)
    batch = sampled(algo, agent)
    level(agent, batch)
    with torch.no_grad():  # so that noise leads out of the bounds
        agent.target_model.mlp.model[-1].bias += 1.5
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    torch.manual_seed(4)
    loss, apart = algo.q_loss(batch), algo.recorded.current["tdAbsErr"]
    torch.manual_seed(4)
    noise = 0.6 * torch.randn(30, A).double()
    mu = mu_of(agent, "target_model", after)
    total, plain_apart, lesser, limited, outside = 0.0, [], [], 0, 0
    for b in range(30):
        action = torch.zeros(A).double()
        for i in range(A):
            n = float(noise[b, i])
            limited += noise_clip is not None and abs(n) > noise_clip
            n = n if noise_clip is None else min(max(n, -noise_clip), noise_clip)
            outside += abs(float(mu[b, i]) + n) > 1
            action[i] = min(max(float(mu[b, i]) + n, -1), 1)
        next_q = [float(q_of(agent, f"target_q{i}_model", after[b], action)) for i in (1, 2)]
        lesser.append(next_q[0] < next_q[1])
        y = float(batch.return_[b]) + float(batch.discount_n[b]) * min(next_q)
        delta = [
            y - float(q_of(agent, f"q{i}_model", seen[b], to_unit(batch.action[b]))) for i in (1, 2)
        ]
        total += sum(0.5 * d * d for d in delta) / 30
        plain_apart.append(sum(map(abs, delta)) / 2)
    assert loss.item() == pytest.approx(total, rel=1e-4)
    assert apart.tolist() == pytest.approx(plain_apart, rel=1e-3, abs=1e-4)
    assert {True, False} == set(lesser) and (limited > 0) == (noise_clip is not None)
    assert 0 < outside < 30 * A


@pytest.mark.parametrize("kind", ["ddpg", "td3"])
def test_updates_are_those_of_separate_optimizers(kind):
    """The critics move first; the policy then climbs the critic as it has become."""
    settings = dict(
        discount=0.9, learning_rate=1e-2, q_learning_rate=3e-2, clip_grad_norm=0.5,
        target_update_tau=0.1,
    )  # fmt: skip
    algo = ALGOS[kind](**settings, **SMALL)
    agent = AGENTS[kind](**(dict(target_noise_std=0.3) if kind == "td3" else {}))
    fill(algo, prepared(algo, agent))
    batches = [algo.replay_buffer.sample_batch(16) for _ in range(5)]
    mu, q = standalone(agent.model), standalone(agent.q_model)
    target_mu, target_q = standalone(agent.target_model), standalone(agent.target_q_model)
    mu_optimizer = torch.optim.Adam(mu.parameters(), lr=1e-2)
    q_optimizer = torch.optim.Adam(q.parameters(), lr=3e-2)
    interval = 1 if kind == "ddpg" else 2
    torch.manual_seed(0)
    for n, batch in enumerate(batches, start=1):
        seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
        with torch.no_grad():
            action = target_mu(after)
            if kind == "td3":
                noise = (0.3 * torch.randn_like(action)).clamp(-0.5, 0.5)
                action = (action + noise).clamp(-1, 1)
            next_q = target_q(after, None, None, action)
            y = batch.return_ + batch.discount_n * (next_q if kind == "ddpg" else next_q.amin(0))
        values = q(seen, None, None, to_unit(batch.action).float())
        losses = 0.5 * (y - values) ** 2
        loss = losses.mean() if kind == "ddpg" else losses.mean(-1).sum()
        q_optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(q.parameters(), 0.5)
        q_optimizer.step()
        if n % interval == 0:
            value = q(seen, None, None, mu(seen))
            mu_optimizer.zero_grad()
            (-(value if kind == "ddpg" else value[0]).mean()).backward()
            torch.nn.utils.clip_grad_norm_(mu.parameters(), 0.5)
            mu_optimizer.step()
        if n % interval == 0:  # of the targets, by default the same
            with torch.no_grad():
                for target, network in ((target_mu, mu), (target_q, q)):
                    for a, b in zip(target.parameters(), network.parameters()):
                        a.copy_(0.9 * a + 0.1 * b)
    feed(algo, batches)
    torch.manual_seed(0)
    for _ in range(5):
        one_update(algo)
    close = dict(rtol=1e-4, atol=2e-5)
    assert_same_state(dict(agent.model.state_dict()), dict(mu.state_dict()), **close)
    assert_same_state(dict(agent.q_model.state_dict()), dict(q.state_dict()), **close)
    assert_same_state(dict(agent.target_model.state_dict()), dict(target_mu.state_dict()), **close)
    assert_same_state(dict(agent.target_q_model.state_dict()), dict(target_q.state_dict()), **close)


def test_policy_and_targets_move_at_their_own_intervals():
    algo = TD3(policy_update_interval=3, target_update_interval=2, **SMALL)
    agent = AGENTS["td3"]()
    fill(algo, prepared(algo, agent))
    moved = []
    before = agent.state_dict()
    before = {k: {n: v.clone() for n, v in s.items()} for k, s in before.items()}
    for itr in range(6):
        info = one_update(algo)
        after = agent.state_dict()
        changed = {
            k for k in after if any(not torch.equal(after[k][n], before[k][n]) for n in after[k])
        }
        moved.append(changed)
        assert [len(column) for column in info] == [int(itr % 3 == 2), 1] * 2 + [1, 1]
        before = {k: {n: v.clone() for n, v in s.items()} for k, s in after.items()}
    assert all({"q1_model", "q2_model"} <= changed for changed in moved)
    assert [("model" in changed) for changed in moved] == [False, False, True] * 2
    assert [("target_q1_model" in changed) for changed in moved] == [False, True] * 3


def test_policys_step_leaves_the_critic_alone():
    algo = DDPG(**SMALL)
    agent = AGENTS["ddpg"]()
    fill(algo, prepared(algo, agent))
    one_update(algo)
    assert all(p.requires_grad for p in agent.q_model.parameters())
    batch = algo.replay_buffer.sample_batch(16)
    algo.steps["q"](algo.q_loss(batch))
    gradients = [p.grad.clone() for p in agent.q_model.parameters()]
    feed(algo, [batch])
    algo.steps["q"] = lambda loss: torch.zeros(())
    one_update(algo)
    assert all(
        torch.equal(p.grad, g) for p, g in zip(agent.q_model.parameters(), gradients, strict=True)
    )


@pytest.mark.parametrize("kind", ["ddpg", "td3", "sac", "sac_v"])
def test_priorities_are_mean_absolute_errors(kind):
    algo = ALGOS[kind](prioritized_replay=True, n_step_return=2, **SMALL)
    agent = AGENTS[kind]()
    fill(algo, prepared(algo, agent))
    batch = algo.replay_buffer.sample_batch(16)
    feed(algo, [batch])
    torch.manual_seed(2)
    apart = errors_of(algo, kind, batch)
    given = []
    algo.replay_buffer.update_batch_priorities = lambda p, ticket: given.append((p, ticket))
    torch.manual_seed(2)
    one_update(algo)
    torch.testing.assert_close(given[0][0], apart + 1e-6)
    assert given[0][1] is batch.ticket
    assert algo.new_priority == pytest.approx(max(1.0, float(given[0][0].max())))


# Truncation, end to end: sampler, replay, target.


def errors_of(algo, kind, batch):
    """|y - Q(s, a)|, [B]."""
    results = algo.q_loss(batch)
    return algo.recorded.current["tdAbsErr"] if kind in ("ddpg", "td3") else results[2]


def with_model(kind, Model):
    agent = AGENTS[kind](q_model_kwargs={})
    agent.QModelCls = Model
    if kind == "sac_v":
        agent.VModelCls, agent.v_model_kwargs = Model, {}
    return agent


def algorithm(kind, **kwargs):
    if kind == "sac":
        kwargs["fixed_alpha"] = 0.0
    return ALGOS[kind](**{**SMALL, **kwargs})


def reset_targets(agent):
    for name in ("q_model", "model", "v_model"):
        target = getattr(agent, f"target_{name}", None)
        if target is not None:
            target.load_state_dict(getattr(agent, name).state_dict())


@pytest.mark.parametrize("n_step", [1, 3, 7])
@pytest.mark.parametrize("kind", ALGOS)
def test_truncated_episodes_are_worth_what_would_have_followed(kind, n_step):
    """If the critic knows the value without time limits, no transition has an error."""
    for terminate in (False, True):
        algo = algorithm(kind, discount=0.9, n_step_return=n_step)
        agent = with_model(kind, Knowing)
        env = dict(horizon=5, terminate=terminate)
        sampler = prepared(algo, agent, ContinuousTruncationEnv, env)
        reset_targets(agent)
        fill(algo, sampler)
        batch = algo.replay_buffer.sample_batch(200)
        errors = errors_of(algo, kind, batch)
        ends = batch.discount_n == 0
        assert (errors[~ends] < 2e-5).all() and ends.any() == terminate
        if terminate:
            rewards = torch.log(1 - batch.return_[ends] * 0.1) / torch.tensor(0.9).log()
            torch.testing.assert_close(errors[ends], 10 * 0.9**rewards, rtol=0, atol=1e-3)


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", ALGOS)
def test_targets_go_on_from_the_true_final_observation(kind, n_step, bootstrap):
    """Every target, worked out from the rules of the environment."""
    algo = algorithm(kind, discount=0.9, n_step_return=n_step, bootstrap_timelimit=bootstrap)
    agent = with_model(kind, Telling)
    sampler = prepared(algo, agent)
    reset_targets(agent)
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(300)
    errors = errors_of(algo, kind, batch)
    kinds = set()
    for b in range(300):
        rank, episode, t = (round(float(x) * 5) for x in batch.agent_inputs.observation[b])
        length = 1 + (episode + rank + 4) % 5
        y, weight = 0.0, 1.0
        end = min(t + n_step, length)
        for k in range(t, end):
            y += weight * (episode + 0.1 * (k + 1))
            weight *= 0.9
        over, truncated = end == length, episode % 2 == 1
        if not over or (truncated and bootstrap):
            y += weight * (2 * rank + 7 * episode + 1.5 * end)
        kinds.add((over, truncated, end - t))
        q = 2 * rank + 7 * episode + 1.5 * t
        assert float(errors[b]) == pytest.approx(abs(y - q), abs=2e-3)
    assert {(True, True, 1), (True, False, 1), (False, True, n_step)} <= kinds


def test_actions_in_replay_are_in_the_spaces_units_and_critics_see_theirs():
    algo = DDPG(**SMALL)
    agent = AGENTS["ddpg"](action_std=3.0)
    seen = []

    class Watching(Telling):
        def forward(self, observation, prev_action, prev_reward, action):
            seen.append(action.detach())
            return super().forward(observation) + 0 * action.sum(-1)

    agent.QModelCls, agent.q_model_kwargs = Watching, {}
    batch = sampled(algo, agent, n=100, env_kwargs=dict(pays=True))
    assert batch.action.shape == (100, A)
    algo.q_loss(batch)
    given = seen[-1]
    torch.testing.assert_close(given, to_unit(batch.action).float())
    assert given.amin() >= -1 and given.amax() <= 1
    for i in range(A):
        assert given[:, i].amin() < -0.99 and given[:, i].amax() > 0.99
    assert batch.action[:, 1].amin() >= 0 and (batch.action.amax(0) <= 2 * HALF).all()


def test_when_and_how_often_it_learns():
    algo = DDPG(
        min_steps_learn=3 * T * B, replay_size=1000, batch_size=16, replay_ratio=2,
        target_update_interval=4,
    )  # fmt: skip
    agent = AGENTS["ddpg"]()
    sampler = prepared(algo, agent)
    assert algo.updates_per_optimize == 3 and agent.min_itr_learn == algo.min_itr_learn == 3
    for itr in range(5):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        info = algo.optimize_agent(itr, samples)
        assert [len(column) for column in info] == [3 if itr >= 3 else 0] * 6
        assert info._fields == algo.opt_info_fields
    assert algo.update_counter == 6


GOOD = dict(min_steps_learn=2 * T * B, replay_size=1000, batch_size=16)


@pytest.mark.parametrize("name", ALGOS)
@pytest.mark.parametrize(
    "bad, message",
    [
        (dict(learning_rate=0), "learning_rate=0"),
        (dict(learning_rate=-1e-3), "learning_rate"),
        (dict(learning_rate=float("nan")), "learning_rate=nan"),
        (dict(learning_rate="fast"), "learning_rate"),
        (dict(discount=1.1), "discount=1.1"),
        (dict(discount=-0.1), "discount"),
        (dict(target_update_tau=0), "target_update_tau=0"),
        (dict(target_update_tau=1.5), "target_update_tau"),
        (dict(target_update_interval=0), "target_update_interval"),
        (dict(min_steps_learn=-1), "min_steps_learn"),
        (dict(replay_ratio=0), "replay_ratio=0"),
        (dict(n_step_return=0), "n_step_return=0"),
        (dict(batch_size=0), "batch_size=0"),
        (dict(batch_size=1.5), "batch_size=1.5"),
        (dict(pri_alpha=-1), "pri_alpha=-1"),
        (dict(pri_beta_init=1.1), "pri_beta_init=1.1"),
        (dict(pri_beta_final=2), "pri_beta_final=2"),
        (dict(pri_beta_steps=0), "pri_beta_steps=0"),
        (dict(policy_update_interval=0), "policy_update_interval"),
        (dict(clip_grad_norm=0), "clip_grad_norm=0"),
        (dict(optim_kwargs=dict(lr=1)), "lr"),
        (dict(save_replay=3), "save_replay"),
        (dict(prioritized_replay="no"), "prioritized_replay='no'"),
        (dict(bootstrap_timelimit=None), "bootstrap_timelimit=None"),
        (dict(mixed_precision="bfloat16"), "mixed_precision='bfloat16'"),
        (dict(compile_loss="false"), "compile_loss='false'"),
    ],
)
def test_bad_settings_are_refused_at_construction(name, bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ALGOS[name](**{**GOOD, **bad})


@pytest.mark.parametrize("Algo", [DDPG, TD3])
@pytest.mark.parametrize(
    "bad",
    [
        dict(q_learning_rate=0),
        dict(q_learning_rate=float("nan")),
        dict(q_target_clip=0),
    ],
)
def test_bad_settings_of_deterministic_policies_are_refused(Algo, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Algo(**bad)


@pytest.mark.parametrize(
    "Algo, name",
    [
        (DDPG, "learning_rate"),
        (DDPG, "q_learning_rate"),
        (TD3, "q_learning_rate"),
        (TD3, "mu_learning_rate"),
    ],
)
def test_large_learning_rates_are_warned_of_by_the_names_they_came_by(Algo, name):
    with pytest.warns(UserWarning) as found:
        Algo(**{name: 2.0})
    assert [str(w.message) for w in found] == [f"{name}=2.0 is unusually large."]


def test_losses_of_2019_get_a_mask_of_none():
    class Old(DDPG):
        def q_loss(self, samples, valid):
            assert valid is None
            return super().q_loss(samples, valid)

    class OldTd3(Old, TD3):
        pass

    for Algo, kind in ((Old, "ddpg"), (OldTd3, "td3")):
        states = []
        for made in (Algo, ALGOS[kind]):
            agent, algo = AGENTS[kind](), made(**SMALL)
            told = pytest.warns(UserWarning, match="q_loss gets valid=None, as in rlpyt")
            with told if made is Algo else nullcontext():
                sampler = prepared(algo, agent)
            fill(algo, sampler)
            algo.update_counter = 1
            one_update(algo)
            states.append(agent.state_dict())
        assert_same_state(*states)


def test_td3s_policy_learns_at_its_own_rate():
    with pytest.raises(ValueError, match="^mu_learning_rate=0"):
        TD3(mu_learning_rate=0)
    with pytest.raises(ValueError, match="^learning_rate=0.01 and mu_learning_rate"):
        TD3(mu_learning_rate=0.02, learning_rate=0.01)
    assert TD3(mu_learning_rate=0.02, learning_rate=0.02).learning_rate == 0.02
    algo = TD3(mu_learning_rate=0.02, q_learning_rate=0.03, **SMALL)
    prepared(algo, AGENTS["td3"]())
    rates = {k: s.optimizer.param_groups[0]["lr"] for k, s in algo.steps.items()}
    assert rates == {"mu": 0.02, "q": 0.03}


@pytest.mark.parametrize("kind", ALGOS)
def test_a_run_too_short_to_learn_is_warned_of(kind):
    algo = ALGOS[kind](**{**GOOD, "min_steps_learn": 30 * T * B})
    with pytest.warns(UserWarning, match="never learns.*min_steps_learn"):
        prepared(algo, AGENTS[kind](), n_itr=30)


@pytest.mark.parametrize("kind", ALGOS)
def test_samplers_that_wait_with_resets_are_learnt_from_without_void_rows(kind):
    algo = ALGOS[kind](**SMALL)
    wait = dict(CollectorCls=CpuWaitResetCollector, env_kwargs=dict(length=3, fixed=True))
    sampler = prepared(algo, AGENTS[kind](), **wait)
    for itr in range(5):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert algo.update_counter > 0 and algo.replay_buffer.ring.void.any()
    drawn = algo.replay_buffer.sample_batch(200).agent_inputs.observation
    assert (drawn != 0).any(-1).all()


@pytest.mark.parametrize("kind", ["ddpg", "td3", "sac_v"])
def test_quantiles_are_refused_where_they_cannot_be_learnt(kind):
    agent = AGENTS[kind](q_model_kwargs=dict(hidden_sizes=[8], n_quantiles=5))
    with pytest.raises(ValueError, match="quantiles"):
        prepared(ALGOS[kind](**SMALL), agent)


class QuantileCritic(QofMuMlpModel):
    """A user's, which says how many quantiles it gives, and takes no argument for it."""

    def __init__(self, observation_shape, action_size, hidden_sizes):
        super().__init__(observation_shape, hidden_sizes, action_size, n_quantiles=5)


@pytest.mark.parametrize("kind", ALGOS)
def test_critics_say_themselves_how_many_quantiles_they_give(kind):
    agent = AGENTS[kind]()
    agent.QModelCls = QuantileCritic
    if kind != "sac":
        with pytest.raises(ValueError, match="n_quantiles=5"):
            prepared(ALGOS[kind](**SMALL), agent)
        return
    algo = ALGOS[kind](n_drop_quantiles=2, **SMALL)
    fill(algo, prepared(algo, agent))
    assert agent.n_quantiles == 5 and one_update(algo)


def test_drift_env_is_what_it_says():
    env = DriftEnv()
    env.seed(7)
    assert env.reset().tolist() == pytest.approx([0.4, 0.0, 0.0])
    step = env.step(torch.zeros(A).numpy())
    assert step.observation.tolist() == pytest.approx([0.4, 0.0, 0.2])
