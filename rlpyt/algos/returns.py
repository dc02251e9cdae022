"""Returns and advantages: pure functions over [T, B] batches.

Arrays are numpy or torch, with time as first dimension: [T], [T, B], [T, B, ...]. Results have the
type and device of ``reward`` and its floating dtype (float32 for other dtypes), without gradient.
The recursions always run in numpy (on the memory of CPU tensors), because T small torch operations
take five times as long.

``done[t]`` (bool, uint8 or float) is true if the episode ended with step t. If it was truncated by
a time limit, ``timeout_value[t]`` is the value of the true final observation, which follows step t.
It must be zero at other ends, and is not read elsewhere. ``None`` means that no episode was
truncated.
"""

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any] | Tensor
ArrayT = TypeVar("ArrayT", bound=Array)


def discount_return(
    reward: ArrayT,
    done: Array,
    bootstrap_value: Array | float,
    discount: float,
    return_dest: Array | None = None,
    timeout_value: Array | None = None,
) -> ArrayT:
    """Compute discounted sums of future rewards, up to the end of the episode or the batch.

        R_t = r_t + gamma (R_{t+1} if not d_t, else V_timeout_t),    R_T = V(s_T)

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        bootstrap_value: [B] or [1, B], V of the observation after the last step.
        discount: gamma, per environment step.
        return_dest: [T, B], output array, or ``None``.
        timeout_value: [T, B] or ``None``, see the module.

    Returns:
        [T, B]; ``return_dest`` if given.

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    base = _add_timeout_value(r, d, timeout_value, discount)
    return_ = _backward_sum(base, discount * (1 - d), bootstrap)
    return _like(reward, return_, return_dest)  # type: ignore[no-any-return]


def generalized_advantage_estimation(
    reward: ArrayT,
    value: Array,
    done: Array,
    bootstrap_value: Array | float,
    discount: float,
    gae_lambda: float,
    advantage_dest: Array | None = None,
    return_dest: Array | None = None,
    timeout_value: Array | None = None,
) -> tuple[ArrayT, ArrayT]:
    """Compute advantages as exponentially weighted sums of temporal-difference errors.

        delta_t = r_t + gamma V_{t+1} - V_t,    A_t = delta_t + gamma lambda (1 - d_t) A_{t+1}

    (Schulman et al. 2016, eq. 16), where V_{t+1} is zero, or ``timeout_value[t]``, after a
    done.

    Args:
        reward: [T, B], r_t received after a_t.
        value: [T, B], V(s_t).
        done: [T, B].
        bootstrap_value: [B] or [1, B], V of the observation after the last step.
        discount: gamma, per environment step.
        gae_lambda: in [0, 1]; 0: one-step errors, 1: Monte Carlo return minus value.
        advantage_dest, return_dest: [T, B], output arrays, or ``None``.
        timeout_value: [T, B] or ``None``, see the module.

    Returns:
        Advantages [T, B], and returns (advantage + value) [T, B].

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    v = _matching(value, "value", r)
    next_value = np.concatenate([v[1:], bootstrap[None]])
    delta = _add_timeout_value(r, d, timeout_value, discount)
    delta = delta + discount * (1 - d) * next_value - v
    advantage = _backward_sum(delta, (discount * gae_lambda) * (1 - d), np.zeros_like(bootstrap))
    return_ = advantage + v
    return _like(reward, advantage, advantage_dest), _like(reward, return_, return_dest)


