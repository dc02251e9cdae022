"""Forward passes in bfloat16; everything that is computed from them in float32."""

import pytest
import torch

from rlpyt.algos.dqn import cat_dqn, dqn, qr_dqn
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from tests.algos.dqn.parts_dqn import AGENTS, B, T, fill, prepared

SMALL = dict(min_steps_learn=2 * T * B, replay_size=40 * B)
SEQUENCES = dict(batch_T=4, batch_B=4, warmup_T=4, store_rnn_state_interval=4, n_step_return=2)
ALGOS = {
    "dqn": lambda **kw: DQN(**SMALL, **kw),
    "cat": lambda **kw: CategoricalDQN(-10, 300, **SMALL, **kw),
    "qr": lambda **kw: QRDQN(**SMALL, **kw),
    "iqn": lambda **kw: IQN(n_tau=8, n_tau_target=8, **SMALL, **kw),
    "r2d1": lambda **kw: R2D1(replay_ratio=16, **SMALL, **SEQUENCES, **kw),
}


def run_of(name, **kwargs):
    torch.manual_seed(0)
    algo = ALGOS[name](**kwargs)
    return algo, prepared(algo, AGENTS[name]())


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", ALGOS)
def test_losses_are_close_and_in_float32(name, double):
    algo, sampler = run_of(name, double_dqn=double)
    samples = fill(algo, sampler)
    batch = algo.replay_buffer.sample_batch(16)
    out, networks_in_bfloat16 = {}, []
    for network in (algo.agent.model, algo.agent.target_model):
        network.register_forward_hook(
            lambda *_: networks_in_bfloat16.append(torch.is_autocast_enabled("cpu"))
        )
    for mixed in (False, True):
        algo.mixed_precision = mixed
        torch.manual_seed(1)  # of the fractions that IQN draws
        networks_in_bfloat16.clear()
        out[mixed] = algo.loss(batch)
        assert set(networks_in_bfloat16) == {mixed}
        assert {x.dtype for x in out[mixed]} == {torch.float32}
    assert out[True][0].item() == pytest.approx(out[False][0].item(), rel=0.05)
    before = [p.detach().clone() for p in algo.agent.model.parameters()]
    algo.optimize_agent(9, samples)
    assert all(not torch.equal(p, old) for p, old in zip(algo.agent.model.parameters(), before))


@pytest.mark.parametrize(
    "name, module, function",
    [("dqn", dqn, "huber"), ("cat", cat_dqn, "project_onto_atoms"),
     ("cat", cat_dqn, "categorical_loss"), ("qr", qr_dqn, "quantile_huber_loss"),
     ("iqn", qr_dqn, "quantile_huber_loss")],
)  # fmt: skip
def test_the_mathematics_is_never_in_bfloat16(name, module, function, monkeypatch):
    algo, sampler = run_of(name, mixed_precision=True, double_dqn=True)
    fill(algo, sampler)
    own, seen = getattr(module, function), []

    def spy(*args):
        seen.extend(x.dtype for x in args if isinstance(x, torch.Tensor))
        seen.append(torch.is_autocast_enabled("cpu"))
        return own(*args)

    monkeypatch.setattr(module, function, spy)
    algo.loss(algo.replay_buffer.sample_batch(8))
    assert set(seen) == {torch.float32, False}
