"""Memories are parts of models: every recurrent model takes each of them."""

import pytest
import torch
from torch import nn

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.dqn.vector import IqnMlpAgent, R2d1LstmAgent
from rlpyt.agents.pg.vector import CategoricalLstmAgent, GaussianLstmAgent
from rlpyt.algos.dqn.qr_dqn import IQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.toy import MemoryEnv, ReachEnv
from rlpyt.models import recurrent
from rlpyt.models.blocks import make_lnlstm
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.vector import DqnMlpModel, R2d1LstmModel
from rlpyt.models.gtrxl import WindowState
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.pg.vector import CategoricalLstmModel, GaussianLstmModel
from rlpyt.models.recurrent import RnnState
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.cases import product_of

T, B, A, O, H = 5, 3, 4, 6, 8
IMAGE = (2, 20, 18)
VECTOR = dict(hidden_sizes=[8], lstm_size=H)
PICTURE = dict(channels=[3], kernel_sizes=[4], strides=[2], paddings=[0], lstm_size=H)
MODELS = {
    "categorical": lambda **kw: CategoricalLstmModel((O,), A, **{**VECTOR, **kw}),
    "gaussian": lambda **kw: GaussianLstmModel((O,), A, **{**VECTOR, **kw}),
    "r2d1": lambda **kw: R2d1LstmModel((O,), A, **{**VECTOR, **kw}),
    "mujoco": lambda **kw: MujocoLstmModel((O,), A, **{**VECTOR, **kw}),
    "atari": lambda **kw: AtariLstmModel(IMAGE, A, 8, **{**PICTURE, **kw}),
    "atari_r2d1": lambda **kw: AtariR2d1Model(IMAGE, A, 8, **{**PICTURE, **kw}),
    "dqn": lambda **kw: DqnMlpModel((O,), A, **{"memory": "lstm", **VECTOR, **kw}),
    "atari_dqn": lambda **kw: AtariDqnModel(IMAGE, A, 8, **{"memory": "lstm", **PICTURE, **kw}),
}
IMAGES = ("atari", "atari_r2d1", "atari_dqn")


def layer_norm_lstm(input_size, size):
    return make_lnlstm(input_size, size, num_layers=2)


MEMORIES = {  # and the first dimension of the state
    "lstm": ("lstm", 1),
    "gru": ("gru", 1),
    "ln_lstm": ("ln_lstm", 1),
    "mingru": ("mingru", 1),
    "gtrxl": (dict(kind="gtrxl", window=3), 6),
    "own": (layer_norm_lstm, 2),
}
STATES = {"gru": torch.Tensor, "mingru": torch.Tensor, "gtrxl": WindowState}


def inputs_of(name, *lead):
    observation = torch.randn(*lead, O)
    if name in IMAGES:
        observation = torch.randint(0, 256, (*lead, *IMAGE), dtype=torch.uint8)
    action = nn.functional.one_hot(torch.randint(0, A, lead), A).float()
    return observation, action, torch.randn(lead)


def test_a_named_memory_may_have_parameters_of_one_dimension(monkeypatch):
    monkeypatch.setitem(recurrent.MEMORIES, "layer_norm_lstm", layer_norm_lstm)
    model = CategoricalLstmModel((O,), A, **VECTOR, memory="layer_norm_lstm")
    scales = [p for n, p in model.named_parameters() if "norm" in n and n.endswith("weight")]
    assert scales and all((p == 1).all() for p in scales)


