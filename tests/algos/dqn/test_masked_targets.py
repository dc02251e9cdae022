"""Targets take the best valid action of the next state."""

import pytest
import torch

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.algos import sequences
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import greedy_row, greedy_value
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.gym import GymEnvWrapper
from tests.algos.dqn.parts_dqn import B, T, fill, prepared
from tests.masked_env import MaskedEnv

SMALL = dict(
    min_steps_learn=2 * T * B, replay_size=60 * B, batch_size=16, n_step_return=2, discount=0.9
)
SEQUENCES = dict(
    batch_T=6, batch_B=4, warmup_T=4, store_rnn_state_interval=2, min_steps_learn=100,
    replay_size=60 * B, replay_ratio=5, n_step_return=3,
)  # fmt: skip
ALGOS = {
    "dqn": lambda **kwargs: DQN(**SMALL, **kwargs),
    "catdqn": lambda **kwargs: CategoricalDQN(-5, 5, **SMALL, **kwargs),
    "qrdqn": lambda **kwargs: QRDQN(**SMALL, **kwargs),
    "iqn": lambda **kwargs: IQN(**SMALL, n_tau=4, n_tau_target=4, **kwargs),
    "r2d1": lambda **kwargs: R2D1(**SEQUENCES, **kwargs),
}


def make(**kwargs):
    return GymEnvWrapper(MaskedEnv(**kwargs))


def prepared_batch(kind, double):
    algo, agent = ALGOS[kind](double_dqn=double), dqn_agent_for(kind, make().spaces)
    sampler = prepared(algo, agent, EnvCls=make)
    samples = fill(algo, sampler, batches=12)
    torch.manual_seed(0)
    batch = algo.replay_buffer.sample_batch(24)
    return algo, samples, batch


def test_the_best_valid_value_and_row():
    q = torch.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 0.0], [1.0, 2.0, 3.0]])
    mask = torch.tensor([[1, 0, 1], [0, 1, 1], [0, 0, 0]])  # the last row is a placeholder
    assert greedy_value(q, mask=mask).tolist() == [3.0, 2.0, 3.0]
    selecting = torch.tensor([[2.0, 9.0, 1.0], [9.0, 0.0, 1.0], [5.0, 1.0, 1.0]])
    assert greedy_value(q, selecting, mask).tolist() == [1.0, 0.0, 1.0]
    rows = torch.arange(18.0).reshape(3, 3, 2)
    assert greedy_row(rows, q, mask).tolist() == [[4.0, 5.0], [8.0, 9.0], [16.0, 17.0]]


@pytest.mark.parametrize("double", [False, True])
def test_dqn_loss_is_that_of_a_plain_loop(double):
    algo, _, batch = prepared_batch("dqn", double)
    agent = algo.agent
    q, target_q = agent(*batch.agent_inputs).detach(), agent.target(*batch.target_inputs)
    online = agent(*batch.target_inputs).detach()
    mask, total, forbidden = batch.target_inputs.observation.action_mask, 0.0, 0
    for b in range(len(q)):
        selecting = (online if double else target_q)[b]
        valid = [a for a in range(6) if mask[b, a]]
        if not valid:
            assert batch.discount_n[b] == 0  # a terminal state
            valid = range(6)
        best = max(valid, key=lambda a: float(selecting[a]))
        forbidden += best != int(selecting.argmax())
        delta = batch.return_[b] + batch.discount_n[b] * target_q[b, best] - q[b, batch.action[b]]
        small = min(abs(float(delta)), 1.0)
        total += small * (abs(float(delta)) - 0.5 * small) / len(q)
    assert algo.loss(batch)[0].item() == pytest.approx(total, rel=1e-4)
    assert forbidden > 3
    assert (batch.discount_n == 0).any()


def prefer_invalid(module, args, output):
    """Give invalid actions values above all others."""
    mask = args[0].action_mask
    invalid = (mask == 0) & mask.any(-1, keepdim=True)
    values, state = output if isinstance(output, tuple) else (output, None)
    if values.dim() == invalid.dim() + 1:
        invalid = invalid.unsqueeze(-1)
    if getattr(module, "softmax", False):
        last = torch.zeros_like(values)
        last[..., -1] = 1
        values = torch.where(invalid, last, values)
    else:
        values = values + 50.0 * invalid
    return values if state is None else (values, state)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ALGOS)
def test_values_of_invalid_actions_have_no_effect(kind, double, monkeypatch):
    algo, _, batch = prepared_batch(kind, double)

    def loss():
        torch.manual_seed(1)  # IQN draws fractions
        return algo.loss(batch)[0].item()

    before = loss()
    for model in (algo.agent.model, algo.agent.target_model):
        model.register_forward_hook(prefer_invalid)
    assert loss() == pytest.approx(before, rel=1e-5)
    monkeypatch.setattr(sequences, "action_mask_of", lambda observation: None)  # the control
    assert loss() != pytest.approx(before, rel=1e-4)


def test_priorities_of_new_sequences_take_valid_actions():
    algo, samples, _ = prepared_batch("r2d1", True)
    before = algo.compute_input_priorities(samples)
    samples.agent.agent_info.q[samples.env.observation.action_mask == 0] += 50.0
    assert torch.allclose(algo.compute_input_priorities(samples), before)
