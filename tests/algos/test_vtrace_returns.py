"""V-trace against the paper's double sum, and on-policy against advantage estimation."""

import warnings

import numpy as np
import pytest
import torch

from rlpyt.algos import returns
from tests.algos.plain_vtrace import DISCOUNT, B, T, check, make_batch, of_kind, slow


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("lam", [0, 0.8, 1])
@pytest.mark.parametrize("clip_rho", [None, 0.5, 1.0, 2.0])
def test_targets_are_the_double_sum(clip_rho, lam, kind):
    batch = make_batch()
    given = of_kind(kind, batch)
    before = {k: v.copy() for k, v in batch.items()}
    found = returns.vtrace_return(**given, discount=DISCOUNT, clip_rho=clip_rho, lam=lam)
    for result, expected in zip(found, slow(batch, clip_rho, lam), strict=True):
        check(result, expected, kind)
    for name, array in before.items():
        np.testing.assert_array_equal(batch[name], array)


@pytest.mark.parametrize("lam", [0, 0.8, 1])
def test_on_policy_it_is_generalized_advantage_estimation(lam):
    batch = make_batch() | dict(log_ratio=np.zeros((T, B), np.float32))
    v, advantage = returns.vtrace_return(**batch, discount=DISCOUNT, lam=lam)
    del batch["log_ratio"]
    gae, return_ = returns.generalized_advantage_estimation(
        **batch, discount=DISCOUNT, gae_lambda=lam
    )
    check(v, return_)
    check(advantage, gae)
    if lam == 1:
        del batch["value"]
        check(v, returns.discount_return(**batch, discount=DISCOUNT))


def test_true_values_are_found_again_whatever_the_weights():
    """Paid 1 per step for ever, cut by time limits: every target is 1 / (1 - gamma)."""
    worth = 1 / (1 - DISCOUNT)
    done = np.zeros((T, B), bool)
    done[3] = done[T - 1] = True
    v, advantage = returns.vtrace_return(
        make_batch()["log_ratio"],
        np.ones((T, B), np.float32),
        np.full((T, B), worth, np.float32),
        done,
        np.full(B, 123.0),  # follows a done: not to be used
        DISCOUNT,
        timeout_value=done * worth,
    )
    check(v, np.full((T, B), worth))
    check(advantage, np.zeros((T, B)))


def test_weights_may_overflow_before_they_are_limited():
    batch = make_batch()
    batch["log_ratio"][1, 1] = 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = returns.vtrace_return(**batch, discount=DISCOUNT)
        weight = returns.importance_weight(batch["log_ratio"], 1.5)
    batch["log_ratio"][1, 1] = 10
    for result, expected in zip(found, slow(batch, 1.0, 1)):
        check(result, expected)
    assert weight[1, 1] == 1.5
    assert returns.importance_weight(torch.tensor([1000.0]), 1.5).tolist() == [1.5]


def test_gradients_stay_out():
    batch = of_kind("torch", make_batch())
    for name in ("log_ratio", "value", "bootstrap_value"):
        batch[name].requires_grad_()
    found = returns.vtrace_return(**batch, discount=DISCOUNT)
    assert not any(x.requires_grad for x in found)
    assert not returns.importance_weight(batch["log_ratio"]).requires_grad


def test_extra_and_missing_dimensions():
    batch = make_batch()
    whole, _ = returns.vtrace_return(**batch, discount=DISCOUNT)
    column = {k: v[:, 0] if k != "bootstrap_value" else v[0, 0] for k, v in batch.items()}
    check(returns.vtrace_return(**column, discount=DISCOUNT)[0], whole[:, 0])
    stacked = {k: np.stack([v, v], -1) for k, v in batch.items()}
    check(returns.vtrace_return(**stacked, discount=DISCOUNT)[0][..., 1], whole)


def test_mismatched_shapes_are_named():
    batch = make_batch()
    with pytest.raises(ValueError, match=r"^log_ratio .*\(3, 7\)"):
        returns.vtrace_return(**{**batch, "log_ratio": batch["log_ratio"].T}, discount=DISCOUNT)
    with pytest.raises(ValueError, match=r"^discount .*\(3,\)"):
        returns.vtrace_return(**batch, discount=np.ones(B))
