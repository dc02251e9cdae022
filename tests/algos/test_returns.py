"""Returns against definitions that sum over every pair of steps, and against numbers by hand."""

import numpy as np
import pytest
import torch

from rlpyt.algos import returns, utils

T, B = 7, 3
DISCOUNT, LAMBDA = 0.9, 0.8


def make_batch(seed=0):
    """A batch with episode ends, one of them in the last row, and a time limit among them."""
    rng = np.random.default_rng(seed)
    done = np.zeros((T, B), bool)
    done[2, 0] = done[5, 0] = done[3, 1] = done[6, 1] = True
    timeout = np.zeros((T, B), bool)
    timeout[5, 0] = timeout[6, 1] = True
    batch = dict(
        reward=rng.normal(size=(T, B)),
        value=rng.normal(size=(T, B)),
        done=done,
        bootstrap_value=rng.normal(size=(1, B)),
        timeout_value=rng.normal(size=(T, B)) * timeout,
    )
    return {k: v if v.dtype == bool else v.astype(np.float32) for k, v in batch.items()}, timeout


def slow_return(reward, done, bootstrap_value, timeout_value, t, b):
    """Definition: walk forward from step t until the episode or the batch ends."""
    total, weight = 0.0, 1.0
    for k in range(t, T):
        total += weight * reward[k, b]
        weight *= DISCOUNT
        if done[k, b]:
            return total + weight * timeout_value[k, b]
    return total + weight * bootstrap_value[0, b]


def slow_advantage(reward, value, done, bootstrap_value, timeout_value, t, b):
    """Definition: sum of (gamma lambda)^k delta_{t+k} within the episode."""
    total = 0.0
    for k in range(t, T):
        following = value[k + 1, b] if k + 1 < T else bootstrap_value[0, b]
        following = timeout_value[k, b] if done[k, b] else following
        delta = reward[k, b] + DISCOUNT * following - value[k, b]
        total += (DISCOUNT * LAMBDA) ** (k - t) * delta
        if done[k, b]:
            break
    return total


def slow(function, *args):
    return np.array([[function(*args, t, b) for b in range(B)] for t in range(T)])


@pytest.fixture(params=["numpy", "torch"])
def kind(request):
    return request.param


def of_kind(kind, batch):
    return {k: torch.from_numpy(v) for k, v in batch.items()} if kind == "torch" else batch


def check(result, expected, kind):
    assert isinstance(result, torch.Tensor if kind == "torch" else np.ndarray)
    assert str(result.dtype).removeprefix("torch.") == "float32"
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-6)


def test_discount_return_is_the_sum_of_discounted_rewards(kind):
    batch, _ = make_batch()
    args = ("reward", "done", "bootstrap_value", "timeout_value")
    expected = slow(slow_return, *(batch[k] for k in args))
    given = of_kind(kind, batch)
    result = returns.discount_return(
        *(given[k] for k in args[:3]), DISCOUNT, timeout_value=given["timeout_value"]
    )
    check(result, expected, kind)


def test_discount_return_by_hand():
    reward = np.array([1.0, 2.0, 3.0, 4.0])
    done = np.array([0, 1, 0, 0])
    result = returns.discount_return(reward, done, 10.0, 0.5)
    np.testing.assert_allclose(result, [1 + 0.5 * 2, 2, 3 + 0.5 * 4 + 0.25 * 10, 4 + 0.5 * 10])
    limited = returns.discount_return(reward, done, 10.0, 0.5, timeout_value=done * 8.0)
    np.testing.assert_allclose(limited, [1 + 0.5 * (2 + 4), 2 + 4, 7.5, 9])


def test_advantage_is_the_weighted_sum_of_td_errors(kind):
    batch, _ = make_batch()
    args = ("reward", "value", "done", "bootstrap_value")
    expected = slow(slow_advantage, *(batch[k] for k in args), batch["timeout_value"])
    given = of_kind(kind, batch)
    advantage, return_ = returns.generalized_advantage_estimation(
        *(given[k] for k in args), DISCOUNT, LAMBDA, timeout_value=given["timeout_value"]
    )
    check(advantage, expected, kind)
    check(return_, expected + batch["value"], kind)


def test_without_timeout_value_every_end_is_a_real_one():
    batch, _ = make_batch()
    zero = np.zeros((T, B))
    args = [batch[k] for k in ("reward", "value", "done", "bootstrap_value")]
    advantage, _ = returns.generalized_advantage_estimation(*args, DISCOUNT, LAMBDA)
    np.testing.assert_allclose(advantage, slow(slow_advantage, *args, zero), rtol=1e-5, atol=1e-6)


def test_timeout_value_counts_only_where_done():
    batch, _ = make_batch()
    args = [batch[k] for k in ("reward", "done", "bootstrap_value")]
    clean = returns.discount_return(*args, DISCOUNT, timeout_value=batch["timeout_value"])
    noisy = np.where(batch["done"], batch["timeout_value"], np.nan)
    result = returns.discount_return(*args, DISCOUNT, timeout_value=noisy)
    np.testing.assert_array_equal(result, clean)


