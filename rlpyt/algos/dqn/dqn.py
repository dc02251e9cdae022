"""Deep Q-learning (Mnih et al. 2015), with double, n-step and prioritized variants."""

from collections import namedtuple
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Adam, Optimizer

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.dqn.losses import greedy_value, huber, scaled_log_policy, soft_value
from rlpyt.algos.optim import is_optimizer
from rlpyt.algos.replay import ReplayAlgo, SamplesToBuffer  # noqa: F401 (rlpyt's place for it)
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.checks import Scheduled, fixed, rate, setting
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import select_at_indexes

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr"])


@dataclass(eq=False)
class DQN(ReplayAlgo):
    """Deep Q-learning from a replay, with a target network that is updated at intervals.

    Agents with memory learn from replayed sequences of ``warmup_T + batch_T`` steps, which start
    from recorded states; the first ``warmup_T`` steps only update the states ("burn-in").
    """

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    batch_size: int = setting(32, ge=1, doc="transitions per update, without memory; 32-256")
    min_steps_learn: int = fixed(int(5e4), ge=0, doc="environment steps before learning begins")
    delta_clip: float | None = setting(1.0, gt=0, doc="Huber loss threshold; None: squared errors")
    replay_size: int = fixed(int(1e6), ge=1, doc="transitions kept")
    replay_ratio: float = setting(8, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_tau: float = setting(1, gt=0, le=1, doc="weight of new parameters in targets")
    target_update_interval: int = setting(312, ge=1, doc="updates between target updates")
    n_step_return: int = fixed(1, ge=1, doc="rewards in a target before it bootstraps; 1-5")
    learning_rate: Scheduled[float] = rate(2.5e-4, doc="usually 5e-5 to 1e-3")
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(
        None, doc="optimizer arguments; Adam has eps=0.01 / batch_size"
    )
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    clip_grad_norm: float | None = setting(10.0, gt=0, doc="largest gradient norm; None: no limit")
    eps_steps: int | None = fixed(
        int(1e6),
        ge=1,
        doc="environment step at which epsilon is final, falling from min_steps_learn on; "
        "None: the agent decides",
    )
    double_dqn: bool = setting(False, doc="select target actions by the online network")
    prioritized_replay: bool = fixed(False, doc="draw transitions by TD error")
    pri_alpha: float = fixed(0.6, ge=0, finite=True, doc="exponent of priorities; 0: uniform")
    pri_beta_init: float = setting(0.4, ge=0, le=1, doc="initial exponent of importance weights")
    pri_beta_final: float = setting(1.0, ge=0, le=1, doc="final exponent of importance weights")
    pri_beta_steps: int | None = fixed(
        int(50e6), ge=1, doc="steps until pri_beta_final; None: whole run"
    )
    default_priority: float | None = fixed(
        None, gt=0, finite=True, doc="priority of new samples; None: the largest so far"
    )
    ReplayBufferCls: Any = fixed(None, doc="custom replay class; None: chosen from the settings")
    updates_per_sync: int = fixed(1, ge=1, doc="(async) updates per transfer of parameters")
    save_replay: bool | None = setting(None, doc="keep replay in checkpoints; None: below 200 MB")
    mixed_precision: bool = setting(False, doc="forward passes of training in bfloat16")
    compile_loss: bool = fixed(False, doc='old name of compile="loss"')
    compile: Literal["loss", "update"] | None = fixed(
        None, doc="part compiled by torch.compile, if there is a C++ compiler"
    )
    _: KW_ONLY
    munchausen: float | None = fixed(
        None, ge=0, le=1, doc="alpha, weight of the log-policy in rewards; 0.9; None: DQN"
    )
    munchausen_tau: float = fixed(
        0.03, gt=0, finite=True, doc="(munchausen) temperature of the policy softmax(Q / tau)"
    )
    munchausen_clip: float = fixed(
        -1.0, le=0, doc="(munchausen) l0, least log-policy, times tau, that counts"
    )

    requires: ClassVar[str] = "action values"  # outputs that the agent must provide
    ready_agents: ClassVar[str] = "DqnMlpAgent or AtariDqnAgent"  # agents that provide them
    learns_sequences: ClassVar[bool] = True
    takes_munchausen: ClassVar[bool] = True  # False if the loss has other targets
    OptInfo: ClassVar[Any] = OptInfo
    recorded_fields: ClassVar[tuple[str, ...]] = ("q",)
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)

    def __post_init__(self) -> None:
        super().__post_init__()
        # With sparse rewards, bright images and Adam's default epsilon, the first updates of a bias
        # can switch off all units of a layer permanently (observed on Pong).
        if is_optimizer(self.OptimCls, torch.optim.Adam, torch.optim.AdamW):
            self.optim_kwargs = {"eps": self.adam_eps, **(self.optim_kwargs or {})}

    @property
    def first_priority(self) -> float:
        """Return the priority of the first samples: by default the largest error of its loss."""
        return float(self.default_priority or self.delta_clip or 1)

    @property
    def adam_eps(self) -> float:
        """Return Adam's epsilon (Bellemare et al. 2017), scaled to the batch size."""
        return 0.01 / self.batch_size

    def check_parts(self, agent: BaseAgent) -> None:
        """Raise ValueError if the agent or a setting does not fit; see `ReplayAlgo`."""
        super().check_parts(agent)
        if self.munchausen is not None and not self.takes_munchausen:
            raise ValueError(
                f"munchausen must be None for {type(self).__name__}, got {self.munchausen}. Use "
                "DQN."
            )

    def _set_schedules(self) -> None:
        super()._set_schedules()
        # A function instead of a bound method, which cannot be sent to the replay writer.
        plain = self.munchausen is None
        self._target = DQN._greedy_target if plain else DQN._munchausen_target
        if self.eps_steps is not None:
            last = max(self.min_itr_learn, self.eps_steps // self.itr_steps)
            self.agent.set_epsilon_itr_min_max(self.min_itr_learn, last)

    def update(self, batch: NamedArrayTuple) -> tuple[tuple[Any, ...], torch.Tensor]:
        """Take one gradient step; see `ReplayAlgo.update`."""
        loss, *errors = self.compiled(self.loss)(batch)
        grad_norm = self.gradient_step(loss)
        return (loss.detach(), grad_norm, *errors), self.priorities(errors[-1], batch)

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the squared or Huber loss of the TD errors of a batch.

            d = R + g Q'(s', a*) - Q(s, a),    L = E[w huber(d)]

        with the best action a* of the target network, or of the online network ("double"), and
        importance weights w if the replay is prioritized. With ``munchausen`` (Vieillard et al.
        2020, eq. 2) and pi = softmax(Q' / tau), instead

            d = R + alpha [tau log pi(a|s)]_l0^0 + g sum_a' pi(a'|s') (Q' - tau log pi)(s', a')
                - Q(s, a)

        where "double" takes pi from the online network. Only the first of n rewards gets the bonus.

        Args:
            samples: batch of transitions [B] or sequences [T, B] from the replay.

        Returns:
            Loss (a scalar), and absolute TD errors, [B] or [batch_T, B], at most ``delta_clip``,
            without gradient; NaN in steps that do not count.
        """
        steps = self.replayed(samples)
        values = steps.now(self.agent)
        q = select_at_indexes(steps.action, values)
        with torch.no_grad():
            target = self._target(self, steps, values)
        self.record(q=only_valid(q, steps.valid))
        delta = target - q
        loss = self.weighted_mean(huber(delta, self.delta_clip), samples, steps.valid)
        return loss, only_valid(self.clip(delta.detach().abs()), steps.valid)

    def _greedy_target(self, steps: Any, values: torch.Tensor) -> torch.Tensor:
        """Return the targets of replayed steps, from the value of the best next action."""
        target_q = steps.next(self.agent.target)
        selecting_q = steps.next.shared(self.agent) if self.double_dqn else None
        next_value = greedy_value(target_q, selecting_q, steps.next_mask)
        return self.target_of(steps.return_, steps.discount_n, next_value)

    def _munchausen_target(self, steps: Any, values: torch.Tensor) -> torch.Tensor:
        """Return the targets of Munchausen DQN; ``values`` are those of the online network."""
        tau, now = self.munchausen_tau, steps.now
        target_q = steps.next(self.agent.target)
        if self.double_dqn:
            next_q, now_q = steps.next.shared(self.agent), values
        else:
            next_q, now_q = target_q, now.shared(self.agent.target)
        next_policy = scaled_log_policy(next_q, tau, steps.next_mask)
        policy = scaled_log_policy(now_q, tau, now.rows(action_mask_of(now.inputs.observation)))
        bonus = select_at_indexes(steps.action, policy).clamp(min=self.munchausen_clip)
        return self.target_of(
            steps.return_ + self.munchausen * bonus.clamp(max=0),  # type: ignore[operator]
            steps.discount_n,
            soft_value(target_q, next_policy, tau),
        )

    def target_of(
        self, return_: torch.Tensor, discount_n: torch.Tensor, next_value: torch.Tensor
    ) -> torch.Tensor:
        """Return the targets R + g next_value."""
        return return_ + discount_n * next_value

    def clip(self, td_abs: torch.Tensor) -> torch.Tensor:
        """Limit absolute TD errors to ``delta_clip``."""
        return td_abs if self.delta_clip is None else td_abs.clamp(max=self.delta_clip)
