"""A2C and PPO: targets on the closed-form environment, losses against plain definitions."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent, RecurrentCategoricalPgAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv, TruncationEnv
from rlpyt.errors import NonFiniteError, NonFiniteGradient
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

GAMMA, T, B = 0.9, 7, 4


class ConstantValueModel(torch.nn.Module):
    """Knows the true value of TruncationEnv."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(TruncationEnv.value(GAMMA), dtype=torch.float32))

    def forward(self, observation, prev_action, prev_reward):
        lead = prev_reward.shape
        return torch.full((*lead, 2), 0.5), self.w.expand(lead)


class TinyModel(torch.nn.Module):
    """A policy and a value that depend on observation, previous action and previous reward."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(2 + 3 + 1, 4)

    def forward(self, observation, prev_action, prev_reward):
        x = torch.cat([observation[..., 1:] / 5, prev_action, prev_reward[..., None] / 500], -1)
        out = self.linear(x)
        return torch.softmax(out[..., :3], -1), out[..., 3]


class TinyRnn(torch.nn.Module):
    """Recurrent variant of TinyModel, with a GRU."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = torch.nn.GRU(6, 5)
        self.head = torch.nn.Linear(5, 4)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        x = torch.cat([observation[..., 1:] / 5, prev_action, prev_reward[..., None] / 500], -1)
        single = x.dim() == 2
        out, state = self.rnn(x.unsqueeze(0) if single else x, init_rnn_state)
        out = self.head(out.squeeze(0) if single else out)
        return torch.softmax(out[..., :3], -1), out[..., 3], state


def sample(Agent, Model, algo, SamplerCls=SerialSampler, EnvCls=CountEnv, n=2, **kwargs):
    settings = dict(env_kwargs=dict(length=5), max_decorrelation_steps=0)
    sampler = SamplerCls(EnvCls=EnvCls, batch_T=T, batch_B=B, **{**settings, **kwargs})
    agent = Agent(ModelCls=Model)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=5, bootstrap_value=True)
    algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=sampler.mid_batch_reset)
    for itr in range(n):
        samples, _ = sampler.obtain_samples(itr)
    return sampler, samples


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("gae_lambda", [1, 0.95, 0])
def test_time_limits_are_bootstrapped_exactly(SamplerCls, Collector, gae_lambda):
    algo = A2C(discount=GAMMA, gae_lambda=gae_lambda)
    sampler, samples = sample(
        CategoricalPgAgent,
        ConstantValueModel,
        algo,
        SamplerCls,
        TruncationEnv,
        env_kwargs=dict(horizon=5),
        CollectorCls=Collector,
    )
    try:
        assert samples.env.done.any()
        return_, advantage, valid = algo.process_returns(samples)
        mask = torch.ones(T, B) if valid is None else valid
        truth = TruncationEnv.value(GAMMA)
        assert torch.allclose(return_[mask > 0], torch.tensor(truth), rtol=1e-5)
        assert advantage[mask > 0].abs().max() < 1e-4
        assert (valid is None) == sampler.mid_batch_reset
    finally:
        sampler.shutdown()


def plain_returns(samples, lam):
    """GAE by its definition as a sum over the future, episode by episode, in float64."""
    env, agent = samples.env, samples.agent
    r, d = env.reward.double().numpy(), env.done.numpy()
    v, tv = agent.agent_info.value.double().numpy(), agent.timeout_value.double().numpy()
    bootstrap = agent.bootstrap_value.double().numpy()[0]
    advantage = np.zeros((T, B))
    for b in range(B):
        for t in range(T):
            weight = 1.0
            for k in range(t, T):
                after = tv[k, b] if d[k, b] else bootstrap[b] if k == T - 1 else v[k + 1, b]
                advantage[t, b] += weight * (r[k, b] + GAMMA * after - v[k, b])
                if d[k, b]:
                    break
                weight *= GAMMA * lam
    return advantage, advantage + v


