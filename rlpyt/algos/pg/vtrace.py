"""V-trace (Espeholt et al. 2018), by which IMPALA learns from samples of older policies.

The class is the algorithm. The functions below it are for custom loops: forms of
`rlpyt.algos.returns.vtrace_return` that take log-probabilities, logits, or one trajectory.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from rlpyt.algos.episodes import EpisodePacking
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.algos.pg.losses import normalize, policy_gradient_loss, value_loss
from rlpyt.algos.returns import Array, importance_weight, valid_from_done, vtrace_return
from rlpyt.utils.buffer import buffer_func, numpify_buffer
from rlpyt.utils.checks import check_range, setting
from rlpyt.utils.tensor import select_at_indexes, valid_mean

VTraceOptInfo = namedtuple("VTraceOptInfo", ["loss", "gradNorm", "entropy", "perplexity", "rho"])


@dataclass(eq=False)
class VTrace(PolicyGradientAlgo):
    """The learner of IMPALA: one actor-critic step on each batch, also of an older policy.

    The batch records which distribution mu each action was drawn from; the agent that is trained
    has pi, and V, by its present parameters. Targets and gradient are corrected for the difference.
    On samples of the present policy this is A2C, with the same settings.

    What follows the last row, and what a time limit cut off, has the value that was recorded.
    """

    discount: float = setting(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: float = setting(0.001, gt=0, le=100, warn_above=1, doc="usually 1e-4 to 1e-2")
    value_loss_coeff: float = setting(0.5, ge=0, finite=True, doc="weight of the value loss")
    entropy_loss_coeff: float = setting(0.01, finite=True, doc="weight of the entropy; 0 to 0.05")
    OptimCls: type[Optimizer] = setting(Adam, doc="class of torch.optim; the paper: RMSprop")
    optim_kwargs: dict[str, Any] | None = setting(None, doc='optimizer arguments: {"eps": 1e-5}')
    clip_grad_norm: float | None = setting(1.0, gt=0, doc="largest gradient norm; None: no limit")
    initial_optim_state_dict: Any = setting(None, doc="initial state of the optimizer")
    gae_lambda: float = setting(1, ge=0, le=1, doc="lambda of the traces, as of GAE; 0.9-1")
    linear_lr_schedule: bool = setting(False, doc="decay the learning rate linearly to 0")
    normalize_advantage: bool = setting(False, doc="normalize advantages in each batch")
    clip_rho_threshold: float | None = setting(1.0, gt=0, doc="rho_bar, limit in targets")
    clip_pg_rho_threshold: float | None = setting(1.0, gt=0, doc="rho limit in the gradient")

    OptInfo: ClassVar[Any] = VTraceOptInfo
    opt_info_fields: ClassVar[tuple[str, ...]] = VTraceOptInfo._fields

    def async_initialize(
        self,
        agent: Any,
        sampler_n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
    ) -> None:
        """Get ready to train in an asynchronous run, without the optimizer; there is no replay."""
        self.plan(agent, sampler_n_itr, batch_spec, mid_batch_reset, world_size)

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Take one gradient step on the samples.

        Args:
            itr: iteration of the run, or of the optimizer where it runs asynchronously.
            samples: a sampler's batch [T, B].
            sampler_itr: iteration of an asynchronous sampler that it is from.
        """
        if self.linear_lr_schedule:
            progress = itr if sampler_itr is None else sampler_itr
            self.gradient_step.scale_learning_rate(max(0.0, 1 - progress / self.n_itr))
        statistics = self.update(samples)
        self.update_counter += 1
        self.update_obs_rms(samples)
        return self.make_opt_info([x] for x in torch.stack(statistics).tolist())

    def update(self, samples: Any) -> tuple[Tensor, ...]:
        """Take one gradient step on a batch [T, B]; return a scalar for each statistic."""
        loss, *others = self.loss(samples)
        grad_norm = self.gradient_step(loss)
        return loss.detach(), grad_norm, *(x.detach() for x in others)

    def loss(self, samples: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the sum of policy gradient, value and entropy losses of a batch (section 4.2).

            L = - E[rho log pi(a|s) A] + c_v E[(V(s) - v)^2] / 2 - c_e E[H(pi(.|s))]

        with v and A of `vtrace_return`, and rho = min(clip_pg_rho_threshold, pi(a|s)/mu(a|s)).

        Returns:
            loss, mean entropy, mean perplexity, mean weight in targets (1 where no policy has
            changed, the smaller the more); scalars.
        """
        dist_info, value = self.forward(samples)
        dist, action = self.agent.distribution, self.to_device(samples.agent.action)
        log_likelihood = dist.log_likelihood(action, dist_info)
        log_ratio = self.log_ratio(samples, log_likelihood)
        return_, advantage, valid = self.to_device(self.process_returns(samples, value, log_ratio))
        pg_rho = importance_weight(log_ratio, self.clip_pg_rho_threshold)
        pi_loss = policy_gradient_loss(log_likelihood, advantage, valid, pg_rho)
        v_loss = value_loss(value, return_, valid)
        entropy = dist.mean_entropy(dist_info, valid)
        loss = pi_loss + self.value_loss_coeff * v_loss - self.entropy_loss_coeff * entropy
        with torch.no_grad():
            perplexity = dist.mean_perplexity(dist_info, valid)
        rho = valid_mean(importance_weight(log_ratio, self.clip_rho_threshold), valid)
        return loss, entropy, perplexity, rho

    def forward(self, samples: Any) -> tuple[Any, Tensor]:
        """Return the present policy's distribution and value at each step, [T, B]."""
        inputs = self.to_device(self.agent_inputs(samples))
        if not self.agent.recurrent:
            dist_info, value = self.agent(*inputs)
            return dist_info, value
        done = samples.env.done
        # Without resets in the batch, nothing valid follows a done.
        packing = EpisodePacking(done if self.mid_batch_reset else torch.zeros_like(done))
        state = packing.pack_state(self.initial_rnn_state(samples))
        dist_info, value, _ = self.agent(*packing.pack(inputs), state)
        return buffer_func((dist_info, value), packing.unpack)  # type: ignore[no-any-return]

    def log_ratio(self, samples: Any, log_likelihood: Tensor) -> Tensor:
        """Return log pi(a_t|s_t) - log mu(a_t|s_t) [T, B], without gradient; 0 if not valid.

        Args:
            samples: the sampler's batch [T, B].
            log_likelihood: [T, B], log pi(a_t|s_t).
        """
        agent = samples.agent
        action, old_dist_info = self.to_device((agent.action, agent.agent_info.dist_info))
        old: Tensor = self.agent.distribution.log_likelihood(action, old_dist_info)
        log_ratio = log_likelihood.detach() - old
        if self.mid_batch_reset:
            return log_ratio
        valid = self.to_device(valid_from_done(samples.env.done))
        return torch.where(valid > 0, log_ratio, 0)  # of what waits for a reset it may be infinite

    def process_returns(
        self, samples: Any, value: Tensor | None = None, log_ratio: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Any]:
        """Compute targets, advantages and the mask of valid samples.

        Args:
            samples: the sampler's batch [T, B].
            value: [T, B], V(s_t) by present parameters; ``None``: as recorded.
            log_ratio: [T, B], log pi(a_t|s_t) - log mu(a_t|s_t); ``None``: zeros.

        Returns:
            v [T, B] and A [T, B], float32; valid [T, B] float32, or ``None`` where all samples are.
        """
        env, agent = samples.env, samples.agent
        value = agent.agent_info.value if value is None else value
        log_ratio = torch.zeros_like(env.reward) if log_ratio is None else log_ratio
        valid = None if self.mid_batch_reset else valid_from_done(env.done)
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


class VTraceReturns(NamedTuple):
    """Results of `from_importance_weights`, each [T, B] and without gradient."""

    vs: Any  # targets of the value
    pg_advantages: Any  # factors of the gradient of log pi(a_t)


class VTraceFromLogitsReturns(NamedTuple):
    """Results of `from_logits`, each [T, B]; all but the last without gradient."""

    vs: Any
    pg_advantages: Any
    log_rhos: Any
    behavior_action_log_probs: Any
    target_action_log_probs: Any


def from_importance_weights(
    log_rhos: Array,
    discounts: Array,
    rewards: Array,
    values: Array,
    bootstrap_value: Array | float,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
) -> VTraceReturns:
    """Compute V-trace from log importance weights (Espeholt et al. 2018, eq. 1 and section 4.2).

    Args:
        log_rhos: [T, B], log of the target policy's probability of the action over the behaviour
            policy's.
        discounts: [T, B], gamma; 0 where the episode ended with the step.
        rewards: [T, B].
        values: [T, B], by the target policy's value function.
        bootstrap_value: [B], value of the observation after the last step.
        clip_rho_threshold: rho_bar, of the targets; ``None``: no limit.
        clip_pg_rho_threshold: of ``pg_advantages``; ``None``: no limit.

    Returns:
        vs and pg_advantages (these are weighted), each [T, B], numpy or torch as ``rewards`` are.

    Raises:
        ValueError: shapes differ, or a threshold is not positive.
    """
    _check_clips(clip_rho_threshold, clip_pg_rho_threshold)
    _check_shapes("rewards", rewards, log_rhos=log_rhos, discounts=discounts, values=values)
    never = np.zeros(np.shape(rewards), bool)  # discounts say where episodes end
    vs, advantages = vtrace_return(
        log_rhos, rewards, values, never, bootstrap_value, discounts, clip_rho_threshold
    )
    return VTraceReturns(vs, importance_weight(log_rhos, clip_pg_rho_threshold) * advantages)


def from_logits(
    behavior_policy_logits: Tensor,
    target_policy_logits: Tensor,
    actions: Tensor,
    discounts: Array,
    rewards: Array,
    values: Array,
    bootstrap_value: Array | float,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
) -> VTraceFromLogitsReturns:
    """Compute V-trace for softmax policies.

    Args:
        behavior_policy_logits: [T, B, A], of the policy that chose the actions.
        target_policy_logits: [T, B, A], of the policy that is trained.
        actions: [T, B] integers.
        discounts, rewards, values, bootstrap_value, clip_rho_threshold, clip_pg_rho_threshold:
            of `from_importance_weights`.

    Returns:
        Its results, and of what they were made. ``target_action_log_probs`` has the gradient: the
        policy's loss is ``-(target_action_log_probs * pg_advantages).mean()``.

    Raises:
        ValueError: shapes differ, or a threshold is not positive.
    """
    logits = {"behavior_policy_logits": behavior_policy_logits}
    _check_shapes("target_policy_logits", target_policy_logits, **logits)
    target = action_log_probs(target_policy_logits, actions)
    behavior = action_log_probs(behavior_policy_logits, actions).detach()
    log_rhos = target.detach() - behavior
    returns = from_importance_weights(
        log_rhos,
        discounts,
        rewards,
        values,
        bootstrap_value,
        clip_rho_threshold,
        clip_pg_rho_threshold,
    )
    return VTraceFromLogitsReturns(*returns, log_rhos, behavior, target)


def action_log_probs(policy_logits: Tensor, actions: Tensor) -> Tensor:
    """Return the log-probability of each action, [T, B], with gradient.

    Args:
        policy_logits: [T, B, A], before the softmax.
        actions: [T, B] integers in [0, A).

    Raises:
        ValueError: the leading dimensions differ.
    """
    return select_at_indexes(actions, torch.log_softmax(policy_logits, -1))


def vtrace(
    behavior_logprobs: Any,
    target_logprobs: Any,
    gamma: float,
    Rs: Any,
    Vs: Any,
    last_V: Any,
    reach_terminal: bool,
    clip_rho: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
) -> tuple[Array, Array]:
    """Compute V-trace of one trajectory.

    Args:
        behavior_logprobs, target_logprobs: [T], of the actions, by the policy that chose them and
            by the one that is trained.
        gamma: discount, per environment step.
        Rs: [T], rewards.
        Vs: [T], values of the observations before each step.
        last_V: value of the observation after the last step; not read if that is terminal.
        reach_terminal: whether it is.
        clip_rho, clip_pg_rho: thresholds of `from_importance_weights`.

    Returns:
        targets of the value [T], and weighted advantages [T], numpy float32.

    Raises:
        TypeError: ``last_V`` is ``None`` where something follows.
        ValueError: shapes differ, or a threshold is not positive.
    """
    rewards, values, behavior, target = (
        np.asarray(numpify_buffer(x), np.float32)
        for x in (Rs, Vs, behavior_logprobs, target_logprobs)
    )
    _check_shapes("Rs", rewards, Vs=values, behavior_logprobs=behavior, target_logprobs=target)
    if last_V is None and not reach_terminal:
        raise TypeError("last_V is None, but something follows the last step: give its value.")
    bootstrap = 0.0 if reach_terminal else last_V
    discounts = np.full_like(rewards, gamma)
    returns = from_importance_weights(
        target - behavior, discounts, rewards, values, bootstrap, clip_rho, clip_pg_rho
    )
    return returns.vs, returns.pg_advantages


def _check_clips(clip_rho_threshold: Any, clip_pg_rho_threshold: Any) -> None:
    clips = {
        "clip_rho_threshold": clip_rho_threshold,
        "clip_pg_rho_threshold": clip_pg_rho_threshold,
    }
    for name, clip in clips.items():
        if clip is not None:
            check_range(name, clip, 0, open_low=True)


def _check_shapes(name: str, array: Any, **others: Any) -> None:
    """Raise ValueError unless ``others`` have the shape of ``array``, which is called ``name``."""
    shape = tuple(np.shape(array))
    for other, given in others.items():
        if np.shape(given) != shape:
            raise ValueError(
                f"{other} of shape {tuple(np.shape(given))} must have the shape of {name}, {shape}."
            )
