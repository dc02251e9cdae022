"""Targets and losses of deep Q-learning, as pure functions of tensors.

Leading dimensions ``*L`` are [B] for single transitions and [T, B] for sequences. Targets are
``return_ + discount_n * (value of what follows)``, with ``discount_n`` gamma to the number of
rewards in the return, zero after a terminal state; replays give both.
"""

import math

import torch
from torch import Tensor, nn


def greedy_value(next_q: Tensor, selecting_q: Tensor | None = None) -> Tensor:
    """Return the value of the best next action.

        max_a Q'(s', a)     or     Q'(s', argmax_a Q(s', a))     (van Hasselt et al. 2016, eq. 4)

    Args:
        next_q: [*L, A], of the target network.
        selecting_q: [*L, A], of the online network, which selects the action ("double"); ``None``:
            the target network selects.

    Returns:
        [*L].
    """
    if selecting_q is None:
        return next_q.amax(-1)
    return next_q.gather(-1, selecting_q.argmax(-1, keepdim=True)).squeeze(-1)


def greedy_row(next_rows: Tensor, next_q: Tensor) -> Tensor:
    """Select the best action's row: rows [*L, A, P] and action values [*L, A] to [*L, P]."""
    best = next_q.argmax(-1)[..., None, None]
    return next_rows.gather(-2, best.expand(*best.shape[:-1], next_rows.shape[-1])).squeeze(-2)


def huber(x: Tensor, clip: float | None) -> Tensor:
    """Return x^2 / 2 up to ``clip`` and a line of that slope beyond; ``None``: x^2 / 2."""
    if clip is None:
        return 0.5 * x * x
    loss = nn.functional.huber_loss(x, torch.zeros_like(x), reduction="none", delta=clip)
    return loss  # type: ignore[no-any-return]


def project_onto_atoms(p: Tensor, return_: Tensor, discount_n: Tensor, z: Tensor) -> Tensor:
    """Project the distribution of ``return_ + discount_n * Z`` onto the atoms of Z.

        (Phi p)_i = sum_j p_j [1 - |clip(R + g z_j) - z_i| / dz]_0^1     (Bellemare et al. 2017)

    Mass between two atoms is shared out by distance, mass on an atom stays there, mass beyond the
    ends is put on them.

    Args:
        p: [*L, P], probabilities of what follows.
        return_, discount_n: [*L].
        z: [P], values of the atoms, evenly spaced and ascending.

    Returns:
        [*L, P], with the sums of p.
    """
    moved = return_.unsqueeze(-1) + discount_n.unsqueeze(-1) * z
    spacing = (z[-1] - z[0]) / (len(z) - 1)
    moved = torch.clamp(moved, z[0], z[-1])
    # Distances in units of the spacing, to whole numbers: an atom that is hit gets all of it.
    position = ((moved - z[0]) / spacing).unsqueeze(-1)  # [*L, P, 1]
    atoms = torch.arange(len(z), device=z.device)
    share = (1 - (position - atoms).abs()).clamp(min=0)  # [*L, P from, P to]
    return (p.unsqueeze(-2) @ share).squeeze(-2)


def categorical_loss(p: Tensor, target_p: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the cross entropy and the KL divergence between target and prediction.

    Args:
        p: [*L, P], predicted probabilities, with gradient. However small one is, its logarithm is
            taken as it is: through a softmax the gradient stays p - target_p. Only zeros, and what
            float32 can hardly tell from them, count as 1e-38.
        target_p: [*L, P].
        eps: probabilities below it are taken for it in the KL divergence, which so has a bound.

    Returns:
        cross entropy [*L], with gradient; KL(target_p || p) [*L], without: ``eps`` where they
        agree, at most -log eps, so it serves as a priority.
    """
    log_p = p.clamp(min=torch.finfo(p.dtype).tiny).log()
    cross_entropy = -(target_p * log_p).sum(-1)
    target = target_p.clamp(min=eps)
    kl = (target * (target.log() - log_p.detach().clamp(min=math.log(eps)))).sum(-1)
    return cross_entropy, kl.clamp(min=eps)


def value_scale(x: Tensor, eps: float) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x, which compresses large returns.

    (Pohlen et al. 2018, proposition A.2.) In a form without cancellation for small x.
    """
    return x / (torch.sqrt(x.abs() + 1) + 1) + eps * x


def inv_value_scale(z: Tensor, eps: float) -> Tensor:
    """Return the x with h(x) = z, in closed form, exact to a few roundings for any z.

        x = sign(z) u (u + 2),   u = 2 |z| / (1 + 2 eps + sqrt((1 + 2 eps)^2 + 4 eps |z|))

    with u = sqrt(|x| + 1) - 1, the positive root of eps u^2 + (1 + 2 eps) u = |z|. Pohlen et al.
    write that root as a difference; here all terms are positive, and eps may be zero.
    """
    linear = 1 + 2 * eps
    u = 2 * z.abs() / (linear + torch.sqrt(linear**2 + 4 * eps * z.abs()))
    return z.sign() * u * (u + 2)


def sequence_priority(td_abs: Tensor, valid: Tensor, eta: float) -> Tensor:
    """Return the priority of each sequence: eta max_t |d_t| + (1 - eta) mean_t |d_t|.

    (Kapturowski et al. 2019, section 2.3.)

    Args:
        td_abs: [T, B], absolute TD errors.
        valid: [T, B], 1 where they count.
        eta: in [0, 1].

    Returns:
        [B]; zero where nothing is valid.
    """
    counted = torch.where(valid > 0, td_abs, 0)
    mean = counted.sum(0) / valid.sum(0).clamp(min=1)
    return eta * counted.amax(0) + (1 - eta) * mean
