"""Soft actor-critic in its first form, with a value network (Haarnoja et al. 2018a)."""

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from rlpyt.algos.optim import Network
from rlpyt.algos.qpg.base import frozen
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.replaying import SamplesToBuffer, thinned  # noqa: F401 (rlpyt's place for it)
from rlpyt.utils.checks import check_range

OptInfo = namedtuple(
    "OptInfo",
    ["q1Loss", "q2Loss", "vLoss", "piLoss", "q1GradNorm", "q2GradNorm", "vGradNorm", "piGradNorm",
     "q1", "q2", "v", "piMu", "piLogStd", "qMeanDiff"],
)  # fmt: skip


@dataclass(eq=False)
class SAC_V(SAC):
    """SAC whose critics' targets come from a network for the values of states.

    The temperature is one; ``reward_scale`` takes its place.
    """

    policy_output_regularization: float = 1e-3  # weight of squared means and log deviations
    fixed_alpha: float | None = field(init=False, default=1.0)
    target_entropy: float | Literal["auto"] = field(init=False, default="auto")
    n_target_critics: int | None = field(init=False, default=None)
    n_drop_quantiles: int = field(init=False, default=0)

    learns: ClassVar[str] = "a squashed Gaussian policy, critics and values of states"
    ready_agents: ClassVar[str] = "SacAgent of rlpyt.agents.qpg.sac_v_agent"
    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields
    learns_quantiles = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("policy_output_regularization", self.policy_output_regularization, 0)

    def _trained(self) -> list[Network]:
        """Everything, with one optimizer: all losses are taken at the same parameters."""
        agent = self.agent
        return [*super()._trained(), self.network("v", agent.v_model, agent.v_parameters())]

    def _opt_info(self, columns: tuple[list[Any], ...]) -> Any:
        return OptInfo(*columns)

    def update(self, itr: int) -> tuple[Any, ...]:
        """Take one step with every part, from losses at the same parameters."""
        batch = self.replay_buffer.sample_batch(self.batch_size)
        losses, values = self.loss(self.on_device(batch))
        q_losses, v_loss, pi_loss = losses
        parts = {"critics": q_losses.sum(), "values": v_loss}
        grad_norms = self.descend(
            "all", parts if self.policy_rests else {**parts, "policy": pi_loss}, itr
        )
        self._prioritize(batch, values[-1])
        self.count_update()
        opt_info = OptInfo(*([] for _ in OptInfo._fields))
        self.append_opt_info_(opt_info, losses, grad_norms, values)
        return opt_info

    def append_opt_info_(
        self,
        opt_info: Any,
        losses: tuple[Any, ...],
        grad_norms: dict[str, torch.Tensor],
        values: tuple[Any, ...],
    ) -> None:
        """Add what is logged of an update to the lists of an ``OptInfo``, as SAC does."""
        q_losses, v_loss, pi_loss = losses
        q, v, mean, log_std, _ = values
        first, last = q[0], q[-1]
        q_norms = self.norms_of_critics(grad_norms)
        numbers = [q_losses[0], q_losses[-1], v_loss, pi_loss, q_norms[0], q_norms[-1]]
        numbers += [grad_norms["v"][0], (first - last).abs().mean()]
        names = ("q1Loss", "q2Loss", "vLoss", "piLoss", "q1GradNorm", "q2GradNorm", "vGradNorm",
                 "qMeanDiff")  # fmt: skip
        for name, number in zip(names, torch.stack([x.detach() for x in numbers]).tolist()):
            getattr(opt_info, name).append(number)
        opt_info.piGradNorm.extend(grad_norms["pi"].tolist())
        for name, x in (
            ("q1", first),
            ("q2", last),
            ("v", v),
            ("piMu", mean),
            ("piLogStd", log_std),
        ):
            getattr(opt_info, name).extend(thinned(x))

    def loss(self, samples: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The losses of critics, value network and policy on a batch [B].

        Args:
            samples: from the replay, on the agent's device.

        Returns:
            (losses of the critics [E], of the value network, of the policy: scalars), (values
            [E, B] of the critics, [B] of the network, mean and log_std [B, A] of the policy,
            absolute TD errors [B]; without gradient).
        """
        q_losses, q, td_abs_errors = self.compiled(self.q_loss)(samples)
        with frozen(self.agent.q_model):
            outcome = self.compiled(self.v_and_pi_loss)(samples)
        v_loss, v, pi_loss, mean, log_std = outcome
        return (q_losses, v_loss, pi_loss), (q, v, mean, log_std, td_abs_errors)

    @torch.no_grad()
    def q_target(self, samples: Any) -> torch.Tensor:
        """y = R + g V'(s'), [B]."""
        next_v = self.forward(self.agent.target_v, *samples.target_inputs)
        bootstrap = self.bootstrap_discount(samples) * next_v
        return self.reward_scale * samples.return_ + bootstrap  # type: ignore[no-any-return]

    def v_and_pi_loss(self, samples: Any) -> tuple[torch.Tensor, ...]:
        """V towards E[Q(s, a) - log pi(a|s)], and the policy's loss, for the same actions.

        Args:
            samples: from the replay, [B].

        Returns:
            both losses, scalars, with V [B], mean and log_std [B, A] without gradient: loss, V,
            loss, mean, log_std.
        """
        inputs = samples.agent_inputs
        action, log_pi, dist_info = self.forward(self.agent.pi, *inputs, self.reparameterize)
        cost = self._cost(inputs, action, log_pi)
        v = self.forward(self.agent.v, *inputs)
        v_loss = (0.5 * (v + cost.detach()) ** 2).mean()
        pi_loss = cost.mean()
        if not self.reparameterize:
            pi_loss = (log_pi * (cost + v).detach()).mean()
        mean, log_std = dist_info.mean, dist_info.log_std
        size = (mean**2).mean() + (log_std**2).mean()
        pi_loss = pi_loss + 0.5 * self.policy_output_regularization * size
        return v_loss, v.detach(), pi_loss, mean.detach(), log_std.detach()
