"""V-trace (Espeholt et al. 2018), the learner of IMPALA, with off-policy correction."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.episodes import EpisodePacking
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.algos.pg.losses import (
    explained_variance,
    kl_terms,
    normalize,
    policy_gradient_loss,
    value_loss,
)
from rlpyt.algos.returns import importance_weight, vtrace_return
from rlpyt.envs.base import BatchSpec
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.checks import Scheduled, fixed, rate, scheduled, setting
from rlpyt.utils.collections import AttrDict, NamedArrayTuple
from rlpyt.utils.tensor import valid_mean

VTraceOptInfo = namedtuple("VTraceOptInfo", ["loss", "gradNorm", "entropy", "perplexity", "rho"])


@dataclass(eq=False)
class VTrace(PolicyGradientAlgo):
    """Learner of IMPALA: one actor-critic step per batch, which may be of an older policy.

    The batch records the distribution mu from which each action was drawn; the agent computes pi
    and V with its current parameters. Targets and gradient are corrected for the difference. On
    samples of the current policy this is A2C with the same settings.

    Bootstrapping uses recorded values: after the last row, and after time limits.
    """

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: Scheduled[float] = rate(0.001, doc="usually 1e-4 to 1e-2")
    value_loss_coeff: float = setting(0.5, ge=0, finite=True, doc="weight of the value loss")
    entropy_loss_coeff: Scheduled[float] = scheduled(
        0.01, finite=True, doc="weight of the entropy; 0 to 0.05"
    )
    OptimCls: type[Optimizer] = fixed(Adam, doc="class of torch.optim; the paper: RMSprop")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc='optimizer arguments: {"eps": 1e-5}')
    clip_grad_norm: float | None = setting(1.0, gt=0, doc="largest gradient norm; None: no limit")
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    gae_lambda: float = setting(1, ge=0, le=1, doc="lambda of the traces, as of GAE; 0.9-1")
    linear_lr_schedule: bool = fixed(False, doc="decay the learning rate linearly to 0")
    normalize_advantage: bool = setting(False, doc="normalize advantages in each batch")
    clip_rho_threshold: float | None = setting(1.0, gt=0, doc="rho_bar, limit in targets")
    clip_pg_rho_threshold: float | None = setting(1.0, gt=0, doc="rho limit in the gradient")
    normalize_reward: bool = fixed(
        False, doc="divide rewards by the running standard deviation of discounted returns"
    )

    recorded_fields: ClassVar[tuple[str, ...]] = (
        *PolicyGradientAlgo.recorded_fields,
        "approxKL",
    )
    opt_info_fields: ClassVar[tuple[str, ...]] = (*VTraceOptInfo._fields, *recorded_fields)

    def async_initialize(
        self,
        agent: BaseAgent,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: AttrDict,
        world_size: int = 1,
    ) -> None:
        """Prepare for training in an asynchronous run, without optimizer and replay."""
        self.prepare(agent, sampler_n_itr, batch_spec, mid_batch_reset, world_size)

    def loss(self, samples: NamedArrayTuple) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the sum of policy gradient, value and entropy losses of a batch (section 4.2).

            L = - E[rho log pi(a|s) A] + c_v E[(V(s) - v)^2] / 2 - c_e E[H(pi(.|s))]

        with v and A of `vtrace_return`, and rho = min(clip_pg_rho_threshold, pi(a|s)/mu(a|s)).

        Returns:
            Loss, mean entropy, mean perplexity and mean importance weight in targets (1 for the
            current policy), scalars.
        """
        dist_info, value = self.forward(samples)
        dist, action = self.agent.distribution, self.to_device(samples.agent.action)
        log_likelihood = dist.log_likelihood(action, dist_info)
        log_ratio = self.log_ratio(samples, log_likelihood)
        return_, advantage, valid = self.to_device(self.process_returns(samples, value, log_ratio))
        pg_rho = importance_weight(log_ratio, self.clip_pg_rho_threshold)
        pi_loss = policy_gradient_loss(log_likelihood, advantage, valid, pg_rho)
        v_loss = value_loss(value, return_, valid)
        entropy = dist.entropy(dist_info)
        perplexity = valid_mean(entropy.detach().exp(), valid)
        entropy = valid_mean(entropy, valid)
        loss = pi_loss + self.value_loss_coeff * v_loss - self.entropy_loss_coeff * entropy
        rho = valid_mean(importance_weight(log_ratio, self.clip_rho_threshold), valid)
        self.record(
            piLoss=pi_loss,
            vLoss=v_loss,
            explainedVariance=explained_variance(value.detach(), return_, valid),
            approxKL=only_valid(kl_terms(log_ratio.exp()), valid),
        )
        return loss, entropy, perplexity, rho

    def forward(self, samples: NamedArrayTuple) -> tuple[Any, Tensor]:
        """Return the current policy's distribution and value at each step, [T, B]."""
        inputs = self.to_device(self.agent_inputs(samples))
        if not self.agent.recurrent:
            dist_info, value = self.agent(*inputs)
            return dist_info, value
        done = samples.env.done
        # Without resets in the batch, nothing valid follows a done.
        done = done if self.mid_batch_reset else torch.zeros_like(done)
        packing = EpisodePacking(done, takes_starts=self.agent.takes_starts)
        state = packing.pack_state(self.initial_rnn_state(samples))
        dist_info, value, _ = self.agent(*packing.pack(inputs), state)
        return buffer_func((dist_info, value), packing.unpack)  # type: ignore[no-any-return]

    def log_ratio(self, samples: NamedArrayTuple, log_likelihood: Tensor) -> Tensor:
        """Return log pi(a_t|s_t) - log mu(a_t|s_t) [T, B] without gradient; 0 if not valid.

        Args:
            samples: batch [T, B] of the sampler.
            log_likelihood: [T, B], log pi(a_t|s_t).
        """
        agent = samples.agent
        action, old_dist_info = self.to_device((agent.action, agent.agent_info.dist_info))
        old: Tensor = self.agent.distribution.log_likelihood(action, old_dist_info)
        log_ratio = log_likelihood.detach() - old
        valid = self.valid_steps(samples.env)
        if valid is None:
            return log_ratio
        # It may be infinite in void rows.
        return torch.where(self.to_device(valid) > 0, log_ratio, 0)

    def process_returns(
        self, samples: NamedArrayTuple, value: Tensor | None = None, log_ratio: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Any]:
        """Compute targets, advantages and the mask of valid samples.

        Args:
            samples: batch [T, B] of the sampler.
            value: [T, B], V(s_t) with current parameters; ``None``: recorded values.
            log_ratio: [T, B], log pi(a_t|s_t) - log mu(a_t|s_t); ``None``: zeros.

        Returns:
            v [T, B], A [T, B] and mask [T, B], float32; the mask is ``None`` if all are valid.
        """
        env, agent = samples.env, samples.agent
        value = agent.agent_info.value if value is None else value
        log_ratio = torch.zeros_like(env.reward) if log_ratio is None else log_ratio
        valid = self.valid_steps(env)
        return_, advantage = vtrace_return(
            log_ratio,
            env.reward,
            value,
            env.done,
            agent.bootstrap_value,
            self.discount,
            self.clip_rho_threshold,
            self.gae_lambda,
            timeout_value=getattr(agent, "timeout_value", None),
        )
        if self.normalize_advantage:
            advantage = normalize(advantage, valid)
        return return_, advantage, valid