def plain_policy(model, samples):
    """Acting row by row, as the collector did: probabilities and values [T, B]."""
    pi, value = np.zeros((T, B, 3)), np.zeros((T, B))
    done, recurrent = samples.env.done, isinstance(model, TinyRnn)
    for b in range(B):
        state = None
        if recurrent:
            state = samples.agent.agent_info.prev_rnn_state[0, b].unsqueeze(1)  # [N, 1, H]
        for t in range(T):
            a, r = samples.agent.prev_action[t, b], samples.env.prev_reward[t, b]
            if t > 0 and done[t - 1, b]:
                a, r = torch.zeros_like(a), torch.zeros_like(r)
                state = None if state is None else torch.zeros_like(state)
            inputs = samples.env.observation[t, b], torch.nn.functional.one_hot(a, 3).float(), r
            with torch.no_grad():
                if recurrent:
                    p, v, state = model(*(x.unsqueeze(0) for x in inputs), state)
                else:
                    p, v = model(*(x.unsqueeze(0) for x in inputs))
            pi[t, b], value[t, b] = p[0].numpy(), v[0].item()
    return pi, value


AGENTS = [(CategoricalPgAgent, TinyModel), (RecurrentCategoricalPgAgent, TinyRnn)]


@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_training_sees_what_acting_saw(Agent, Model):
    sampler, samples = sample(Agent, Model, A2C())
    pi, value = plain_policy(sampler.agent.model, samples)
    info = samples.agent.agent_info
    assert samples.env.done[:-1].any()
    assert np.allclose(info.dist_info.prob, pi, atol=1e-6)
    assert np.allclose(info.value, value, atol=1e-5)


@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_a2c_loss_is_its_definition(Agent, Model):
    algo = A2C(discount=GAMMA, gae_lambda=0.8, value_loss_coeff=0.3, entropy_loss_coeff=0.07)
    sampler, samples = sample(Agent, Model, algo)
    samples.env.reward.div_(300)  # so that no part of the loss dominates
    loss, entropy, perplexity = algo.loss(samples)
    pi, value = plain_policy(sampler.agent.model, samples)
    advantage, return_ = plain_returns(samples, 0.8)
    action = samples.agent.action.numpy()
    log_pi = np.log(np.take_along_axis(pi, action[..., None], -1)[..., 0])
    H = -(pi * np.log(pi)).sum(-1)
    parts = -(log_pi * advantage).mean(), 0.15 * ((value - return_) ** 2).mean(), -0.07 * H.mean()
    assert max(map(abs, parts)) < 100 * min(map(abs, parts))
    assert loss.item() == pytest.approx(sum(parts), rel=1e-4)
    assert entropy.item() == pytest.approx(H.mean(), rel=1e-5)
    assert perplexity.item() == pytest.approx(np.exp(H).mean(), rel=1e-4)


@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_ppo_first_update_is_its_definition(Agent, Model):
    algo = PPO(
        discount=GAMMA, gae_lambda=0.8, minibatches=1, epochs=1, ratio_clip=0.2,
        value_loss_coeff=0.3, entropy_loss_coeff=0.07, linear_lr_schedule=False,
    )  # fmt: skip
    sampler, samples = sample(Agent, Model, algo)
    samples.env.reward.div_(300)  # so that no part of the loss dominates
    old = samples.agent.agent_info.dist_info.prob.double().numpy().copy()
    with torch.no_grad():
        for p in sampler.agent.parameters():
            p.add_(0.4 * torch.randn_like(p))
    pi, value = plain_policy(sampler.agent.model, samples)
    advantage, return_ = plain_returns(samples, 0.8)
    pick = samples.agent.action.numpy()[..., None]
    ratio = (np.take_along_axis(pi, pick, -1) / np.take_along_axis(old, pick, -1))[..., 0]
    assert (np.abs(ratio - 1) > 0.2).any() and (np.abs(ratio - 1) < 0.2).any()
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean()
    H = -(pi * np.log(pi)).sum(-1).mean()
    v_loss = 0.5 * ((value - return_) ** 2).mean()
    parts = -surrogate, 0.3 * v_loss, -0.07 * H
    assert max(map(abs, parts)) < 100 * min(map(abs, parts))
    info = algo.optimize_agent(0, samples)
    assert info.piLoss == [pytest.approx(-surrogate, rel=1e-4)]
    assert info.vLoss == [pytest.approx(v_loss, rel=1e-4)]
    assert info.entropy == [pytest.approx(H, rel=1e-4)] and algo.update_counter == 1
    assert info.loss == [pytest.approx(sum(parts), rel=1e-4)]


