"""Returns and advantages: pure functions over [T, B] batches.

Arrays are numpy or torch, time first, with any or no further dimensions: [T], [T, B], [T, B, ...].
Results are of the kind and on the device of ``reward``, in its floating dtype (float32 for other
dtypes), without gradient. The recursions run in numpy whatever the inputs (on the memory of CPU
tensors): T small torch operations take five times as long.

``done[t]`` (bool, uint8 or float) says that the episode ended with step t. Where it was cut off by
a time limit, not ended by the environment, the value of the true final observation is to follow
step t: ``timeout_value[t]`` is that value, and is zero or anything elsewhere. ``None`` means that
every end is a real one (with value zero).
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
    """Compute discounted sums of future rewards, to the end of the episode or of the batch.

        R_t = r_t + gamma (R_{t+1} if not d_t, else V_timeout_t),    R_T = V(s_T)

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        bootstrap_value: [B] or [1, B], V of the observation after the last step.
        discount: gamma, per environment step.
        return_dest: [T, B] to write into, or ``None``.
        timeout_value: [T, B] or ``None``, see above.

    Returns:
        [T, B]; ``return_dest`` if given.

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    base = _follow_timeout(r, d, timeout_value, discount)
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
        gae_lambda: in [0, 1]; 0 trusts the values, 1 is the Monte Carlo return minus the value.
        advantage_dest, return_dest: [T, B] to write into, or ``None``.
        timeout_value: [T, B] or ``None``, see above.

    Returns:
        advantage [T, B], and return advantage + value [T, B].

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    v = _matching(value, "value", r)
    next_value = np.concatenate([v[1:], bootstrap[None]])
    delta = _follow_timeout(r, d, timeout_value, discount)
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
    """Blend n-step returns of all lengths, weighted by powers of ``lam``.

        G_t = r_t + gamma (1 - d_t) [(1 - lam) V_{t+1} + lam G_{t+1}],    G_T = V_T

    (Sutton & Barto 2018, eq. 12.2 in recursive form).

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        next_value: [T, B], V(s_{t+1}); in the last row the bootstrap value. Not read after a done.
        discount: gamma, per environment step.
        lam: in [0, 1]; 0 gives one-step targets, 1 Monte Carlo.
        timeout_value: [T, B] or ``None``, see above.

    Returns:
        [T, B].

    Raises:
        ValueError: shapes differ.
    """
    discount = float(discount)  # a numpy number would widen float32
    r, d, _ = _inputs(reward, done, 0.0)
    v = np.where(d > 0, 0, _matching(next_value, "next_value", r)).astype(r.dtype, copy=False)
    lam = float(lam)
    base = _follow_timeout(r, d, timeout_value, discount) + discount * (1 - lam) * v
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
    """Compute discounted sums of the next ``n_step`` rewards, without bootstrap.

        R_t = sum_{k<n} gamma^k r_{t+k}, up to and with the first done in the window

    The algorithm adds gamma^n V(s_{t+n}) where ``done_n`` is false. A time limit within the window
    is complete already: gamma^{k+1} ``timeout_value[t+k]`` is part of the sum.

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B].
        n_step: n, at least 1.
        discount: gamma, per environment step.
        return_dest, done_n_dest: to write into, in the shape of the result, or ``None``.
        do_truncated: compute the last n - 1 rows too, from the fewer rewards that there are.
        timeout_value: [T, B] or ``None``, see above.

    Returns:
        return and ``done_n`` (any done in the window, in the dtype of ``done``), each
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
    base, ends, n = _follow_timeout(r, d, timeout_value, discount), d > 0, min(n_step, T)
    if do_truncated:  # by n - 1 further rows without reward
        further = np.zeros((n - 1, *base.shape[1:]), base.dtype)
        base, ends = np.concatenate([base, further]), np.concatenate([ends, further > 0])
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
    """Compute returns and advantages of a policy pi, from steps of another policy mu.

        v_t = V_t + delta_t + gamma c_t (1 - d_t) (v_{t+1} - V_{t+1}),    v_T = V_T
        delta_t = rho_t (r_t + gamma V_{t+1} - V_t)
        rho_t = min(clip_rho, pi(a_t)/mu(a_t)),    c_t = lambda min(1, pi(a_t)/mu(a_t))
        A_t = r_t + gamma (1 - d_t) [(1 - lambda) V_{t+1} + lambda v_{t+1}] - V_t

    (V-trace, Espeholt et al. 2018, eq. 1 by remarks 1 and 2 with c_bar = 1; section 4.2), where
    V_{t+1} in delta_t and A_t is zero, or ``timeout_value[t]``, after a done. Where mu is pi, both
    are those of generalized advantage estimation.

    Args:
        log_ratio: [T, B], log pi(a_t) - log mu(a_t).
        reward: [T, B], r_t received after a_t.
        value: [T, B], V(s_t).
        done: [T, B].
        bootstrap_value: [B] or [1, B], V of the observation after the last step.
        discount: gamma, per environment step; one number, or [T, B].
        clip_rho: rho_bar; v is the value of a policy between mu (towards 0) and pi (``None``: no
            limit).
        lam: in [0, 1]; 0 looks one step ahead, 1 to the end of the batch.
        timeout_value: [T, B] or ``None``, see above.

    Returns:
        v [T, B], and A [T, B], which is not weighted: the policy's gradient is that of log pi times
        A and ``importance_weight``.

    Raises:
        ValueError: shapes differ.
    """
    r, d, bootstrap = _inputs(reward, done, bootstrap_value)
    v = _matching(value, "value", r)
    ratio = importance_weight(_matching(log_ratio, "log_ratio", r))
    gamma = float(discount) if np.ndim(discount) == 0 else _matching(discount, "discount", r)
    going_on = gamma * (1 - d)
    ahead = _follow_timeout(r, d, timeout_value, gamma)
    ahead = ahead + going_on * np.concatenate([v[1:], bootstrap[None]]) - v
    delta = (ratio if clip_rho is None else np.minimum(ratio, clip_rho)) * ahead
    carry = float(lam) * going_on
    beyond = _backward_sum(delta, carry * np.minimum(ratio, 1), np.zeros_like(bootstrap))
    advantage = ahead
    advantage[:-1] += carry[:-1] * beyond[1:]
    return _like(reward, v + beyond, None), _like(reward, advantage, None)


def importance_weight(log_ratio: ArrayT, clip: float | None = None) -> ArrayT:
    """Return the ratio of an action's likelihoods under two policies, at most ``clip``.

    Args:
        log_ratio: of any shape, the difference of the logarithms.
        clip: the limit; ``None``: none.

    Returns:
        Of the same shape, kind and device, without gradient.
    """
    weight: Any
    if isinstance(log_ratio, Tensor):
        weight = log_ratio.detach().exp()
        return weight if clip is None else weight.clamp(max=clip)  # type: ignore[no-any-return]
    with np.errstate(over="ignore"):  # infinity is what the limit is for
        weight = np.exp(log_ratio)
    return weight if clip is None else np.minimum(weight, clip)  # type: ignore[no-any-return]


def valid_from_done(done: ArrayT) -> ArrayT:
    """Return a mask of the steps up to and with the first done, float32.

    Args:
        done: [T, ...] bool, uint8 or float.

    Returns:
        Of the same shape.
    """
    d = _to_numpy(done) != 0
    valid = np.ones(d.shape, np.float32)
    valid[1:] = ~np.logical_or.accumulate(d[:-1], axis=0)
    return _like(done, valid, None)  # type: ignore[no-any-return]


def _backward_sum(base: NDArray[Any], carry: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
    """Return x_t = base_t + carry_t x_{t+1} for all t, from x_T = last; overwrite ``base``."""
    shape = (len(base), last.size)  # there may be no rows
    x = last.reshape(-1)
    product = np.empty_like(x)
    for row, weight in zip(reversed(base.reshape(shape)), reversed(carry.reshape(shape))):
        np.multiply(weight, x, out=product)
        np.add(row, product, out=row)
        x = row
    return base


def _follow_timeout(
    reward: NDArray[Any],
    done: NDArray[Any],
    timeout_value: Array | None,
    discount: float | NDArray[Any],
) -> NDArray[Any]:
    """Return reward plus the discounted value after a time limit, in new memory.

    With it, the end of an episode is a real one to all that follows.
    """
    if timeout_value is None:
        return reward.copy()
    value = _matching(timeout_value, "timeout_value", reward)
    return reward + discount * np.where(done > 0, value, 0).astype(reward.dtype)


def _inputs(
    reward: Array, done: Array, bootstrap_value: Array | float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return reward, done as 0 or 1 in its dtype, and bootstrap value [B], as numpy."""
    r = _to_numpy(reward)
    if r.dtype.kind != "f":
        r = r.astype(np.float32)
    d = _matching(done, "done", r)
    bootstrap = np.asarray(_to_numpy(bootstrap_value), r.dtype)
    if bootstrap.size == 1:
        return r, d, np.full(r.shape[1:], bootstrap.item(), r.dtype)
    if bootstrap.shape not in (r.shape[1:], (1, *r.shape[1:])):
        raise ValueError(
            f"bootstrap_value of shape {bootstrap.shape} must be one value for each environment: "
            f"{r.shape[1:]}, or with a leading 1."
        )
    return r, d, bootstrap.reshape(r.shape[1:])


def _matching(array: Array | float, name: str, reward: NDArray[Any]) -> NDArray[Any]:
    x = _to_numpy(array)
    if x.shape != reward.shape:
        raise ValueError(
            f"{name} of shape {x.shape} must have the shape of reward, {reward.shape} (time first)."
        )
    return x.astype(reward.dtype, copy=False)


def _to_numpy(x: Any) -> NDArray[Any]:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _like(example: Array, result: NDArray[Any], dest: Any) -> Any:
    """Return the result in ``dest`` if given, else as the kind of array that ``example`` is."""
    if dest is not None:
        if tuple(dest.shape) != result.shape:
            raise ValueError(f"a result of shape {result.shape} does not fit {tuple(dest.shape)}.")
        dest[...] = torch.from_numpy(result) if isinstance(dest, Tensor) else result
        return dest
    return torch.from_numpy(result).to(example.device) if isinstance(example, Tensor) else result
