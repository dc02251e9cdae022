"""Targets and losses of critics, as pure functions of tensors.

E is the number of critics, N the number of quantiles that each returns.
"""

import math

import torch
from torch import Tensor

from rlpyt.algos.dqn.quantile_loss import quantile_huber_losses


def check_values(q: Tensor, like: Tensor, n_quantiles: int | None = None) -> None:
    """Check that critics give one value, or N quantiles, for each sample.

    Args:
        q: outputs of the critics: values [B] or [E, B], or quantiles [B, N] or [E, B, N].
        like: tensor of shape [B].
        n_quantiles: N, or ``None`` for values.

    Raises:
        ValueError: `q` has another shape.
    """
    each = tuple(like.shape) if n_quantiles is None else (*like.shape, n_quantiles)
    if tuple(q.shape) != each and tuple(q.shape[1:]) != each:
        raise ValueError(
            f"critics must return shape {list(each)}, or {['E', *each]} for E critics, got "
            f"{list(q.shape)}. Remove an extra last dimension by squeeze(-1)."
        )


def min_over_critics(q: Tensor, like: Tensor) -> Tensor:
    """Return the minimum of E critics' values [E, B]; values of one critic [B] as they are."""
    return q if q.dim() == like.dim() else q.amin(0)


def squared_errors(q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return (y - q)^2 / 2, and the mean of |y - q| over critics without gradient.

    Args:
        q: [B], or [E, B].
        y: [B].

    Returns:
        losses like q; [B].
    """
    delta = y - q
    apart = delta.detach().abs()
    return 0.5 * delta * delta, apart if apart.dim() == y.dim() else apart.mean(0)


def soft_target(
    next_q: Tensor, log_pi: Tensor, alpha: Tensor | float, return_: Tensor, discount_n: Tensor
) -> Tensor:
    """Return R + g (min_i Q'_i(s', a') - alpha log pi(a'|s'))   (Haarnoja et al. 2018b, eq. 3, 5).

    Args:
        next_q: [E, B], of the target critics.
        log_pi: [B].
        alpha: temperature.
        return_, discount_n: [B].
    """
    return return_ + discount_n * (next_q.amin(0) - alpha * log_pi)


def truncated_target(
    next_z: Tensor,
    n_drop: int,
    log_pi: Tensor,
    alpha: Tensor | float,
    return_: Tensor,
    discount_n: Tensor,
) -> Tensor:
    """Return R + g (z_(k) - alpha log pi(a'|s')) of the E (N - n_drop) smallest quantiles.

    (Kuznetsov et al. 2020, eq. 10 to 12: quantiles of all critics together, in order.)

    Args:
        next_z: [E, B, N], of the target critics.
        n_drop: quantiles dropped for each critic.
        log_pi, alpha, return_, discount_n: of ``soft_target``.

    Returns:
        [B, E (N - n_drop)].
    """
    E, B, N = next_z.shape
    pooled = next_z.transpose(0, 1).reshape(B, E * N).sort(-1).values[:, : E * (N - n_drop)]
    bootstrap = pooled - (alpha * log_pi).unsqueeze(-1)
    return return_.unsqueeze(-1) + discount_n.unsqueeze(-1) * bootstrap


def quantile_errors(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return quantile Huber losses of every critic, and distances of the means.

    Args:
        z: [E, B, N].
        y: [B, K].

    Returns:
        [E, B]; [B] without gradient.
    """
    E, B, N = z.shape
    tau = (torch.arange(N, device=z.device, dtype=z.dtype) + 0.5) / N
    together = z.transpose(0, 1).reshape(B, E * N)  # all critics' have the same targets
    losses = quantile_huber_losses(together, tau.repeat(E), y, 1.0).reshape(B, E, N).mean(-1).T
    apart = (y.mean(-1) - z.detach().mean((0, 2))).abs()
    return losses, apart


def standard_normal_logli(x: Tensor) -> Tensor:
    """Return the log-density of [.., A] under independent standard normals, [..]."""
    return -0.5 * (x * x).sum(-1) - 0.5 * x.shape[-1] * math.log(2 * math.pi)
