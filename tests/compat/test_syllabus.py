"""V-trace in the forms of Syllabus and lagom, against numbers by hand and the plain definition."""

import numpy as np
import pytest
import torch

from rlpyt.compat.lagom import vtrace
from rlpyt.compat.syllabus import (
    VTraceFromLogitsReturns,
    VTraceReturns,
    action_log_probs,
    from_importance_weights,
    from_logits,
)
from tests.algos.plain_vtrace import DISCOUNT, B, T, check, make_batch, slow, slow_vtrace

A = 4

# Three steps at gamma = 1/2, of ratios 2, 1 and 1/2; v_3 = V_3 = 16. Thresholds of 1 and 2 are hit
# exactly, by the second ratio and the first.
LOG_RHOS = np.log(np.array([[2.0], [1.0], [0.5]], np.float32))
REWARDS = np.array([[1.0], [2.0], [4.0]], np.float32)
VALUES = np.array([[2.0], [4.0], [8.0]], np.float32)
DISCOUNTS = np.full((3, 1), 0.5, np.float32)
BY_HAND = [
    # delta = 1, 2, 2:   v_2 = 8 + 2, v_1 = 4 + 2 + 2/2, v_0 = 2 + 1 + 3/2
    (1.0, [4.5, 7.0, 10.0], [2.5, 3.0, 4.0]),
    # delta = 2, 2, 2
    (2.0, [5.5, 7.0, 10.0], [2.5, 3.0, 4.0]),
    (None, [5.5, 7.0, 10.0], [2.5, 3.0, 4.0]),
    # delta = 1/2, 1, 2: v_1 = 4 + 1 + 2/2, v_0 = 2 + 1/2 + 2/2
    (0.5, [3.5, 6.0, 10.0], [2.0, 3.0, 4.0]),
]
PG_WEIGHTS = {1.0: [1, 1, 0.5], 2.0: [2, 1, 0.5], None: [2, 1, 0.5], 0.75: [0.75, 0.75, 0.5]}


@pytest.mark.parametrize("clip_pg_rho", PG_WEIGHTS)
@pytest.mark.parametrize("clip_rho,vs,advantages", BY_HAND)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_importance_weights_by_hand(kind, clip_rho, vs, advantages, clip_pg_rho):
    arrays = (LOG_RHOS, DISCOUNTS, REWARDS, VALUES, np.full(1, 16, np.float32))
    given = [torch.from_numpy(x) if kind == "torch" else x for x in arrays]
    found = from_importance_weights(*given, clip_rho, clip_pg_rho)
    assert type(found) is VTraceReturns and found._fields == ("vs", "pg_advantages")
    check(found.vs[:, 0], vs, kind)
    check(found.pg_advantages[:, 0], np.multiply(advantages, PG_WEIGHTS[clip_pg_rho]), kind)


def test_a_discount_of_zero_ends_an_episode():
    discounts = np.array([[0.5], [0.0], [0.5]], np.float32)
    found = from_importance_weights(LOG_RHOS, discounts, REWARDS, VALUES, 16.0)
    check(found.vs[:, 0], [2.0, 2.0, 10.0])  # delta_1 = 2 - 4, v_0 = 2 + 1 - 2/2
    check(found.pg_advantages[:, 0], [0.0, -2.0, 2.0])


def logits_batch():
    torch.manual_seed(0)
    behavior = torch.randn(T, B, A, requires_grad=True)
    target = torch.randn(T, B, A, requires_grad=True)
    return behavior, target, torch.randint(A, (T, B))