def lambda_return(
    reward: ArrayT,
    done: Array,
    next_value: Array,
    discount: float,
    lam: float,
    timeout_value: Array | None = None,
) -> ArrayT:
    """Compute lambda returns: means of n-step returns, weighted by powers of ``lam``.

        G_t = r_t + gamma (1 - d_t) [(1 - lam) V_{t+1} + lam G_{t+1}],    G_T = V_T

    (Sutton & Barto 2018, eq. 12.2 in recursive form).

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        next_value: [T, B], V(s_{t+1}); in the last row the bootstrap value. Not read after a done.
        discount: gamma, per environment step.
        lam: in [0, 1]; 0: one-step targets, 1: Monte Carlo.
        timeout_value: [T, B] or ``None``, see the module.

    Returns:
        [T, B].

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, _ = _inputs(reward, done, 0.0)
    v = np.where(d > 0, 0, _matching(next_value, "next_value", r)).astype(r.dtype, copy=False)
    lam = float(lam)
    base = _add_timeout_value(r, d, timeout_value, discount) + discount * (1 - lam) * v
    return_ = _backward_sum(base, (discount * lam) * (1 - d), v[-1])
    return _like(reward, return_, None)  # type: ignore[no-any-return]


def discount_return_n_step(
    reward: ArrayT,
    done: Array,
    n_step: int,
    discount: float,
    return_dest: Array | None = None,
    done_n_dest: Array | None = None,
    do_truncated: bool = False,
    timeout_value: Array | None = None,
) -> tuple[ArrayT, Any]:
    """Compute discounted sums of the next ``n_step`` rewards, without bootstrapping.

        R_t = sum_{k<n} gamma^k r_{t+k}, up to and including the first done in the window

    The algorithm adds gamma^n V(s_{t+n}) where ``done_n`` is false. After a time limit within the
    window, the sum already includes gamma^{k+1} ``timeout_value[t+k]``.

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        n_step: n, at least 1.
        discount: gamma, per environment step.
        return_dest, done_n_dest: output arrays in the shape of the result, or ``None``.
        do_truncated: True to compute the last n - 1 rows too, from fewer than n rewards.
        timeout_value: [T, B] or ``None``, see the module.

    Returns:
        Returns and ``done_n`` (any done in the window, in the dtype of ``done``), each
        [T - n + 1, B], or [T, B] with ``do_truncated``.

    Raises:
        ValueError: shapes differ; n_step is below 1, or above T without ``do_truncated``.
    """
    from rlpyt.replays.targets import n_step_targets  # on-policy algorithms need no replay

    discount = float(discount)  # a numpy number would widen float32
    r, d, _ = _inputs(reward, done, 0.0)
    T = len(r)
    if n_step < 1 or (n_step > T and not do_truncated):
        raise ValueError(f"n_step={n_step} must be at least 1 and at most the {T} rows of reward.")
    base, ends, n = _add_timeout_value(r, d, timeout_value, discount), d > 0, min(n_step, T)
    if do_truncated:  # append n - 1 rows without reward
        padding = np.zeros((n - 1, *base.shape[1:]), base.dtype)
        base, ends = np.concatenate([base, padding]), np.concatenate([ends, padding > 0])
    targets = n_step_targets(base, ends, np.zeros_like(ends), n, discount)
    done_n = targets.done_n.astype(_to_numpy(done).dtype)
    return _like(reward, targets.return_, return_dest), _like(done, done_n, done_n_dest)


def vtrace_return(
    log_ratio: Array,
    reward: ArrayT,
    value: Array,
    done: Array,
    bootstrap_value: Array | float,
    discount: Array | float,
    clip_rho: float | None = 1.0,
    lam: float = 1.0,
    timeout_value: Array | None = None,
) -> tuple[ArrayT, ArrayT]:
    """Compute returns and advantages of a policy pi from steps of another policy mu.

        v_t = V_t + delta_t + gamma c_t (1 - d_t) (v_{t+1} - V_{t+1}),    v_T = V_T
        delta_t = rho_t (r_t + gamma V_{t+1} - V_t)
        rho_t = min(clip_rho, pi(a_t)/mu(a_t)),    c_t = lambda min(1, pi(a_t)/mu(a_t))
        A_t = r_t + gamma (1 - d_t) [(1 - lambda) V_{t+1} + lambda v_{t+1}] - V_t

    (V-trace, Espeholt et al. 2018, eq. 1 by remarks 1 and 2 with c_bar = 1; section 4.2), where
    V_{t+1} in delta_t and A_t is zero, or ``timeout_value[t]``, after a done. If mu equals pi, the
    results are those of generalized advantage estimation.

    Args:
        log_ratio: [T, B], log pi(a_t) - log mu(a_t).
        reward: [T, B], r_t received after a_t.
        value: [T, B], V(s_t).
        done: [T, B].
        bootstrap_value: [B] or [1, B], V of the observation after the last step.
        discount: gamma, per environment step; a number or [T, B].
        clip_rho: rho_bar; smaller limits move v from the value of pi towards that of mu; ``None``:
            no limit.
        lam: in [0, 1]; 0: one-step targets, 1: up to the end of the batch.
        timeout_value: [T, B] or ``None``, see the module.

    Returns:
        v [T, B] and A [T, B]. A is not weighted: multiply it by ``importance_weight`` in the policy
        gradient.

    Raises:
        ValueError: shapes differ.
    """
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    v = _matching(value, "value", r)
    ratio = importance_weight(_matching(log_ratio, "log_ratio", r))
    gamma = float(discount) if np.ndim(discount) == 0 else _matching(discount, "discount", r)
    not_done = gamma * (1 - d)
    td_error = _add_timeout_value(r, d, timeout_value, gamma)
    td_error = td_error + not_done * np.concatenate([v[1:], bootstrap[None]]) - v
    delta = (ratio if clip_rho is None else np.minimum(ratio, clip_rho)) * td_error
    carry = float(lam) * not_done
    correction = _backward_sum(delta, carry * np.minimum(ratio, 1), np.zeros_like(bootstrap))
    advantage = td_error
    advantage[:-1] += carry[:-1] * correction[1:]
    return _like(reward, v + correction, None), _like(reward, advantage, None)


def importance_weight(log_ratio: ArrayT, clip: float | None = None) -> ArrayT:
    """Return the likelihood ratio of actions under two policies, at most ``clip``.

    Args:
        log_ratio: difference of the log-likelihoods, of any shape.
        clip: upper limit; ``None``: no limit.

    Returns:
        Array of the same shape, type and device, without gradient.
    """
    weight: Any
    if isinstance(log_ratio, Tensor):
        weight = log_ratio.detach().exp()
        return weight if clip is None else weight.clamp(max=clip)  # type: ignore[no-any-return]
    with np.errstate(over="ignore"):  # infinite ratios are clipped below
        weight = np.exp(log_ratio)
    return weight if clip is None else np.minimum(weight, clip)  # type: ignore[no-any-return]


def valid_from_done(done: ArrayT) -> ArrayT:
    """Return a float32 mask of the steps up to and including the first done.

    Args:
        done: [T, ...] bool, uint8 or float.

    Returns:
        Mask of the same shape.
    """
    d = _to_numpy(done) != 0
    valid = np.ones(d.shape, np.float32)
    valid[1:] = ~np.logical_or.accumulate(d[:-1], axis=0)
    return _like(done, valid, None)  # type: ignore[no-any-return]


def _backward_sum(base: NDArray[Any], carry: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
    """Return x_t = base_t + carry_t x_{t+1} for all t, with x_T = last; overwrite ``base``."""
    shape = (len(base), last.size)  # also without rows
    x = last.reshape(-1)
    product = np.empty_like(x)
    for row, weight in zip(reversed(base.reshape(shape)), reversed(carry.reshape(shape))):
        np.multiply(weight, x, out=product)
        np.add(row, product, out=row)
        x = row
    return base


def _add_timeout_value(
    reward: NDArray[Any],
    done: NDArray[Any],
    timeout_value: Array | None,
    discount: float | NDArray[Any],
) -> NDArray[Any]:
    """Return a copy of reward plus the discounted value after a time limit.

    Then each end of an episode can be treated as a termination.
    """
    if timeout_value is None:
        return reward.copy()
    value = _matching(timeout_value, "timeout_value", reward)
    return reward + discount * np.where(done > 0, value, 0).astype(reward.dtype)


def _inputs(
    reward: Array, done: Array, bootstrap_value: Array | float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return reward, done (0 or 1 in the dtype of reward) and bootstrap value [B] as numpy."""
    r = _to_numpy(reward)
    if r.dtype.kind != "f":
        r = r.astype(np.float32)
    d = _matching(done, "done", r)
    bootstrap = np.asarray(_to_numpy(bootstrap_value), r.dtype)
    if bootstrap.size == 1:
        return r, d, np.full(r.shape[1:], bootstrap.item(), r.dtype)
    if bootstrap.shape not in (r.shape[1:], (1, *r.shape[1:])):
        raise ValueError(
            "bootstrap_value must have one value per environment, shape "
            f"{r.shape[1:]} or {(1, *r.shape[1:])}, got {bootstrap.shape}."
        )
    return r, d, bootstrap.reshape(r.shape[1:])


def _matching(array: Array | float, name: str, reward: NDArray[Any]) -> NDArray[Any]:
    x = _to_numpy(array)
    if x.shape != reward.shape:
        raise ValueError(
            f"{name} must have the shape of reward, {reward.shape} (time first), got {x.shape}."
        )
    return x.astype(reward.dtype, copy=False)


def _to_numpy(x: Any) -> NDArray[Any]:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _like(example: Array, result: NDArray[Any], dest: Any) -> Any:
    """Return the result in ``dest`` if given, else as an array of the type of ``example``."""
    if dest is not None:
        if tuple(dest.shape) != result.shape:
            raise ValueError(
                f"the output array must have the shape {result.shape}, got {tuple(dest.shape)}."
            )
        dest[...] = torch.from_numpy(result) if isinstance(dest, Tensor) else result
        return dest
    return torch.from_numpy(result).to(example.device) if isinstance(example, Tensor) else result