@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_likelihood_ratios_are_one_until_the_first_update(Agent, Model):
    """Minibatches of environments start from the states of these environments."""
    algo = PPO(minibatches=2)
    _, samples = sample(Agent, Model, algo)
    batch, state = algo.make_batch(samples), algo.initial_rnn_state(samples)
    assert state is None or len(state[0].unique(dim=0)) > 2
    for minibatch in algo._minibatches(batch, state):
        algo.loss(minibatch)
        ratio = algo.recorded.current["ratio"]
        ratio = ratio[~ratio.isnan()]  # without padding
        torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0, atol=1e-5)


def test_waiting_collector_masks_what_follows_a_done():
    algo = A2C(discount=GAMMA, gae_lambda=0.8)
    _, samples = sample(
        RecurrentCategoricalPgAgent, TinyRnn, algo, CollectorCls=CpuWaitResetCollector
    )
    _, _, valid = algo.process_returns(samples)
    done = samples.env.done.numpy()
    for b in range(B):
        first = int(np.argmax(done[:, b])) if done[:, b].any() else T
        assert valid[:, b].tolist() == [1.0 if t <= first else 0.0 for t in range(T)]
    before = algo.loss(samples)[0].item()
    samples.env.reward[valid == 0] = 1e6  # what nobody may look at
    samples.env.observation[valid == 0] = 1e3
    assert algo.loss(samples)[0].item() == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_every_sample_is_used_once_an_epoch(Agent, Model):
    algo = PPO(minibatches=2, epochs=3)
    _, samples = sample(Agent, Model, algo)
    batch, state = algo.make_batch(samples), algo.initial_rnn_state(samples)
    keys = samples.agent.action * 0 + torch.arange(T * B).reshape(T, B)
    batch = batch._replace(action=keys)
    orders = set()
    for _ in range(4):
        seen = [
            i
            for inputs in algo._minibatches(batch, state)
            for i in inputs.action[
                slice(None) if inputs.valid is None else inputs.valid > 0
            ].flatten().tolist()
        ]  # fmt: skip
        assert sorted(seen) == list(range(T * B))
        orders.add(tuple(seen))
    assert len(orders) > 1  # shuffled again in each epoch


def test_schedule_scales_learning_rate_and_clip():
    algo = PPO(learning_rate=0.01, ratio_clip=0.2, epochs=1, minibatches=1)
    _, samples = sample(CategoricalPgAgent, TinyModel, algo)
    algo.optimize_agent(5, samples)  # of 10
    assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.005)
    assert algo.ratio_clip == pytest.approx(0.1)


@pytest.mark.parametrize("algo", [A2C(), PPO(minibatches=1)], ids=["a2c", "ppo"])
def test_a_loss_that_is_not_finite_moves_nothing(algo):
    sampler, samples = sample(CategoricalPgAgent, TinyModel, algo)
    before = [p.detach().clone() for p in sampler.agent.parameters()]
    samples.env.reward[2, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="^the loss is nan"):
        algo.optimize_agent(3, samples)
    assert all(torch.equal(a, b) for a, b in zip(before, sampler.agent.parameters()))


