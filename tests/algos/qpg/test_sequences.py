"""DDPG, TD3 and SAC with memory: sequences against stepping through them one row at a time."""

import pytest
import torch
from torch import nn

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.qpg.base import NetworkInputs
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.losses import sequence_priority
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.models.recurrent import HeadInputs
from rlpyt.replays.batch import Transitions
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.utils.buffer import buffer_func
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    NARROW,
    SMALL,
    B,
    assert_same_state,
    fill,
    one_update,
    prepared,
    shake,
)
from tests.algos.qpg.test_sac_parts import make

ALGOS = {"ddpg": DDPG, "td3": TD3, "sac": SAC, "sac_v": SAC_V}
EVALUATED = {
    "ddpg": (("model", "q_model"), ("target_model", "target_q_model")),
    "td3": (("model", "q_model"), ("target_model", "target_q_model")),
    "sac": SAC.evaluated,
    "sac_v": SAC_V.evaluated,
}
N_SEQUENCES = 7
GAMMA = 0.9
GRU = dict(memory="gru", lstm_size=4, **NARROW)


def algo_of(kind, **kwargs):
    settings = dict(
        batch_T=5, batch_B=4, warmup_T=4, store_rnn_state_interval=2, min_steps_learn=100,
        replay_size=60 * B, replay_ratio=5, n_step_return=3, discount=GAMMA, batch_size=16,
    )  # fmt: skip
    return ALGOS[kind](**{**settings, **kwargs})


def drawn(algo, agent, n=N_SEQUENCES, batches=8, **kwargs):
    sampler = prepared(algo, agent, **kwargs)
    fill(algo, sampler, batches)
    return algo.replay_buffer.sample_batch(n)


class Walker:
    """The memory of one model, one environment, one row at a time."""

    def __init__(self, agent, model, state):
        self.agent, self.model, self.state = agent, model, state

    def see(self, observation, prev_action, prev_reward):
        inputs = (observation, prev_action, prev_reward)
        inputs = buffer_func(inputs, lambda x: x[None, None])
        with torch.no_grad():
            found, self.state = self.agent.head_inputs(self.model, *inputs, self.state)
        return found[0, 0]

    def glimpse(self, *inputs):
        kept = self.state
        found = self.see(*inputs)
        self.state = kept
        return found


def walk(batch, b, agent, name):
    """Inputs of a network's heads in each row of sequence b, and for final observations by row."""
    finals = {}
    if batch.final is not None:
        for i, (t, own) in enumerate(zip(batch.final.T_idxs, batch.final.B_idxs)):
            if own == b:
                finals[int(t)] = buffer_func(batch.final.observation, lambda x, i=i: x[i])
    state = None
    if name in ("model", "target_model"):
        state = buffer_func(batch.init_rnn_state, lambda x: x[b][:, None].clone())
    walkers = [Walker(agent, model, state) for model in agent.members(name)]
    rows, ends = [], {}
    for t in range(len(batch.all_reward)):
        begins = t > 0 and bool(batch.all_done[t - 1, b])
        action, reward = batch.all_action[t, b], batch.all_reward[t, b]
        if begins:
            for walker in walkers:
                walker.state = None
            null = agent.env_spaces.action.null_value()
            action, reward = buffer_func(null, torch.as_tensor), torch.zeros(())
        rows.append([w.see(batch.all_observation[t, b], action, reward) for w in walkers])
        if t in finals:
            after = (finals[t], batch.all_action[t + 1, b], batch.all_reward[t + 1, b])
            ends[t] = [w.glimpse(*after) for w in walkers]
    return rows, ends


