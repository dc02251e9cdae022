"""Losses of agents with memory against stepping through sequences one row at a time."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN, OptInfo
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.replay import SamplesToBuffer
from rlpyt.envs.toy import CountEnv
from rlpyt.replays.sequence.frame import UniformSequenceReplayFrameBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import (
    AsyncUniformSequenceReplayBuffer,
    UniformSequenceReplayBuffer,
)
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from tests.algos.dqn.parts_dqn import (
    AGENTS_WITH_MEMORY,
    GRU,
    N_ATOMS,
    B,
    Tiny,
    TinyImplicit,
    fill,
    prepared,
)
from tests.algos.dqn.stepping import after_return, walk
from tests.cases import product_of

GAMMA, ETA, V = 0.9, 0.8, 10.0
N_SEQUENCES, N_TAU, N_TAU_TARGET = 9, 3, 2
ALGOS = {
    "dqn": DQN,
    "cat": lambda **kwargs: CategoricalDQN(-V, V, **kwargs),
    "qr": QRDQN,
    "iqn": lambda **kwargs: IQN(n_tau=N_TAU, n_tau_target=N_TAU_TARGET, **kwargs),
}
KINDS = pytest.mark.parametrize("kind", ALGOS)


def algo_of(kind="dqn", **kwargs):
    settings = dict(
        batch_T=6, batch_B=4, warmup_T=4, store_rnn_state_interval=2, min_steps_learn=100,
        replay_size=60 * B, replay_ratio=5, n_step_return=3, pri_eta=ETA, discount=GAMMA,
    )  # fmt: skip
    return ALGOS[kind](**{**settings, **kwargs})


def fractions(*shape, device=None, dtype=None):
    """Fractions in place of random ones: the same in every row."""
    return torch.linspace(0.1, 0.8, shape[-1]).expand(shape)


def huber_of(x, clip):
    x = abs(float(x))
    return 0.5 * x * x if clip is None or x < clip else clip * (x - 0.5 * clip)


def dqn_loss(algo, batch, b, t, outputs, following):
    (q, _), (online, target) = outputs, following
    best = int((online if algo.double_dqn else target).argmax())
    y = batch.return_[t, b] + batch.discount_n[t, b] * target[best]
    delta = float(y - q[batch.all_action[t + 1, b]])
    return huber_of(delta, algo.delta_clip), min(abs(delta), algo.delta_clip or np.inf)


def cat_loss(algo, batch, b, t, outputs, following):
    z = np.linspace(-V, V, N_ATOMS)
    p = outputs[0][batch.all_action[t + 1, b]].double().numpy()
    online, target = (x.double().numpy() for x in following)
    best = ((online if algo.double_dqn else target) @ z).argmax()
    projected = np.zeros(N_ATOMS)
    for j in range(N_ATOMS):
        moved = float(batch.return_[t, b]) + float(batch.discount_n[t, b]) * z[j]
        moved = min(max(moved, -V), V)
        for i in range(N_ATOMS):
            share = max(0.0, 1 - abs(moved - z[i]) / (z[1] - z[0]))
            projected[i] += target[best, j] * share
    target_p = np.maximum(projected, 1e-6)
    kl = (target_p * (np.log(target_p) - np.log(np.maximum(p, 1e-6)))).sum()
    return -(projected * np.log(p)).sum(), max(kl, 1e-6)


def quantile_loss(algo, batch, b, t, z, tau, target):
    y = float(batch.return_[t, b]) + float(batch.discount_n[t, b]) * target.double().numpy()
    total = 0.0
    for i, z_i in enumerate(z.double().numpy()):
        for y_j in y:
            u = y_j - z_i
            total += abs(tau[i] - (u < 0)) * huber_of(u, algo.delta_clip) / algo.delta_clip / len(y)
    return float(total), abs(y.mean() - float(z.mean()))


def qr_loss(algo, batch, b, t, outputs, following):
    online, target = following
    best = int((online if algo.double_dqn else target).mean(-1).argmax())
    tau = (np.arange(N_ATOMS) + 0.5) / N_ATOMS
    z = outputs[0][batch.all_action[t + 1, b]]
    return quantile_loss(algo, batch, b, t, z, tau, target[best])


def iqn_loss(algo, batch, b, t, outputs, following):
    _, target, online_acting, target_acting = following
    best = int((online_acting if algo.double_dqn else target_acting).mean(-1).argmax())
    tau = fractions(N_TAU).numpy()
    z = outputs[0][batch.all_action[t + 1, b]]
    return quantile_loss(algo, batch, b, t, z, tau, target[best])


LOSSES = {"dqn": dqn_loss, "cat": cat_loss, "qr": qr_loss, "iqn": iqn_loss}


def networks(kind, agent):
    models = agent.model, agent.target_model
    if kind != "iqn":
        return models
    acting = (torch.arange(4) + 0.5) / 4
    taus = [fractions(N_TAU), fractions(N_TAU_TARGET), acting, acting]
    return [(models[i % 2], tau) for i, tau in enumerate(taus)]


def by_stepping(kind, batch, algo):
    """Loss, errors [batch_T, B] and priorities [B], and the number of truncations met."""
    wT, bT, n = algo.warmup_T, algo.batch_T, algo.n_step_return
    size = len(batch.return_[0])
    losses, errors, counted = (torch.zeros(bT, size) for _ in range(3))
    crossed = 0
    for b in range(size):
        rows, ends = walk(batch, b, networks(kind, algo.agent))
        for t in range(wT, wT + bT):
            if batch.void is not None and batch.void[t, b]:
                continue
            following = after_return(batch, b, t, n, rows, ends)
            crossed += any(following is end for end in ends.values())
            args = (algo, batch, b, t, rows[t][:2], following)
            losses[t - wT, b], errors[t - wT, b] = LOSSES[kind](*args)
            counted[t - wT, b] = 1
    if algo.prioritized_replay:
        losses = losses * batch.is_weights
    loss = (losses * counted).sum() / counted.sum()
    mean = errors.sum(0) / counted.sum(0).clamp(min=1)
    shown = torch.where(counted > 0, errors, torch.nan)
    return loss, shown, ETA * errors.amax(0) + (1 - ETA) * mean, crossed


def check_against_stepping(kind, algo, monkeypatch):
    batch = algo.replay_buffer.sample_batch(N_SEQUENCES)
    batch.return_.div_(300)  # otherwise they dominate the values
    with monkeypatch.context() as patch:
        patch.setattr(torch, "rand", fractions)
        loss, errors = algo.loss(batch)
    expected = by_stepping(kind, batch, algo)
    assert torch.allclose(errors, expected[1], atol=1e-4, rtol=1e-4, equal_nan=True)
    assert torch.allclose(loss, expected[0], rtol=1e-4)
    assert torch.allclose(algo.priorities(errors, batch), expected[2], atol=1e-4, rtol=1e-4)
    assert loss.requires_grad and not errors.requires_grad
    return batch, expected[3]


SETTINGS = [(4, 3, 4, True), (0, 1, 1, False), (5, 2, 30, True), (1, 5, 4, False)]


@KINDS
@pytest.mark.parametrize(
    "settings, double",
    product_of(SETTINGS, [True, False], fast=zip(SETTINGS, [True, False, False, True])),
    ids=str,
)
def test_losses_are_those_of_stepping_with_resets(kind, settings, double, monkeypatch):
    warmup_T, n_step, length, prioritized = settings
    algo = algo_of(
        kind, warmup_T=warmup_T, n_step_return=n_step, double_dqn=double,
        store_rnn_state_interval=1 + warmup_T % 2, prioritized_replay=prioritized,
    )  # fmt: skip
    fill(algo, prepared(algo, AGENTS_WITH_MEMORY[kind](), env_kwargs=dict(length=length)))
    batch, crossed = check_against_stepping(kind, algo, monkeypatch)
    if length < 30:
        assert crossed > 0 and batch.all_done[warmup_T:].any()


@KINDS
def test_void_rows_do_not_count(kind, monkeypatch):
    algo = algo_of(kind, store_rnn_state_interval=4, batch_T=8)
    agent = AGENTS_WITH_MEMORY[kind]()
    sampler = prepared(algo, agent, batch_T=4, CollectorCls=CpuWaitResetCollector)
    fill(algo, sampler, batches=12)
    batch, _ = check_against_stepping(kind, algo, monkeypatch)
    assert batch.void[4:12].any() and not batch.void[0].any()
    opt_info = OptInfo([], [], [])
    errors = algo.loss(batch)[1]
    algo.append_opt_info_(opt_info, None, None, errors)
    recorded = errors.flatten()[:: errors.numel() // 8]
    assert opt_info.tdAbsErr == recorded[~recorded.isnan()].tolist()


class Forgetful(Tiny):
    """Tiny with the interface of a recurrent model, and without memory."""

    def __init__(self, memory="none", **kwargs):
        super().__init__(**kwargs)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state=None):
        output = super().forward(observation, prev_action, prev_reward)
        return output, torch.zeros(1, observation.shape[-2], 1)


class ForgetfulImplicit(TinyImplicit):
    def __init__(self, memory="none", **kwargs):
        super().__init__(**kwargs)

    def forward(self, observation, prev_action, prev_reward, tau, init_rnn_state=None):
        output = super().forward(observation, prev_action, prev_reward, tau)
        return output, torch.zeros(1, observation.shape[-2], 1)


@KINDS
@pytest.mark.parametrize("n_step", [1, 3])
def test_without_memory_sequences_of_one_step_are_transitions(kind, n_step, monkeypatch):
    results = []
    Models = (TinyImplicit, ForgetfulImplicit) if kind == "iqn" else (Tiny, Forgetful)
    for Model in Models:
        more = {} if Model in (Tiny, TinyImplicit) else GRU
        agent = type(AGENTS_WITH_MEMORY[kind]())(ModelCls=Model, **more)
        if kind in ("cat", "qr"):
            sizes = {"cat": "n_atoms", "qr": "n_quantiles"}
            agent = type(agent)(ModelCls=Model, **{sizes[kind]: N_ATOMS}, **more)
        algo = algo_of(
            kind, warmup_T=0, batch_T=1, store_rnn_state_interval=1, n_step_return=n_step,
            double_dqn=True,
        )  # fmt: skip
        fill(algo, prepared(algo, agent, env_kwargs=dict(length=4)))
        rows = np.arange(2, 40), np.arange(38) % B
        length = (1,) if more else ()
        batch = algo.replay_buffer.extract_batch(*rows, *length)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "rand", fractions)
            loss, errors = algo.loss(batch)
        loss.backward()
        grad = torch.cat([p.grad.flatten() for p in agent.parameters()])
        results.append((loss.detach(), errors.flatten(), grad))
    for plain, sequence in zip(*results):
        assert torch.allclose(plain, sequence, rtol=1e-5, atol=1e-6)


@KINDS
def test_training_draws_sequences_and_updates_their_priorities(kind):
    algo = algo_of(kind, prioritized_replay=True, replay_ratio=20)
    agent = AGENTS_WITH_MEMORY[kind]()
    sampler = prepared(algo, agent)
    assert agent.recurrent and type(algo.replay_buffer) is PrioritizedSequenceReplayBuffer
    assert algo.samples_per_update == algo._batch_size == 40 and algo.updates_per_optimize == 12
    samples = fill(algo, sampler)
    given, update = [], algo.replay_buffer.update_batch_priorities
    algo.replay_buffer.update_batch_priorities = lambda *a: given.append(a) or update(*a)
    before = [p.clone() for p in agent.parameters()]
    info = algo.optimize_agent(8, samples)
    assert len(info.loss) == 12 and np.isfinite(info.loss).all() and len(info.q) == 12
    assert len(given) == 12 and given[0][0].shape == (4,)
    assert all((p != old).any() for p, old in zip(agent.parameters(), before))
    assert algo.samples_to_buffer(samples)._fields == SamplesToBuffer._fields
    assert algo.replay_buffer.sample_batch(3).init_rnn_state is not None


def test_burn_in_has_no_gradient():
    algo = algo_of()
    fill(
        algo, prepared(algo, AGENTS_WITH_MEMORY["dqn"](), env_kwargs=dict(length=1000, fixed=True))
    )
    batch = algo.replay_buffer.sample_batch(5)
    batch.all_observation.requires_grad_(True)
    algo.loss(batch)[0].backward()
    touched = batch.all_observation.grad.abs().sum((1, 2)) > 0
    assert touched.tolist() == [False] * 4 + [True] * 6 + [False] * 3


def test_replays_of_sequences_are_chosen_by_the_agent():
    algo, agent = algo_of(), AGENTS_WITH_MEMORY["dqn"]()
    sampler = prepared(algo, agent)
    assert type(algo.replay_buffer) is UniformSequenceReplayBuffer
    replay = algo.async_initialize(agent, 50, BatchSpec(8, B), True, sampler.examples)
    assert type(replay) is AsyncUniformSequenceReplayBuffer and replay.batch_T == 10


class Frames(CountEnv):
    """Stacks of the last four frames of an episode, zeros before its start."""

    def __init__(self):
        super().__init__()
        self._observation_space = GymSpaceWrapper(Box(0, 255, (4, 4, 4), np.uint8))

    def _observe(self):
        numbers = [10 * self._episode % 200 + t + 1 if t >= 0 else 0 for t in self._times()]
        return np.array(numbers, np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)

    def _times(self):
        return range(self._t - 3, self._t + 1)


def test_frames_are_stored_once_and_give_the_same_loss():
    image = dict(channels=[4], kernel_sizes=[2], strides=[1], paddings=[0], fc_sizes=8)
    losses = {}
    for cls in (None, UniformSequenceReplayBuffer):
        algo = algo_of(ReplayBufferCls=cls)
        agent = AtariDqnAgent(model_kwargs=dict(**image, memory="gru", lstm_size=8, head_size=8))
        fill(algo, prepared(algo, agent, Frames))
        rows = np.arange(10, 30, 2), np.arange(10) % B
        losses[type(algo.replay_buffer)], _ = algo.loss(algo.replay_buffer.extract_batch(*rows, 10))
    assert {*losses} == {UniformSequenceReplayFrameBuffer, UniformSequenceReplayBuffer}
    framewise, whole = losses.values()
    assert torch.equal(framewise, whole) and whole > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(replay_size=13 * B), f"replay_size={13 * B} .*10 . 3"),
        (dict(compile_loss=True), "compile_loss"),
    ],
)
def test_settings_that_do_not_fit_a_memory_are_refused(settings, message):
    algo = algo_of(**{"min_steps_learn": 0, "batch_size": 4, **settings})
    with pytest.raises(ValueError, match=message):
        prepared(algo, AGENTS_WITH_MEMORY["dqn"]())


def test_settings_of_sequences_without_memory_are_named():
    agent = DqnMlpAgent()
    agent.initialize(CountEnv().spaces)
    with pytest.warns(UserWarning, match=r"^warmup_T=5 .*DqnMlpAgent"):
        DQN(warmup_T=5).check_parts(agent)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DQN().check_parts(agent)