def test_lambda_one_is_monte_carlo():
    batch, _ = make_batch()
    given = {k: batch[k] for k in ("reward", "done", "bootstrap_value", "timeout_value")}
    monte_carlo = returns.discount_return(**given, discount=DISCOUNT)
    advantage, return_ = returns.generalized_advantage_estimation(
        **given, value=batch["value"], discount=DISCOUNT, gae_lambda=1.0
    )
    np.testing.assert_allclose(return_, monte_carlo, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(advantage, monte_carlo - batch["value"], rtol=1e-4, atol=1e-5)


def test_lambda_return_agrees_with_gae(kind):
    """sum of (gamma lambda)^k delta is the lambda-return minus the value."""
    batch, _ = make_batch()
    next_value = np.concatenate([batch["value"][1:], batch["bootstrap_value"]])
    next_value[batch["done"]] = np.nan  # must not be read
    advantage = slow(
        slow_advantage,
        *(batch[k] for k in ("reward", "value", "done", "bootstrap_value", "timeout_value")),
    )
    given = of_kind(kind, {**batch, "next_value": next_value})
    result = returns.lambda_return(
        *(given[k] for k in ("reward", "done", "next_value")),
        DISCOUNT,
        LAMBDA,
        timeout_value=given["timeout_value"],
    )
    check(result, advantage + batch["value"], kind)


def test_constant_reward_cut_by_time_limits_is_worth_the_geometric_series():
    """Paid 1 per step for ever: with true values, any lambda finds 1 / (1 - gamma)."""
    worth = 1 / (1 - DISCOUNT)
    done = np.zeros((T, B), bool)
    done[3] = done[T - 1] = True  # cut after four steps, and at the end of the batch
    value = np.full((T, B), worth, np.float32)
    for gae_lambda in (0.0, 0.5, 1.0):
        advantage, return_ = returns.generalized_advantage_estimation(
            np.ones((T, B), np.float32),
            value,
            done,
            np.full(B, 123.0),  # follows a done: not to be used
            DISCOUNT,
            gae_lambda,
            timeout_value=done * worth,
        )
        np.testing.assert_allclose(advantage, 0, atol=1e-5)
        np.testing.assert_allclose(return_, worth, rtol=1e-5)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_done_of_any_dtype(dtype):
    batch, _ = make_batch()
    done = batch["done"].astype(dtype)
    expected = returns.discount_return(
        batch["reward"], batch["done"], batch["bootstrap_value"], DISCOUNT
    )
    result = returns.discount_return(batch["reward"], done, batch["bootstrap_value"], DISCOUNT)
    np.testing.assert_array_equal(result, expected)
    _, done_n = returns.discount_return_n_step(batch["reward"], done, 2, DISCOUNT)
    assert done_n.dtype == dtype
    assert returns.valid_from_done(done).dtype == np.float32


def test_results_go_into_destinations(kind):
    batch, _ = make_batch()
    given = of_kind(kind, batch)
    like = torch.zeros if kind == "torch" else np.zeros
    advantage_dest, return_dest = like((T, B)), like((T, B))
    args = [given[k] for k in ("reward", "value", "done", "bootstrap_value")]
    advantage, return_ = returns.generalized_advantage_estimation(*args, DISCOUNT, LAMBDA)
    result = returns.generalized_advantage_estimation(
        *args, DISCOUNT, LAMBDA, advantage_dest, return_dest
    )
    assert result[0] is advantage_dest
    assert result[1] is return_dest
    np.testing.assert_allclose(np.asarray(advantage_dest), np.asarray(advantage), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(return_dest), np.asarray(return_), rtol=1e-6)


def test_inputs_are_left_alone(kind):
    batch, _ = make_batch()
    before = {k: v.copy() for k, v in batch.items()}
    given = of_kind(kind, batch)  # shares memory
    args = [given[k] for k in ("reward", "done", "bootstrap_value")]
    returns.discount_return(*args, DISCOUNT)
    returns.discount_return(*args, DISCOUNT, timeout_value=given["timeout_value"])
    returns.discount_return_n_step(*args[:2], 3, DISCOUNT)
    for k, v in before.items():
        np.testing.assert_array_equal(batch[k], v)


def test_gradients_stay_out():
    value = torch.randn(T, B, requires_grad=True)
    args = (torch.randn(T, B), value, torch.zeros(T, B), value[0])
    advantage, return_ = returns.generalized_advantage_estimation(*args, DISCOUNT, LAMBDA)
    assert not advantage.requires_grad
    assert not return_.requires_grad


def test_widths_survive_numpy_scalars_and_integer_rewards():
    reward = np.ones((T, B), np.float32)
    done = np.zeros((T, B), bool)
    assert returns.discount_return(reward, done, 0.0, np.float64(0.9)).dtype == np.float32
    assert returns.discount_return(reward.astype(int), done, 0.0, 0.9).dtype == np.float32
    assert returns.discount_return(reward.astype(float), done, 0.0, 0.9).dtype == np.float64


@pytest.mark.parametrize("n_step", [1, 2, 3, T])
@pytest.mark.parametrize("do_truncated", [False, True])
def test_n_step_return_is_the_sum_over_the_window(n_step, do_truncated, kind):
    batch, _ = make_batch()
    reward, done, timeout_value = (batch[k] for k in ("reward", "done", "timeout_value"))
    rows = T if do_truncated else T - n_step + 1
    expected, ended = np.zeros((rows, B)), np.zeros((rows, B), bool)
    for t in range(rows):
        for b in range(B):
            for k in range(min(n_step, T - t)):
                expected[t, b] += DISCOUNT**k * reward[t + k, b]
                if done[t + k, b]:
                    expected[t, b] += DISCOUNT ** (k + 1) * timeout_value[t + k, b]
                    ended[t, b] = True
                    break
    given = of_kind(kind, batch)
    return_, done_n = returns.discount_return_n_step(
        given["reward"],
        given["done"],
        n_step,
        DISCOUNT,
        do_truncated=do_truncated,
        timeout_value=given["timeout_value"],
    )
    check(return_, expected, kind)
    np.testing.assert_array_equal(np.asarray(done_n), ended)
    assert type(done_n) is type(return_)


def test_n_step_return_writes_into_destinations():
    batch, _ = make_batch()
    return_dest, done_n_dest = np.zeros((T - 2, B)), np.zeros((T - 2, B), bool)
    result = returns.discount_return_n_step(
        batch["reward"], batch["done"], 3, DISCOUNT, return_dest, done_n_dest
    )
    assert result[0] is return_dest
    assert result[1] is done_n_dest
    assert done_n_dest[0, 0]  # done at t=2
    assert not done_n_dest[0, 2]


def test_valid_until_the_first_done(kind):
    done = np.array([[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]], bool)
    valid = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 0, 0]], np.float32)
    check(returns.valid_from_done(of_kind(kind, {"done": done})["done"]), valid, kind)


