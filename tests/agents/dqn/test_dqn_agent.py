import copy
import pickle

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariIqnAgent, AtariQrDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent, AtariR2d1AlternatingAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.vector import (
    CatDqnMlpAgent,
    DqnMlpAgent,
    IqnMlpAgent,
    QrDqnMlpAgent,
    R2d1LstmAgent,
    dqn_agent_for,
)
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.utils.buffer import leaves_of
from tests.parts import ShapedCountEnv

B, A = 4, 3
SPACES = CountEnv().spaces
SMALL = dict(channels=[4], kernel_sizes=[2], strides=[1], paddings=[0])
NOISY = dict(noisy=True, dueling=True, hidden_sizes=[16, 16])

VECTOR_AGENTS = {
    "dqn": DqnMlpAgent,
    "dueling": lambda: DqnMlpAgent(model_kwargs=dict(dueling=True)),
    "cat": lambda: CatDqnMlpAgent(n_atoms=11),
    "qr": lambda: QrDqnMlpAgent(n_quantiles=7),
    "iqn": lambda: IqnMlpAgent(n_act_quantiles=5),
    "noisy": lambda: CatDqnMlpAgent(n_atoms=11, model_kwargs=NOISY),
    "r2d1": lambda: R2d1LstmAgent(model_kwargs=dict(lstm_size=8)),
}
IMAGE_AGENTS = [AtariDqnAgent, AtariCatDqnAgent, AtariQrDqnAgent, AtariIqnAgent]


def initialized(name, **kwargs):
    torch.manual_seed(0)
    agent = VECTOR_AGENTS[name]()
    agent.initialize(SPACES, **kwargs)
    return agent


def inputs(B=B, seed=1):
    g = torch.Generator().manual_seed(seed)
    observation = torch.randn(B, 3, generator=g)
    return observation, torch.randint(A, (B,), generator=g), torch.randn(B, generator=g)


def act(agent, seed=1, **kwargs):
    return agent.step(*inputs(seed=seed, **kwargs))


@pytest.mark.parametrize("name", VECTOR_AGENTS)
def test_target_equals_the_model_at_first_and_follows_when_told(name):
    agent = initialized(name)
    model, target = agent.model.state_dict(), agent.target_model.state_dict()
    assert all(torch.equal(model[k], target[k]) for k in model)
    assert not any(p.requires_grad for p in agent.target_model.parameters())
    with torch.no_grad():
        for p in agent.model.parameters():
            p.add_(1.0)
    old = copy.deepcopy(agent.target_model.state_dict())
    agent.update_target(0.25)
    for k, value in agent.target_model.state_dict().items():
        assert torch.allclose(value, old[k] + 0.25, atol=1e-6)
    agent.update_target()
    assert all(torch.equal(v, model[k]) for k, v in agent.target_model.state_dict().items())


