"""Quantile regression: QR-DQN (Dabney et al. 2018a) and implicit quantiles, IQN (2018b)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import greedy_row
from rlpyt.algos.dqn.quantile_loss import quantile_huber_loss
from rlpyt.models.dqn.implicit_quantile import midpoints
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.checks import setting
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import select_at_indexes


@dataclass(eq=False)
class QRDQN(DQN):
    """DQN that learns the agent's ``n_quantiles`` quantiles of returns, at fixed fractions.

    ``delta_clip`` is the threshold k of the quantile Huber loss.
    """

    requires: ClassVar[str] = "quantiles"
    ready_agents: ClassVar[str] = "QrDqnMlpAgent or AtariQrDqnAgent"

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the quantile Huber loss between all target quantiles and all predictions.

        Args:
            samples: batch from the replay.

        Returns:
            Loss (a scalar), and absolute differences of the means [B], without gradient.
        """
        output = self.forward(self.agent, *samples.agent_inputs)
        quantiles = select_at_indexes(samples.action, output)
        tau = midpoints(quantiles.shape[-1]).to(quantiles.device)
        with torch.no_grad():
            inputs = samples.target_inputs
            next_quantiles = self.forward(self.agent.target, *inputs)
            selecting = self.forward(self.agent, *inputs) if self.double_dqn else next_quantiles
            target = self.target_quantiles(samples, next_quantiles, selecting)
        return self.regress(samples, quantiles, tau, target)

    def target_quantiles(
        self, samples: NamedArrayTuple, next_quantiles: Any, selecting: Any
    ) -> torch.Tensor:
        """Return target quantiles [B, M] of the action with the largest mean in ``selecting``.

        Args:
            samples: batch from the replay.
            next_quantiles: [B, A, M], quantiles of the target network.
            selecting: [B, A, K], quantiles that select the action.
        """
        mask = action_mask_of(samples.target_inputs.observation)
        best = greedy_row(next_quantiles, selecting.mean(-1), mask)
        discount_n = self.bootstrap_discount(samples).unsqueeze(-1)
        return samples.return_.unsqueeze(-1) + discount_n * best  # type: ignore[no-any-return]

    def regress(
        self,
        samples: NamedArrayTuple,
        quantiles: torch.Tensor,
        tau: torch.Tensor,
        target: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return loss and priorities for quantiles [B, N] at fractions tau and targets [B, M]."""
        losses = quantile_huber_loss(quantiles, tau, target, self.delta_clip)
        q = quantiles.detach().mean(-1)
        self.record(q=q)
        td_abs_errors = (target.mean(-1) - q).abs()
        return self.weighted_mean(losses, samples), td_abs_errors


@dataclass(eq=False)
class IQN(QRDQN):
    """DQN that learns quantiles of returns at random fractions, drawn in every update."""

    n_tau: int = setting(64, ge=1, doc="N, fractions per predicted return; 8-64")
    n_tau_target: int = setting(64, ge=1, doc="N', fractions per target; 8-64")

    requires: ClassVar[str] = "quantiles of any fractions"
    ready_agents: ClassVar[str] = "IqnMlpAgent or AtariIqnAgent"

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return QR-DQN's loss at uniform random fractions; select actions as in acting.

        Args:
            samples: batch from the replay.

        Returns:
            Loss (a scalar), and absolute differences of the means [B], without gradient.
        """
        device, B = samples.return_.device, len(samples.return_)
        tau = torch.rand(B, self.n_tau, device=device)
        output = self.forward(self.agent, *samples.agent_inputs, tau)
        quantiles = select_at_indexes(samples.action, output)
        with torch.no_grad():
            inputs = samples.target_inputs
            next_tau = torch.rand(B, self.n_tau_target, device=device)
            next_quantiles = self.forward(self.agent.target, *inputs, next_tau)
            acting = midpoints(self.agent.n_act_quantiles)
            select = self.agent if self.double_dqn else self.agent.target
            selecting = self.forward(select, *inputs, acting)
            target = self.target_quantiles(samples, next_quantiles, selecting)
        return self.regress(samples, quantiles, tau, target)
