"""First version of soft actor-critic, with a value network (Haarnoja et al. 2018a)."""

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from rlpyt.algos.optim import ParameterGroup
from rlpyt.algos.qpg.base import frozen
from rlpyt.algos.qpg.losses import check_values
from rlpyt.algos.qpg.sac import SAC, append_statistics
from rlpyt.algos.replay import SamplesToBuffer  # noqa: F401 (rlpyt's place for it)
from rlpyt.utils.checks import setting
from rlpyt.utils.collections import NamedArrayTuple

OptInfo = namedtuple(
    "OptInfo",
    ["q1Loss", "q2Loss", "vLoss", "piLoss", "q1GradNorm", "q2GradNorm", "vGradNorm", "piGradNorm",
     "q1", "q2", "v", "piMu", "piLogStd", "qMeanDiff", "qEnsembleMean", "qEnsembleMin",
     "qEnsembleStd"],
)  # fmt: skip


@dataclass(eq=False)
class SAC_V(SAC):
    """SAC with a state-value network that provides the critics' targets.

    The temperature is one; use ``reward_scale`` instead.
    """

    policy_output_regularization: float = setting(
        1e-3, ge=0, finite=True, doc="weight of squared means and log_stds"
    )
    fixed_alpha: float | None = field(init=False, default=1.0)
    target_entropy: float | Literal["auto"] = field(init=False, default="auto")
    entropy_share: float = field(init=False, default=0.5)
    initial_alpha: float = field(init=False, default=1.0)
    box_entropy: float = field(init=False, default=-1.0)
    joint_critics: bool = field(init=False, default=False)
    n_target_critics: int | None = field(init=False, default=None)
    n_drop_quantiles: int = field(init=False, default=0)

    requires: ClassVar[str] = "a squashed Gaussian policy, critics and values of states"
    ready_agents: ClassVar[str] = "SacAgent of rlpyt.agents.qpg.sac_v_agent"
    OptInfo: ClassVar[Any] = OptInfo
    recorded_fields: ClassVar[tuple[str, ...]] = ("tdAbsErr", "entropy")
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)
    learns_distributions = False
    evaluated = (("model", "q_model", "v_model"), ("target_v_model",))

    def _networks(self) -> list[ParameterGroup]:
        """Return all networks; one optimizer trains them."""
        agent = self.agent
        return [*super()._networks(), self.network("v", agent.v_model, agent.v_parameters())]

    def losses_by_name(self, losses: tuple[Any, ...]) -> dict[str, torch.Tensor]:
        """Return the losses to minimize in this update, by name."""
        q_losses, v_loss, pi_loss = losses
        parts = {"critics": q_losses.sum(), "values": v_loss}
        return parts if self.skips_policy else {**parts, "policy": pi_loss}

    def append_opt_info_(
        self,
        opt_info: Any,
        losses: tuple[Any, ...],
        grad_norms: dict[str, torch.Tensor],
        values: tuple[Any, ...],
    ) -> None:
        """Add the statistics of an update to the lists of an ``OptInfo``."""
        q_losses, v_loss, pi_loss = losses
        q, v, mean, log_std, _ = values
        numbers = self.critic_statistics(q_losses, q, grad_norms)
        numbers |= {"vLoss": v_loss, "piLoss": pi_loss, "vGradNorm": grad_norms["v"][0]}
        if len(grad_norms["pi"]):
            numbers["piGradNorm"] = grad_norms["pi"][0]
        arrays = {"q1": q[0], "q2": q[-1], "v": v, "piMu": mean, "piLogStd": log_std}
        append_statistics(opt_info, numbers, arrays)

    def loss(self, samples: NamedArrayTuple) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the losses of critics, value network and policy of a batch [B].

        Args:
            samples: batch from the replay, on the agent's device.

        Returns:
            Two tuples: (critic losses [E], value loss, policy loss) and (Q-values [E, B], values
            [B], policy mean and log_std [B, A], absolute TD errors [B]), the second without
            gradient.
        """
        q_losses, q, td_abs_errors = self.compiled(self.q_loss)(samples)
        with frozen(self.agent.q_model):
            outcome = self.compiled(self.v_and_pi_loss)(samples)
        v_loss, v, pi_loss, mean, log_std = outcome
        return (q_losses, v_loss, pi_loss), (q, v, mean, log_std, td_abs_errors)

    @torch.no_grad()
    def q_target(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return R + g V'(s'), [B]."""
        next_v = self.forward(self.agent.target_v, *samples.target_inputs)
        check_values(next_v, samples.return_)
        bootstrap: torch.Tensor = self.bootstrap_discount(samples) * next_v
        return self._returns(samples) + bootstrap

    def v_and_pi_loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, ...]:
        """Return the losses of the value network and of the policy, with the same actions.

        The target of the value network is E[Q(s, a) - log pi(a|s)].

        Args:
            samples: batch [B] from the replay.

        Returns:
            (value loss, V [B], policy loss, mean [B, A], log_std [B, A]); only the losses have a
            gradient.
        """
        inputs = samples.agent_inputs
        by_score = () if self.reparameterize else (False,)
        action, log_pi, dist_info = self.forward(self.agent.pi, *inputs, *by_score)
        self.record(entropy=-log_pi)
        cost = self._policy_cost(inputs, action, log_pi)
        v = self.forward(self.agent.v, *inputs)
        v_loss = (0.5 * (v + cost.detach()) ** 2).mean()
        pi_loss = cost.mean()
        if not self.reparameterize:
            pi_loss = (log_pi * (cost + v).detach()).mean()
        mean, log_std = dist_info.mean, dist_info.log_std
        size = (mean**2).mean() + (log_std**2).mean()
        pi_loss = pi_loss + 0.5 * self.policy_output_regularization * size
        return v_loss, v.detach(), pi_loss, mean.detach(), log_std.detach()
