"""Proximal policy optimization (Schulman et al. 2017), with clipped likelihood ratios."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Adam, Optimizer

from rlpyt.algos.diagnostics import Columns, only_valid, row_means, stacked
from rlpyt.algos.optim import mean_over_ranks
from rlpyt.algos.pg.base import OptInfo
from rlpyt.algos.pg.epochs import EpochAlgo
from rlpyt.algos.pg.losses import (
    clipped_surrogate_loss,
    clipped_value_loss,
    is_clipped,
    kl_terms,
    normalize,
    value_loss,
)
from rlpyt.algos.pg.positional_loss import accepts_single_arguments, adapt_single_arguments
from rlpyt.utils.checks import Scheduled, fixed, rate, scheduled, setting
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.tensor import valid_mean

LossInputs = namedarraytuple(  # of rlpyt of 2020; `PgBatch` is the record
    "LossInputs",
    ["agent_inputs", "action", "return_", "advantage", "valid", "old_dist_info"],
)


@dataclass(eq=False)
class PPO(EpochAlgo):
    """Proximal policy optimization: several epochs of minibatches per batch of samples."""

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: Scheduled[float] = rate(0.001, doc="usually 1e-4 to 1e-3")
    value_loss_coeff: float = setting(1.0, ge=0, finite=True, doc="weight of the value loss; 0.5-1")
    entropy_loss_coeff: Scheduled[float] = scheduled(
        0.01, finite=True, doc="weight of the entropy; 0 to 0.05"
    )
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc='optimizer arguments: {"eps": 1e-5}')
    clip_grad_norm: float | None = setting(1.0, gt=0, doc="gradient norm limit or None; 0.5-1")
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    gae_lambda: float = setting(1, ge=0, le=1, doc="lambda of GAE; 0.9-1")
    minibatches: int = fixed(4, ge=1, doc="minibatches per epoch; whole environments if recurrent")
    epochs: int = setting(4, ge=1, doc="passes over each batch; 3-10")
    ratio_clip: Scheduled[float] = scheduled(0.1, gt=0, doc="epsilon, PPO eq. 7; 0.1-0.3")
    linear_lr_schedule: bool = fixed(True, doc="decay learning rate and ratio_clip linearly to 0")
    normalize_advantage: bool | Literal["minibatch"] = setting(
        False, doc="normalize advantages in each batch, or in each minibatch"
    )
    mixed_precision: bool = setting(False, doc="forward passes of training in bfloat16")
    compile_loss: bool = fixed(False, doc='old name of compile="loss"')
    compile: Literal["loss"] | None = fixed(
        None, doc="part compiled by torch.compile, if there is a C++ compiler"
    )
    target_kl: float | None = setting(
        None, gt=0, doc="end the epochs when a minibatch's KL exceeds 1.5 times this; 0.01-0.05"
    )
    value_clip: float | None = setting(
        None, gt=0, doc="largest change of values per batch (PPO2), in units of the return; 0.2"
    )
    normalize_reward: bool = fixed(
        False, doc="divide rewards by the running standard deviation of discounted returns"
    )

    recorded_fields: ClassVar[tuple[str, ...]] = (
        *EpochAlgo.recorded_fields,
        *("approxKL", "clipFraction"),
    )
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)
    linear_settings: ClassVar[tuple[str, ...]] = ("learning_rate", "ratio_clip")

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        adapt_single_arguments(cls)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Initialize everything except the optimizer, as the base class does."""
        super().prepare(*args, **kwargs)
        self._ratio_clip = self.ratio_clip  # for overrides of optimize_agent

    def update(self, batch: NamedArrayTuple) -> tuple[torch.Tensor, ...]:
        """Take one gradient step on a minibatch; return a scalar for each statistic.

        Returns:
            Scalars, or an empty tuple if no step was taken because of ``target_kl``.
        """
        if self.normalize_advantage == "minibatch":
            batch = batch._replace(advantage=normalize(batch.advantage, batch.valid))
        device = self.agent.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed_precision):
            loss, *others = self.compiled(self.loss)(batch)
        if self.target_kl is not None and self._kl() > 1.5 * self.target_kl:
            return ()
        grad_norm = self.gradient_step(loss)
        return loss.detach(), grad_norm, *(x.detach() for x in others)

    def _kl(self) -> float:
        """Return the approximate KL divergence of the current minibatch, averaged over ranks."""
        ratio = self.recorded.current.get("ratio")
        if ratio is None:
            raise ValueError(
                f"target_kl must be None for {type(self).__name__}, whose loss does not call that "
                "of PPO. Call self.record(ratio=...) in the loss, with the likelihood ratios."
            )
        return float(mean_over_ranks(kl_terms(ratio).nanmean(), self.world_size))

    def summarize(self, columns: Columns) -> Columns:
        """Replace likelihood ratios by approximate KL and the fraction that is clipped."""
        ratios = stacked(columns.pop("ratio", []))
        columns["approxKL"] = [kl for x in ratios for kl in row_means(kl_terms(x))]
        clipped = (is_clipped(x, self.ratio_clip) for x in ratios)
        columns["clipFraction"] = [fraction for x in clipped for fraction in row_means(x)]
        return columns

    def make_batch(self, samples: NamedArrayTuple) -> Any:
        """Return all inputs of the loss, [T, B], with recorded values if these are needed."""
        batch = super().make_batch(samples)
        if self.value_clip is None:
            return batch
        return batch._replace(old_value=self.to_device(samples.agent.agent_info.value))

    @accepts_single_arguments
    def loss(self, batch: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sum of clipped surrogate, value and entropy losses (PPO eq. 7 and 9).

            L = - E[min(r A, clip(r, 1 - eps, 1 + eps) A)] + c_v E[(V(s) - R)^2] / 2 - c_e E[H]

        Args:
            batch: ``PgBatch``, leaves [N, ...], or [T, B, ...] for recurrent agents: recorded
                ``agent_inputs`` and ``action``, ``return_``, ``advantage``, mask ``valid`` or
                ``None``, ``old_dist_info`` from which the action was drawn, ``done``,
                ``init_rnn_state`` [N, B, H], and ``old_value`` if ``value_clip`` is set.

        Returns:
            Loss, mean entropy and mean perplexity, scalars.
        """
        return_, advantage, valid = batch.return_, batch.advantage, batch.valid
        state = (batch.init_rnn_state,) if self.agent.recurrent else ()
        dist_info, value, *_ = self.agent(*batch.agent_inputs, *state)
        dist = self.agent.distribution
        ratio = dist.likelihood_ratio(batch.action, batch.old_dist_info, dist_info)
        pi_loss = clipped_surrogate_loss(ratio, advantage, self.ratio_clip, valid)
        if self.value_clip is None or batch.old_value is None:
            v_loss = value_loss(value, return_, valid)
        else:
            v_loss = clipped_value_loss(value, batch.old_value, return_, self.value_clip, valid)
        self.record(piLoss=pi_loss, vLoss=v_loss, ratio=only_valid(ratio, valid))
        entropy = dist.entropy(dist_info)
        perplexity = valid_mean(entropy.detach().exp(), valid)
        entropy = valid_mean(entropy, valid)
        loss = pi_loss + self.value_loss_coeff * v_loss - self.entropy_loss_coeff * entropy
        return loss, entropy, perplexity