def test_not_finite_gradient_names_the_parameter():
    from rlpyt.algos.optim import GradientStep

    a, b = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(3))
    step = GradientStep([a, b], torch.optim.Adam, 0.1, None, 1.0, names={a: "pi.0.weight"})
    with pytest.raises(NonFiniteGradient, match=r"gradient .* pi\.0\.weight"):
        step(a.abs().sqrt().sum() + b.sum())


def test_an_overflowing_gradient_norm_is_named():
    from rlpyt.algos.optim import GradientStep

    p = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(NonFiniteGradient, match="norm.* overflows"):
        GradientStep([p], torch.optim.SGD, 0.5)((p * 1e30).sum())


def test_gradient_step_clips_and_steps():
    from rlpyt.algos.optim import GradientStep

    p = torch.nn.Parameter(torch.zeros(2))
    norm = GradientStep([p], torch.optim.SGD, 0.5, None, 1.0)(p @ torch.tensor([3.0, 4.0]))
    assert norm.item() == pytest.approx(5.0)
    assert p.tolist() == pytest.approx([-0.3, -0.4])


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(learning_rate=0), ValueError, "learning_rate=0"),
        (dict(learning_rate=float("nan")), ValueError, "learning_rate=nan"),
        (dict(discount=1.5), ValueError, "discount=1.5"),
        (dict(gae_lambda=-0.1), ValueError, "gae_lambda=-0.1"),
        (dict(ratio_clip=0.0), ValueError, "ratio_clip=0.0"),
        (dict(minibatches=0), ValueError, "minibatches=0"),
        (dict(epochs=1.5), TypeError, "epochs=1.5"),
        (dict(discount="0.9"), TypeError, "discount='0.9'"),
    ],
)
def test_bad_hyperparameters_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        PPO(**kwargs)


@pytest.mark.parametrize(
    "Agent,Model,pieces",
    [(CategoricalPgAgent, TinyModel, "28: each epoch has 3 minibatches of 9 and leaves out 1"),
     (RecurrentCategoricalPgAgent, TinyRnn, r"4: each epoch has 4 minibatches of 1\. Use")],
)  # fmt: skip
def test_minibatches_that_do_not_divide_the_batch_leave_out_the_remainder(Agent, Model, pieces):
    algo = PPO(minibatches=3, epochs=2)
    with pytest.warns(UserWarning, match=f"minibatches=3 .* = {pieces}"):
        _, samples = sample(Agent, Model, algo)
    algo.optimize_agent(0, samples)
    assert algo.update_counter == 2 * (3 if Agent is CategoricalPgAgent else 4)
    assert algo._batch_size == (9 if Agent is CategoricalPgAgent else T)
    with pytest.raises(ValueError, match="minibatches=29"):
        sample(Agent, Model, PPO(minibatches=29))


def test_unknown_optimizer_argument_is_named():
    with pytest.raises(TypeError, match="Adam .*momentum"):
        sample(CategoricalPgAgent, TinyModel, A2C(optim_kwargs=dict(momentum=0.9)))


def test_agents_without_values_of_states_are_refused():
    with pytest.raises(TypeError, match="value.* PPO, got DqnMlpAgent"):
        PPO().initialize(DqnMlpAgent(), 10, (4, 2))


def test_state_dict_goes_on_as_if_never_stopped():
    def run(stop_after):
        algo = PPO(minibatches=2, epochs=2)
        sampler, samples = sample(CategoricalPgAgent, TinyModel, algo)
        for itr in range(4):
            np.random.seed(itr)
            algo.optimize_agent(itr, samples)
            if itr == stop_after:
                saved = algo.state_dict(), sampler.agent.state_dict()
                algo = PPO(minibatches=2, epochs=2)
                algo.initialize(sampler.agent, 10, sampler.batch_spec, mid_batch_reset=True)
                algo.load_state_dict(saved[0])
                sampler.agent.load_state_dict(saved[1])
        return sampler.agent.state_dict(), algo.update_counter

    (a, n), (b, m) = run(stop_after=None), run(stop_after=1)
    assert n == m == 16
    assert all(torch.equal(a[k], b[k]) for k in a)
