"""PPO: options and statistics, against closed forms and plain definitions."""

import functools
import math

import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
from rlpyt.algos.pg import losses
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.toy import DelayEnv
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import with_fields
from rlpyt.utils.seed import set_seed

T, B = 6, 4
NAN = math.nan


def ready(algo, recurrent=False, waiting=False):
    """Initialize an algorithm; return it with a batch of samples."""
    agent = CategoricalLstmAgent() if recurrent else CategoricalMlpAgent()
    collector = dict(CollectorCls=CpuWaitResetCollector) if waiting else {}
    sampler = SerialSampler(EnvCls=DelayEnv, env_kwargs={}, batch_T=T, batch_B=B, **collector)
    set_seed(1)
    examples = sampler.initialize(agent, seed=5, bootstrap_value=True)
    algo.initialize(agent, 10, sampler.batch_spec, not waiting, examples)
    agent.sample_mode(0)
    set_seed(2)
    samples, _ = sampler.obtain_samples(0)
    agent.train_mode(0)
    return algo, samples


def test_kl_terms_estimate_the_divergence_without_bias():
    old, new = torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.4, 0.4, 0.2])
    expected = sum(p * math.log(p / q) for p, q in zip(old.tolist(), new.tolist()))
    terms = losses.kl_terms(new / old)
    assert (old * terms).sum().item() == pytest.approx(expected, rel=1e-5)
    assert (terms >= 0).all() and losses.kl_terms(torch.ones(1)).item() == 0


def test_clipped_ratios_are_counted_on_both_sides():
    ratio = torch.tensor([[0.85, 0.95, 1.0], [1.05, 1.15, NAN]])
    assert losses.is_clipped(ratio, 0.1).nanmean(1).tolist() == pytest.approx([1 / 3, 1 / 2])


