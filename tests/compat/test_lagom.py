"""Returns of one trajectory against their sums as printed, and beside the [T, B] functions."""

import numpy as np
import pytest
import torch

from rlpyt.algos import returns as batches
from rlpyt.compat.lagom import (
    bootstrapped_returns,
    gae,
    geometric_cumsum,
    returns,
    td0_error,
    td0_target,
    vtrace,
)
from rlpyt.samplers.trajectories import Trajectory

GAMMA, LAM = 0.9, 0.8
R = [1.0, -2.0, 0.5, 3.0]
V = [0.3, 0.7, -0.2, 1.1]
LAST = 2.5


def trajectory(reach_terminal):
    r = np.array(R, np.float32)
    return Trajectory(None, None, r, (), (), 0, True, reach_terminal, not reach_terminal)


def slow_returns(last):
    T = len(R)
    return [
        sum(GAMMA ** (k - t) * R[k] for k in range(t, T)) + GAMMA ** (T - t) * last
        for t in range(T)
    ]


def slow_errors(last):
    following = [*V[1:], last]
    return [r + GAMMA * n - v for r, n, v in zip(R, following, V)]


def slow_gae(last):
    delta = slow_errors(last)
    return [
        sum((GAMMA * LAM) ** (k - t) * delta[k] for k in range(t, len(R))) for t in range(len(R))
    ]


FORMS = {
    "list": lambda x: x,
    "array": lambda x: np.array(x, np.float32),
    "tensor": lambda x: torch.tensor(x, requires_grad=True),
    "tensors": lambda x: [torch.tensor(one) for one in x],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reach_terminal", [False, True])
def test_each_is_its_sum(form, reach_terminal):
    r, v = FORMS[form](R), FORMS[form](V)
    last = 0.0 if reach_terminal else LAST
    target = [x + GAMMA * n for x, n in zip(R, [*V[1:], last])]
    for result, expected in (
        (returns(GAMMA, r), slow_returns(0.0)),
        (bootstrapped_returns(GAMMA, r, LAST, reach_terminal), slow_returns(last)),
        (td0_target(GAMMA, r, v, LAST, reach_terminal), target),
        (td0_error(GAMMA, r, v, LAST, reach_terminal), slow_errors(last)),
        (gae(GAMMA, LAM, r, v, LAST, reach_terminal), slow_gae(last)),
    ):
        assert isinstance(result, np.ndarray) and result.dtype == np.float32
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reach_terminal", [False, True])
def test_a_trajectory_knows_its_end(reach_terminal):
    traj = trajectory(reach_terminal)
    last = 0.0 if reach_terminal else LAST
    np.testing.assert_allclose(returns(GAMMA, traj), slow_returns(0.0), rtol=1e-5)
    result = bootstrapped_returns(GAMMA, traj, torch.tensor([LAST]))
    np.testing.assert_allclose(result, slow_returns(last), rtol=1e-5)
    np.testing.assert_allclose(gae(GAMMA, LAM, traj, V, LAST), slow_gae(last), rtol=1e-5)


@pytest.mark.parametrize("last", [None, float("nan"), float("inf")])
def test_what_follows_the_end_of_an_episode_is_not_looked_at(last):
    np.testing.assert_allclose(bootstrapped_returns(GAMMA, R, last, True), slow_returns(0.0), 1e-5)
    np.testing.assert_allclose(gae(GAMMA, LAM, R, V, last, True), slow_gae(0.0), rtol=1e-5)
    np.testing.assert_allclose(td0_error(GAMMA, R, V, last, True), slow_errors(0.0), rtol=1e-5)
    assert td0_target(GAMMA, R, V, last, True)[-1] == R[-1]
    assert np.isfinite(vtrace(np.zeros(4), np.zeros(4), GAMMA, R, V, last, True)).all()


def test_targets_are_not_the_difference_of_large_numbers():
    target = td0_target(GAMMA, [0.1, 0.1], [1e8, 1e8], 0.0, True)
    np.testing.assert_allclose(target, [0.1 + GAMMA * 1e8, 0.1], rtol=1e-6)
    assert td0_target(GAMMA, np.float32([1, 2]), np.ones(2), 0.0, True).dtype == np.float32


def test_one_step_and_none():
    for f in (td0_target, td0_error):
        back = 5.0 if f is td0_error else 0.0
        assert f(GAMMA, [1.0], [5.0], 2.0, False) == pytest.approx([1 + 2 * GAMMA - back])
        assert f(GAMMA, [1.0], [5.0], 2.0, True) == pytest.approx([1 - back])
        assert f(GAMMA, [], [], 2.0, False).shape == (0,)
    assert returns(GAMMA, []).shape == bootstrapped_returns(GAMMA, [], 1.0, True).shape == (0,)
    assert gae(GAMMA, LAM, np.zeros((0, 3)), np.zeros((0, 3)), np.ones(3), False).shape == (0, 3)


def test_several_side_by_side_are_each_alone():
    rng = np.random.default_rng(0)
    r, v, last = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.normal(size=3)
    ends = np.array([True, False, True])
    together = gae(GAMMA, LAM, r, v, last, ends)
    assert together.dtype == np.float64
    for b in range(3):
        alone = gae(GAMMA, LAM, r[:, b], v[:, b], last[b], ends[b])
        np.testing.assert_allclose(together[:, b], alone, rtol=1e-12)
    done = np.zeros((5, 3), bool)
    done[-1] = ends
    expected, _ = batches.generalized_advantage_estimation(r, v, done, last, GAMMA, LAM)
    np.testing.assert_array_equal(together, expected)
    np.testing.assert_array_equal(
        bootstrapped_returns(GAMMA, r, last, ends), batches.discount_return(r, done, last, GAMMA)
    )
    following = np.concatenate([v[1:], np.where(ends, 0, last)[None]])
    expected = r + GAMMA * following
    np.testing.assert_allclose(td0_target(GAMMA, r, v, last, ends), expected, rtol=1e-12)


@pytest.mark.parametrize("reach_terminal", [False, True])
def test_vtrace_of_one_policy_is_gae_with_lambda_one(reach_terminal):
    vs, advantages = vtrace(
        np.zeros(4), np.zeros(4), GAMMA, R, V, torch.tensor(LAST), reach_terminal
    )
    expected = gae(GAMMA, 1.0, R, V, LAST, reach_terminal)
    np.testing.assert_allclose(vs - V, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


def test_geometric_sums():
    np.testing.assert_allclose(geometric_cumsum(0.1, [1, 2, 3, 4]), [1.234, 2.34, 3.4, 4.0])
    two = geometric_cumsum(0.5, [[1, 2, 4], [0, 0, 8]])
    np.testing.assert_allclose(two, [[3, 4, 4], [2, 4, 8]])
    with pytest.raises(ValueError, match="alpha"):
        geometric_cumsum(1.5, [1.0])


def test_what_is_missing_is_asked_for():
    with pytest.raises(TypeError, match="reach_terminal"):
        gae(GAMMA, LAM, R, V, LAST)
    with pytest.raises(ValueError, match="value"):
        td0_error(GAMMA, R, V[:-1], LAST, True)
    with pytest.raises(ValueError, match="Vs of shape"):
        td0_target(GAMMA, R, V[:-1], LAST, True)
    unknown = trajectory(reach_terminal=False)  # of a sampler that recorded no values
    with pytest.raises(TypeError, match="bootstrap_value=True"):
        gae(GAMMA, LAM, unknown, V, unknown.last_value)
    with pytest.raises(TypeError, match="last_V"):
        vtrace(np.zeros(4), np.zeros(4), GAMMA, R, V, None, False)
