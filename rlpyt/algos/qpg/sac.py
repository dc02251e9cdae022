"""Soft actor-critic with a learned or fixed temperature (Haarnoja et al. 2018b).

For discrete actions, Christodoulou 2019; for actions of several parts, similar to Delalleau et al.
2019. There, the policy is independent in P parts, each with its own temperature; d are the C
combinations of discrete choices over which expectations are sums, x is the rest of the action.
"""

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Adam, Optimizer

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.qpg.parts import Draw
from rlpyt.algos.optim import RATE, ParameterGroup, mean_over_ranks
from rlpyt.algos.optim_state import join_members, split_members
from rlpyt.algos.qpg.base import QpgAlgo, frozen, is_override, joined
from rlpyt.algos.qpg.critic_outputs import outputs_of
from rlpyt.algos.qpg.losses import expected_value, standard_normal_logli
from rlpyt.algos.replay import SamplesToBuffer, subsample
from rlpyt.algos.reward_normalizer import ReturnScale
from rlpyt.models.ensemble import Ensemble
from rlpyt.models.normalization import batch_norms, running_statistics
from rlpyt.models.utils import unwrap_ddp
from rlpyt.utils.checks import Scheduled, check_range, fixed, rate, scheduled, setting
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.old_names import AssignableProperty, OldName

OptInfo = namedtuple(
    "OptInfo",
    ["q1Loss", "q2Loss", "piLoss", "q1GradNorm", "q2GradNorm", "piGradNorm", "q1", "q2", "piMu",
     "piLogStd", "qMeanDiff", "alpha", "qEnsembleMean", "qEnsembleMin", "qEnsembleStd"],
)  # fmt: skip
SamplesToBufferTl = namedarraytuple("SamplesToBufferTl", (*SamplesToBuffer._fields, "timeout"))