def test_explained_variance_of_known_errors():
    return_ = torch.tensor([[1.0, 2.0], [3.0, 4.0], [50.0, 6.0]])
    valid = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    explained = losses.explained_variance
    assert explained(return_ - 7, return_, None).item() == 1
    assert explained(torch.zeros(3, 2), return_, valid).item() == 0
    error = torch.tensor([[1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])  # variance 1, of returns 5/4
    assert explained(return_ + error, return_, valid).item() == pytest.approx(1 - 4 / 5)
    assert math.isnan(explained(error, torch.ones(3, 2), None).item())


def test_a_clipped_value_loss_is_the_larger_of_two():
    value = torch.tensor([0.0, 0.5, 1.0, 5.0], requires_grad=True)
    old, return_ = torch.zeros(4), torch.tensor([1.0, 1.0, 2.0, 1.0])
    loss = losses.clipped_value_loss(value, old, return_, 0.2, None)
    expected = [1.0, 0.8**2, 1.8**2, 4.0**2]  # the last: its clipped value is closer
    assert loss.item() == pytest.approx(sum(expected) / 8)
    loss.backward()
    assert value.grad.tolist() == pytest.approx([-0.25, 0, 0, 1.0])
    wide = losses.clipped_value_loss(value, old, return_, 9.0, None)
    assert wide.item() == losses.value_loss(value, return_, None).item()


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("waiting", [False, True])
def test_statistics_follow_their_definitions(recurrent, waiting):
    settings = dict(minibatches=2, epochs=2, ratio_clip=0.005, linear_lr_schedule=False)
    algo, samples = ready(PPO(**settings, learning_rate=0.02), recurrent, waiting)
    seen, loss = [], algo.loss

    def watched(batch):
        advantage, return_, valid = batch.advantage, batch.return_, batch.valid
        with torch.no_grad():
            state = [batch.init_rnn_state] if recurrent else []
            dist_info, value, *_ = algo.agent(*batch.agent_inputs, *state)
        log_likelihood = functools.partial(algo.agent.distribution.log_likelihood, batch.action)
        kept = slice(None) if valid is None else valid > 0
        log_ratio = log_likelihood(dist_info) - log_likelihood(batch.old_dist_info)
        ratio, log_ratio = log_ratio.exp()[kept], log_ratio[kept]
        gains = torch.min(ratio * advantage[kept], ratio.clamp(0.995, 1.005) * advantage[kept])
        seen.append({
            "approxKL": (ratio - 1 - log_ratio).mean().item(),
            "clipFraction": ((ratio > 1.005) | (ratio < 0.995)).float().mean().item(),
            "piLoss": -gains.mean().item(),
            "vLoss": ((value - return_)[kept] ** 2).mean().item() / 2,
        })  # fmt: skip
        return loss(batch)

    algo.loss = watched
    info = algo.optimize_agent(0, samples)
    assert len(seen) == 4 and info._fields == PPO.opt_info_fields
    for name in seen[0]:
        expected = [update[name] for update in seen]
        assert getattr(info, name) == pytest.approx(expected, rel=1e-3, abs=1e-6), name
    assert info.approxKL[-1] > 0 and max(info.clipFraction) > 0
    return_, _, valid = algo.process_returns(samples)
    value = samples.agent.agent_info.value
    expected = losses.explained_variance(value, return_, valid).item()
    assert info.explainedVariance == pytest.approx([expected], nan_ok=True)
    assert algo.statistics() == {"LearningRate": 0.02}


def test_a_compiled_loss_records_the_same_and_is_compiled_once(monkeypatch):
    trace = functools.partial(torch.compile, backend="eager")  # needs no C++ compiler
    monkeypatch.setattr(torch, "compile", lambda function, options: trace(function))
    found, settings = [], dict(epochs=2, minibatches=2)
    for compiled in (None, "loss"):
        algo, samples = ready(PPO(linear_lr_schedule=False, compile=compiled, **settings))
        with torch._dynamo.config.patch(error_on_recompile=True):
            found.append([algo.optimize_agent(itr, samples) for itr in range(2)])
        torch.compiler.reset()
    for plain, own in zip(*found, strict=True):
        assert len(plain.piLoss) == 4 and len(plain.explainedVariance) == 1
        for expected, values in zip(plain, own, strict=True):
            assert values == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("Algo", [A2C, VTrace])
def test_other_policy_gradients_log_their_losses_apart(Algo):
    algo, samples = ready(Algo(learning_rate=0.02))
    info = algo.optimize_agent(0, samples)
    total = info.piLoss[0] + 0.5 * info.vLoss[0] - 0.01 * info.entropy[0]
    assert info.loss == pytest.approx([total]) and len(info.explainedVariance) == 1
    if Algo is VTrace:
        assert info.approxKL == pytest.approx([0], abs=1e-6)
        assert algo.optimize_agent(1, samples).approxKL[0] > 1e-6


@pytest.mark.parametrize("Algo", [A2C, PPO, VTrace])
def test_the_first_gradient_is_that_of_the_plain_policy_gradient(Algo):
    """Log-likelihoods, values and entropies have gradients, advantages and returns have none."""
    once = dict(minibatches=1, epochs=1) if Algo is PPO else {}
    algo, samples = ready(Algo(value_loss_coeff=0.3, entropy_loss_coeff=0.2, **once))
    parameters, gradients = [*algo.agent.parameters()], []
    algo.gradient_step = lambda loss: (
        gradients.extend(torch.autograd.grad(loss, parameters)) or loss
    )
    algo.optimize_agent(0, samples)
    (prob,), value = algo.agent(*algo.agent_inputs(samples))
    return_, advantage, _ = algo.process_returns(samples)
    log_pi = prob.gather(-1, samples.agent.action.unsqueeze(-1)).squeeze(-1).log()
    entropy = -(prob * prob.log()).sum(-1)
    loss = -(log_pi * advantage) + 0.15 * (value - return_) ** 2 - 0.2 * entropy
    expected = torch.autograd.grad(loss.mean(), parameters)
    for own, plain in zip(gradients, expected, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-3, atol=1e-6)


def test_epochs_end_when_the_policy_has_moved_too_far():
    settings = dict(minibatches=2, epochs=8, learning_rate=0.05, linear_lr_schedule=False)
    free, samples = ready(PPO(**settings))
    kls = free.optimize_agent(0, samples).approxKL
    target = max(kls[:6]) / 1.3
    n_made = next(i for i, kl in enumerate(kls) if kl > 1.5 * target)
    assert max(kls[:n_made]) > target  # but not 1.5 times
    algo, samples = ready(PPO(**settings, target_kl=target))
    steps, step = [], algo.gradient_step
    algo.gradient_step = lambda loss: steps.append(loss) or step(loss)
    info = algo.optimize_agent(0, samples)
    assert 0 < n_made == len(info.loss) == len(steps) == algo.update_counter < 16
    assert info.approxKL == kls[: n_made + 1]  # with that of the minibatch that stopped it
    algo, samples = ready(PPO(**settings, target_kl=1e9))
    assert algo.optimize_agent(0, samples).approxKL == kls


def test_an_iteration_without_updates_has_empty_columns():
    algo, samples = ready(PPO(target_kl=1e-9))
    algo._kl = lambda: 1.0
    info = algo.optimize_agent(0, samples)
    assert info.loss == info.perplexity == [] and algo.update_counter == 0


class OtherLoss(PPO):
    def loss(self, batch):
        dist_info, _ = self.agent(*batch.agent_inputs)
        entropy = self.agent.distribution.mean_entropy(dist_info, batch.valid)
        return -entropy, entropy, entropy.exp()


LOSSES = {
    "all": "def loss(self, agent_inputs, action, return_, advantage, valid, old_dist_info,\n"
    "         init_rnn_state=None):\n"
    "    return super(Old, self).loss(agent_inputs, action, return_, advantage, valid,\n"
    "                                 old_dist_info, init_rnn_state=init_rnn_state)",
    "some": "def loss(self, agent_inputs, *others):\n"
    "    assert agent_inputs.observation is not None\n"
    "    return super(Old, self).loss(agent_inputs, *others)",
    "forwarded": "def loss(self, *inputs):\n"
    "    assert len(inputs) == 7\n"
    "    return super(Old, self).loss(*inputs)",
}


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("code", LOSSES.values(), ids=LOSSES)
def test_losses_with_the_single_arguments_of_2020_work_with_one_warning(code, recurrent):
    """Research code written for rlpyt runs. `super` needs the class by name here."""
    scope = {}
    exec(code, scope)
    with pytest.warns(UserWarning, match="Old.loss") as caught:
        scope["Old"] = Old = type("Old", (PPO,), {"loss": scope["loss"]})
        Newer = type("Newer", (Old,), {"loss": lambda self, batch: super(Newer, self).loss(batch)})
    assert len(caught) == 1
    infos = []
    for cls in (PPO, Old, Newer):
        algo, samples = ready(cls(minibatches=2, epochs=1), recurrent)
        set_seed(3)
        infos.append(algo.optimize_agent(0, samples))
    assert infos[0] == infos[1] == infos[2] and len(infos[0].loss) == 2


def test_what_a_subclass_adds_to_the_batch_reaches_its_loss():
    class Weighted(PPO):
        def make_batch(self, samples):
            batch = super().make_batch(samples)
            return with_fields(batch, weight=torch.arange(batch.return_.numel()).view(T, B))

        def loss(self, batch):
            seen.append(batch.weight)
            return super().loss(batch)

    seen = []
    algo, samples = ready(Weighted(minibatches=2, epochs=1))
    algo.optimize_agent(0, samples)
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(T * B))


