"""Lagom's returns and advantages of one trajectory: `rlpyt.algos.returns` without ``done``.

``rewards`` are [T] numbers in a list, array or tensor, or a `Trajectory`, which knows its rewards
and whether its last observation is terminal. They may be [T, B] as well, where none of B
trajectories ends before the last row; ``last_V`` and ``reach_terminal`` are then [B]. Batches in
which episodes end anywhere are for `rlpyt.algos.returns`.

Results are numpy arrays in the shape of the rewards, float32 unless these are float64.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.algos.returns import discount_return, generalized_advantage_estimation
from rlpyt.compat.syllabus import check_shapes, from_importance_weights
from rlpyt.utils.buffer import numpify_buffer
from rlpyt.utils.checks import check_range

Array = NDArray[Any]


def returns(gamma: float, rewards: Any) -> Array:
    """Return discounted sums of the rewards from each step to the last.

        R_t = r_t + gamma r_{t+1} + ... + gamma^{T-1-t} r_{T-1}

    Args:
        gamma: discount, per environment step.
        rewards: [T] or a trajectory.
    """
    r = _numbers(getattr(rewards, "rewards", rewards))
    return discount_return(r, np.zeros(r.shape, bool), 0.0, gamma)


def bootstrapped_returns(
    gamma: float, rewards: Any, last_V: Any, reach_terminal: Any = None
) -> Array:
    """Return discounted sums of the rewards, and of the value of what follows the last.

        Q_t = r_t + gamma r_{t+1} + ... + gamma^{T-1-t} r_{T-1} + gamma^{T-t} V(s_T)

    Args:
        gamma: discount, per environment step.
        rewards: [T] or a trajectory.
        last_V: V(s_T), of the observation after the last step; not counted if that is terminal.
        reach_terminal: whether it is; ``None``: as the trajectory says.

    Raises:
        TypeError: ``reach_terminal`` is missing, and the rewards are no trajectory; or ``last_V``
            is ``None`` where something follows.
    """
    r, done, last = _ends(rewards, last_V, reach_terminal)
    return discount_return(r, done, last, gamma)


def td0_target(
    gamma: float, rewards: Any, Vs: Any, last_V: Any, reach_terminal: Any = None
) -> Array:
    """Return the target of V(s_t): r_t + gamma V(s_{t+1}).

    Args:
        gamma: discount, per environment step.
        rewards: [T] or a trajectory.
        Vs: [T], V(s_0) to V(s_{T-1}).
        last_V, reach_terminal: of ``bootstrapped_returns``.

    Raises:
        TypeError: as of ``bootstrapped_returns``.
        ValueError: there are other than T values.
    """
    r, _, last = _ends(rewards, last_V, reach_terminal)
    v = _numbers(Vs)
    if v.shape != r.shape:
        raise ValueError(f"Vs of shape {v.shape} must have the shape of rewards, {r.shape}.")
    following = np.append(v[1:], np.broadcast_to(last, (1, *r.shape[1:])), 0)[: len(r)]
    return (r + float(gamma) * following).astype(r.dtype)


def td0_error(
    gamma: float, rewards: Any, Vs: Any, last_V: Any, reach_terminal: Any = None
) -> Array:
    """Return the error of V(s_t): r_t + gamma V(s_{t+1}) - V(s_t).

    Args and errors: of ``td0_target``.
    """
    return gae(gamma, 0.0, rewards, Vs, last_V, reach_terminal)


def gae(
    gamma: float, lam: float, rewards: Any, Vs: Any, last_V: Any, reach_terminal: Any = None
) -> Array:
    """Return generalized advantages, sum_k (gamma lam)^k delta_{t+k} with ``td0_error``.

    Args:
        lam: in [0, 1]; 0 trusts the values, 1 is the bootstrapped return minus the value.
        gamma, rewards, Vs, last_V, reach_terminal: of ``td0_target``; errors as well.
    """
    r, done, last = _ends(rewards, last_V, reach_terminal)
    advantage, _ = generalized_advantage_estimation(r, _numbers(Vs), done, last, gamma, lam)
    return advantage


def vtrace(
    behavior_logprobs: Any,
    target_logprobs: Any,
    gamma: float,
    Rs: Any,
    Vs: Any,
    last_V: Any,
    reach_terminal: bool,
    clip_rho: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
) -> tuple[Array, Array]:
    """Compute V-trace of one trajectory.

    Args:
        behavior_logprobs, target_logprobs: [T], of the actions, by the policy that chose them and
            by the one that is trained.
        gamma: discount, per environment step.
        Rs: [T], rewards.
        Vs: [T], values of the observations before each step.
        last_V: value of the observation after the last step; not read if that is terminal.
        reach_terminal: whether it is.
        clip_rho, clip_pg_rho: thresholds of `from_importance_weights`.

    Returns:
        targets of the value [T], and weighted advantages [T], numpy float32.

    Raises:
        TypeError: ``last_V`` is ``None`` where something follows.
        ValueError: shapes differ, or a threshold is not positive.
    """
    rewards, values, behavior, target = (
        np.asarray(numpify_buffer(x), np.float32)
        for x in (Rs, Vs, behavior_logprobs, target_logprobs)
    )
    check_shapes("Rs", rewards, Vs=values, behavior_logprobs=behavior, target_logprobs=target)
    _, _, bootstrap = _ends(rewards, last_V, reach_terminal)
    discounts = np.full_like(rewards, gamma)
    returns = from_importance_weights(
        target - behavior, discounts, rewards, values, bootstrap, clip_rho, clip_pg_rho
    )
    return returns.vs, returns.pg_advantages


def geometric_cumsum(alpha: float, x: Any) -> Array:
    """Return sums of each number and those after it, weighted by powers of ``alpha``.

        y_i = x_i + alpha x_{i+1} + alpha^2 x_{i+2} + ...

    Args:
        alpha: in [0, 1].
        x: [..., n] numbers; other dimensions than the last are kept apart.

    Returns:
        [..., n] float64.
    """
    check_range("alpha", alpha, 0.0, 1.0)
    columns = np.moveaxis(np.asarray(numpify_buffer(x), np.float64), -1, 0)
    sums = discount_return(columns, np.zeros(columns.shape, bool), 0.0, alpha)
    return np.moveaxis(sums, 0, -1)


def _ends(rewards: Any, last_V: Any, reach_terminal: Any) -> tuple[Array, Array, Array]:
    """Return rewards, ``done`` (true if the last observation is terminal), and its value.

    Where it is terminal that is nothing, whatever ``last_V`` says.
    """
    r = _numbers(getattr(rewards, "rewards", rewards))
    if reach_terminal is None:
        if not hasattr(rewards, "reach_terminal"):
            raise TypeError(
                "reach_terminal is missing: say whether the observation after the last reward is "
                "terminal, or give a Trajectory, which knows."
            )
        reach_terminal = rewards.reach_terminal
    done = np.zeros(r.shape, bool)
    terminal = np.asarray(numpify_buffer(reach_terminal), bool)
    done[-1:] = terminal
    if last_V is None and not terminal.all():
        raise TypeError(
            "last_V is None, but something follows the last step: give its value (a sampler "
            "records it if it is initialized with bootstrap_value=True)."
        )
    value = np.asarray(0.0 if last_V is None else numpify_buffer(last_V), np.float64)
    value = value.reshape(()) if value.size == 1 else value
    return r, done, np.where(terminal, 0.0, value)


def _numbers(x: Any) -> Array:
    """Return float64 arrays and tensors as they are, all else as float32."""
    if isinstance(x, list | tuple):
        return np.array([numpify_buffer(one) for one in x], np.float32)
    array = np.asarray(numpify_buffer(x))
    keep = isinstance(x, np.ndarray | Tensor) and array.dtype == np.float64
    return array if keep else array.astype(np.float32)
