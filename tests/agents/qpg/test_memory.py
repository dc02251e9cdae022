"""Agents of continuous control with memory: acting, recorded states, memories of the critics."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.qpg.base import NetworkInputs
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.ensemble import Ensemble
from rlpyt.models.qpg.mlp import QofMuMlpModel
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import buffer_func, buffer_method, leaves_of
from rlpyt.utils.seed import set_seed
from tests.algos.qpg.parts_qpg import AGENTS, NARROW, A, DriftEnv, assert_same_state

SPACES = DriftEnv().spaces
MEMORIES = {
    "lstm": "lstm",
    "gru": "gru",
    "ln_lstm": "ln_lstm",
    "mingru": "mingru",
    "gtrxl": dict(kind="gtrxl", window=4, num_layers=1, num_heads=2),
}


def recurrent(kind, memory="gru", **kwargs):
    model_kwargs = dict(memory=MEMORIES.get(memory, memory), lstm_size=4, **NARROW)
    return AGENTS[kind](model_kwargs=model_kwargs, **kwargs)


def initialized(kind, memory="gru", **kwargs):
    torch.manual_seed(0)
    agent = recurrent(kind, memory, **kwargs)
    agent.initialize(SPACES)
    agent.sample_mode(0)
    return agent


@pytest.mark.parametrize("kind", AGENTS)
def test_agents_with_memory_keep_the_contract(kind):
    assert check_agent(recurrent(kind), SPACES).ok


@pytest.mark.parametrize("memory", MEMORIES)
def test_recorded_outputs_are_those_of_the_sequence(memory):
    """From the first recorded state, the policy over [T, B] gives what acting has recorded."""
    agent = recurrent("sac", memory)
    sampler = SerialSampler(
        EnvCls=DriftEnv, env_kwargs=dict(length=50, fixed=True), batch_T=6, batch_B=3,
        max_decorrelation_steps=0,
    )  # fmt: skip
    set_seed(1)
    sampler.initialize(agent, seed=5)
    for itr in range(2):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
    info = samples.agent.agent_info
    recorded = buffer_func(info.prev_rnn_state, lambda x: x[0].transpose(0, 1))
    assert any(leaf.any() for leaf in leaves_of(recorded))
    inputs = (samples.env.observation, samples.agent.prev_action, samples.env.prev_reward)
    with torch.no_grad():
        head_inputs, state = agent.head_inputs(agent.model, *inputs, recorded)
        mean, log_std = agent.model(head_inputs)
    torch.testing.assert_close(mean, info.dist_info.mean)
    torch.testing.assert_close(log_std, info.dist_info.log_std)
    after = zip(leaves_of(state), leaves_of(agent.prev_rnn_state), strict=True)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in after)


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_an_alternating_sampler_records_the_states_of_its_groups(kind):
    def batches(Sampler, **kwargs):
        sampler = Sampler(
            EnvCls=DriftEnv, env_kwargs=dict(length=5), batch_T=4, batch_B=4,
            max_decorrelation_steps=0,
        )  # fmt: skip
        agent = recurrent(kind)
        set_seed(1)
        sampler.initialize(agent, seed=5, **kwargs)
        try:
            for itr in range(2):
                agent.sample_mode(itr)
                samples, _ = sampler.obtain_samples(itr)
            return buffer_method(samples, "clone")
        finally:
            sampler.shutdown()

    affinity = dict(n_workers=2)
    expected = batches(SerialSampler)
    for a, b in zip(
        leaves_of(batches(AlternatingSampler, affinity=affinity).agent),
        leaves_of(expected.agent),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", AGENTS)
def test_each_critic_has_a_memory_of_its_own_like_the_policys(kind):
    agent = initialized(kind)
    critics = agent.members("q_model")
    assert len(critics) == (1 if kind == "ddpg" else 2)
    assert isinstance(agent.q_model, Ensemble) == (kind != "ddpg")
    for critic in critics:
        layer = critic.recurrent_layer
        assert isinstance(layer, torch.nn.GRU) and layer.hidden_size == 4
        assert layer is not agent.model.recurrent_layer
    assert agent.recurrent and not agent.observation_only
    fresh = initialized(kind)
    for network in (agent.model, *agent._networks().values()):
        for p in network.parameters():
            p.data.add_(torch.randn_like(p))
    fresh.load_state_dict(agent.state_dict())
    assert_same_state(fresh.state_dict(), agent.state_dict())


IMAGE = EnvSpaces(GymSpaceWrapper(spaces.Box(0, 255, (1, 12, 12), np.uint8)), SPACES.action)


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_separate_critics_have_the_names_of_joined_ones(kind, images):
    joined = AGENTS[kind](model_kwargs=NARROW, q_model_kwargs=NARROW)
    joined.initialize(SPACES)
    agent = AGENTS[kind](model_kwargs=NARROW, q_model_kwargs=NARROW) if images else recurrent(kind)
    agent.initialize(IMAGE if images else SPACES)
    assert isinstance(agent.q_model, Ensemble) and joined.n_joined == 2
    state = agent.state_dict()
    assert state.keys() == joined.state_dict().keys()
    for prefix in ("", "target_"):
        for i, member in enumerate(agent.members(f"{prefix}q_model"), 1):
            own = state[f"{prefix}q{i}_model"]
            assert own.keys() == member.state_dict().keys()
            assert all(torch.equal(own[name], x) for name, x in member.state_dict().items())
    assert not torch.equal(*(next(iter(state[f"q{i}_model"].values())) for i in (1, 2)))


def test_critics_may_have_another_memory_or_none():
    own = initialized("sac", q_model_kwargs=dict(memory="lstm", lstm_size=6, **NARROW))
    assert own.members("q_model")[0].core.lstm.hidden_size == 6
    none = initialized("sac", q_model_kwargs=dict(memory=None, **NARROW))
    assert none.q_model.recurrent_layer is None and none.n_joined == 2
    with pytest.raises(ValueError, match="q_model_kwargs: memory .*'gru'"):
        AGENTS["sac"](q_model_kwargs=dict(memory="gru", **NARROW)).initialize(SPACES)
    agent = AGENTS["sac"]()
    agent.recurrent = True
    with pytest.raises(ValueError, match="PiMlpModel .*recurrent_layer"):
        agent.initialize(SPACES)
    with pytest.raises(ValueError, match="n_critics .*memory, got 2"):
        QofMuMlpModel((3,), [8], A, n_critics=2, memory="gru")


def test_the_largest_window_of_all_memories_counts():
    wide = dict(memory=dict(kind="gtrxl", window=9, num_heads=2), lstm_size=4, **NARROW)
    assert initialized("sac", "gtrxl").attention_window == 4
    assert initialized("sac", "gtrxl", q_model_kwargs=wide).attention_window == 9
    assert initialized("sac").attention_window is None


def test_the_memory_of_frozen_critics_gets_no_gradient():
    agent = initialized("sac")
    T, B = 3, 2
    inputs = (torch.rand(T, B, 3), torch.rand(T, B, A), torch.rand(T, B))
    run = lambda network: network(*inputs, None)[0]
    found = agent.sequence_inputs("q_model", inputs, run)
    steps = NetworkInputs(q_model=buffer_func(found, lambda leaf: leaf.flatten(0, 1)))
    q = agent.q(steps, None, None, torch.rand(T * B, A))
    assert q.shape == (2, T * B)
    q.sum().backward(retain_graph=True)
    assert all(p.grad is not None for p in agent.q_parameters())
    for p in agent.q_parameters():
        p.grad = None
        p.requires_grad_(False)
    action = torch.rand(T * B, A, requires_grad=True)
    agent.q(steps, None, None, action).sum().backward()
    assert action.grad.abs().min() > 0
    assert all(p.grad is None for p in agent.q_parameters())