def by_stepping(batch, algo, agent):
    """The transitions of all trained steps, with inputs of networks from stepping; (t, b)."""
    wT, bT, n = algo.warmup_T, algo.batch_T, algo.n_step_return
    size = batch.return_.shape[1]
    names = ["model", *agent._networks()]
    walks = {name: [walk(batch, b, agent, name) for b in range(size)] for name in names}
    where, crossed = [], 0
    now, following = ({name: [] for name in names} for _ in range(2))
    for t in range(wT, wT + bT):
        for b in range(size):
            if batch.void is not None and batch.void[t, b]:
                continue
            where.append((t, b))
            for name in names:
                rows, ends = walks[name][b]
                follower = rows[t + n]
                for k in range(n):
                    if batch.all_done[t + k, b]:
                        follower = ends.get(t + k, follower)
                        crossed += t + k in ends
                        break
                now[name].append(rows[t])
                following[name].append(follower)

    def joined(found):
        inputs = NetworkInputs()
        for name, rows in found.items():
            features = torch.stack([torch.stack([x.features for x in row]) for row in rows])
            features = features if len(rows[0]) > 1 else features[:, 0]  # [N, E, F] of E critics
            masked = rows[0][0].mask is not None
            mask = torch.stack([row[0].mask for row in rows]) if masked else None
            inputs[name] = (HeadInputs(features, mask), None, None)
        return AgentInputs(inputs, None, None)

    T_idxs, B_idxs = torch.tensor(where).unbind(1)

    def at(field, shift=0):
        return field[T_idxs + shift, B_idxs]

    steps = Transitions(
        joined(now), at(batch.all_action, 1), at(batch.return_), at(batch.done), at(batch.done_n),
        joined(following),
    )  # fmt: skip
    steps.discount_n, steps.ticket = at(batch.discount_n), None
    return steps, where, crossed


def losses_of(algo, kind, steps):
    """All numbers that an update minimizes."""
    torch.manual_seed(3)
    if kind in ("ddpg", "td3"):
        return [algo.q_loss(steps), algo.mu_loss(steps)]
    return [x for x in algo.loss(steps)[0] if x is not None]


CASES = [(4, 3, 4), (0, 1, 4)]
SLOW = [(4, 3, 1), (4, 3, 30), (0, 1, 1), (0, 1, 30), (1, 5, 1), (1, 5, 4), (1, 5, 30)]


