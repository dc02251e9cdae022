"""Deep Q-learning (Mnih et al. 2015): double, n-step, prioritised; dueling by the agent's model."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rlpyt.algos.dqn.losses import greedy_value, huber
from rlpyt.algos.off_policy import OffPolicyAlgo
from rlpyt.algos.optim import is_optimizer
from rlpyt.algos.replaying import SamplesToBuffer, thinned  # noqa: F401 (rlpyt's place for it)
from rlpyt.errors import NonFiniteError
from rlpyt.utils.checks import check_range, true_or_false, whole_number
from rlpyt.utils.tensor import select_at_indexes

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr"])


@dataclass(eq=False)
class DQN(OffPolicyAlgo):
    """Q-learning from replay, towards a target network that follows at intervals."""

    discount: float = 0.99  # gamma, per environment step
    batch_size: int = 32  # transitions per update; 32-256
    min_steps_learn: int = int(5e4)  # environment steps before learning begins
    delta_clip: float | None = 1.0  # TD errors beyond it count linearly (Huber); None: squared
    replay_size: int = int(1e6)  # transitions kept
    replay_ratio: float = 8  # samples trained on per sample collected; Mnih et al.: 8
    target_update_tau: float = 1  # share of the model in the target at each update; 1 copies
    target_update_interval: int = 312  # updates between those of the target network
    n_step_return: int = 1  # rewards in a target before it bootstraps; Rainbow: 3
    learning_rate: float = 2.5e-4  # of the optimizer; 5e-5 to 1e-3
    OptimCls: type[torch.optim.Optimizer] = torch.optim.Adam  # of torch.optim: RMSprop, SGD, ...
    optim_kwargs: dict[str, Any] | None = None  # the optimizer's; Adam's eps: 0.01 / batch_size
    initial_optim_state_dict: Any = None  # state of the optimizer to start from
    clip_grad_norm: float | None = 10.0  # largest gradient norm, None: no limit
    eps_steps: int | None = int(1e6)  # environment steps until epsilon is final; None: the agent's
    double_dqn: bool = False  # the online network selects the target's action
    prioritized_replay: bool = False  # draw transitions by their TD error
    pri_alpha: float = 0.6  # how much priorities matter; 0 is uniform
    pri_beta_init: float = 0.4  # how much importance weights correct, at first
    pri_beta_final: float = 1.0  # and in the end
    pri_beta_steps: int | None = int(50e6)  # environment steps until then; None: the whole run
    default_priority: float | None = None  # of new samples; None: the greatest so far, at first 1
    ReplayBufferCls: Any = None  # to use in place of the one these settings ask for
    updates_per_sync: int = 1  # updates between hand-overs of parameters, in asynchronous runs
    save_replay: bool | None = None  # keep the replay in checkpoints; None: if below 200 MB
    mixed_precision: bool = False  # forward passes of training in bfloat16
    compile_loss: bool = False  # compile the loss with torch.compile (needs a C++ compiler)

    learns: ClassVar[str] = "action values"  # what the agent must give
    ready_agents: ClassVar[str] = "DqnMlpAgent or AtariDqnAgent"  # that give it
    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields

    def __post_init__(self) -> None:
        super().__post_init__()
        self.double_dqn = true_or_false("double_dqn", self.double_dqn)
        if self.eps_steps is not None:
            self.eps_steps = whole_number("eps_steps", self.eps_steps, 1)
        if self.delta_clip is not None:
            check_range("delta_clip", self.delta_clip, 0, open_low=True)
        self.new_priority = float(self.default_priority or self.delta_clip or 1)

    def optimizer_arguments(self) -> dict[str, Any]:
        """``optim_kwargs``; unless they have one, Adam gets a large epsilon.

        Rewards are rare and images bright: with Adam's own, the first updates of a bias can push
        all units of a layer below zero for good (seen on Pong).
        """
        arguments = super().optimizer_arguments()
        if is_optimizer(self.OptimCls, torch.optim.Adam, torch.optim.AdamW):
            arguments.setdefault("eps", self.adam_eps)
        return arguments

    @property
    def adam_eps(self) -> float:
        """As in Bellemare et al. 2017, for any size of batches."""
        return 0.01 / self.batch_size

    def _set_schedules(self) -> None:
        super()._set_schedules()
        if self.eps_steps is not None:
            last = max(self.min_itr_learn, self.eps_steps // self.itr_steps)
            self.agent.set_epsilon_itr_min_max(self.min_itr_learn, last)

    def _opt_info(self, columns: tuple[list[Any], ...]) -> Any:
        return OptInfo(*columns)

    def update(self, itr: int) -> tuple[Any, ...]:
        """Take one gradient step on a batch; returns values for each field of ``OptInfo``."""
        batch = self.replay_buffer.sample_batch(self.batch_size)
        loss, td_abs_errors = self.compiled(self.loss)(batch)
        grad_norm = self._descend(loss, itr)
        self._prioritize(batch, td_abs_errors)
        return [loss.item()], [grad_norm.item()], thinned(td_abs_errors)

    def _descend(self, loss: torch.Tensor, itr: int) -> torch.Tensor:
        """Step, count, and let the target network follow when it is due."""
        try:
            grad_norm = self.gradient_step(loss)
        except NonFiniteError as error:
            raise self.stop_if_not_finite(itr, error) from None
        self.count_update()
        return grad_norm

    def loss(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared or Huber loss of the TD errors of a batch [B].

            d = R + g Q'(s', a*) - Q(s, a),    L = E[w huber(d)]

        with the best action a* by the target network, or by the online one ("double"), and
        importance weights w where replay is prioritised.

        Args:
            samples: from the replay.

        Returns:
            loss, a scalar; absolute TD errors [B], at most ``delta_clip``, without gradient.
        """
        samples = self.on_device(samples)
        q = select_at_indexes(samples.action, self.forward(self.agent, *samples.agent_inputs))
        with torch.no_grad():
            inputs = samples.target_inputs
            target_q = self.forward(self.agent.target, *inputs)
            selecting_q = self.forward(self.agent, *inputs) if self.double_dqn else None
            next_value = greedy_value(target_q, selecting_q)
            target = samples.return_ + self.bootstrap_discount(samples) * next_value
        delta = target - q
        loss = self.weighted_mean(huber(delta, self.delta_clip), samples)
        td_abs_errors = delta.detach().abs()
        if self.delta_clip is not None:
            td_abs_errors = td_abs_errors.clamp(max=self.delta_clip)
        return loss, td_abs_errors
