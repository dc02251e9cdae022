"""Targets and losses of critics, as pure functions of tensors.

E is the number of critics, N the number of quantiles or atoms per critic.
"""

import math

import torch
from torch import Tensor

from rlpyt.algos.dqn.losses import project_onto_atoms
from rlpyt.algos.dqn.quantile_loss import quantile_huber_losses


def check_values(q: Tensor, like: Tensor, n_outputs: int | None = None) -> None:
    """Check that critics give one value, or N quantiles or logits, for each sample.

    Args:
        q: outputs of the critics: values [B] or [E, B], or others [B, N] or [E, B, N].
        like: tensor of shape [B].
        n_outputs: N, or ``None`` for values.

    Raises:
        ValueError: `q` has a different shape.
    """
    each = tuple(like.shape) if n_outputs is None else (*like.shape, n_outputs)
    if tuple(q.shape) != each and tuple(q.shape[1:]) != each:
        raise ValueError(
            f"critics must return shape {list(each)}, or {['E', *each]} for E critics, got "
            f"{list(q.shape)}. Remove an extra last dimension with squeeze(-1)."
        )


def min_over_critics(q: Tensor, like: Tensor) -> Tensor:
    """Return the minimum over critics of values [E, B]; return values [B] unchanged."""
    return q if q.dim() == like.dim() else q.amin(0)


def expected_value(q: Tensor, prob: Tensor | None) -> Tensor:
    """Return sum_d pi(d) Q(d), [..]; without choices, return the values unchanged.

    Args:
        q: [.., C], values of C discrete choices; [..] without choices.
        prob: [.., C], probabilities; ``None``: there are no choices.
    """
    return q if prob is None else (prob * q).sum(-1)


def squared_errors(q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return (y - q)^2 / 2, and the mean of |y - q| over critics without gradient.

    Args:
        q: [B], or [E, B].
        y: [B].

    Returns:
        Losses in the shape of q; absolute errors [B].
    """
    delta = y - q
    abs_errors = delta.detach().abs()
    abs_errors = abs_errors if abs_errors.dim() == y.dim() else abs_errors.mean(0)
    return 0.5 * delta * delta, abs_errors


def soft_target(
    next_q: Tensor, prob: Tensor | None, penalty: Tensor, return_: Tensor, discount_n: Tensor
) -> Tensor:
    """Return R + g (min_i Q'_i(s', a') - alpha log pi(a'|s'))   (Haarnoja et al. 2018b, eq. 3, 5).

    Args:
        next_q: [E, B], values of the target critics; [E, B, C] of C discrete choices.
        prob: [B, C], probabilities of the choices; ``None``: there are none.
        penalty: [B], alpha log pi(a'|s').
        return_, discount_n: [B].
    """
    return return_ + discount_n * (expected_value(next_q.amin(0), prob) - penalty)


def truncated_target(
    next_z: Tensor, n_drop: int, penalty: Tensor, return_: Tensor, discount_n: Tensor
) -> Tensor:
    """Return R + g (z_(k) - alpha log pi(a'|s')) for the E (N - n_drop) smallest quantiles.

    The quantiles of all critics are pooled and sorted (Kuznetsov et al. 2020, eq. 10 to 12).

    Args:
        next_z: [E, B, N], quantiles of the target critics.
        n_drop: number of quantiles dropped per critic.
        penalty, return_, discount_n: see ``soft_target``.

    Returns:
        [B, E (N - n_drop)].
    """
    E, B, N = next_z.shape
    pooled = next_z.transpose(0, 1).reshape(B, E * N).sort(-1).values[:, : E * (N - n_drop)]
    return return_.unsqueeze(-1) + discount_n.unsqueeze(-1) * (pooled - penalty.unsqueeze(-1))


def quantile_errors(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return quantile Huber losses of every critic, and absolute differences of the means.

    Args:
        z: [E, B, N], quantiles.
        y: [B, K], targets.

    Returns:
        Losses [E, B]; differences [B] without gradient.
    """
    E, B, N = z.shape
    tau = (torch.arange(N, device=z.device, dtype=z.dtype) + 0.5) / N
    pooled = z.transpose(0, 1).reshape(B, E * N)  # all critics have the same targets
    losses = quantile_huber_losses(pooled, tau.repeat(E), y, 1.0).reshape(B, E, N).mean(-1).T
    differences = (y.mean(-1) - z.detach().mean((0, 2))).abs()
    return losses, differences


def categorical_target(
    next_logits: Tensor, z: Tensor, penalty: Tensor, return_: Tensor, discount_n: Tensor
) -> Tensor:
    """Return the distribution of R + g (Z_k(s', a') - alpha log pi(a'|s')), on the atoms.

    k is the critic with the smallest expected return (Lee et al. 2025; for the projection
    Bellemare et al. 2017, algorithm 1).

    Args:
        next_logits: [E, B, N], logits of the target critics.
        z: [N], values of the atoms, evenly spaced and ascending.
        penalty, return_, discount_n: see ``soft_target``.

    Returns:
        [B, N] probabilities.
    """
    p = next_logits.softmax(-1)
    smallest = (p @ z).argmin(0)
    p = p.gather(0, smallest[None, :, None].expand(1, -1, len(z))).squeeze(0)
    return project_onto_atoms(p, return_ - discount_n * penalty, discount_n, z)


def categorical_errors(logits: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Return cross entropies of every critic, and absolute differences of the means.

    Args:
        logits: [E, B, N].
        y: [B, N], probabilities of the target.
        z: [N], values of the atoms.

    Returns:
        Losses [E, B]; differences [B] without gradient.
    """
    losses = -(y * logits.log_softmax(-1)).sum(-1)
    differences = (y @ z - (logits.detach().softmax(-1) @ z).mean(0)).abs()
    return losses, differences


def standard_normal_logli(x: Tensor) -> Tensor:
    """Return the log-density [..] of x [.., A] under independent standard normals."""
    return -0.5 * (x * x).sum(-1) - 0.5 * x.shape[-1] * math.log(2 * math.pi)
