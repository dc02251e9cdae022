"""Munchausen DQN: targets against the paper's formula in plain numpy, in all combinations."""

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import scaled_log_policy, soft_value
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import MaskEnv
from tests.algos.dqn.parts_dqn import AGENTS, AGENTS_WITH_MEMORY, Tiny, fill, prepared

ALPHA, TAU, LEAST = 0.9, 0.5, -0.6
SMALL = dict(batch_size=24, min_steps_learn=0, replay_size=600, discount=0.9, delta_clip=None)
MUNCHAUSEN = dict(munchausen=ALPHA, munchausen_tau=TAU, munchausen_clip=LEAST)


def log_softmax(x):
    """Return the logarithm of a softmax, in double precision."""
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def plain_target(return_, discount, action, now, now_valid, after, selecting, after_valid):
    """Return the target of one transition (Vieillard et al. 2020, eq. 2).

    Args:
        now: action values that define the policy in the first state, and which are valid.
        after, selecting: values of the state after the return, and those that define the policy.
    """
    log_policy = np.full(len(now), -np.inf)
    log_policy[now_valid] = log_softmax(now[now_valid] / TAU)
    bonus = min(0.0, max(LEAST, TAU * log_policy[action]))
    log_after = log_softmax(selecting[after_valid] / TAU)
    soft = np.exp(log_after) * (after[after_valid] - TAU * log_after)
    return return_ + ALPHA * bonus + discount * soft.sum()


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_is_that_of_plain_targets(masked, double, n, prioritized):
    algo = DQN(
        double_dqn=double, n_step_return=n, prioritized_replay=prioritized, **SMALL, **MUNCHAUSEN
    )
    if masked:
        agent = DqnMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
        sampler = prepared(algo, agent, EnvCls=MaskEnv)
    else:
        agent = DqnAgent(ModelCls=Tiny)
        sampler = prepared(algo, agent)
    fill(algo, sampler)
    batch = algo.draw_batch()

    def values(network, inputs):
        with torch.no_grad():
            return network(*inputs).double().numpy()

    def valid(inputs, A):
        if not masked:
            return np.ones((len(batch.action), A), bool)
        mask = inputs.observation.action_mask.numpy().astype(bool)
        return mask | ~mask.any(-1, keepdims=True)

    online = values(agent, batch.agent_inputs)
    target_now, after = (values(agent.target, x) for x in (batch.agent_inputs, batch.target_inputs))
    selecting = values(agent, batch.target_inputs) if double else after
    A = online.shape[1]
    targets = [
        plain_target(*row)
        for row in zip(
            batch.return_.double().numpy(), batch.discount_n.double().numpy(),
            batch.action.numpy(), online if double else target_now, valid(batch.agent_inputs, A),
            after, selecting, valid(batch.target_inputs, A), strict=True,
        )
    ]  # fmt: skip
    errors = np.array(targets) - online[np.arange(24), batch.action.numpy()]
    weights = batch.is_weights.double().numpy() if prioritized else 1.0
    loss, td_abs = algo.loss(batch)
    assert loss.item() == pytest.approx((weights * errors**2 / 2).mean(), rel=1e-4)
    np.testing.assert_allclose(td_abs.numpy(), np.abs(errors), rtol=1e-3, atol=1e-3)


def test_closed_forms():
    q = torch.tensor([[1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0], [2.0, 2.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]])
    policy = scaled_log_policy(q, 0.5, mask)
    assert policy[0].tolist() == pytest.approx([-0.5 * np.log(4)] * 4)
    assert policy[2].tolist() == pytest.approx([-0.5 * np.log(2)] * 2 + [-np.inf] * 2)
    # With the policy of the same values, the soft value is tau log sum exp(q / tau).
    expected = [1 + 0.5 * np.log(4), 0.5 * np.log(np.exp(10) + 3), 2 + 0.5 * np.log(2)]
    assert soft_value(q, policy, 0.5).tolist() == pytest.approx(expected, rel=1e-6)


def test_at_low_temperatures_without_weight_it_is_dqn():
    """With a weight of 0 and tau near 0, the policy is greedy and its value the greatest."""
    losses = []
    for more in ({}, dict(munchausen=0.0, munchausen_tau=1e-6)):
        algo = DQN(n_step_return=2, **SMALL, **more)
        fill(algo, prepared(algo, DqnAgent(ModelCls=Tiny)))
        losses.append(algo.loss(algo.draw_batch())[0].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_sequences_of_a_memory_are_trained_too(double):
    algo = DQN(
        batch_T=4, batch_B=3, warmup_T=1, store_rnn_state_interval=1, min_steps_learn=0,
        replay_size=600, double_dqn=double, **MUNCHAUSEN,
    )  # fmt: skip
    agent = AGENTS_WITH_MEMORY["dqn"]()
    fill(algo, prepared(algo, agent))
    loss, td_abs = algo.loss(algo.draw_batch())
    assert torch.isfinite(loss) and td_abs.shape == (4, 3)


@pytest.mark.parametrize(
    "Algo, agent", [(CategoricalDQN, "cat"), (QRDQN, "qr"), (IQN, "iqn"), (R2D1, "r2d1")]
)
def test_other_targets_are_refused(Algo, agent):
    with pytest.raises(ValueError, match="munchausen must be None for " + Algo.__name__):
        Algo(munchausen=0.9).check_parts(AGENTS[agent]())


def test_several_agents_train_as_one(tmp_path):
    settings = dict(
        steps=128, video=False, eval_episodes=0, min_steps_learn=64, batch_size=8, replay_ratio=2,
        munchausen=0.9, sampler=dict(kind="serial", batch_T=8, batch_B=2),
        agent=dict(hidden_sizes=[8]),
    )  # fmt: skip
    alone = rlpyt.train("dqn", "CartPole-v1", run_dir=tmp_path / "one", seed=1, **settings)
    many = rlpyt.train("dqn", "CartPole-v1", run_dir=tmp_path / "all", seeds=range(2), **settings)
    for p, q in zip(alone.agent.parameters(), many[1].agent.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
