"""Outputs of the critics of SAC: values, quantiles or logits of a categorical distribution.

Each class holds what the losses need to know about it, and is chosen when the algorithm is built.
E is the number of critics, N that of quantiles or atoms, C that of discrete choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rlpyt.algos.qpg.losses import (
    categorical_errors,
    categorical_target,
    check_values,
    quantile_errors,
    soft_target,
    squared_errors,
    truncated_target,
)

if TYPE_CHECKING:
    from rlpyt.algos.qpg.sac import SAC


class Values:
    """Values [E, B], or [E, B, C]. Targets are values [B].

    Args:
        mean: True if the policy maximizes the mean over critics, not the minimum.
    """

    n_outputs: int | None = None

    def __init__(self, mean: bool) -> None:
        self._mean = mean

    def means(self, q: Tensor) -> Tensor:
        """Return the expected returns, [E, B] or [E, B, C]."""
        return q

    def for_policy(self, q: Tensor) -> Tensor:
        """Return what the policy maximizes, [B] or [B, C]."""
        q = self.means(q)
        return q.mean(0) if self._mean else q.amin(0)

    def target(self, next_q: Tensor, prob: Tensor | None, *terms: Tensor) -> Tensor:
        """Return the targets of all critics; see ``soft_target`` for the arguments."""
        return soft_target(next_q, prob, *terms)

    def errors(self, q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [E, B], and absolute TD errors [B] without gradient."""
        return squared_errors(q, y)

    def check(self, q: Tensor, like: Tensor) -> None:
        """Raise ValueError if the outputs have another shape, given a tensor [B]."""
        check_values(q, like, self.n_outputs)


class Quantiles(Values):
    """N quantiles, [E, B, N]. Targets are those of all critics together, [B, E (N - n_drop)].

    Args:
        N: number of quantiles.
        n_drop: number of the largest quantiles that targets leave out, per critic.
    """

    def __init__(self, N: int, n_drop: int) -> None:
        super().__init__(mean=True)
        self.n_outputs, self._n_drop = N, n_drop

    def means(self, q: Tensor) -> Tensor:
        """Return the expected returns, [E, B]."""
        return q.mean(-1)

    def target(self, next_q: Tensor, prob: Tensor | None, *terms: Tensor) -> Tensor:
        """Return the quantiles of the target, see ``truncated_target``."""
        return truncated_target(next_q, self._n_drop, *terms)

    def errors(self, q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return quantile regression losses [E, B], and absolute TD errors [B]."""
        return quantile_errors(q, y)


class Atoms(Values):
    """Logits of N atoms, [E, B, N]. Targets are probabilities [B, N].

    Args:
        algo: algorithm with the values of the atoms, ``atoms`` [N].
        mean: see `Values`.
    """

    def __init__(self, algo: SAC, mean: bool) -> None:
        super().__init__(mean)
        self._algo, self.n_outputs = algo, len(algo.atoms)

    def means(self, q: Tensor) -> Tensor:
        """Return the expected returns, [E, B]."""
        return q.softmax(-1) @ self._algo.atoms

    def target(self, next_q: Tensor, prob: Tensor | None, *terms: Tensor) -> Tensor:
        """Return the probabilities of the target, see ``categorical_target``."""
        return categorical_target(next_q, self._algo.atoms, *terms)

    def errors(self, q: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return cross entropies [E, B], and absolute TD errors [B]."""
        return categorical_errors(q, y, self._algo.atoms)


def outputs_of(agent: Any, algo: SAC) -> Values:
    """Return what the critics of this agent return."""
    if agent.n_quantiles is not None:
        return Quantiles(agent.n_quantiles, algo.n_drop_quantiles)
    mean = algo.n_target_critics is not None
    if agent.n_atoms is None:
        return Values(mean)
    algo.atoms = torch.linspace(algo.V_min, algo.V_max, agent.n_atoms, device=agent.device)
    return Atoms(algo, mean)
