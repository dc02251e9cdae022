"""One update is a function of a batch, which can be compiled as a whole."""

import copy
import math
import re

import pytest
import torch
from torch.nn import Linear, RNNBase

from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.toy import DelayEnv
from rlpyt.errors import NonFiniteError
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import set_seed
from tests.algos.dqn import parts_dqn
from tests.algos.qpg import parts_qpg

Q = dict(min_steps_learn=48, replay_size=180, batch_size=16, replay_ratio=2)
SEQUENCES = dict(
    batch_T=4, batch_B=3, warmup_T=2, store_rnn_state_interval=2, n_step_return=2,
    min_steps_learn=1, replay_size=180,
)  # fmt: skip
ALGOS = {
    "a2c": A2C,
    "ppo": lambda: PPO(minibatches=1, epochs=1),
    "ppo_lstm": lambda: PPO(minibatches=2, epochs=1),
    "vtrace": VTrace,
    "dqn": lambda: DQN(**Q, double_dqn=True, prioritized_replay=True),
    "cat": lambda: CategoricalDQN(-3, 3, **Q),
    "qr": lambda: QRDQN(**Q),
    "r2d1": lambda: R2D1(**SEQUENCES),
    "ddpg": lambda: DDPG(**Q),
    "td3": lambda: TD3(**Q),
    "sac": lambda: SAC(**Q),
    "sac_v": lambda: SAC_V(**Q),
}


def ready(name):
    """An algorithm, and the batches of four iterations."""
    algo = ALGOS[name]()
    if name in parts_dqn.AGENTS or name in parts_qpg.AGENTS:
        parts = parts_dqn if name in parts_dqn.AGENTS else parts_qpg
        agent = parts.AGENTS[name]()
        sampler = parts.prepared(algo, agent)
        parts.fill(algo, sampler)
    else:
        agent = CategoricalLstmAgent() if name == "ppo_lstm" else CategoricalMlpAgent()
        sampler = SerialSampler(EnvCls=DelayEnv, env_kwargs={}, batch_T=6, batch_B=4)
        set_seed(1)
        examples = sampler.initialize(agent, seed=5, bootstrap_value=True)
        algo.initialize(agent, 10, sampler.batch_spec, True, examples)
    agent.sample_mode(0)
    set_seed(2)
    return algo, [copy.deepcopy(sampler.obtain_samples(6 + itr)[0]) for itr in range(4)]


def trained(name, decorate=lambda update: update):
    """Parameters and statistics after four iterations."""
    algo, batches = ready(name)
    algo.update = decorate(algo.update)
    algo.agent.train_mode(6)
    infos = [algo.optimize_agent(6 + itr, batch) for itr, batch in enumerate(batches)]
    assert algo.update_counter >= 4
    return algo.agent.state_dict(), infos


def as_a_whole(update):
    return torch.compile(update, backend="eager")


SOON = ("ppo", "cat")  # compiled in the fast suite; all in the slow one


@pytest.mark.parametrize(
    "name", [*SOON, *(pytest.param(n, marks=pytest.mark.slow) for n in ALGOS if n not in SOON)]
)
def test_a_compiled_update_is_the_plain_one(name):
    plain, compiled = trained(name), trained(name, as_a_whole)
    torch.compiler.reset()
    torch.testing.assert_close(compiled, plain, rtol=0, atol=0)


@pytest.mark.parametrize("name", ALGOS)
def test_an_update_changes_parameters_and_optimizers_alone(name):
    algo, batches = ready(name)
    seen = []

    def watched(*args):
        before = dict(vars(algo))
        outcome = type(algo).update(algo, *args)
        changed = {k for k, v in vars(algo).items() if before.get(k, algo) is not v}
        seen.append(changed)
        return outcome

    algo.update = watched
    algo.agent.train_mode(6)
    for itr, batch in enumerate(batches):
        algo.optimize_agent(6 + itr, batch)
    assert seen and not any(seen)


class CountingPPO(PPO):
    opt_info_fields = (*PPO.opt_info_fields, "samples")

    def loss(self, batch):
        return *super().loss(batch), torch.tensor(float(len(batch.action)))