@pytest.mark.parametrize("form", [lambda *x: x, lambda *x: dict(zip("ab", x))])
def test_a_memory_whose_state_has_another_form_is_named(form):
    class Several(nn.GRU):
        def forward(self, input, state=None):
            output, state = super().forward(input)
            return output, form(state, state, state)

    with pytest.raises(TypeError, match="Several returns must be a tensor, a pair of tensors, or"):
        recurrent.run_layer(Several(3, 2), torch.zeros(1, 1, 3), None)


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", MODELS)
def test_acting_step_by_step_is_training_on_the_sequence(name, kind):
    torch.manual_seed(0)
    memory, n_layers = MEMORIES[kind]
    model = MODELS[name](memory=memory)
    inputs = inputs_of(name, T, B)
    *whole, last = model(*inputs, None)
    state = None
    for t in range(T):
        *step, state = model(*(x[t] for x in inputs), state)
        for own, theirs in zip(step, whole, strict=True):
            torch.testing.assert_close(own, theirs[t], rtol=1e-4, atol=1e-5)
    assert type(state) is type(last) is STATES.get(kind, RnnState)
    leaves, at_once = leaves_of(state), leaves_of(last)
    torch.testing.assert_close(leaves, at_once, rtol=1e-4, atol=1e-5)
    assert leaves[0].shape == (n_layers, B, H)
    assert all(leaf.shape[1] == B for leaf in leaves)


