"""Targets and losses of deep Q-learning, as pure functions of tensors.

Leading dimensions ``*L`` are [B] for single transitions and [T, B] for sequences. Targets are
``return_ + discount_n * next_value``, where ``discount_n`` is gamma to the power of the number of
rewards in the return, or zero after a terminal state; replays return both.
"""

import math

import torch
from torch import Tensor, nn

from rlpyt.distributions.epsilon_greedy import valid_values


def greedy_value(
    next_q: Tensor, selecting_q: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return the value of the best next action.

        max_a Q'(s', a)     or     Q'(s', argmax_a Q(s', a))     (van Hasselt et al. 2016, eq. 4)

    Args:
        next_q: [*L, A], action values of the target network.
        selecting_q: [*L, A], action values of the online network, which selects the action
            ("double"); ``None``: the target network selects.
        mask: [*L, A], valid actions in the next state; see `valid_values`.

    Returns:
        Values [*L].
    """
    if selecting_q is None:
        return valid_values(next_q, mask).amax(-1)
    best = valid_values(selecting_q, mask).argmax(-1, keepdim=True)
    return next_q.gather(-1, best).squeeze(-1)


def scaled_log_policy(q: Tensor, tau: float, mask: Tensor | None = None) -> Tensor:
    """Return tau log pi, with pi = softmax(q / tau), [*L, A]; minus infinity for invalid actions.

    Args:
        q: [*L, A].
        tau: temperature.
        mask: [*L, A], see `valid_values`.
    """
    return tau * torch.log_softmax(valid_values(q, mask) / tau, -1)


def soft_value(q: Tensor, log_policy: Tensor, tau: float) -> Tensor:
    """Return sum_a pi(a) (q(a) - tau log pi(a)), [*L], of a policy from `scaled_log_policy`."""
    soft_q = torch.where(log_policy > -torch.inf, q - log_policy, 0)
    return ((log_policy / tau).exp() * soft_q).sum(-1)


def greedy_row(next_rows: Tensor, next_q: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the row [*L, P] of the best valid action, from rows [*L, A, P] and values [*L, A]."""
    best = valid_values(next_q, mask).argmax(-1)[..., None, None]
    return next_rows.gather(-2, best.expand(*best.shape[:-1], next_rows.shape[-1])).squeeze(-2)


def huber(x: Tensor, clip: float | Tensor | None) -> Tensor:
    """Return the Huber loss: x^2 / 2 up to ``clip``, linear beyond; ``None``: always x^2 / 2.

    A tensor is the number of one of many agents.
    """
    if clip is None:
        return 0.5 * x * x
    if isinstance(clip, Tensor):
        size = x.abs()
        near = size.clamp(max=clip)
        return near * (size - 0.5 * near)
    loss = nn.functional.huber_loss(x, torch.zeros_like(x), reduction="none", delta=clip)
    return loss  # type: ignore[no-any-return]


def project_onto_atoms(p: Tensor, return_: Tensor, discount_n: Tensor, z: Tensor) -> Tensor:
    """Project the distribution of ``return_ + discount_n * Z`` onto the atoms of Z.

        (Phi p)_i = sum_j p_j [1 - |clip(R + g z_j) - z_i| / dz]_0^1     (Bellemare et al. 2017)

    Mass between two atoms is split by distance; mass beyond the ends moves to the end atoms.

    Args:
        p: [*L, P], probabilities of the atoms of Z.
        return_, discount_n: [*L].
        z: [P], values of the atoms, evenly spaced and ascending.

    Returns:
        Probabilities [*L, P], with the same sums as p.
    """
    moved = return_.unsqueeze(-1) + discount_n.unsqueeze(-1) * z
    spacing = (z[-1] - z[0]) / (len(z) - 1)
    moved = torch.clamp(moved, z[0], z[-1])
    # Distances to integers, in units of the spacing, so that mass on an atom stays there exactly.
    position = (moved - z[0]) / spacing  # [*L, P]
    if p.device.type != "cpu":
        return split_by_matrix(p, position)
    below = position.floor()
    upper = p * (position - below)
    i = below.long().clamp(0, len(z) - 1)  # that of NaN is not an index
    projected = torch.zeros_like(p).scatter_add(-1, i, p - upper)
    return projected.scatter_add(-1, (i + 1).clamp(max=len(z) - 1), upper)


def split_by_matrix(p: Tensor, position: Tensor) -> Tensor:
    """Split mass p [*L, P] at positions [*L, P], in [0, P - 1], between the integers next to them.

    It takes P times the memory, but GPUs add in the same order in every call, unlike scatter_add.
    """
    atoms = torch.arange(p.shape[-1], device=p.device)
    share = (1 - (position.unsqueeze(-1) - atoms).abs()).clamp(min=0)  # [*L, P from, P to]
    return (p.unsqueeze(-2) @ share).squeeze(-2)


def categorical_loss(p: Tensor, target_p: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the cross entropy and the KL divergence between target and prediction.

    Args:
        p: [*L, P], predicted probabilities, with gradient. They are not clamped (except at 1e-38,
            the smallest float32), so that the gradient through a softmax is p - target_p.
        target_p: [*L, P], target probabilities.
        eps: lower limit of probabilities in the KL divergence, which bounds it.

    Returns:
        Cross entropy [*L] with gradient, and KL(target_p || p) [*L] without gradient, between
        ``eps`` and -log eps, for use as a priority.
    """
    log_p = p.clamp(min=torch.finfo(p.dtype).tiny).log()
    cross_entropy = -(target_p * log_p).sum(-1)
    target = target_p.clamp(min=eps)
    kl = (target * (target.log() - log_p.detach().clamp(min=math.log(eps)))).sum(-1)
    return cross_entropy, kl.clamp(min=eps)


def value_scale(x: Tensor, eps: float) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x, which compresses large returns.

    (Pohlen et al. 2018, proposition A.2, in a form without cancellation for small x.)
    """
    return x / (torch.sqrt(x.abs() + 1) + 1) + eps * x


def inv_value_scale(z: Tensor, eps: float) -> Tensor:
    """Return the x with h(x) = z, in closed form and accurate for any z.

        x = sign(z) u (u + 2),   u = 2 |z| / (1 + 2 eps + sqrt((1 + 2 eps)^2 + 4 eps |z|))

    with u = sqrt(|x| + 1) - 1, the positive root of eps u^2 + (1 + 2 eps) u = |z|. Unlike in Pohlen
    et al., all terms are positive, and eps may be zero.
    """
    linear = 1 + 2 * eps
    u = 2 * z.abs() / (linear + torch.sqrt(linear**2 + 4 * eps * z.abs()))
    return z.sign() * u * (u + 2)


def sequence_priority(td_abs: Tensor, valid: Tensor, eta: float) -> Tensor:
    """Return the priority of each sequence: eta max_t |d_t| + (1 - eta) mean_t |d_t|.

    (Kapturowski et al. 2019, section 2.3.)

    Args:
        td_abs: [T, B], absolute TD errors.
        valid: [T, B], 1 where errors count.
        eta: in [0, 1].

    Returns:
        Priorities [B]; zero for sequences without valid steps.
    """
    counted = torch.where(valid > 0, td_abs, 0)
    mean = counted.sum(0) / valid.sum(0).clamp(min=1)
    return eta * counted.amax(0) + (1 - eta) * mean
