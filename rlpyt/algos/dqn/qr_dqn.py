"""Quantile regression: QR-DQN (Dabney et al. 2018a) and implicit quantiles, IQN (2018b)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import greedy_row
from rlpyt.algos.dqn.quantile_loss import quantile_huber_loss
from rlpyt.models.dqn.implicit_quantile import midpoints
from rlpyt.utils.checks import setting
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import select_at_indexes


@dataclass(eq=False)
class QRDQN(DQN):
    """DQN that learns the agent's ``n_quantiles`` quantiles of returns, at fixed fractions.

    ``delta_clip`` is the threshold k of the quantile Huber loss.
    """

    requires: ClassVar[str] = "quantiles"
    takes_munchausen: ClassVar[bool] = False
    ready_agents: ClassVar[str] = "QrDqnMlpAgent or AtariQrDqnAgent"

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the quantile Huber loss between all target quantiles and all predictions.

        Arguments and results are those of `DQN.loss`, with absolute differences of the means in
        place of TD errors.
        """
        steps = self.replayed(samples)
        quantiles = select_at_indexes(steps.action, steps.now(self.agent))
        tau = midpoints(quantiles.shape[-1]).to(quantiles.device)
        with torch.no_grad():
            next_quantiles = steps.next(self.agent.target)
            selecting = steps.next.shared(self.agent) if self.double_dqn else next_quantiles
            target = self.target_quantiles(steps, next_quantiles, selecting)
        return self.regress(samples, steps, quantiles, tau, target)

    def target_quantiles(self, steps: Any, next_quantiles: Any, selecting: Any) -> torch.Tensor:
        """Return target quantiles [.., M] of the action with the largest mean in ``selecting``.

        Args:
            steps: batch from ``replayed``, with leading dimensions [..].
            next_quantiles: [.., A, M], quantiles of the target network.
            selecting: [.., A, K], quantiles that select the action.
        """
        best = greedy_row(next_quantiles, selecting.mean(-1), steps.next_mask)
        return steps.return_.unsqueeze(-1) + steps.discount_n.unsqueeze(-1) * best  # type: ignore[no-any-return]

    def regress(
        self,
        samples: NamedArrayTuple,
        steps: Any,
        quantiles: torch.Tensor,
        tau: torch.Tensor,
        target: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss and errors for quantiles [.., N] at fractions tau and targets [.., M]."""
        losses = quantile_huber_loss(quantiles, tau, target, self.delta_clip)
        q = quantiles.detach().mean(-1)
        self.record(q=only_valid(q, steps.valid))
        td_abs_errors = only_valid((target.mean(-1) - q).abs(), steps.valid)
        return self.weighted_mean(losses, samples, steps.valid), td_abs_errors


@dataclass(eq=False)
class IQN(QRDQN):
    """DQN that learns quantiles of returns at random fractions, drawn in every update."""

    n_tau: int = setting(64, ge=1, doc="N, fractions per predicted return; 8-64")
    n_tau_target: int = setting(64, ge=1, doc="N', fractions per target; 8-64")

    requires: ClassVar[str] = "quantiles of any fractions"
    ready_agents: ClassVar[str] = "IqnMlpAgent or AtariIqnAgent"

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return QR-DQN's loss at uniform random fractions; select actions as in acting."""
        steps, device = self.replayed(samples), samples.return_.device
        tau = torch.rand(*steps.now.lead, self.n_tau, dtype=torch.float32, device=device)
        quantiles = select_at_indexes(steps.action, steps.now(self.agent, tau))
        with torch.no_grad():
            next_tau = torch.rand(
                *steps.next.lead, self.n_tau_target, dtype=torch.float32, device=device
            )
            next_quantiles = steps.next(self.agent.target, next_tau)
            acting = midpoints(self.agent.n_act_quantiles)
            select = self.agent if self.double_dqn else self.agent.target
            selecting = steps.next(select, acting)
            target = self.target_quantiles(steps, next_quantiles, selecting)
        return self.regress(samples, steps, quantiles, steps.now.rows(tau), target)