def test_logits_are_turned_into_weights():
    behavior, target, actions = logits_batch()
    batch = make_batch()
    discounts = torch.from_numpy(DISCOUNT * (1 - batch["done"].astype(np.float32)))
    rest = [torch.from_numpy(batch[k]) for k in ("reward", "value", "bootstrap_value")]
    found = from_logits(behavior, target, actions, discounts, *rest, 0.8, 1.5)
    assert type(found) is VTraceFromLogitsReturns
    assert found._fields == (
        "vs", "pg_advantages", "log_rhos", "behavior_action_log_probs", "target_action_log_probs"
    )  # fmt: skip

    def slow_log_probs(logits):
        p = np.exp(logits.detach().double().numpy())
        p /= p.sum(-1, keepdims=True)
        return np.log(np.take_along_axis(p, actions.numpy()[..., None], -1)[..., 0])

    mu, pi = slow_log_probs(behavior), slow_log_probs(target)
    check(found.behavior_action_log_probs, mu, "torch")
    check(found.target_action_log_probs.detach(), pi, "torch")
    check(found.log_rhos, pi - mu, "torch")
    batch.update(log_ratio=pi - mu, timeout_value=np.zeros((T, B)))
    v, advantage = slow(batch, 0.8, 1)
    check(found.vs, v, "torch")
    check(found.pg_advantages, np.minimum(np.exp(pi - mu), 1.5) * advantage, "torch")
    assert [x.requires_grad for x in found] == [False, False, False, False, True]


def test_log_probabilities_have_the_gradient_of_softmax():
    _, logits, actions = logits_batch()
    action_log_probs(logits, actions).sum().backward()
    onehot = torch.nn.functional.one_hot(actions, A).float()
    torch.testing.assert_close(logits.grad, onehot - torch.softmax(logits, -1).detach())


@pytest.mark.parametrize("reach_terminal", [False, True])
def test_one_trajectory(reach_terminal):
    behavior, target = [-1.0, -2.0, -0.5], [-0.3, -2.0, -1.5]
    done = np.zeros((3, 1), bool)
    done[2] = reach_terminal
    ratio = np.exp(np.array([target]).T - np.array([behavior]).T)
    v, advantage = slow_vtrace(
        ratio, REWARDS, VALUES, done, np.full((1, 1), 16.0), 0.7, 1.2, 1, np.zeros((3, 1))
    )
    weighted = (np.minimum(ratio, 0.9) * advantage)[:, 0]
    last_V = float("nan") if reach_terminal else 16
    rest = (REWARDS[:, 0].tolist(), VALUES[:, 0].tolist(), last_V, reach_terminal, 1.2, 0.9)
    for probs in (
        (behavior, target),
        (torch.tensor(behavior), torch.tensor(target, requires_grad=True)),
    ):
        vs, advantages = vtrace(*probs, 0.7, *rest)
        check(vs, v[:, 0])
        check(advantages, weighted)


def test_mismatched_logits_and_actions_are_named():
    behavior, target, actions = logits_batch()
    rest = [torch.zeros(T, B)] * 3 + [torch.zeros(B)]
    with pytest.raises(ValueError, match=r"behavior_policy_logits .*\(7, 3, 3\)"):
        from_logits(behavior[..., :3], target, actions, *rest)
    with pytest.raises(ValueError, match=r"\(7, 3, 4\) .*\(3, 7\)"):
        from_logits(behavior, target, actions.T, *rest)


@pytest.mark.parametrize("name", ["clip_rho_threshold", "clip_pg_rho_threshold"])
def test_thresholds_must_be_positive(name):
    good = (LOG_RHOS, DISCOUNTS, REWARDS, VALUES, 16.0)
    with pytest.raises(ValueError, match=f"{name}=0"):
        from_importance_weights(*good, **{name: 0})
    with pytest.raises(TypeError, match=f"{name}='1'"):
        from_importance_weights(*good, **{name: "1"})


def test_mismatched_shapes_are_named():
    good = (LOG_RHOS, DISCOUNTS, REWARDS, VALUES, 16.0)
    for at, name in enumerate(["log_rhos", "discounts", None, "values"]):
        if name is not None:
            bad = [x[:2] if i == at else x for i, x in enumerate(good)]
            words = rf"{name} .*\(2, 1\) .*rewards, \(3, 1\)"
            with pytest.raises(ValueError, match=words):
                from_importance_weights(*bad)
    with pytest.raises(ValueError, match=r"bootstrap_value .*\(2,\)"):
        from_importance_weights(*good[:4], np.zeros(2))
    one = np.zeros(3)
    with pytest.raises(ValueError, match=r"target_logprobs .*\(1,\) .* Rs, \(3,\)"):
        vtrace(one, one[:1], 0.9, one, one, 0.0, False)
