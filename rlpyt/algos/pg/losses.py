"""Losses of policy-gradient algorithms, as pure functions of tensors.

Samples have shape [T, B] or [N]. ``valid`` is a mask of that shape, or ``None`` if all samples
count. Losses are scalars, means over the valid samples.
"""

import torch
from torch import Tensor

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


def normalize(advantage: Tensor, valid: Tensor | None) -> Tensor:
    """Normalize to mean 0 and standard deviation 1 over valid samples.

    A single sample has no standard deviation and is returned unchanged.
    """
    counted = advantage if valid is None else advantage[valid > 0]
    if counted.numel() < 2:
        return advantage
    return (advantage - counted.mean()) / torch.clamp(counted.std(), min=EPS)
