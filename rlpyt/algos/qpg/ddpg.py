"""Deep deterministic policy gradient (Lillicrap et al. 2016)."""

import inspect
import warnings
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Adam, Optimizer

from rlpyt.algos.qpg.base import QpgAlgo, frozen
from rlpyt.algos.qpg.losses import check_values, min_over_critics, squared_errors
from rlpyt.algos.replay import SamplesToBuffer  # noqa: F401 (rlpyt's place for it)
from rlpyt.utils.checks import Scheduled, fixed, rate, setting
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.old_names import AssignableProperty
from rlpyt.utils.tensor import valid_mean

OptInfo = namedtuple("OptInfo", ["muLoss", "qLoss", "muGradNorm", "qGradNorm"])


@dataclass(eq=False)
class DDPG(QpgAlgo):
    """Deterministic policy gradients with one critic and target networks."""

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    batch_size: int = setting(64, ge=1, doc="transitions per update; 64-256")
    min_steps_learn: int = fixed(int(1e4), ge=0, doc="environment steps before learning begins")
    replay_size: int = fixed(int(1e6), ge=1, doc="transitions kept")
    replay_ratio: float = setting(64, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_tau: float = setting(0.01, gt=0, le=1, doc="weight of new parameters in targets")
    target_update_interval: int = setting(1, ge=1, doc="updates between target updates")
    policy_update_interval: int = setting(1, ge=1, doc="critic updates per policy update")
    learning_rate: Scheduled[float] = rate(1e-4, doc="learning rate of the policy; 1e-4 to 1e-3")
    q_learning_rate: Scheduled[float] = rate(1e-3, doc="learning rate of the critic; 1e-3")
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc='optimizer arguments: {"eps": 1e-5}')
    initial_optim_state_dict: Any = fixed(None, doc="initial states of the optimizers")
    clip_grad_norm: float | None = setting(1e8, gt=0, doc="largest gradient norm; None: no limit")
    q_target_clip: float = setting(1e6, gt=0, doc="largest absolute value of a target")
    n_step_return: int = fixed(1, ge=1, doc="rewards in a target before it bootstraps")
    updates_per_sync: int = fixed(1, ge=1, doc="(async) updates per transfer of parameters")
    bootstrap_timelimit: bool = fixed(True, doc="bootstrap at time limits")
    ReplayBufferCls: Any = fixed(None, doc="custom replay class; None: chosen from the settings")
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

    requires: ClassVar[str] = (
        "a deterministic policy and its critic"  # outputs that the agent must have
    )
    ready_agents: ClassVar[str] = "DdpgAgent"  # agents that have them
    OptInfo: ClassVar[Any] = OptInfo
    recorded_fields: ClassVar[tuple[str, ...]] = ("q", "tdAbsErr")
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)

    mu_optimizer: ClassVar[Any] = AssignableProperty(lambda algo: algo.steps["mu"].optimizer)
    q_optimizer: ClassVar[Any] = AssignableProperty(lambda algo: algo.steps["q"].optimizer)

    _q_mask: tuple[None, ...] = ()  # argument ``valid`` of overrides that require it
    _mu_mask: tuple[None, ...] = ()

    def _add_steps(self) -> None:
        self._q_mask, self._mu_mask = map(_required_mask, (self.q_loss, self.mu_loss))
        agent = self.agent
        mu = self.network("mu", agent.model, agent.mu_parameters())
        q = self.network("q", agent.q_model, agent.q_parameters(), rate="q_learning_rate")
        self.add_step("mu", [mu])
        self.add_step("q", [q])

    def update(self, batch: NamedArrayTuple) -> tuple[tuple[Any, ...], torch.Tensor]:
        """Take a step with the critic, then with the policy; see `ReplayAlgo.update`."""
        steps = self.steps_of(batch, ["q_model"], ["target_q_model", "target_model"])
        q_loss = self.compiled(self.q_loss)(steps, *self._q_mask)
        td_abs_errors = self._td_abs_errors()
        q_grad_norm = self.steps["q"](q_loss)
        mu_loss = mu_grad_norm = None
        if not self.skips_policy:
            with frozen(self.agent.q_model):
                steps = self.steps_of(batch, ["model", "q_model"])
                mu_loss = self.compiled(self.mu_loss)(steps, *self._mu_mask)
            mu_grad_norm = self.steps["mu"](mu_loss)
        return (mu_loss, q_loss, mu_grad_norm, q_grad_norm), td_abs_errors

    def mu_loss(self, samples: NamedArrayTuple, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the policy loss -E[Q(s, mu(s))]. The caller must freeze the critic.

        Args:
            samples: batch [B] from the replay.
            valid: [B], mask of the samples that count; ``None``: all.
        """
        q = self.forward(self.agent.q_at_mu, *samples.agent_inputs)
        return -valid_mean(q, valid)

    def q_loss(self, samples: NamedArrayTuple, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sum of the critics' losses, E[w (y - Q(s, a))^2 / 2].

            y = R + g min_i Q'_i(s', mu'(s')), within +- q_target_clip

        with importance weights w if the replay is prioritized. Arguments are those of ``mu_loss``.

        A subclass that does not call this method must record ``tdAbsErr``, the absolute TD errors
        [B], if the replay is prioritized.
        """
        with torch.no_grad():
            next_q = self.forward(self.agent.target_q_at_mu, *samples.target_inputs)
            check_values(next_q, samples.return_)
            next_q = min_over_critics(next_q, samples.return_)
            y = samples.return_ + self.bootstrap_discount(samples) * next_q
            y = y.clamp(-self.q_target_clip, self.q_target_clip)
        q = self.forward(self.agent.q, *samples.agent_inputs, samples.action)
        losses, td_abs_errors = squared_errors(q, y)
        self.record(q=q, tdAbsErr=td_abs_errors)
        losses = losses.reshape(-1, *y.shape).sum(0)
        return valid_mean(self.weighted(losses, samples), valid)

    def _td_abs_errors(self) -> Any:
        """Return the absolute TD errors [B] that ``q_loss`` has recorded, for priorities."""
        errors = self.recorded.current.get("tdAbsErr")
        if errors is None and self.prioritized_replay:
            raise ValueError(
                f"prioritized_replay must be False for {type(self).__name__}, whose q_loss does "
                "not call that of DDPG. Call self.record(tdAbsErr=...) in q_loss, with the "
                "absolute TD errors [B]."
            )
        return errors


def _required_mask(loss: Callable[..., Any]) -> tuple[None, ...]:
    """Return the argument ``valid`` for a loss that requires it, as in rlpyt (2019); warn then."""
    valid = inspect.signature(loss).parameters.get("valid")
    if valid is None or valid.default is not inspect.Parameter.empty:
        return ()
    warnings.warn(
        f"{loss.__qualname__} gets valid=None, as in rlpyt (2019): all samples count. Give it a "
        "default, valid=None."
    )
    return (None,)
