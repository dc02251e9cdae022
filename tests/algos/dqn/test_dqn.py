"""DQN and its kin: losses against plain definitions, schedules, bad arguments."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.replay import SamplesToBuffer
from rlpyt.algos.replay_choice import is_frame_stack
from rlpyt.envs.toy import CountEnv, MemoryEnv, TruncationEnv
from rlpyt.errors import NonFiniteError, ReplayNotReady
from rlpyt.models.dqn.implicit_quantile import midpoints
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.collections import namedarraytuple
from tests.algos.dqn.parts_dqn import AGENTS, AGENTS_WITH_MEMORY, N_ATOMS, B, T, fill, prepared
from tests.parts import ShapedCountEnv

SMALL = dict(min_steps_learn=2 * T * B, replay_size=40 * B, batch_size=16, replay_ratio=2)


def sampled(algo, agent, **kwargs):
    """Return a batch from the filled replay, with different weights if it is prioritized."""
    sampler = prepared(algo, agent, **kwargs)
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(50)
    if algo.prioritized_replay:
        priorities = algo.new_priority * torch.linspace(0.1, 3, 50)
        algo.replay_buffer.update_batch_priorities(priorities, batch.ticket)
        batch = algo.replay_buffer.sample_batch(50)
        assert len(set(batch.is_weights.tolist())) > 3
    batch.return_.div_(300)  # otherwise they dominate the values
    return batch


def q_of(model, inputs, rest=()):
    observation, prev_action, prev_reward = inputs
    onehot = torch.nn.functional.one_hot(prev_action, 3).float()
    return model(observation, onehot, prev_reward, *rest).detach()


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("delta_clip", [None, 0.5, 100.0])
@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn_loss_is_its_definition(double, prioritized, delta_clip, n_step):
    algo = DQN(
        double_dqn=double, prioritized_replay=prioritized, delta_clip=delta_clip,
        n_step_return=n_step, discount=0.9, **SMALL,
    )  # fmt: skip
    agent = AGENTS["dqn"]()
    batch = sampled(algo, agent)
    loss, td_abs = algo.loss(batch)
    q, target_q = (
        q_of(agent.model, batch.agent_inputs),
        q_of(agent.target_model, batch.target_inputs),
    )
    online = q_of(agent.model, batch.target_inputs)
    total, changed = 0.0, 0
    for b in range(50):
        best = int((online if double else target_q)[b].argmax())
        changed += best != int(target_q[b].argmax())
        y = batch.return_[b] + batch.discount_n[b] * target_q[b, best]
        delta = abs(float(y - q[b, batch.action[b]]))
        limit = np.inf if delta_clip is None else delta_clip
        small = min(delta, limit)
        own = small * (delta - 0.5 * small)
        total += own * (float(batch.is_weights[b]) if prioritized else 1.0) / 50
        assert td_abs[b].item() == pytest.approx(small, rel=1e-4)
    assert loss.item() == pytest.approx(total, rel=1e-4)
    assert changed or not double
    assert loss.requires_grad and not td_abs.requires_grad
    assert {0.0, round(0.9**n_step, 6)} <= {round(float(x), 6) for x in batch.discount_n}


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("prioritized", [False, True])
def test_categorical_loss_is_its_definition(double, prioritized):
    from tests.algos.dqn.test_losses import projection_by_loops

    settings = dict(double_dqn=double, prioritized_replay=prioritized, discount=0.9)
    algo = CategoricalDQN(-0.5, 6, n_step_return=2, **settings, **SMALL)
    agent = AGENTS["cat"]()
    batch = sampled(algo, agent)
    with torch.no_grad():  # so that the networks prefer different actions
        agent.target_model.linear.weight.normal_()
    z = torch.linspace(-0.5, 6, N_ATOMS)
    assert torch.equal(agent.distribution.z, z)
    loss, kl = algo.loss(batch)
    p = q_of(agent.model, batch.agent_inputs)
    next_p = q_of(agent.target_model, batch.target_inputs)
    selecting = q_of(agent.model, batch.target_inputs) if double else next_p
    rows, selected = torch.arange(50), (selecting @ z).argmax(-1)
    assert (selected != (next_p @ z).argmax(-1)).any() == double
    best = next_p[rows, selected]
    target = projection_by_loops(best, batch.return_, batch.discount_n, z)
    chosen = p[rows, batch.action]
    cross_entropy = -(target * chosen.log()).sum(-1)
    entropy = -(target * target.clamp(min=1e-9).log()).sum(-1)
    weighted = cross_entropy * batch.is_weights if prioritized else cross_entropy
    assert loss.item() == pytest.approx(weighted.mean().item(), rel=1e-4)
    assert torch.allclose(kl, cross_entropy - entropy, atol=1e-3)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("prioritized", [False, True])
def test_quantile_loss_uses_the_best_actions_quantiles(double, prioritized):
    from tests.algos.dqn.test_quantile_loss import quantile_loss_by_loops

    settings = dict(double_dqn=double, prioritized_replay=prioritized, discount=0.9)
    algo = QRDQN(delta_clip=0.7, **settings, **SMALL)
    agent = AGENTS["qr"]()
    batch = sampled(algo, agent)
    loss, td_abs = algo.loss(batch)
    theta = q_of(agent.model, batch.agent_inputs)
    next_theta = q_of(agent.target_model, batch.target_inputs)
    selecting = q_of(agent.model, batch.target_inputs) if double else next_theta
    total = 0.0
    for b in range(50):
        best = int(selecting[b].mean(-1).argmax())
        target = batch.return_[b] + batch.discount_n[b] * next_theta[b, best]
        own = theta[b, batch.action[b]]
        weight = float(batch.is_weights[b]) if prioritized else 1.0
        total += weight * quantile_loss_by_loops(own, midpoints(N_ATOMS), target, 0.7) / 50
        assert td_abs[b].item() == pytest.approx(abs(float(target.mean() - own.mean())), rel=1e-4)
    assert loss.item() == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("double", [False, True])
def test_implicit_quantile_loss_draws_fractions_for_both_sides(double):
    from tests.algos.dqn.test_quantile_loss import quantile_loss_by_loops

    algo = IQN(double_dqn=double, discount=0.9, n_tau=5, n_tau_target=7, **SMALL)
    agent = AGENTS["iqn"]()
    batch = sampled(algo, agent)
    torch.manual_seed(3)
    loss, _ = algo.loss(batch)
    torch.manual_seed(3)
    tau, next_tau = torch.rand(50, 5), torch.rand(50, 7)
    theta = q_of(agent.model, batch.agent_inputs, (tau,))
    next_theta = q_of(agent.target_model, batch.target_inputs, (next_tau,))
    selecting = agent.model if double else agent.target_model
    acting = q_of(selecting, batch.target_inputs, (midpoints(4),))
    total = 0.0
    for b in range(50):
        best = int(acting[b].mean(-1).argmax())
        target = batch.return_[b] + batch.discount_n[b] * next_theta[b, best]
        own = theta[b, batch.action[b]]
        total += quantile_loss_by_loops(own, tau[b], target, 1.0) / 50
    assert loss.item() == pytest.approx(total, rel=1e-4)


class Knowing(torch.nn.Module):
    """Knows the value of TruncationEnv, in whatever form it is asked for."""

    def __init__(self, n_atoms=None, n_quantiles=None, form=None, gamma=0.9):
        super().__init__()
        value = TruncationEnv.value(gamma)
        self.value = torch.nn.Parameter(torch.tensor(value))
        self.n_atoms, self.n_quantiles, self.form = n_atoms, n_quantiles, form

    def forward(self, observation, prev_action, prev_reward, tau=None):
        lead = observation.shape[:-1]
        if self.n_atoms is not None:  # of 0, 5, 10, 15, 20: the third
            p = torch.zeros(*lead, 2, self.n_atoms)
            p[..., 2] = self.value / 10
            return p
        if self.n_quantiles is not None:
            return self.value.expand(*lead, 2, self.n_quantiles)
        return self.value.expand(*lead, 2)


@pytest.mark.parametrize("n_step", [1, 3, 7])
@pytest.mark.parametrize("kind", ["dqn", "cat", "qr"])
def test_truncated_episodes_are_worth_what_would_have_followed(kind, n_step):
    """If the network knows the value without time limits, no transition has an error."""
    kwargs = dict(discount=0.9, n_step_return=n_step, delta_clip=None, **SMALL)
    algo = {
        "dqn": lambda: DQN(**kwargs),
        "cat": lambda: CategoricalDQN(0, 20, **kwargs),
        "qr": lambda: QRDQN(**kwargs),
    }[kind]()
    agent = AGENTS[kind]()
    agent.ModelCls = Knowing
    for terminate in (False, True):
        sampler = prepared(algo, agent, TruncationEnv, dict(horizon=5, terminate=terminate))
        agent.target_model.load_state_dict(agent.model.state_dict())
        fill(algo, sampler)
        batch = algo.replay_buffer.sample_batch(200)
        _, errors = algo.loss(batch)
        if not terminate:
            assert (errors < 2e-5).all()
            continue
        ends = batch.discount_n == 0
        assert (errors[~ends] < 2e-5).all() and ends.any()
        if kind != "cat":
            rewards = torch.log(1 - batch.return_[ends] * 0.1) / np.log(0.9)
            missing = 10 * 0.9**rewards  # the value that would have followed
            assert torch.allclose(errors[ends], missing, atol=1e-3)


def test_when_and_how_often_it_learns():
    algo = DQN(
        min_steps_learn=3 * T * B, replay_size=1000, batch_size=16, replay_ratio=2,
        target_update_interval=4, target_update_tau=0.5, eps_steps=10 * T * B,
    )  # fmt: skip
    agent = AGENTS["dqn"]()
    sampler = prepared(algo, agent)
    assert algo.updates_per_optimize == round(2 * T * B / 16) == 3
    assert algo.min_itr_learn == 3
    assert (agent.eps_itr_min, agent.eps_itr_max) == (3, 10)
    copies = []
    agent.update_target = lambda tau: copies.append((algo.update_counter, tau))
    for itr in range(7):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        info = algo.optimize_agent(itr, samples)
        assert info._fields == DQN.opt_info_fields and len(info.loss) == (3 if itr >= 3 else 0)
        assert len(info.gradNorm) == len(info.loss) and len(info.tdAbsErr) >= len(info.loss)
    assert algo.update_counter == 12 and algo.batch_size == algo._batch_size == 16
    assert copies == [(4, 0.5), (8, 0.5), (12, 0.5)]


def test_the_replay_ratio_is_kept_exactly_and_through_a_checkpoint():
    algo = DQN(min_steps_learn=2 * B, replay_size=1000, batch_size=32, replay_ratio=8)
    sampler = prepared(algo, AGENTS["dqn"](), batch_T=1, n_itr=100)
    samples, _ = sampler.obtain_samples(0)
    first = algo.min_itr_learn
    updates = [len(algo.optimize_agent(itr, samples).loss) for itr in range(first + 6)]
    assert updates[first:] == [0, 1, 1, 1, 0, 1]  # 8 * 3 / 32 = 0.75 in each iteration
    resumed = DQN(min_steps_learn=2 * B, replay_size=1000, batch_size=32, replay_ratio=8)
    prepared(resumed, AGENTS["dqn"](), batch_T=1, n_itr=100)
    resumed.load_state_dict(algo.state_dict())
    for own in (algo, resumed):
        updates = [len(own.optimize_agent(first + 6 + k, samples).loss) for k in range(2)]
        assert updates == [1, 1]
    assert algo.updates_per_optimize == 1  # rounded


def test_a_number_of_updates_that_a_script_sets_is_made_in_every_iteration():
    algo = DQN(min_steps_learn=T * B, replay_size=1000, batch_size=16, replay_ratio=0.25)
    sampler = prepared(algo, AGENTS["dqn"]())
    algo.updates_per_optimize = 2
    samples, _ = sampler.obtain_samples(0)
    assert [len(algo.optimize_agent(itr, samples).loss) for itr in range(3)] == [0, 2, 2]


def test_beta_and_priorities_of_prioritised_replay():
    algo = DQN(
        prioritized_replay=True, pri_alpha=0.3, pri_beta_init=0.4, pri_beta_final=1.0,
        pri_beta_steps=12 * T * B, delta_clip=None, **SMALL,
    )  # fmt: skip
    agent = AGENTS["dqn"]()
    sampler = prepared(algo, agent)
    assert algo.new_priority == 1.0 and DQN(delta_clip=0.3).new_priority == 0.3
    assert algo.replay_buffer.alpha == 0.3
    samples = fill(algo, sampler)
    given = []
    update = algo.replay_buffer.update_batch_priorities
    algo.replay_buffer.update_batch_priorities = lambda p, ticket: (
        given.append((p, ticket)) or update(p, ticket)
    )
    for itr, beta in [(2, 0.4), (7, 0.7), (12, 1.0), (50, 1.0)]:
        algo.optimize_agent(itr, samples)
        assert algo.replay_buffer.beta == pytest.approx(beta)
    assert all((p > 0).all() and ticket is not None for p, ticket in given)
    assert len(given) == 4 * algo.updates_per_optimize
    assert algo.new_priority == max(p.max().item() for p, _ in given)


CONV = dict(channels=[4], kernel_sizes=[2], strides=[1], paddings=[0], fc_sizes=8)


class Screens(CountEnv):
    """``CountEnv`` whose t comes as frames [C, 4, 4] filled with t - C + 1 to t, at least 0."""

    def __init__(self, n_frames=2, dtype="uint8", **kwargs):
        super().__init__(**kwargs)
        self.most = 1 if dtype == "bool" else 255
        box = Box(0, self.most, (n_frames, 4, 4), np.dtype(dtype).type)
        self._observation_space = GymSpaceWrapper(box)

    def _observe(self):
        shape, dtype = self._observation_space.shape, self._observation_space.dtype
        t = np.arange(self._t + 1 - shape[0], self._t + 1).clip(0, self.most)
        return np.broadcast_to(t[:, None, None], shape).astype(dtype)


def test_replay_fits_the_observations():
    image = CONV
    frames = DQN(**SMALL)
    fill(frames, prepared(frames, AtariDqnAgent(model_kwargs=image), Screens))
    assert type(frames.replay_buffer) is UniformReplayFrameBuffer
    plain = DQN(prioritized_replay=True, **SMALL)
    prepared(plain, DqnMlpAgent(), ShapedCountEnv, dict(kind="dict"))
    assert type(plain.replay_buffer) is PrioritizedReplayBuffer
    chosen = DQN(ReplayBufferCls=UniformReplayBuffer, **SMALL)
    sampler = prepared(
        chosen, AtariDqnAgent(model_kwargs=image), ShapedCountEnv, dict(kind="image")
    )
    assert type(chosen.replay_buffer) is UniformReplayBuffer
    fill(chosen, sampler)
    loss, _ = chosen.loss(chosen.replay_buffer.sample_batch(8))
    assert torch.isfinite(loss)


@pytest.mark.parametrize(
    "shape, dtype, stack",
    [((4, 84, 84), "uint8", True), ((2, 5, 5), "uint8", True), ((3, 96, 96), "uint8", False),
     ((12, 84, 84), "uint8", False), ((1, 84, 84), "uint8", False), ((4, 84), "uint8", False),
     ((4, 10, 10), "bool", False), ((8, 8, 1), "uint8", False), ((84, 80, 4), "uint8", False)],
)  # fmt: skip
def test_one_picture_is_no_stack_of_frames(shape, dtype, stack):
    assert is_frame_stack(np.zeros(shape, dtype)) is stack


def test_observations_of_false_and_true_are_kept_as_such():
    algo = DQN(**SMALL)
    agent = AtariDqnAgent(model_kwargs=CONV)
    sampler = prepared(algo, agent, Screens, dict(dtype="bool", n_frames=4))
    samples = fill(algo, sampler)
    assert type(algo.replay_buffer) is UniformReplayBuffer
    batch = algo.replay_buffer.sample_batch(64)
    observation = batch.agent_inputs.observation
    assert samples.env.observation.dtype == observation.dtype == torch.bool
    assert observation.float().mean() not in (0, 1)
    assert (observation[:, 3] | observation[:, 2])[:, 0, 0].any()
    loss, _ = algo.loss(batch)
    assert torch.isfinite(loss)


def test_asynchronous_form_has_no_optimizer_and_shared_replay():
    algo = CategoricalDQN(-2, 3, updates_per_sync=5, **SMALL)
    agent = AGENTS["cat"]()
    sampler = prepared(CategoricalDQN(**SMALL), agent)
    replay = algo.async_initialize(agent, 50, BatchSpec(T, B), True, sampler.examples)
    assert type(replay) is AsyncUniformReplayBuffer and replay is algo.replay_buffer
    assert algo.updates_per_optimize == 5 and algo.optimizer is None
    assert agent.distribution.z[-1] == 3
    samples, _ = sampler.obtain_samples(0)
    for _ in range(4):
        replay.append_samples(algo.samples_to_buffer(samples))
    algo.optim_initialize(rank=0)
    info = algo.optimize_agent(0, sampler_itr=1)
    assert info.loss == []
    info = algo.optimize_agent(0, sampler_itr=2)
    assert len(info.loss) == 5


def test_hooks_of_subclasses_are_called():
    called = []

    class Own(DQN):
        def samples_to_buffer(self, samples):
            called.append("samples")
            return super().samples_to_buffer(samples)

        def examples_to_buffer(self, examples):
            called.append("examples")
            return super().examples_to_buffer(examples)

        def loss(self, samples):
            called.append("loss")
            return super().loss(samples)

    algo = Own(**SMALL)
    sampler = prepared(algo, AGENTS["dqn"]())
    samples = fill(algo, sampler, batches=3)
    algo.optimize_agent(5, samples)
    assert called == ["examples"] + ["samples"] * 4 + ["loss"] * algo.updates_per_optimize


@pytest.mark.parametrize("memory", [False, True])
def test_subclasses_store_more_fields(memory):
    """As R2D1 of rlpyt did: a tuple with the fields of DQN, and one more."""
    name = "prev_rnn_state" if memory else "q"
    More = namedarraytuple("More", (*SamplesToBuffer._fields, name))

    class Own(DQN):
        def samples_to_buffer(self, samples):
            to_buffer, more = super().samples_to_buffer(samples), samples.agent.agent_info
            return More(*to_buffer, getattr(more, name))

        def examples_to_buffer(self, examples):
            to_buffer, more = super().examples_to_buffer(examples), examples["agent_info"]
            return More(*to_buffer, getattr(more, name))

    agent = AGENTS_WITH_MEMORY["dqn"]() if memory else AGENTS["dqn"]()
    algo = Own(**{**SMALL, "replay_size": 300})
    sampler = prepared(algo, agent, env_kwargs=dict(end="truncation"))
    samples = fill(algo, sampler)
    assert samples.env.env_info.timeout.any()
    assert np.isfinite(algo.optimize_agent(5, samples).loss).all()


def test_noisy_networks_learn_with_independent_noise():
    algo = CategoricalDQN(-1, 1, double_dqn=True, **SMALL)
    agent = CatDqnMlpAgent(n_atoms=N_ATOMS, model_kwargs=dict(noisy=True, dueling=True))
    sampler = prepared(algo, agent, MemoryEnv)  # small observations: no saturated softmax
    samples = fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(16)
    assert algo.loss(batch)[0].item() != algo.loss(batch)[0].item()
    assert not torch.equal(agent.target(*batch.agent_inputs), agent.target(*batch.agent_inputs))
    before = agent.model.head.value.model[0].weight_sigma.clone()
    algo.optimize_agent(5, samples)
    assert not torch.equal(agent.model.head.value.model[0].weight_sigma, before)


def test_a_loss_that_is_not_finite_ends_the_run():
    algo = DQN(**SMALL)
    sampler = prepared(algo, AGENTS["dqn"]())
    samples = fill(algo, sampler)
    with torch.no_grad():
        algo.agent.target_model.linear.bias.fill_(float("inf"))
    with pytest.raises(NonFiniteError, match="^the loss is (nan|inf)"):
        algo.optimize_agent(9, samples)


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(discount=1.5), ValueError, "discount=1.5"),
        (dict(learning_rate=0), ValueError, "learning_rate=0"),
        (dict(learning_rate=float("nan")), ValueError, "learning_rate=nan"),
        (dict(batch_size=0), ValueError, "batch_size=0"),
        (dict(replay_ratio=0), ValueError, "replay_ratio=0"),
        (dict(target_update_tau=0), ValueError, "target_update_tau=0"),
        (dict(target_update_tau=1.5), ValueError, "target_update_tau=1.5"),
        (dict(target_update_interval=0), ValueError, "target_update_interval=0"),
        (dict(n_step_return=0), ValueError, "n_step_return=0"),
        (dict(delta_clip=0), ValueError, "delta_clip=0"),
        (dict(pri_alpha=-1), ValueError, "pri_alpha=-1"),
        (dict(pri_beta_final=1.5), ValueError, "pri_beta_final=1.5"),
        (dict(optim_kwargs=dict(momentum=1)), TypeError, "momentum"),
        (dict(clip_grad_norm=-1), ValueError, "clip_grad_norm=-1"),
        (dict(eps_steps=0.5), TypeError, "eps_steps=0.5"),
    ],
)
def test_bad_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        DQN(**kwargs)


def test_bad_ranges_of_variants_are_refused():
    with pytest.raises(ValueError, match="V_max=-3"):
        CategoricalDQN(0, -3)
    with pytest.raises(TypeError, match=r"\['V_min'\]"):
        CategoricalDQN(0, V_min=1)
    with pytest.raises(TypeError, match="2 arguments by position"):
        CategoricalDQN(0, 1, 0.9)
    with pytest.raises(ValueError, match="n_tau=0"):
        IQN(n_tau=0)
    assert DQN(0.9, 16, 100).batch_size == 16 and CategoricalDQN(-1, 1, discount=0.5).V_max == 1


@pytest.mark.parametrize(
    "least,message", [(240, "only 240 steps"), (10**6, "^replay_size=.*min_steps_learn")]
)
def test_a_run_that_never_learns_runs_with_a_warning(least, message):
    with pytest.warns(UserWarning, match=message):
        algo = DQN(**{**SMALL, "min_steps_learn": least})
        sampler = prepared(algo, AGENTS["dqn"](), n_itr=10)
    for itr in range(10):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert algo.update_counter == 0


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("kind", ["dqn", "cat", "qr", "iqn"])
def test_samplers_that_wait_with_resets_are_learnt_from_without_void_rows(kind, prioritized):
    classes = {"dqn": DQN, "cat": CategoricalDQN, "qr": QRDQN, "iqn": IQN}
    algo = classes[kind](prioritized_replay=prioritized, n_step_return=2, **SMALL)
    wait = dict(CollectorCls=CpuWaitResetCollector, env_kwargs=dict(length=3, fixed=True))
    sampler = prepared(algo, AGENTS[kind](), **wait)
    drawn, sample_batch = [], algo.replay_buffer.sample_batch

    def watched(*args):
        drawn.append(sample_batch(*args))
        return drawn[-1]

    algo.replay_buffer.sample_batch = watched
    for itr in range(12):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert algo.replay_buffer.ring.void[:T, 0].tolist() == [False] * 3 + [True] * 5
    assert algo.update_counter == 11  # 2 * 9 / 16 of each of ten batches: their void rows are free
    assert all((batch.agent_inputs.observation != 0).any(-1).all() for batch in drawn)


def test_where_all_rows_are_void_learning_waits():
    algo = DQN(**{**SMALL, "min_steps_learn": 0})
    wait = dict(CollectorCls=CpuWaitResetCollector, env_kwargs=dict(length=1, fixed=True))
    sampler = prepared(algo, AGENTS["dqn"](), **wait)
    algo.optimize_agent(0, sampler.obtain_samples(0)[0])
    with pytest.raises(ReplayNotReady):
        algo.replay_buffer.sample_batch(4)
    for itr in range(1, 5):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert algo.update_counter == 1  # 2 * 3 / 16 of each batch


def test_updates_that_void_rows_prevent_are_made_later():
    settings = dict(SMALL, min_steps_learn=0, batch_size=9, replay_ratio=2)  # 2 * 9 / 9 a batch
    wait = dict(CollectorCls=CpuWaitResetCollector, env_kwargs=dict(length=3, fixed=True))
    algo, resumed = DQN(**settings), DQN(**settings)
    sampler = prepared(algo, AGENTS["dqn"](), **wait)
    prepared(resumed, AGENTS["dqn"](), **wait)
    draw, last = algo.draw_batch, [2, 2, 3]  # update counts after which each iteration's draw fails

    def draw_until_last():
        if algo.update_counter == last[itr]:
            raise ReplayNotReady("all rows are void.")
        return draw()

    algo.draw_batch = draw_until_last
    for itr in range(3):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
        assert algo.update_counter == last[itr]
    resumed.load_state_dict(algo.state_dict())
    resumed.optimize_agent(3, sampler.obtain_samples(3)[0])
    assert resumed.update_counter == 8


def test_agents_that_an_algorithm_cannot_train_are_refused():
    with pytest.raises(ValueError, match="recurrent .*R2D1.* DqnAgent"):
        prepared(R2D1(min_steps_learn=100), AGENTS["dqn"]())


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_replay_below_the_batch_size_is_reported_where_it_matters(recurrent):
    settings = {**SMALL, "replay_size": 96, "batch_size": 128, "min_steps_learn": 0}
    if recurrent:
        settings |= dict(batch_T=4, warmup_T=0, batch_B=2)
    agent = (AGENTS_WITH_MEMORY if recurrent else AGENTS)["dqn"]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepared(DQN(**settings), agent, n_itr=10)
    texts = [str(w.message) for w in caught]
    assert any("below batch_size=128" in text for text in texts) != recurrent, texts