class CountingDQN(DQN):
    opt_info_fields = (*DQN.opt_info_fields, "samples")

    def update(self, batch):
        statistics, priorities = super().update(batch)
        return (*statistics, torch.tensor(float(len(batch.action)))), priorities


@pytest.mark.parametrize(
    ("name", "Algo", "n"), [("ppo", CountingPPO, 12), ("dqn", CountingDQN, 16)]
)
def test_subclasses_add_statistics(name, Algo, n, monkeypatch):
    monkeypatch.setitem(ALGOS, name, lambda: Algo(**Q) if name == "dqn" else Algo(minibatches=2))
    algo, (batch, *_) = ready(name)
    algo.agent.train_mode(6)
    info = algo.optimize_agent(6, batch)
    assert info._fields == algo.opt_info_fields and len(info.samples) == len(info.loss) > 0
    assert set(info.samples) == {n}


@pytest.mark.parametrize("name", ALGOS)
def test_the_module_where_nan_arises_is_named(name, monkeypatch):
    """It is found after the error, by repeating the update without gradient steps."""
    backward, n_gradients = torch.Tensor.backward, []

    def counted(loss):
        n_gradients.append(bool(loss.isnan()))
        backward(loss)

    monkeypatch.setattr(torch.Tensor, "backward", counted)
    algo, batches = ready(name)
    model = algo.agent.model
    named = {m: k for k, m in model.named_modules()}
    memories, layers = ([m for m in named if isinstance(m, kind)] for kind in (RNNBase, Linear))
    broken = (memories or layers)[0]
    with torch.no_grad():
        next(broken.parameters()).fill_(torch.nan)
    algo.agent.train_mode(6)
    where = f"{type(broken).__name__}, module 'model.{named[broken]}'."
    expected = re.escape(where)
    with pytest.raises(NonFiniteError, match=expected):
        for itr, batch in enumerate(batches):
            algo.optimize_agent(6 + itr, batch)
    assert not any(m._forward_hooks for m in model.modules())
    assert n_gradients.count(True) == 1


MISUSES = {
    "detached": (lambda loss: loss.detach(), ValueError, "no parameter.*detach"),
    "vector": (lambda loss: loss.repeat(3), ValueError, r"scalar.* \(3,\)"),
    "tuple": (lambda loss: (loss, loss), TypeError, "scalar.* tuple"),
    "number": (lambda loss: loss.item(), TypeError, "scalar.* float"),
}


@pytest.mark.parametrize("misuse", MISUSES)
@pytest.mark.parametrize("name", ["a2c", "ppo", "vtrace", "dqn"])
def test_a_loss_that_is_no_scalar_with_gradient_is_named(name, misuse):
    change, error, message = MISUSES[misuse]
    algo, (batch, *_) = ready(name)
    algo.agent.train_mode(6)
    loss = algo.loss

    def changed(*inputs):
        value, *others = loss(*inputs)
        return change(value), *others

    algo.loss = changed
    with pytest.raises(error, match=message):
        algo.optimize_agent(6, batch)


@pytest.mark.parametrize("name", ["a2c", "ppo", "vtrace"])
@pytest.mark.parametrize("more", [-1, 1])
def test_another_number_of_statistics_than_declared_is_named(name, more):
    algo, (batch, *_) = ready(name)
    algo.agent.train_mode(6)
    loss = algo.loss
    algo.loss = lambda *inputs: (*loss(*inputs), torch.zeros(()))[: None if more == 1 else -2]
    names, n = ", ".join(algo.returned_fields), len(algo.returned_fields) + more
    with pytest.raises(ValueError, match=f"{names}, .*got {n} "):
        algo.optimize_agent(6, batch)


def test_record_takes_tensors_of_any_kind_and_names_others():
    algo, _ = ready("a2c")
    some = torch.arange(1000)
    algo.record(a=some.float().requires_grad_(), b=some, c=some > 499, d=torch.zeros(0))
    means = algo.read_recorded()
    assert [means[name][0] for name in "abc"] == [499.5, 499.5, 0.5] and math.isnan(means["d"][0])
    with pytest.raises(TypeError, match="record .*x: float, y: NoneType"):
        algo.record(x=1.0, ok=some, y=None)
