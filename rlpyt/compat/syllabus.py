"""V-trace (Espeholt et al. 2018) in the forms of Syllabus' utilities.

They take log importance weights or logits; the computation is `rlpyt.algos.returns.vtrace_return`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlpyt.algos.returns import Array, importance_weight, vtrace_return
from rlpyt.utils.checks import check_range
from rlpyt.utils.tensor import select_at_indexes


class VTraceReturns(NamedTuple):
    """Results of `from_importance_weights`, each [T, B] and without gradient."""

    vs: Any  # targets of the value
    pg_advantages: Any  # factors of the gradient of log pi(a_t)


class VTraceFromLogitsReturns(NamedTuple):
    """Results of `from_logits`, each [T, B]; all but the last without gradient."""

    vs: Any
    pg_advantages: Any
    log_rhos: Any
    behavior_action_log_probs: Any
    target_action_log_probs: Any


def from_importance_weights(
    log_rhos: Array,
    discounts: Array,
    rewards: Array,
    values: Array,
    bootstrap_value: Array | float,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
) -> VTraceReturns:
    """Compute V-trace from log importance weights (Espeholt et al. 2018, eq. 1 and section 4.2).

    Args:
        log_rhos: [T, B], log of the target policy's probability of the action over the behavior
            policy's.
        discounts: [T, B], gamma; 0 where the episode ended with the step.
        rewards: [T, B].
        values: [T, B], by the target policy's value function.
        bootstrap_value: [B], value of the observation after the last step.
        clip_rho_threshold: rho_bar, of the targets; ``None``: no limit.
        clip_pg_rho_threshold: of ``pg_advantages``; ``None``: no limit.

    Returns:
        vs and pg_advantages (these are weighted), each [T, B], numpy or torch as ``rewards`` are.

    Raises:
        ValueError: shapes differ, or a threshold is not positive.
    """
    clips = dict(clip_rho_threshold=clip_rho_threshold, clip_pg_rho_threshold=clip_pg_rho_threshold)
    for name, clip in clips.items():
        if clip is not None:
            check_range(name, clip, 0, open_low=True)
    check_shapes("rewards", rewards, log_rhos=log_rhos, discounts=discounts, values=values)
    never = np.zeros(np.shape(rewards), bool)  # discounts say where episodes end
    vs, advantages = vtrace_return(
        log_rhos, rewards, values, never, bootstrap_value, discounts, clip_rho_threshold
    )
    return VTraceReturns(vs, importance_weight(log_rhos, clip_pg_rho_threshold) * advantages)


def from_logits(
    behavior_policy_logits: Tensor,
    target_policy_logits: Tensor,
    actions: Tensor,
    discounts: Array,
    rewards: Array,
    values: Array,
    bootstrap_value: Array | float,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
) -> VTraceFromLogitsReturns:
    """Compute V-trace for softmax policies.

    Args:
        behavior_policy_logits: [T, B, A], of the policy that chose the actions.
        target_policy_logits: [T, B, A], of the policy that is trained.
        actions: [T, B] integers.
        discounts, rewards, values, bootstrap_value, clip_rho_threshold, clip_pg_rho_threshold:
            of `from_importance_weights`.

    Returns:
        Its results, and of what they were made. ``target_action_log_probs`` has the gradient: the
        policy's loss is ``-(target_action_log_probs * pg_advantages).mean()``.

    Raises:
        ValueError: shapes differ, or a threshold is not positive.
    """
    logits = {"behavior_policy_logits": behavior_policy_logits}
    check_shapes("target_policy_logits", target_policy_logits, **logits)
    target = action_log_probs(target_policy_logits, actions)
    behavior = action_log_probs(behavior_policy_logits, actions).detach()
    log_rhos = target.detach() - behavior
    returns = from_importance_weights(
        log_rhos,
        discounts,
        rewards,
        values,
        bootstrap_value,
        clip_rho_threshold,
        clip_pg_rho_threshold,
    )
    return VTraceFromLogitsReturns(*returns, log_rhos, behavior, target)


def action_log_probs(policy_logits: Tensor, actions: Tensor) -> Tensor:
    """Return the log-probability of each action, [T, B], with gradient.

    Args:
        policy_logits: [T, B, A], before the softmax.
        actions: [T, B] integers in [0, A).

    Raises:
        ValueError: the leading dimensions differ.
    """
    return select_at_indexes(actions, torch.log_softmax(policy_logits, -1))


def check_shapes(name: str, array: Any, **others: Any) -> None:
    """Raise ValueError unless ``others`` have the shape of ``array``, which is called ``name``."""
    shape = tuple(np.shape(array))
    for other, given in others.items():
        if np.shape(given) != shape:
            raise ValueError(
                f"{other} of shape {tuple(np.shape(given))} must have the shape of {name}, {shape}."
            )