class Forgetful(torch.nn.Module):
    """Dropout and statistics of batches, which a target network must not have."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(),
            torch.nn.Linear(8, output_size),
        )  # fmt: skip

    def forward(self, observation, prev_action, prev_reward):
        return self.layers(observation)


def test_the_number_of_atoms_may_come_first():
    assert CatDqnMlpAgent(11).n_atoms == 11
    assert CatDqnMlpAgent(CatDqnMlpAgent.ModelCls, n_atoms=5).n_atoms == 5


def test_targets_have_no_dropout_and_do_not_depend_on_the_batch():
    agent = DqnMlpAgent(ModelCls=Forgetful)
    agent.initialize(SPACES)
    agent.train_mode(0)
    target = agent.target(*inputs())
    assert torch.equal(target, agent.target(*inputs()))
    assert torch.allclose(target[:2], agent.target(*(x[:2] for x in inputs())))
    assert not torch.equal(agent(*inputs()), agent(*inputs()))
    agent.update_target()
    assert not agent.target_model.training


def test_the_target_has_an_encoder_of_its_own():
    """Also if a function returns the same module, say a trained one, at each call."""
    encoder = torch.nn.Linear(1, 2)
    encoder.output_size = 2
    agent = DqnMlpAgent(model_kwargs=dict(encoder=lambda shape: encoder))
    with pytest.warns(UserWarning, match="returned a Linear .*copy"):
        agent.initialize(SPACES)
    assert agent.model.images[0] is encoder and encoder.weight.requires_grad
    target = agent.target_model.images[0]
    assert torch.equal(target.weight, encoder.weight) and not target.weight.requires_grad
    torch.nn.init.zeros_(encoder.weight)
    assert target.weight.any()
    model = agent.model
    again = DqnMlpAgent(ModelCls=lambda **kwargs: model)
    with pytest.warns(UserWarning, match="returned a DqnMlpModel .*copy"):
        again.initialize(SPACES)
    parts = [{*x.parameters()} for x in (model, again.model, again.target_model)]
    assert sum(map(len, parts)) == len(set.union(*parts))


@pytest.mark.parametrize(
    "AgentCls, name, module, sizes",
    [
        (DqnMlpAgent, "nonlinearity", torch.nn.PReLU(), {}),
        (R2d1LstmAgent, "memory", torch.nn.GRU(7, 8), dict(lstm_size=8, hidden_sizes=[])),
    ],
)
def test_the_target_has_activations_and_a_memory_of_its_own(AgentCls, name, module, sizes):
    agent = AgentCls(model_kwargs={name: lambda *sizes: module, **sizes})
    with pytest.warns(UserWarning, match=f"returned a {type(module).__name__} .*copy"):
        agent.initialize(SPACES)
    parts = [{*x.parameters()} for x in (agent.model, agent.target_model)]
    assert not set.intersection(*parts) and len(parts[0]) == len(parts[1])
    assert all(p.requires_grad for p in parts[0])


def test_activations_without_parameters_may_be_the_same_module():
    relu = torch.nn.ReLU()
    agent = DqnMlpAgent(model_kwargs=dict(nonlinearity=lambda: relu))
    agent.initialize(SPACES)
    assert agent.target_model.trunk.model[1] is relu


def test_noisy_layers_of_the_target_are_noisy():
    agent = initialized("noisy")
    assert not torch.equal(agent.target(*inputs()), agent.target(*inputs()))


@pytest.mark.parametrize("name", VECTOR_AGENTS)
def test_state_goes_round(name):
    agent, other = initialized(name), VECTOR_AGENTS[name]()
    with torch.no_grad():
        for p in agent.model.parameters():
            p.mul_(1.5)
    state = copy.deepcopy(agent.state_dict())
    assert set(state) == {"model", "target"}
    other.initialize(SPACES)
    other.load_state_dict(state)
    started = VECTOR_AGENTS[name]()
    started.initial_model_state_dict = state
    started.initialize(SPACES)
    for fresh in (other, started):
        own = fresh.state_dict()
        for part in ("model", "target"):
            assert all(torch.equal(own[part][k], state[part][k]) for k in state[part])
    half = VECTOR_AGENTS[name]()
    half.initial_model_state_dict = state["model"]
    half.initialize(SPACES)
    key = next(iter(state["model"]))
    assert torch.equal(half.target_model.state_dict()[key], state["model"][key])


def test_a_state_of_other_networks_is_refused():
    agent = initialized("dqn")
    for state in ({}, agent.model.state_dict()):
        with pytest.raises(ValueError, match=r"networks of this agent, \['model', 'target'\], got"):
            agent.load_state_dict(state)


@pytest.mark.parametrize("name", VECTOR_AGENTS)
def test_constructed_agents_pickle(name):
    agent = pickle.loads(pickle.dumps(VECTOR_AGENTS[name]()))
    agent.initialize(SPACES)
    agent.sample_mode(0)
    assert act(agent).action.shape == (B,)


@pytest.mark.parametrize("name", [n for n in VECTOR_AGENTS if n != "r2d1"])
def test_records_and_training_values(name):
    agent = initialized(name)
    agent.eval_mode(1)
    info = act(agent).agent_info
    extra = {"iqn": (torch.rand(B, 6),)}.get(name, ())
    values = agent(*inputs(), *extra)
    assert values.requires_grad and not agent.target(*inputs(), *extra).requires_grad
    if name in ("cat", "noisy"):
        assert info._fields == ("p",) and info.p.shape == values.shape == (B, A, 11)
    else:
        assert info._fields == ("q",) and info.q.shape == (B, A)
        assert values.shape == {"qr": (B, A, 7), "iqn": (B, A, 6)}.get(name, (B, A))
    if name == "qr":
        assert torch.allclose(info.q, values.mean(-1), atol=1e-6)


@pytest.mark.parametrize("name", VECTOR_AGENTS)
def test_deterministic_evaluation_is_greedy(name):
    agent = initialized(name)
    agent.eps_eval = 1.0
    agent.eval_mode(1)
    assert len({tuple(act(agent).action.tolist()) for _ in range(20)}) > 1
    agent.deterministic = True
    agent.reset()
    first = act(agent)
    values = first.agent_info.get(0)
    q = values @ agent.distribution.z if values.dim() == 3 else values
    assert torch.equal(first.action, q.argmax(-1))
    agent.sample_mode(0)  # epsilon is 1, and evaluation's determinism does not reach sampling
    assert len({tuple(act(agent).action.tolist()) for _ in range(20)}) > 1


@pytest.mark.parametrize("name", ["dqn", "dueling", "cat", "qr"])
def test_numpy_acts_as_torch(name):
    agent = initialized(name)
    agent.settings["eps_itr"][:] = 0, 4
    agent.sample_mode(2)
    for n, greedy in ((B, False), (1, False), (B, True)):
        if greedy:
            agent.deterministic = True
            agent.eval_mode(1)
        policy = agent.fast_policy()
        for seed in range(20):
            noise = torch.rand(n, 2)
            agent.set_noise(noise)
            action, info = act(agent, seed=seed, B=n)
            own, parameters, last = policy(inputs(n, seed)[0].numpy(), noise.numpy())
            assert own.tolist() == action.tolist() and parameters == ()
            assert np.allclose(last, info.get(0).numpy(), atol=1e-6)


def test_what_cannot_act_in_numpy_does_not():
    for name in ("iqn", "noisy", "r2d1"):
        agent = initialized(name)
        agent.sample_mode(0)
        assert agent.fast_policy() is None

    class Own(DqnMlpAgent):
        def step(self, *args):
            return super().step(*args)

    for agent in (Own(), DqnMlpAgent(fast_acting=False)):
        agent.initialize(SPACES)
        agent.sample_mode(0)
        assert agent.fast_policy() is None


def test_noise_of_layers_belongs_to_the_environment():
    agent = initialized("noisy")
    assert agent.noise_spec.shape == (3,) and initialized("cat").noise_spec.shape == (2,)
    agent.sample_mode(0)
    noise = torch.rand(B, 3)

    def p_of(noise):
        agent.set_noise(noise)
        return act(agent, B=len(noise)).agent_info.p

    whole = p_of(noise)
    assert torch.equal(whole, p_of(noise))
    assert torch.allclose(p_of(noise[:2]), whole[:2], atol=1e-6)
    other = noise.clone()
    other[0, 2] = 1 - other[0, 2]
    assert not torch.allclose(p_of(other)[0], whole[0]) and torch.equal(p_of(other)[1:], whole[1:])
    agent.eval_mode(1)
    mean = act(agent).agent_info.p
    assert torch.equal(mean, act(agent).agent_info.p)
    agent.sample_mode(0)
    assert not torch.equal(act(agent).agent_info.p, act(agent).agent_info.p)  # torch's generator


def test_atoms_are_the_algorithms():
    agent = initialized("cat")
    agent.give_V_min_max(-3, 7)
    assert agent.distribution.z.tolist() == torch.linspace(-3, 7, 11).tolist()


def test_recurrent_agent_carries_and_resets_its_state():
    agent = initialized("r2d1")
    agent.sample_mode(0)
    first = act(agent).agent_info
    assert not any(leaf.any() for leaf in leaves_of(first.prev_rnn_state))
    assert first.prev_rnn_state.h.shape == (B, 1, 8)
    second = act(agent, seed=2).agent_info
    agent.reset_one(1)
    third = act(agent, seed=3).agent_info.prev_rnn_state.h
    assert not third[1].any() and third[0].any()
    T_inputs = [torch.stack([a, b]) for a, b in zip(inputs(), inputs(seed=2))]
    q, _ = agent(*T_inputs, None)
    assert torch.allclose(q[0], first.q, atol=1e-6) and torch.allclose(q[1], second.q, atol=1e-6)
    target_q, _ = agent.target(*T_inputs, None)
    assert not target_q.requires_grad  # so torch may take another kernel: equal to rounding
    rounding = 64 * torch.finfo(torch.float32).eps
    assert torch.allclose(target_q, q, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("Agent", [DqnMlpAgent, CatDqnMlpAgent, QrDqnMlpAgent, IqnMlpAgent])
def test_an_argument_of_the_model_gives_any_agent_a_memory(Agent):
    agent = Agent(model_kwargs=dict(memory="mingru", lstm_size=8, hidden_sizes=[16]))
    agent.initialize(SPACES)
    assert agent.recurrent and agent.takes_starts and not Agent().recurrent
    agent.sample_mode(0)
    first, second = act(agent).agent_info, act(agent, seed=2).agent_info
    assert second.prev_rnn_state.shape == (B, 1, 8) and second.prev_rnn_state.any()
    T_inputs = [torch.stack([a, b]) for a, b in zip(inputs(), inputs(seed=2))]
    for network in (agent, agent.target):
        out, _ = network(*T_inputs, init_rnn_state=None)
        values = agent.summarize(out) if Agent is IqnMlpAgent or Agent is QrDqnMlpAgent else out
        assert torch.allclose(values[0], next(iter(first)), atol=1e-5)
        assert torch.allclose(values[1], next(iter(second)), atol=1e-5)


@pytest.mark.parametrize("Agent", [*IMAGE_AGENTS, AtariR2d1Agent, AtariR2d1AlternatingAgent])
def test_agents_for_images(Agent):
    sizes = dict(fc_sizes=8) if Agent in IMAGE_AGENTS else dict(fc_size=8, lstm_size=8, head_size=8)
    agent = Agent(model_kwargs={**SMALL, **sizes})
    env = ShapedCountEnv("image")
    agent.initialize(env.spaces)
    agent.sample_mode(0)
    image = torch.randint(0, 256, (B, 1, 4, 4), dtype=torch.uint8)
    step = agent.step(image, torch.zeros(B, dtype=torch.long), torch.zeros(B))
    assert step.action.shape == (B,) and step.agent_info.get(0).shape[:2] == (B, A)


def test_other_actions_and_missing_models_are_refused():
    pendulum = make("Pendulum-v1").spaces
    with pytest.raises(TypeError, match="DqnMlpAgent .*Discrete.*ppo"):
        DqnMlpAgent().initialize(pendulum)
    with pytest.raises(TypeError, match="R2d1LstmAgent .*Discrete"):
        dqn_agent_for("r2d1", pendulum)
    with pytest.raises(ValueError, match="^DqnAgent .*ModelCls"):
        DqnAgent().initialize(SPACES)


@pytest.mark.parametrize("name", ["dqn", "iqn", "r2d1"])
def test_the_target_normalizes_observations_as_the_model_does(name):
    agent = VECTOR_AGENTS[name]()
    agent.model_kwargs["normalize_observation"] = True
    agent.initialize(SPACES)
    agent.update_obs_rms(1000 + torch.randn(50, 3))
    assert agent.target_model.obs_rms is agent.model.obs_rms
    before = copy.deepcopy(agent.state_dict())
    agent.update_obs_rms(torch.randn(50, 3))
    agent.load_state_dict(before)
    assert agent.model.obs_rms.count == 50
    before["target"] = {k: v * 0 if "rms" in k else v for k, v in before["target"].items()}
    agent.load_state_dict(before)  # of a version whose target had statistics of its own
    assert agent.model.obs_rms.count == agent.target_model.obs_rms.count == 50