@pytest.mark.parametrize(
    "warmup_T,n_step,length", [*CASES, *(pytest.param(*x, marks=pytest.mark.slow) for x in SLOW)]
)
@pytest.mark.parametrize("kind", ALGOS)
def test_losses_are_those_of_stepping_with_resets(kind, warmup_T, n_step, length):
    algo = algo_of(kind, warmup_T=warmup_T, n_step_return=n_step)
    agent = AGENTS[kind](model_kwargs=GRU)
    batch = drawn(algo, agent, env_kwargs=dict(length=length, end="alternate"))
    steps, where, crossed = by_stepping(batch, algo, agent)
    own = algo.steps_of(batch, *EVALUATED[kind])
    assert len(where) == len(own.return_) == 5 * N_SEQUENCES
    for rows, names in zip(("agent_inputs", "target_inputs"), EVALUATED[kind], strict=True):
        for name in names:
            a, b = (getattr(x, rows).observation[name][0].features for x in (own, steps))
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert torch.equal(own.done, steps.done) and torch.equal(own.done_n, steps.done_n)
    expected = losses_of(algo, kind, steps)
    for a, b in zip(losses_of(algo, kind, own), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    if length < 30:
        assert crossed > 0 and batch.all_done[warmup_T:].any()


@pytest.mark.parametrize("memory", ["lstm", "mingru", dict(kind="gtrxl", window=3, num_heads=2)])
def test_losses_of_other_memories_are_those_of_stepping(memory):
    algo = algo_of("sac", prioritized_replay=False)
    agent = AGENTS["sac"](model_kwargs=dict(memory=memory, lstm_size=4, **NARROW))
    batch = drawn(algo, agent, env_kwargs=dict(length=4, end="alternate"))
    steps, _, _ = by_stepping(batch, algo, agent)
    own = losses_of(algo, "sac", algo.steps_of(batch, *SAC.evaluated))
    for a, b in zip(own, losses_of(algo, "sac", steps), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.* has no effect")
@pytest.mark.parametrize("kwargs", [GRU, NARROW], ids=["memory", "no memory"])
def test_critics_in_a_tuple_of_an_override_have_the_same_losses(kwargs):
    class InTuples(SacAgent):
        def q(self, *inputs):
            return tuple(super().q(*inputs))

        def target_q(self, *inputs):
            return tuple(super().target_q(*inputs))

    found = []
    for AgentCls in (SacAgent, InTuples):
        algo = algo_of("sac")
        batch = drawn(algo, AgentCls(model_kwargs=kwargs, q_model_kwargs=kwargs))
        found.append(losses_of(algo, "sac", algo.steps_of(batch, *SAC.evaluated)))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_losses_of_hybrid_masked_actions_are_those_of_stepping():
    algo, agent = algo_of("sac", n_step_return=2), AGENTS["sac"](model_kwargs=GRU)
    batch = drawn(algo, agent, EnvCls=make, env_kwargs=dict(action="nested", masked=True))
    steps, _, _ = by_stepping(batch, algo, agent)
    own = algo.steps_of(batch, *SAC.evaluated)
    mask = own.agent_inputs.observation["model"][0].mask
    assert (mask == 0).any() and torch.equal(mask, agent.mask_of(steps.agent_inputs.observation))
    for a, b in zip(losses_of(algo, "sac", own), losses_of(algo, "sac", steps), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["td3", "sac"])
def test_rows_in_which_environments_wait_do_not_count(kind):
    algo = algo_of(kind, warmup_T=2, batch_T=8)
    agent = AGENTS[kind](model_kwargs=GRU)
    batch = drawn(algo, agent, batches=12, CollectorCls=CpuWaitResetCollector)
    steps, where, _ = by_stepping(batch, algo, agent)
    own = algo.steps_of(batch, *EVALUATED[kind])
    assert len(own.return_) == len(where) < 8 * N_SEQUENCES
    for a, b in zip(losses_of(algo, kind, own), losses_of(algo, kind, steps), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


class Forgetful(nn.Module):
    """A memory whose output is always zero."""

    def __init__(self, input_size, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, input, state=None):
        output = (0 * self.weight).expand(*input.shape[:2], -1)
        return output, output[:1].contiguous()


@pytest.mark.parametrize("kind", ALGOS)
def test_a_trivial_memory_gives_the_losses_without_memory(kind):
    """The same networks on the same transitions; also by the plain loss of a replay without it."""
    H = 4
    algo = algo_of(kind)
    agent = AGENTS[kind](model_kwargs=dict(memory=Forgetful, lstm_size=H, **NARROW))
    batch = drawn(algo, agent, env_kwargs=dict(length=4, end="alternate"))
    plain = AGENTS[kind]()
    plain_algo = ALGOS[kind](discount=GAMMA, n_step_return=3, **{**SMALL, "batch_size": 5})
    prepared(plain_algo, plain)
    state = agent.state_dict()
    for network in state.values():
        network.pop("core.memory.weight")
        network["mlp.model.0.weight"] = network["mlp.model.0.weight"][:, H:]
    plain.load_state_dict(state)
    own = algo.steps_of(batch, *EVALUATED[kind])
    steps = plain_transitions(batch, algo)
    expected = losses_of(plain_algo, kind, steps)
    for a, b in zip(losses_of(algo, kind, own), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def plain_transitions(batch, algo):
    """The trained steps of sequences as a replay without memory returns them."""
    wT, n = algo.warmup_T, algo.n_step_return
    rows = [(t, b) for t in range(wT, wT + algo.batch_T) for b in range(batch.return_.shape[1])]
    final = {}
    if batch.final is not None:
        where = zip(batch.final.T_idxs.tolist(), batch.final.B_idxs.tolist(), strict=True)
        final = dict(zip(where, batch.final.observation, strict=True))
    after = []
    for t, b in rows:
        done = [k for k in range(n) if batch.all_done[t + k, b]]
        end = (t + done[0], b) if done else None
        after.append(final.get(end, batch.all_observation[t + n, b]))

    def at(field, shift=0):
        return torch.stack([field[t + shift, b] for t, b in rows])

    now = AgentInputs(at(batch.all_observation), at(batch.all_action), at(batch.all_reward))
    target = now._replace(observation=torch.stack(after))  # the others are not read
    steps = Transitions(
        now, at(batch.all_action, 1), at(batch.return_), at(batch.done), at(batch.done_n), target
    )
    steps.discount_n, steps.ticket = at(batch.discount_n), None
    return steps


@pytest.mark.parametrize("kind", ALGOS)
def test_an_update_trains_all_memories(kind):
    algo = algo_of(kind)
    agent = AGENTS[kind](model_kwargs=GRU)
    fill(algo, prepared(algo, agent), 8)
    before = {k: {n: x.clone() for n, x in s.items()} for k, s in agent.state_dict().items()}
    for _ in range(2):
        one_update(algo)
    for name, network in agent.state_dict().items():
        for key, x in network.items():
            assert not torch.equal(x, before[name][key]), (name, key)


def test_the_policy_loss_changes_no_critic():
    algo = algo_of("sac")
    agent = AGENTS["sac"](model_kwargs=GRU)
    batch = drawn(algo, agent)
    steps = algo.steps_of(batch, *SAC.evaluated)
    (_, pi_loss, _), _ = algo.loss(steps)
    pi_loss.backward()
    assert all(p.grad is None for p in agent.q_parameters())
    assert all(p.grad is not None for p in agent.pi_parameters())


def test_priorities_of_sequences_join_those_of_their_steps():
    algo = algo_of("sac", prioritized_replay=True, pri_eta=0.7, warmup_T=2, batch_T=8)
    agent = AGENTS["sac"](model_kwargs=GRU)
    sampler = prepared(algo, agent, CollectorCls=CpuWaitResetCollector)
    fill(algo, sampler, 12)
    batch = algo.draw_batch()
    batch.is_weights.copy_(torch.linspace(0.2, 1, 4))
    steps = algo.steps_of(batch, *SAC.evaluated)
    torch.manual_seed(0)
    _, _, td_abs = algo.q_loss(steps)
    valid = ~batch.void[2 : 2 + 8]
    assert 0 < valid.sum() < valid.numel()
    expected, weights, i = torch.zeros(8, 4), [], 0
    for t in range(8):
        for b in range(4):
            if valid[t, b]:
                expected[t, b] = td_abs[i]
                weights.append(batch.is_weights[b])
                i += 1
    assert torch.equal(steps.is_weights, torch.stack(weights))
    given = []
    algo.replay_buffer.update_batch_priorities = lambda p, *ticket: given.append(p)
    torch.manual_seed(0)
    algo.learn_from(batch, algo.empty_opt_info())
    joined = sequence_priority(expected, valid.float(), 0.7)
    torch.testing.assert_close(given[0], joined + 1e-6)


@pytest.mark.parametrize("setting", [dict(n_critics=3), dict(n_critics=2, n_quantiles=5)])
def test_redq_and_tqc_train_with_memory(setting):
    n_critics, N = setting["n_critics"], setting.get("n_quantiles")
    own = dict(n_target_critics=2) if N is None else dict(n_drop_quantiles=1)
    algo = algo_of("sac", **own)
    agent = AGENTS["sac"](
        model_kwargs=GRU, n_critics=n_critics, q_model_kwargs=dict(n_quantiles=N, **NARROW)
    )
    fill(algo, prepared(algo, agent), 8)
    info = one_update(algo)
    assert len(info.q1Loss) == 1 and info.q1GradNorm[0] > 0 and info.piGradNorm[0] > 0


def test_what_does_not_fit_is_refused_before_any_update():
    with pytest.raises(ValueError, match=f"replay_size={12 * B} .* 9 . 3"):
        prepared(algo_of("sac", replay_size=12 * B), AGENTS["sac"](model_kwargs=GRU))
    wide = dict(memory=dict(kind="gtrxl", window=20, num_heads=2), lstm_size=4, **NARROW)
    with pytest.raises(ValueError, match="window=20"):
        prepared(algo_of("td3"), AGENTS["td3"](model_kwargs=wide))
    with pytest.raises(ValueError, match="compile must be None"):
        prepared(algo_of("ddpg", compile="update"), AGENTS["ddpg"](model_kwargs=GRU))


def test_state_survives_saving():
    algos = [algo_of("td3") for _ in range(2)]
    agents = [AGENTS["td3"](model_kwargs=GRU) for _ in range(2)]
    for algo, agent in zip(algos, agents, strict=True):
        fill(algo, prepared(algo, agent), 8)
        shake(agent.model, 0.1)
    for _ in range(2):
        one_update(algos[0])
    agents[1].load_state_dict(agents[0].state_dict())
    algos[1].load_state_dict(algos[0].state_dict())
    for algo in algos:
        torch.manual_seed(2)
        for _ in range(2):
            one_update(algo)
    assert_same_state(agents[0].state_dict(), agents[1].state_dict())