def test_a_loss_of_ones_own_leaves_other_statistics_empty():
    algo, samples = ready(OtherLoss(minibatches=2, epochs=1))
    info = algo.optimize_agent(0, samples)
    assert len(info.entropy) == 2 and info.piLoss == info.approxKL == []
    algo, samples = ready(OtherLoss(target_kl=0.1))
    with pytest.raises(ValueError, match="target_kl .*OtherLoss"):
        algo.optimize_agent(0, samples)


@pytest.mark.parametrize("recurrent", [False, True])
def test_values_are_clipped_around_those_recorded(recurrent):
    algo, samples = ready(PPO(minibatches=2, epochs=1, value_clip=1e-3), recurrent)
    old_value, rows = samples.agent.agent_info.value, []
    loss = algo.loss

    def watched(batch):
        valid, old = batch.valid, batch.old_value
        rows.append(old.flatten() if valid is None else old[valid > 0])
        return loss(batch)

    algo.loss = watched
    algo.optimize_agent(0, samples)
    seen = torch.cat(rows)
    assert sorted(seen.tolist()) == sorted(old_value.flatten().tolist())
    wide, samples = ready(PPO(minibatches=2, epochs=2, value_clip=1e9), recurrent)
    plain, _ = ready(PPO(minibatches=2, epochs=2), recurrent)
    set_seed(3)
    clipped = wide.optimize_agent(0, samples)
    set_seed(3)
    assert plain.optimize_agent(0, samples).vLoss == pytest.approx(clipped.vLoss, rel=1e-5)


@pytest.mark.parametrize("recurrent", [False, True])
def test_advantages_are_normalized_in_each_minibatch(recurrent):
    settings = dict(minibatches=2, epochs=1, normalize_advantage="minibatch")
    algo, samples = ready(PPO(**settings), recurrent)
    plain, _ = ready(PPO())
    raw, seen, loss = plain.process_returns(samples)[1], [], algo.loss
    assert torch.equal(algo.process_returns(samples)[1], raw)

    def watched(batch):
        valid = slice(None) if batch.valid is None else batch.valid > 0
        seen.append(batch.advantage[valid])
        return loss(batch)

    algo.loss = watched
    algo.optimize_agent(0, samples)
    assert len(seen) == 2 and sum(map(torch.numel, seen)) == T * B
    for advantage in seen:
        assert advantage.mean().item() == pytest.approx(0, abs=1e-6)
        assert advantage.std().item() == pytest.approx(1, rel=1e-5)


def test_the_options_are_checked():
    assert PPO(normalize_advantage=1).normalize_advantage is True
    with pytest.raises(TypeError, match="normalize_advantage"):
        PPO(normalize_advantage="batch")
    with pytest.raises(ValueError, match="target_kl=0"):
        PPO(target_kl=0)
    with pytest.raises(ValueError, match="value_clip=-1"):
        PPO(value_clip=-1)