@dataclass(eq=False)
class SAC(QpgAlgo):
    """Soft actor-critic with entropy regularization, for any action space.

    Box actions have a squashed Gaussian policy, discrete actions a categorical one.

    The agent's ``n_critics`` critics return values, quantiles or logits of atoms. With
    ``n_target_critics`` this is REDQ (Chen et al. 2021), with layer normalization and dropout in
    the agent's critics DroQ (Hiraoka et al. 2022), with quantiles TQC (Kuznetsov et al. 2020), with
    ``joint_critics`` and batch renormalization CrossQ (Bhatt et al. 2024). Atoms with
    ``normalize_reward`` are the critics of SimbaV2 (Lee et al. 2025), and with ``joint_critics``
    those of XQC (Palenicek et al. 2026) and FlashSAC (Kim et al. 2026).
    """

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    batch_size: int = setting(256, ge=1, doc="transitions per update")
    min_steps_learn: int = fixed(int(1e4), ge=0, doc="environment steps before learning begins")
    replay_size: int = fixed(int(1e6), ge=1, doc="transitions kept")
    replay_ratio: float = setting(256, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_tau: float = setting(0.005, gt=0, le=1, doc="weight of new parameters in targets")
    target_update_interval: int = setting(1, ge=1, doc="updates between target updates")
    learning_rate: Scheduled[float] = rate(3e-4, doc="usually 3e-4 to 1e-3")
    fixed_alpha: Scheduled[float | None] = scheduled(
        None, ge=0, finite=True, doc="temperature, the weight of the entropy; None: learned"
    )
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc='optimizer arguments: {"eps": 1e-5}')
    initial_optim_state_dict: Any = fixed(None, doc="initial states of the optimizers")
    action_prior: Literal["uniform", "gaussian"] = fixed("uniform", doc="prior of the policy")
    reward_scale: float = setting(1, gt=0, finite=True, doc="rewards are multiplied by this")
    target_entropy: float | Literal["auto"] = setting(
        "auto", finite=True, doc="in nats; auto: see box_entropy and entropy_share"
    )
    reparameterize: bool = setting(True, doc="differentiate through sampled actions")
    clip_grad_norm: float | None = setting(1e9, gt=0, doc="largest gradient norm; None: no limit")
    n_step_return: int = fixed(1, ge=1, doc="rewards in a target before it bootstraps")
    updates_per_sync: int = fixed(1, ge=1, doc="(async) updates per transfer of parameters")
    bootstrap_timelimit: bool = fixed(True, doc="bootstrap at time limits")
    ReplayBufferCls: Any = fixed(None, doc="custom replay class; None: chosen from the settings")
    n_target_critics: int | None = fixed(None, ge=1, doc="critics per target, REDQ: 2; None: all")
    n_drop_quantiles: int = fixed(0, ge=0, doc="largest quantiles dropped per critic; TQC: 2")
    V_min: float = fixed(
        -5.0, finite=True, doc="(atoms) value of the first atom, the lowest return"
    )
    V_max: float = fixed(5.0, finite=True, doc="(atoms) value of the last atom, the highest return")
    normalize_reward: bool = fixed(
        False, doc="divide rewards so that returns vary by 1, see also fit_returns"
    )
    policy_update_interval: int = setting(1, ge=1, doc="critic updates per policy update")
    joint_critics: bool = fixed(False, doc="critics at (s, a) and (s', a') as one batch, CrossQ")
    prioritized_replay: bool = fixed(False, doc="draw transitions by TD error")
    pri_alpha: float = fixed(0.6, ge=0, finite=True, doc="exponent of priorities; 0: uniform")
    pri_beta_init: float = setting(0.4, ge=0, le=1, doc="initial exponent of importance weights")
    pri_beta_final: float = setting(1.0, ge=0, le=1, doc="final exponent of importance weights")
    pri_beta_steps: int | None = fixed(
        None, ge=1, doc="steps until pri_beta_final; None: whole run"
    )
    default_priority: float | None = fixed(
        None, gt=0, finite=True, doc="priority of new samples; None: the largest so far"
    )
    save_replay: bool | None = setting(None, doc="keep replay in checkpoints; None: below 200 MB")
    mixed_precision: bool = setting(False, doc="forward passes of training in bfloat16")
    compile_loss: bool = fixed(False, doc='old name of compile="loss"')
    compile: Literal["loss", "update"] | None = fixed(
        None, doc="part compiled by torch.compile, if there is a C++ compiler"
    )
    entropy_share: float = setting(
        0.5, ge=0, le=1, doc="target entropy of discrete choices, as a share of the largest"
    )
    q_learning_rate: Scheduled[float | None] = rate(
        None, doc="learning rate of the critics; None: learning_rate"
    )
    alpha_learning_rate: Scheduled[float | None] = rate(
        None, doc="that of the temperature; None: learning_rate"
    )
    initial_alpha: float = fixed(1.0, gt=0, finite=True, doc="first value of a learned temperature")
    box_entropy: float = fixed(
        -1.0, finite=True, doc="target entropy of a Box, in nats per dimension"
    )
    fit_returns: bool = fixed(True, doc="(normalize_reward) returns also lie within V_min, V_max")

    # Outputs that the agent must have, and agents that have them.
    requires: ClassVar[str] = "a squashed Gaussian policy and critics"
    ready_agents: ClassVar[str] = "SacAgent of rlpyt.agents.qpg.sac_agent (sac_v_agent's: SAC_V)"
    OptInfo: ClassVar[Any] = OptInfo
    recorded_fields: ClassVar[tuple[str, ...]] = ("tdAbsErr", "entropy", "alphaLoss")
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)
    learns_distributions = True
    # Names of the networks that are evaluated at the steps themselves, and after their returns.
    evaluated: ClassVar[tuple[Sequence[str], Sequence[str]]] = (
        ("model", "q_model"),
        ("model", "target_q_model"),
    )

    def check_agent(self, agent: BaseAgent) -> None:
        """Raise ValueError if the agent has too few critics or quantiles for these settings."""
        super().check_agent(agent)
        E, M = agent.n_critics, self.n_target_critics
        if M is not None and E is not None and E < M:
            raise ValueError(
                f"n_target_critics must be at most the agent's n_critics={E}, got {M}. Lower it, "
                "or give the agent more critics."
            )
        if not (self.joint_critics or agent.has_target_critics):
            raise ValueError(
                "joint_critics must be True for an agent without target networks of its critics, "
                "got False. Or remove target_critics=False from the agent's arguments."
            )
        if self.joint_critics and (agent.recurrent or agent.parts is not None):
            what = "an agent with memory" if agent.recurrent else str(agent.env_spaces.action)
            raise ValueError(
                f"joint_critics must be False for {what}, got True. It is for agents without "
                "memory, whose actions are a single Box."
            )
        check_range("V_max", self.V_max, self.V_min, open_low=True, finite=True)
        N = agent.n_quantiles
        if self.n_drop_quantiles and (N is None or self.n_drop_quantiles >= N):
            raise ValueError(
                "n_drop_quantiles must be below the number of quantiles per critic, got "
                f"n_drop_quantiles={self.n_drop_quantiles} and n_quantiles={N}. Set the latter by "
                "q_model_kwargs=dict(n_quantiles=25)."
            )
        if not self.normalize_reward:
            self.warn_of_unused(("fit_returns",), "normalize_reward is False")
        if agent.n_atoms is None and not (self.normalize_reward and self.fit_returns):
            self.warn_of_unused(("V_min", "V_max"), "the critics return no atoms")
        if self.fixed_alpha is not None:
            names = ("target_entropy", "entropy_share", "initial_alpha", "alpha_learning_rate")
            self.warn_of_unused(names, "fixed_alpha is given")
        if not agent.has_target_critics:
            why = "the agent has no target networks of its critics"
            self.warn_of_unused(("target_update_tau", "target_update_interval"), why)
        if self.target_entropy != "auto":
            self.warn_of_unused(("entropy_share", "box_entropy"), "target_entropy is given")
        if agent.parts is None:
            self.warn_of_unused(("entropy_share",), "the action has no discrete part")
            return
        if self.action_prior != "uniform":
            raise ValueError(
                f'action_prior must be "uniform" for {agent.env_spaces.action}, got '
                f"{self.action_prior!r}. A Gaussian prior is for a single Box."
            )
        if self.target_entropy != "auto" and len(agent.parts.sizes) > 1:
            raise ValueError(
                f'target_entropy must be "auto" for actions of several parts, got '
                f"{self.target_entropy}. Set entropy_share, or fixed_alpha."
            )

    def _add_steps(self) -> None:
        self._evaluate = self._jointly if self.joint_critics else self._separately
        self._policy_norms = batch_norms(self.agent.model)
        self._outputs = outputs_of(self.agent, self)
        if self.normalize_reward:
            self._normalize_rewards()
        self.add_step("all", self._networks())  # which may make new targets
        if self.joint_critics and self.agent.has_target_critics:
            for layer in batch_norms(self.agent.target_q_model):
                layer.train()  # normalizes both by the statistics of their batch
        if self.fixed_alpha is None:
            self.fix("since the temperature is learned", "fixed_alpha")
        else:
            self.follow("fixed_alpha", self._set_alpha)
        self.follow("target_entropy", self._set_target_entropy)

    def _normalize_rewards(self) -> None:
        if self.world_size > 1:
            raise ValueError(
                "normalize_reward must be False with several ranks, whose environments have "
                f"different returns, got True and {self.world_size} ranks. Set reward_scale."
            )
        within = (self.V_min, self.V_max) if self.fit_returns else (-inf, inf)
        self.reward_normalizer = ReturnScale(
            self.batch_spec.B, self.discount, self.agent.device, within
        )
        self.divisor = torch.ones((), device=self.agent.device)

    def update_obs_rms(self, samples: NamedArrayTuple) -> None:
        """Update the statistics of observations, and with ``normalize_reward`` those of returns."""
        super().update_obs_rms(samples)
        normalizer = self.reward_normalizer
        if normalizer is not None:
            env = samples.env
            normalizer.update(env.reward, env.done, self.valid_steps(env))
            self.divisor.fill_(normalizer.scale)

    def _rate(self, name: str) -> str:
        """Return the setting with a network's learning rate: this one, if it has a value."""
        if getattr(self, name) is not None:
            return name
        self.fix("since it was None, and the networks share learning_rate", name)
        return RATE

    def _set_alpha(self, alpha: float | None) -> None:
        if alpha is None:
            raise ValueError(
                "fixed_alpha must be a number after initialize, got None: no optimizer has been "
                "built for the temperature. Give None to the constructor to learn it."
            )
        with torch.no_grad():
            self.log_alpha.fill_(torch.tensor(alpha).log())

    def _set_target_entropy(self, value: Any) -> None:
        agent = self.agent
        self._target_entropy = value
        if agent.parts is None and value == "auto":
            self._target_entropy = self.box_entropy * agent.scale.size

    def _networks(self) -> list[ParameterGroup]:
        """Return all networks; one optimizer trains them."""
        agent = self.agent
        start = torch.tensor(
            self.initial_alpha if self.fixed_alpha is None else self.fixed_alpha,
            dtype=torch.float32,
        ).log()
        start = start if agent.parts is None else start.repeat(agent.parts.n_parts)
        self.log_alpha = torch.nn.Parameter(start.to(agent.device))
        self._set_target_entropy(self.target_entropy)
        networks = [self.network("pi", agent.model, agent.pi_parameters()), *self._critics()]
        if self.fixed_alpha is None:
            rate = self._rate("alpha_learning_rate")
            alpha = self.network("alpha", None, [self.log_alpha], rate=rate, decays=False)
            networks.append(alpha)
        return networks

    def _critics(self) -> list[ParameterGroup]:
        """Return one group for critics in a single module, else one per `Ensemble` member.

        An agent's own ``q1_parameters`` and ``q2_parameters`` choose what is trained, as in rlpyt.
        """
        agent, rate = self.agent, self._rate("q_learning_rate")
        methods: list[Any] = [getattr(agent, f"q{i}_parameters", None) for i in (1, 2)]
        chosen = {i: own for i, own in enumerate(methods) if is_override(own)}
        if chosen and agent.n_joined is not None:
            agent._separate_critics()
        critics = unwrap_ddp(agent.q_model)
        if not isinstance(critics, Ensemble):
            return [self.network("q", critics, agent.q_parameters(), agent.n_joined, rate)]
        return [
            self.network(f"q{i + 1}", member, chosen.get(i, member.parameters)(), rate=rate)
            for i, member in enumerate(critics.members)
        ]

    _log_alpha: ClassVar[Any] = OldName("log_alpha")
    _alpha: ClassVar[Any] = AssignableProperty(lambda algo: algo.alpha)

    @property
    def alpha(self) -> torch.Tensor:
        """Return the temperature, without gradient; those of P parts, [P]."""
        return self.log_alpha.detach().exp()

    def statistics(self) -> dict[str, float]:
        """Return the learning rate, and for Dict and Tuple actions the temperature of each part."""
        columns, parts = super().statistics(), self.agent.parts
        if parts is not None and parts.is_joint:
            named = zip(parts.names, self.alpha.tolist(), strict=True)
            columns |= {f"Alpha.{name}": alpha for name, alpha in named}
        return columns

    # Training.

    def update(self, batch: NamedArrayTuple) -> tuple[tuple[Any, ...], torch.Tensor]:
        """Take one step with all networks, with losses at the same parameters."""
        losses, values = self.loss(self.steps_of(batch, *self.evaluated))
        self.record(tdAbsErr=values[-1])
        grad_norms = self.steps["all"](self.losses_by_name(losses))
        return (losses, grad_norms, values), values[-1]

    def losses_by_name(self, losses: tuple[Any, ...]) -> dict[str, torch.Tensor]:
        """Return the losses to minimize in this update, by name.

        Args:
            losses: losses from ``loss``.
        """
        try:
            q_losses, pi_loss, alpha_loss = losses
        except (TypeError, ValueError):
            raise ValueError(
                f"{type(self).__name__}.loss must return ((losses of the critics [E], of the "
                "policy, of the temperature), values), the latter two None if not due. Change one "
                "of rlpyt (2019), which returned a loss for each critic."
            ) from None
        parts = {"critics": q_losses.sum(), "policy": pi_loss, "temperature": alpha_loss}
        return {name: loss for name, loss in parts.items() if loss is not None}

    def append_opt_info_(
        self,
        opt_info: Any,
        losses: tuple[Any, ...],
        grad_norms: dict[str, torch.Tensor],
        values: tuple[Any, ...],
    ) -> None:
        """Add the statistics of an update to the lists of an ``OptInfo``.

        Args:
            opt_info: named tuple with a list for each field.
            losses, values: results of ``loss``.
            grad_norms: gradient norms by name of the network.
        """
        q_losses, pi_loss, _ = losses
        q, mean, log_std, _ = values
        numbers = {**self.critic_statistics(q_losses, q, grad_norms), "alpha": self.alpha.mean()}
        if pi_loss is not None:
            numbers |= {"piLoss": pi_loss, "piGradNorm": grad_norms["pi"][0]}
        arrays = {"q1": q[0], "q2": q[-1], "piMu": mean, "piLogStd": log_std}
        append_statistics(opt_info, numbers, {k: x for k, x in arrays.items() if x is not None})

    def critic_statistics(
        self, q_losses: torch.Tensor, q: torch.Tensor, grad_norms: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Return statistics of the first, the last and all critics, as scalars by field.

        The minimum and the standard deviation over critics are averaged over the batch.
        """
        norms = torch.cat([x for name, x in grad_norms.items() if name.startswith("q")])
        return {
            "q1Loss": q_losses[0],
            "q2Loss": q_losses[-1],
            "q1GradNorm": norms[0],
            "q2GradNorm": norms[-1],
            "qMeanDiff": (q[0] - q[-1]).abs().mean(),
            "qEnsembleMean": q.mean(),
            "qEnsembleMin": q.amin(0).mean(),
            "qEnsembleStd": q.std(0, correction=0).mean(),
        }

    def loss(self, samples: NamedArrayTuple) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the losses of critics, policy and temperature of a batch [B].

        Args:
            samples: batch from the replay, on the agent's device.

        Returns:
            Two tuples: (critic losses [E], policy loss, temperature loss; the last two are ``None``
            if not trained in this update) and (Q-values [E, B], policy mean and log_std [B, A] or
            ``None``, absolute TD errors [B]), the second without gradient.
        """
        q_losses, q, td_abs_errors = self.compiled(self.q_loss)(samples)
        if self.skips_policy:
            return (q_losses, None, None), (q, None, None, td_abs_errors)
        with frozen(self.agent.q_model):
            pi_loss, log_pi, mean, log_std = self.compiled(self.pi_loss)(samples)
        alpha_loss = None
        if self.fixed_alpha is None:
            # Gradient with respect to log alpha without the factor alpha; it has the same sign.
            excess = log_pi + self._target_entropy_of(samples)
            excess = excess.reshape(-1, *self.log_alpha.shape).mean(0)  # a scalar, or [P]
            alpha_loss = (-self.log_alpha * mean_over_ranks(excess, self.world_size)).sum()
            self.record(alphaLoss=alpha_loss)
        self.record(entropy=-self._sum_of_parts(log_pi))
        return (q_losses, pi_loss, alpha_loss), (q, mean, log_std, td_abs_errors)

    def q_loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return E[w (y - Q_i(s, a))^2 / 2] of every critic, or what `critic_outputs` defines.

        Args:
            samples: batch [B] from the replay.

        Returns:
            Losses [E]; Q-values [E, B] and absolute TD errors [B], without gradient.
        """
        y, q = self._evaluate(samples)
        self._outputs.check(q, samples.return_)
        losses, td_abs_errors = self._outputs.errors(q, y)
        q = self._outputs.means(q.detach())
        return self.weighted(losses, samples).mean(-1), q, td_abs_errors

    def _separately(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return targets, and the critics' outputs at (s, a)."""
        y = self.q_target(samples)
        return y, self.forward(self.agent.q, *samples.agent_inputs, samples.action)

    def _jointly(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same, with critics evaluated at (s, a) and (s', a') as one batch.

        Targets are from the target networks, or without them from the same evaluation.
        """
        next_action, log_pi = self._next_action(samples)
        inputs = joined(samples.agent_inputs, samples.target_inputs)
        action = torch.cat([samples.action, next_action])
        q, next_q = self.forward(self.agent.q, *inputs, action).chunk(2, dim=1)
        if self.agent.has_target_critics:
            next_q = self.forward(self.agent.target_q, *inputs, action).chunk(2, dim=1)[1]
        return self._target(samples, next_action, log_pi, next_q), q

    @torch.no_grad()
    def q_target(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return the targets y [B] of the critics, or [B, K] of quantiles or atoms."""
        action, log_pi = self._next_action(samples)
        next_q = self.forward(self.agent.target_q, *samples.target_inputs, action)
        return self._target(samples, action, log_pi, next_q)

    @torch.no_grad()
    def _next_action(self, samples: NamedArrayTuple) -> tuple[Any, torch.Tensor]:
        """Draw actions of the policy in evaluation mode, with their log-likelihoods."""
        with running_statistics(self._policy_norms):
            action, log_pi, _ = self.forward(self.agent.pi, *samples.target_inputs)
        return action, log_pi

    def _returns(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return the rewards of the targets, [B], in the units of the critics."""
        return self.reward_scale / self.divisor * samples.return_  # type: ignore[no-any-return]

    @torch.no_grad()
    def _target(
        self, samples: NamedArrayTuple, action: Any, log_pi: torch.Tensor, next_q: torch.Tensor
    ) -> torch.Tensor:
        E, M = len(next_q), self.n_target_critics
        if M is not None and M < E:  # with M == E the permutation would not change the result
            next_q = next_q[torch.randperm(E, device=next_q.device)[:M]]
        terms = (
            self._penalty(action, log_pi),
            self._returns(samples),
            self.bootstrap_discount(samples),
        )
        return self._outputs.target(next_q, prob_of(action), *terms)

    def pi_loss(self, samples: NamedArrayTuple) -> tuple[Any, ...]:
        """Return the policy loss E[alpha log pi(a|s) - Q(s, a)], with a drawn from the policy.

        The caller must freeze the critics. Q is the minimum over critics, or the mean with REDQ
        (`n_target_critics`) or quantile critics. What is drawn without reparameterization, such as
        choices that critics do not enumerate, adds E[log pi (cost - baseline)], whose gradient is
        the score function's; the baseline is the cost of another draw.

        Args:
            samples: batch [B] from the replay.

        Returns:
            Loss (a scalar); log pi [B], or [B, P] of P parts, and for a Box mean and log_std
            [B, A], else ``None``, without gradient.
        """
        inputs = samples.agent_inputs
        by_score = () if self.reparameterize else (False,)
        action, log_pi, dist_info = self.forward(self.agent.pi, *inputs, *by_score)
        cost = self._policy_cost(inputs, action, log_pi)
        loss = cost.mean()
        if isinstance(action, Draw):
            if action.score is not None:
                loss = loss + self._score_loss(inputs, cost, action.score)
            return loss, log_pi.detach(), None, None
        if not self.reparameterize:
            loss = self._score_loss(inputs, cost, log_pi)
        mean, log_std = dist_info.mean.detach(), dist_info.log_std.detach()
        return loss, log_pi.detach(), mean, log_std

    def _score_loss(self, inputs: Any, cost: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            other, log_pi, _ = self.forward(self.agent.pi, *inputs)
            baseline = self._policy_cost(inputs, other, log_pi)
        return (score * (cost - baseline).detach()).mean()

    def _policy_cost(self, inputs: Any, action: Any, log_pi: torch.Tensor) -> torch.Tensor:
        """Return alpha log pi(a|s) - log prior(a) - Q(s, a), [B].

        Of a ``Draw`` it is the expectation over the enumerated choices.
        """
        q = self._outputs.for_policy(self.forward(self.agent.q, *inputs, action))
        return self._penalty(action, log_pi) - expected_value(q, prob_of(action))

    def _penalty(self, action: Any, log_pi: torch.Tensor) -> torch.Tensor:
        """Return alpha log pi(a|s) - log prior(a), [B], summed over the parts of an action."""
        return self._sum_of_parts(self.alpha * log_pi - self.get_action_prior(action))

    def _sum_of_parts(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.agent.parts is None else x.sum(-1)

    def _target_entropy_of(self, samples: NamedArrayTuple) -> Any:
        """Return the target entropy: a number, or of P parts [P], with a mask of choices [B, P]."""
        if self._target_entropy != "auto":
            return self._target_entropy
        mask = self.agent.mask_of(samples.agent_inputs.observation)
        targets = self.agent.parts.target_entropies(self.entropy_share, mask, self.box_entropy)
        return targets.to(self.agent.device)

    def get_action_prior(self, action: torch.Tensor) -> torch.Tensor | float:
        """Return the log prior of actions [.., A] in the space's units: [..], or zero."""
        if self.action_prior == "uniform":
            return 0.0
        return standard_normal_logli(self.agent.scale.to_unit(action))

    # Optimizer states under rlpyt's names, one entry per critic.

    def optim_state_dict(self) -> dict[str, Any]:
        """Return the optimizer states pi_optimizer, q1_optimizer, ..., and log_alpha."""
        log_alpha = {"log_alpha": self.log_alpha.detach().clone()}
        if not self.steps:
            return {**super().optim_state_dict(), **log_alpha}
        state = {f"{name}_optimizer": s for name, s in super().optim_state_dict().items()}
        E = self.agent.n_joined
        if E is not None:
            members = split_members(state.pop("q_optimizer"), E)
            state |= {f"q{i + 1}_optimizer": member for i, member in enumerate(members)}
        return {**state, **log_alpha}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        super().load_state_dict(state)
        if self.reward_normalizer is not None:
            self.divisor.fill_(self.reward_normalizer.scale)

    def load_optim_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``optim_state_dict``; keep a fixed temperature.

        Raises:
            ValueError: the state has a different number of critics, or no optimizer state for the
                temperature although it is learned.
        """
        super().load_optim_state_dict(self._by_network(state_dict) if self.steps else state_dict)
        if self.fixed_alpha is None:
            with torch.no_grad():
                log_alpha = torch.as_tensor(state_dict["log_alpha"])
                self.log_alpha.copy_(log_alpha.reshape(self.log_alpha.shape))

    def _by_network(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Return the optimizer states of a state, by name of the network."""
        state = {name.removesuffix("_optimizer"): s for name, s in state_dict.items()}
        names = [f"q{i + 1}" for i in range(self.agent.n_critics)]
        networks = {network.name for step in self.steps.values() for network in step.networks}
        expected = (networks - {"q"}) | set(names)
        given = {name for name in state if name != "log_alpha"}
        if expected - given or given - expected - {"alpha"}:
            raise ValueError(
                f"the saved optimizers must be those of this algorithm, {sorted(expected)}, got "
                f"{sorted(given)}. Use the same number of critics and the same fixed_alpha."
            )
        if self.agent.n_joined is not None:
            state["q"] = join_members([state.pop(name) for name in names])
        return state


def prob_of(action: Any) -> torch.Tensor | None:
    """Return the probabilities [.., C] of the enumerated choices of a ``Draw``, or ``None``."""
    return action.prob if isinstance(action, Draw) else None


def append_statistics(
    opt_info: Any, numbers: dict[str, torch.Tensor], arrays: dict[str, torch.Tensor]
) -> None:
    """Append scalars, and a few values of each array, to the lists of an ``OptInfo`` by field."""
    scalars = torch.stack([x.detach() for x in numbers.values()]).tolist()  # one GPU sync
    for name, number in zip(numbers, scalars, strict=True):
        getattr(opt_info, name).append(number)
    for name, values in arrays.items():
        getattr(opt_info, name).extend(subsample(values))