def test_time_limit_forms_bootstrap_from_the_value_before_the_step():
    """At a time limit the return is V(s_t) and the advantage zero, in the last row too."""
    batch, timeout = make_batch()
    reward, value = batch["reward"], batch["value"]
    args = (batch["done"], batch["bootstrap_value"], DISCOUNT)
    return_ = utils.discount_return_tl(reward, *args, timeout, value)
    np.testing.assert_array_equal(return_[timeout], value[timeout])
    np.testing.assert_allclose(return_[4, 0], reward[4, 0] + DISCOUNT * value[5, 0], rtol=1e-6)
    assert timeout[T - 1, 1]
    np.testing.assert_allclose(return_[5, 1], reward[5, 1] + DISCOUNT * value[6, 1], rtol=1e-6)

    advantage, gae_return = utils.generalized_advantage_estimation_tl(
        reward, value, *args, LAMBDA, timeout
    )
    np.testing.assert_array_equal(advantage[timeout], 0)
    np.testing.assert_array_equal(gae_return[timeout], value[timeout])
    delta = reward[4, 0] + DISCOUNT * value[5, 0] - value[4, 0]
    np.testing.assert_allclose(advantage[4, 0], delta, rtol=1e-5)

    as_tensors = [torch.from_numpy(x) for x in (reward, value, batch["done"])]
    from_torch, _ = utils.generalized_advantage_estimation_tl(
        *as_tensors, batch["bootstrap_value"], DISCOUNT, LAMBDA, torch.from_numpy(timeout)
    )
    np.testing.assert_allclose(from_torch.numpy(), advantage, rtol=1e-6)


def test_extra_and_missing_dimensions():
    batch, _ = make_batch()
    column = [batch[k][:, 0] for k in ("reward", "done")]
    whole = returns.discount_return(
        batch["reward"], batch["done"], batch["bootstrap_value"], DISCOUNT
    )
    alone = returns.discount_return(*column, batch["bootstrap_value"][0, 0], DISCOUNT)
    np.testing.assert_allclose(alone, whole[:, 0], rtol=1e-6)
    stacked = returns.discount_return(
        *(np.stack([batch[k]] * 2, axis=-1) for k in ("reward", "done", "bootstrap_value")),
        DISCOUNT,
    )
    assert stacked.shape == (T, B, 2)
    np.testing.assert_allclose(stacked[..., 1], whole, rtol=1e-6)


def test_mismatched_shapes_are_named():
    batch, _ = make_batch()
    args = dict(reward=batch["reward"], done=batch["done"], discount=DISCOUNT)
    with pytest.raises(ValueError, match=r"^done .*\(3, 7\)"):
        returns.discount_return(batch["reward"], batch["done"].T, 0.0, DISCOUNT)
    with pytest.raises(ValueError, match=r"^bootstrap_value .*\(2,\)"):
        returns.discount_return(**args, bootstrap_value=np.zeros(2))
    with pytest.raises(ValueError, match="timeout_value"):
        returns.discount_return(**args, bootstrap_value=0.0, timeout_value=np.zeros(B))
    with pytest.raises(ValueError, match="n_step=8"):
        returns.discount_return_n_step(**args, n_step=8)
    with pytest.raises(ValueError, match="output"):
        returns.discount_return(**args, bootstrap_value=0.0, return_dest=np.zeros((B, T)))
