"""Losses of policy-gradient algorithms, as pure functions of tensors.

Samples have shape [T, B] or [N]. ``valid`` is a mask of that shape, or ``None`` if all samples
count. Losses are scalars, means over the valid samples.
"""

import torch
from torch import Tensor

from rlpyt.algos.diagnostics import only_valid
from rlpyt.utils.tensor import valid_mean

EPS = 1e-6  # lower limit of the standard deviation


def policy_gradient_loss(
    log_likelihood: Tensor, advantage: Tensor, valid: Tensor | None, weight: Tensor | None = None
) -> Tensor:
    """Return -E[w log pi(a|s) A].

    Args:
        log_likelihood: log-likelihood of the actions, with gradient.
        advantage: advantages, without gradient.
        valid: mask.
        weight: importance weights w; ``None``: 1.
    """
    if weight is not None:
        log_likelihood = log_likelihood * weight
    return -valid_mean(log_likelihood * advantage, valid)


def clipped_surrogate_loss(
    ratio: Tensor, advantage: Tensor, clip: float, valid: Tensor | None
) -> Tensor:
    """Return -E[min(r A, clip(r, 1 - eps, 1 + eps) A)] (Schulman et al. 2017, eq. 7).

    Args:
        ratio: likelihood ratio of the actions, current policy over acting policy, with gradient.
        advantage: advantages, without gradient.
        clip: eps.
        valid: mask.
    """
    clipped = torch.clamp(ratio, 1.0 - clip, 1.0 + clip)
    return -valid_mean(torch.min(ratio * advantage, clipped * advantage), valid)


def value_loss(value: Tensor, return_: Tensor, valid: Tensor | None) -> Tensor:
    """Return E[(V(s) - R)^2] / 2."""
    return valid_mean(0.5 * (value - return_) ** 2, valid)


def clipped_value_loss(
    value: Tensor, old_value: Tensor, return_: Tensor, clip: float, valid: Tensor | None
) -> Tensor:
    """Return E[max((V - R)^2, (V_c - R)^2)] / 2 with V_c = V_old + clip(V - V_old, -eps, eps).

    (OpenAI Baselines, PPO2. Where the value has moved further than eps towards the return, the
    gradient is zero.)

    Args:
        value: values, with gradient.
        old_value: values recorded with the samples.
        return_: returns.
        clip: eps, in units of the return.
        valid: mask.
    """
    clipped = old_value + torch.clamp(value - old_value, -clip, clip)
    squares = torch.max((value - return_) ** 2, (clipped - return_) ** 2)
    return valid_mean(0.5 * squares, valid)


def kl_terms(ratio: Tensor) -> Tensor:
    """Return (r - 1) - log r, whose mean estimates KL(old || new) without bias, never below 0.

    (Schulman 2020, "Approximating KL divergence", k3.)

    Args:
        ratio: likelihood ratio r of the actions, new policy over old policy, which acted.
    """
    return ratio - 1 - ratio.log()


def is_clipped(ratio: Tensor, clip: float) -> Tensor:
    """Return 1 where a likelihood ratio is outside [1 - eps, 1 + eps], else 0; NaN stays NaN."""
    return torch.where(ratio.isnan(), ratio, ((ratio - 1).abs() > clip).to(ratio.dtype))


def explained_variance(value: Tensor, return_: Tensor, valid: Tensor | None) -> Tensor:
    """Return 1 - Var[R - V(s)] / Var[R] over valid samples; NaN if all returns are equal.

    1 for perfect values, 0 for a constant, negative if values are worse than a constant.
    """
    both = torch.stack((return_ - value, return_)).flatten(1)
    if valid is None:
        variances = both.var(1, correction=0)
    else:  # an index by a mask would wait for the device
        both = only_valid(both, valid.flatten())
        variances = (both - both.nanmean(1, keepdim=True)).square().nanmean(1)
    error, total = variances.unbind()
    return 1 - error / total * (total / total)  # the last factor: NaN instead of infinity


def normalize(advantage: Tensor, valid: Tensor | None) -> Tensor:
    """Normalize to mean 0 and standard deviation 1 over valid samples.

    A single sample has no standard deviation and is returned unchanged.
    """
    counted = advantage if valid is None else advantage[valid > 0]
    if counted.numel() < 2:
        return advantage
    return (advantage - counted.mean()) / torch.clamp(counted.std(), min=EPS)
