"""R2D1: losses and priorities against stepping through sequences one row at a time."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.agents.dqn.vector import R2d1LstmAgent
from rlpyt.algos.dqn.losses import inv_value_scale, value_scale
from rlpyt.algos.dqn.r2d1 import R2D1, set_final_values
from rlpyt.envs.toy import TruncationEnv
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import (
    AsyncUniformSequenceReplayBuffer,
    UniformSequenceReplayBuffer,
)
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from tests.algos.dqn.parts_dqn import AGENTS, B, fill, prepared
from tests.algos.dqn.stepping import walk
from tests.cases import product_of

EPS, ETA, GAMMA = 1e-2, 0.8, 0.9
N_SEQUENCES = 12


def algo_of(**kwargs):
    settings = dict(
        batch_T=6, batch_B=4, warmup_T=4, store_rnn_state_interval=2, min_steps_learn=100,
        replay_size=60 * B, replay_ratio=5, n_step_return=3, value_scale_eps=EPS, pri_eta=ETA,
        discount=GAMMA,
    )  # fmt: skip
    return R2D1(**{**settings, **kwargs})


def by_stepping(batch, algo, agent):
    """Loss, absolute TD errors [batch_T, B] and priorities [B]."""
    wT, bT, n = algo.warmup_T, algo.batch_T, algo.n_step_return
    size = len(batch.return_[0])
    td_abs, counted = torch.zeros(bT, size), torch.zeros(bT, size)
    crossed = 0
    for b in range(size):
        rows, ends = walk(batch, b, (agent.model, agent.target_model))
        for t in range(wT, wT + bT):
            if batch.void is not None and batch.void[t, b]:
                continue
            follower = rows[t + n]
            for k in range(n):
                if batch.all_done[t + k, b]:
                    follower = ends.get(t + k, follower)
                    crossed += t + k in ends
                    break
            online, target = follower
            value = target[int(online.argmax() if algo.double_dqn else target.argmax())]
            inner = batch.return_[t, b] + batch.discount_n[t, b] * inv_value_scale(value, EPS)
            action = batch.all_action[t + 1, b]
            td_abs[t - wT, b] = abs(value_scale(inner, EPS) - rows[t][0][action])
            counted[t - wT, b] = 1
    clipped = td_abs if algo.delta_clip is None else td_abs.clamp(max=algo.delta_clip)
    losses = clipped * (td_abs - 0.5 * clipped)
    if algo.prioritized_replay:
        losses = losses * batch.is_weights
    loss = (losses * counted).sum() / counted.sum()
    mean = (clipped * counted).sum(0) / counted.sum(0).clamp(min=1)
    shown = torch.where(counted > 0, clipped, torch.nan)
    return loss, shown, ETA * clipped.amax(0) + (1 - ETA) * mean, crossed


STEPS, LENGTHS = [(4, 3), (0, 1), (5, 2), (1, 5)], [1, 4, 30]


@pytest.mark.parametrize(
    ("steps", "length", "double"),
    product_of(
        STEPS,
        LENGTHS,
        [True, False],
        fast=[
            (steps, length, (i + j) % 2 == 0)
            for i, steps in enumerate(STEPS)
            for j, length in enumerate(LENGTHS)
        ],
    ),
    ids=str,
)
def test_loss_is_that_of_stepping_with_resets(steps, length, double):
    warmup_T, n_step = steps
    algo = algo_of(
        warmup_T=warmup_T, n_step_return=n_step, double_dqn=double,
        store_rnn_state_interval=1 + warmup_T % 2,
    )  # fmt: skip
    agent = AGENTS["r2d1"]()
    sampler = prepared(algo, agent, env_kwargs=dict(length=length))
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(N_SEQUENCES)
    batch.return_.div_(300)  # otherwise they dominate the values
    loss, td_abs, priorities = algo.loss(batch)
    expected = by_stepping(batch, algo, agent)
    assert torch.allclose(td_abs, expected[1], atol=1e-4, rtol=1e-4, equal_nan=True)
    assert torch.allclose(loss, expected[0], rtol=1e-4)
    assert torch.allclose(priorities, expected[2], atol=1e-4, rtol=1e-4)
    assert loss.requires_grad and not td_abs.requires_grad
    if length < 30:
        assert expected[3] > 0 and batch.all_done[warmup_T:].any()


@pytest.mark.parametrize("delta_clip", [None, 2.0])
def test_uniform_replay_and_huber_loss(delta_clip):
    algo = algo_of(prioritized_replay=False, delta_clip=delta_clip)
    agent = AGENTS["r2d1"]()
    sampler = prepared(algo, agent)
    fill(algo, sampler)
    assert type(algo.replay_buffer) is UniformSequenceReplayBuffer
    batch = algo.replay_buffer.sample_batch(N_SEQUENCES)
    loss, td_abs, _ = algo.loss(batch)
    expected = by_stepping(batch, algo, agent)
    assert torch.allclose(td_abs, expected[1], atol=1e-4, rtol=1e-4, equal_nan=True)
    assert torch.allclose(loss, expected[0], rtol=1e-4)


@pytest.mark.parametrize("warmup_T,interval", [(4, 4), (3, 2), (0, 1)])
def test_batches_of_samplers_that_wait_with_resets(warmup_T, interval):
    algo = algo_of(warmup_T=warmup_T, store_rnn_state_interval=interval, batch_T=8)
    agent = AGENTS["r2d1"]()
    sampler = prepared(algo, agent, batch_T=4, CollectorCls=CpuWaitResetCollector)
    fill(algo, sampler, batches=12)
    batch = algo.replay_buffer.sample_batch(N_SEQUENCES)
    loss, td_abs, priorities = algo.loss(batch)
    expected = by_stepping(batch, algo, agent)
    assert batch.void[warmup_T : warmup_T + 8].any() and not batch.void[0].any()
    assert torch.allclose(td_abs, expected[1], atol=1e-4, rtol=1e-4, equal_nan=True)
    assert torch.allclose(loss, expected[0], rtol=1e-4)
    assert torch.allclose(priorities, expected[2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("warmup_T", [2, 8])
def test_a_burn_in_longer_than_all_episodes_is_warned_of_once(warmup_T, recwarn):
    algo = algo_of(warmup_T=warmup_T, batch_T=4, min_steps_learn=80 * B, replay_ratio=2)
    waits = dict(CollectorCls=CpuWaitResetCollector, env_kwargs=dict(length=5, fixed=True))
    sampler = prepared(algo, AGENTS["r2d1"](), batch_T=20, **waits)
    for itr in range(30):
        algo.agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        algo.agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
    told = [str(w.message) for w in recwarn if "trains nothing yet" in str(w.message)]
    assert bool(algo.update_counter) == (warmup_T == 2)
    assert len(told) == (warmup_T == 8) and all("warmup_T=8" in text for text in told)


def test_burn_in_has_no_gradient_and_training_rows_have():
    algo = algo_of()
    agent = AGENTS["r2d1"]()
    sampler = prepared(algo, agent, env_kwargs=dict(length=1000, fixed=True))
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(5)
    batch.all_observation.requires_grad_(True)
    algo.loss(batch)[0].backward()
    touched = batch.all_observation.grad.abs().sum((1, 2)) > 0
    rows = algo.warmup_T + algo.batch_T
    assert touched.tolist() == [False] * algo.warmup_T + [True] * algo.batch_T + [False] * (
        len(touched) - rows
    )


class KnowingRnn(torch.nn.Module):
    """Knows h(value) of TruncationEnv."""

    def __init__(self):
        super().__init__()
        value = value_scale(torch.tensor(TruncationEnv.value(GAMMA)), EPS)
        self.value = torch.nn.Parameter(value)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state=None):
        lead = observation.shape[:-1]
        return self.value.expand(*lead, 2), torch.zeros(1, lead[-1], 1)


@pytest.mark.parametrize("n_step", [1, 3, 7])
def test_truncated_episodes_are_worth_what_would_have_followed(n_step):
    algo = algo_of(n_step_return=n_step)
    agent = R2d1Agent(ModelCls=KnowingRnn)
    sampler = prepared(algo, agent, TruncationEnv, dict(horizon=5))
    agent.target_model.load_state_dict(agent.model.state_dict())
    samples = fill(algo, sampler)
    _, td_abs, _ = algo.loss(algo.replay_buffer.sample_batch(50))
    assert (td_abs < 1e-4).all()
    priorities = algo.compute_input_priorities(samples)
    if n_step <= 5:  # some windows of the batch lie within an episode of 5 steps
        assert (priorities < 1e-4).all()
    else:  # all are cut by a truncation, whose value is not recorded
        assert priorities.tolist() == [algo.new_priority] * B
    sampler = prepared(algo, agent, TruncationEnv, dict(horizon=5, terminate=True))
    agent.target_model.load_state_dict(agent.model.state_dict())
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(50)
    _, td_abs, _ = algo.loss(batch)
    ends = batch.discount_n[algo.warmup_T :] == 0
    assert (td_abs[~ends] < 1e-4).all() and (td_abs[ends] > 0.1).all() and ends.any()


def test_what_follows_windows_that_meet_a_truncation():
    T, n = 5, 3
    done = torch.zeros(T + n, 2, dtype=torch.bool)
    done[1, 0] = done[3, 0] = done[6, 1] = True
    next_value = torch.zeros(T, 2)
    at = (torch.tensor([3, 6]), torch.tensor([0, 1]))
    set_final_values(next_value, torch.tensor([7.0, 8.0]), at, done, n)
    assert next_value.t().tolist() == [[0, 0, 7, 7, 0], [0, 0, 0, 0, 8]]


def input_priorities_by_stepping(algo, samples):
    """From recorded values alone, one environment and row at a time."""
    q = samples.agent.agent_info.q
    n, length = algo.n_step_return, len(q)
    out = []
    for b in range(q.shape[1]):
        errors, gone = [], False
        for t in range(length - n + 1):
            inner, target = 0.0, None
            for k in range(n):
                inner += GAMMA**k * float(samples.env.reward[t + k, b])
                if samples.env.done[t + k, b]:
                    cut = bool(samples.env.env_info.timeout[t + k, b])
                    target = None if cut else inner
                    break
            else:
                if t + n < length:
                    value = inv_value_scale(q[t + n, b].max(), EPS)
                    target = inner + GAMMA**n * float(value)
            if target is not None and not gone:
                target = float(value_scale(torch.tensor(target), EPS))
                error = abs(target - float(q[t, b, samples.agent.action[t, b]]))
                errors.append(min(error, algo.delta_clip or np.inf))
            gone = gone or (not algo.mid_batch_reset and bool(samples.env.done[t, b]))
        default = algo.new_priority
        out.append(ETA * max(errors) + (1 - ETA) * np.mean(errors) if errors else default)
    return torch.tensor(out, dtype=torch.float32)


@pytest.mark.filterwarnings("ignore:input_priorities=True has little effect")
@pytest.mark.parametrize("collector", [None, CpuWaitResetCollector])
@pytest.mark.parametrize("n_step", [1, 3, 8, 9])
def test_input_priorities_are_td_errors_of_recorded_values(n_step, collector):
    kwargs = {} if collector is None else dict(CollectorCls=collector)
    aligned = dict(warmup_T=8, store_rnn_state_interval=8)
    clip = dict(delta_clip=5.0) if n_step == 3 else {}
    algo = algo_of(n_step_return=n_step, **clip, **({} if collector is None else aligned))
    sampler = prepared(algo, AGENTS["r2d1"](), env_kwargs=dict(length=6), **kwargs)
    for _ in range(4):
        samples = fill(algo, sampler, batches=1)
        own = algo.compute_input_priorities(samples)
        assert own.shape == (B,)
        assert torch.allclose(own, input_priorities_by_stepping(algo, samples), rtol=1e-4)
        if n_step == 9:  # the batch has 8 rows: nothing is known
            assert own.tolist() == [1.0] * B


def test_new_samples_without_any_error_can_be_drawn():
    algo = algo_of()
    sampler = prepared(algo, AGENTS["r2d1"]())
    for itr in range(6):
        samples, _ = sampler.obtain_samples(itr)
        samples.agent.agent_info.q.zero_()
        samples.env.reward.zero_()
        assert (algo.compute_input_priorities(samples) > 0).all()
        algo.store(samples)
    assert len(algo.replay_buffer.sample_batch(4).is_weights) == 4


def test_input_priorities_go_to_sequences_that_begin_before_burn_in():
    algo = algo_of(warmup_T=4, store_rnn_state_interval=4, batch_T=4, n_step_return=1, pri_alpha=1)
    assert algo.input_priority_shift == 1 and algo_of().input_priority_shift == 2
    assert algo_of(input_priority_shift=3).input_priority_shift == 3
    sampler = prepared(algo, AGENTS["r2d1"](), batch_T=4, env_kwargs=dict(length=50, fixed=True))
    assert type(algo.replay_buffer) is PrioritizedSequenceReplayBuffer
    given = []
    for _ in range(6):
        given.append(algo.compute_input_priorities(fill(algo, sampler, batches=1)))
    leaves = torch.from_numpy(algo.replay_buffer.priority_tree.priorities)[:6].float()
    for row in range(4):
        if leaves[row].any():
            assert torch.allclose(leaves[row], given[row + 1], rtol=1e-4)
    assert leaves[:4].any(1).sum() >= 3


def test_training_updates_priorities_and_reports_them():
    algo = algo_of(replay_ratio=20, target_update_interval=2)
    agent = R2d1LstmAgent(model_kwargs=dict(lstm_size=8))
    sampler = prepared(algo, agent)
    assert algo.batch_size == (6 + 4) * 4 and algo.updates_per_optimize == 12
    samples = fill(algo, sampler)
    given = []
    update = algo.replay_buffer.update_batch_priorities
    algo.replay_buffer.update_batch_priorities = lambda *a: given.append(a) or update(*a)
    info = algo.optimize_agent(8, samples)
    assert info._fields == R2D1.opt_info_fields and len(info.loss) == 12 and info.priority
    assert len(given) == 12 and given[0][0].shape == (4,)
    samples_with_states = algo.samples_to_buffer(samples).samples
    assert "prev_rnn_state" in samples_with_states._fields


def test_without_stored_states_sequences_begin_from_zero():
    algo = algo_of(store_rnn_state_interval=0, input_priorities=False)
    sampler = prepared(algo, AGENTS["r2d1"]())
    fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(3)
    assert batch.init_rnn_state is None
    assert torch.isfinite(algo.loss(batch)[0])


def test_asynchronous_replay_of_sequences():
    algo = algo_of(prioritized_replay=False)
    agent = AGENTS["r2d1"]()
    sampler = prepared(algo_of(), agent)
    replay = algo.async_initialize(agent, 50, BatchSpec(8, B), True, sampler.examples)
    assert type(replay) is AsyncUniformSequenceReplayBuffer and replay.batch_T == 10


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(batch_T=0), ValueError, "batch_T=0"),
        (dict(warmup_T=-1), ValueError, "warmup_T=-1"),
        (dict(pri_eta=1.5), ValueError, "pri_eta=1.5"),
        (dict(value_scale_eps=-1), ValueError, "value_scale_eps=-1"),
        (dict(batch_size=5), TypeError, "batch_size"),
    ],
)
def test_bad_arguments_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        algo_of(**kwargs)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match=f"replay_size={13 * B} .* 10 . 3"):
        prepared(algo_of(replay_size=13 * B, min_steps_learn=0, batch_B=1), AGENTS["r2d1"]())


def test_original_order_of_arguments():
    algo = R2D1(0.9, 20, 8, 10, 5, 500)
    assert (algo.discount, algo.batch_T, algo.batch_B, algo.warmup_T) == (0.9, 20, 8, 10)
    assert (algo.store_rnn_state_interval, algo.min_steps_learn) == (5, 500)