@pytest.mark.parametrize("kind", ["mingru", "gtrxl"])
def test_episodes_may_start_at_any_steps_of_a_sequence(kind):
    """All 2^T patterns of starts at once, from a state, are the steps one by one."""
    T = 8
    torch.manual_seed(0)
    module = nn.Module()
    memory = dict(kind=kind, num_layers=2, **(dict(window=3) if kind == "gtrxl" else {}))
    layer = getattr(module, recurrent.add_memory(module, memory, O, H))
    starts = ((torch.arange(2**T) >> torch.arange(T)[:, None]) & 1).bool()  # [T, 2^T]
    inputs = torch.randn(T, 2**T, O)
    _, state = recurrent.run_layer(layer, torch.randn(4, 2**T, O), None)
    output, last = recurrent.run_layer(layer, inputs, recurrent.StateAndStarts(state, starts))
    for t in range(T):
        state = buffer_func(state, lambda x, t=t: x * ~starts[t, :, None])
        step, state = recurrent.run_layer(layer, inputs[t : t + 1], state)
        torch.testing.assert_close(output[t], step[0], rtol=0, atol=1e-5)
    for x, y in zip(leaves_of(last), leaves_of(state), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_called_by_the_kind_of_memory(name):
    kinds = dict(lstm="lstm.", gru="gru.", mingru="mingru.")
    for memory, part in (*kinds.items(), (layer_norm_lstm, "memory.")):
        names = list(MODELS[name](memory=memory).state_dict())
        assert any(f".{part}" in f".{own}" for own in names)
    default = set(MODELS[name]().state_dict())
    assert default == set(MODELS[name](memory="lstm").state_dict())


@pytest.mark.parametrize("name", MODELS)
def test_unknown_memories_are_refused(name):
    with pytest.raises(ValueError, match="memory='rnn' .*lstm, gru, "):
        MODELS[name](memory="rnn")
    with pytest.raises(TypeError, match="memory={.*}: .*'windows'"):
        MODELS[name](memory=dict(kind="gtrxl", windows=3))


@pytest.mark.parametrize("name", MODELS)
def test_the_size_may_be_a_whole_float(name):
    def shapes(size):
        return [p.shape for p in MODELS[name](lstm_size=size).parameters()]

    assert shapes(8.0) == shapes(8)
    with pytest.raises(TypeError, match="lstm_size=8.5"):
        shapes(8.5)


SEQUENCES = dict(
    batch_T=6, batch_B=4, warmup_T=2, store_rnn_state_interval=2, min_steps_learn=60,
    replay_size=600, n_step_return=2, learning_rate=1e-3,
)  # fmt: skip


def sequences():
    return R2D1(**SEQUENCES)


def implicit():
    return IQN(n_tau=4, n_tau_target=4, replay_ratio=2, **SEQUENCES)


TRAINED = {
    "a2c": (A2C, CategoricalLstmAgent, MemoryEnv, CpuSampler),
    "ppo": (lambda: PPO(minibatches=2), GaussianLstmAgent, ReachEnv, SerialSampler),
    "vtrace": (VTrace, CategoricalLstmAgent, MemoryEnv, AlternatingSampler),
    "r2d1": (sequences, R2d1LstmAgent, MemoryEnv, SerialSampler),
    "iqn": (implicit, IqnMlpAgent, MemoryEnv, AlternatingSampler),
}
KINDS = {
    "gru": "gru",
    "mingru": "mingru",
    "gtrxl": dict(kind="gtrxl", window=4),
    "own": layer_norm_lstm,
}


@pytest.mark.parametrize(
    ("algo", "memory"),
    product_of(
        TRAINED,
        KINDS,
        fast=[
            *(("r2d1", "gru"), ("a2c", "mingru")),  # others in experiments/test_combinations.py
            *((algo, memory) for algo in TRAINED for memory in ("gtrxl", "own")),
        ],
    ),
)
def test_agents_train_with_any_memory(algo, memory):
    make_algo, Agent, EnvCls, Sampler = TRAINED[algo]
    agent = Agent(model_kwargs=dict(memory=KINDS[memory], lstm_size=8))
    algo = make_algo()
    sampler = Sampler(EnvCls=EnvCls, env_kwargs={}, batch_T=10, batch_B=4)
    MinibatchRl(
        algo=algo, agent=agent, sampler=sampler, n_steps=200, seed=1, affinity=dict(n_workers=2)
    ).train()
    assert algo.update_counter > 0


@pytest.mark.parametrize("memory", ["mingru", dict(kind="gtrxl", window=4)], ids=str)
@pytest.mark.parametrize("algo", [A2C, lambda: PPO(minibatches=2), VTrace, sequences])
def test_resets_inside_rows_are_trained_as_separate_episodes(algo, memory, monkeypatch):
    """With and without cutting the batch into episodes, parameters become the same."""

    def parameters():
        model_kwargs = dict(memory=memory, lstm_size=8)
        Agent = R2d1LstmAgent if algo is sequences else CategoricalLstmAgent
        agent, trained = Agent(model_kwargs=model_kwargs), algo()
        sampler = SerialSampler(EnvCls=MemoryEnv, env_kwargs={}, batch_T=12, batch_B=4)
        MinibatchRl(algo=trained, agent=agent, sampler=sampler, n_steps=150, seed=1).train()
        assert trained.update_counter > 0
        return list(agent.parameters())

    monkeypatch.setattr(BaseAgent, "takes_starts", False)
    cut = parameters()
    monkeypatch.undo()
    inside = parameters()
    for own, theirs in zip(inside, cut, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-3, atol=1e-4)


def test_an_agent_resets_inside_rows_only_if_its_model_can():
    class Own(CategoricalLstmModel):
        def forward(self, *inputs):
            return super().forward(*inputs)

    for memory, Model in (
        ("mingru", CategoricalLstmModel),
        ("gru", CategoricalLstmModel),
        ("mingru", Own),
    ):
        agent = CategoricalLstmAgent(ModelCls=Model, model_kwargs=dict(memory=memory))
        agent.initialize(MemoryEnv().spaces)
        assert agent.takes_starts == (memory == "mingru" and Model is not Own)


@pytest.mark.parametrize(
    ("algo", "Agent", "length"),
    [
        (PPO, CategoricalLstmAgent, "batch_T = 10"),
        (A2C, CategoricalLstmAgent, "batch_T = 10"),
        (VTrace, CategoricalLstmAgent, "batch_T = 10"),
        (sequences, R2d1LstmAgent, r"warmup_T \+ batch_T = 8"),
        (implicit, IqnMlpAgent, r"warmup_T \+ batch_T = 8"),
    ],
)
def test_windows_longer_than_a_sequence_are_refused(algo, Agent, length):
    agent = Agent(model_kwargs=dict(memory=dict(kind="gtrxl", window=11), lstm_size=8))
    sampler = SerialSampler(EnvCls=MemoryEnv, env_kwargs={}, batch_T=10, batch_B=4)
    runner = MinibatchRl(algo=algo(), agent=agent, sampler=sampler, n_steps=200)
    with pytest.raises(ValueError, match=f"window=11 .* {length}"):
        runner.train()
