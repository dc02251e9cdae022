"""Deep deterministic policy gradient (Lillicrap et al. 2016)."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rlpyt.algos.gradient import check_learning_rate
from rlpyt.algos.qpg.base import QpgAlgo, frozen
from rlpyt.algos.qpg.losses import check_values, least, squared_errors
from rlpyt.algos.replaying import SamplesToBuffer  # noqa: F401 (rlpyt's place for it)
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.tensor import valid_mean

OptInfo = namedtuple("OptInfo", ["muLoss", "qLoss", "muGradNorm", "qGradNorm"])


@dataclass(eq=False)
class DDPG(QpgAlgo):
    """A deterministic policy that climbs its critic, both followed slowly by targets."""

    discount: float = 0.99  # gamma, per environment step
    batch_size: int = 64  # transitions per update; 64-256
    min_steps_learn: int = int(1e4)  # environment steps before learning begins
    replay_size: int = int(1e6)  # transitions kept
    replay_ratio: float = 64  # samples trained on per sample collected; batch_size: 1 update a step
    target_update_tau: float = 0.01  # share of the networks in the targets at each update
    target_update_interval: int = 1  # updates between those of the targets
    policy_update_interval: int = 1  # updates of the critic for one of the policy
    learning_rate: float = 1e-4  # of the policy's optimizer; 1e-4 to 1e-3
    q_learning_rate: float = 1e-3  # of the critic's
    OptimCls: type[torch.optim.Optimizer] = torch.optim.Adam  # of torch.optim: RMSprop, SGD, ...
    optim_kwargs: dict[str, Any] | None = None  # the optimizers' further arguments: {"eps": 1e-5}
    initial_optim_state_dict: Any = None  # states of the optimizers to start from
    clip_grad_norm: float | None = 1e8  # largest gradient norm, None: no limit
    q_target_clip: float = 1e6  # largest target, in absolute value
    n_step_return: int = 1  # rewards in a target before it bootstraps
    updates_per_sync: int = 1  # updates between hand-overs of parameters, in asynchronous runs
    bootstrap_timelimit: bool = True  # else what a time limit ends counts as ended
    ReplayBufferCls: Any = None  # to use in place of the one these settings ask for
    prioritized_replay: bool = False  # draw transitions by their TD error
    pri_alpha: float = 0.6  # how much priorities matter; 0 is uniform
    pri_beta_init: float = 0.4  # how much importance weights correct, at first
    pri_beta_final: float = 1.0  # and in the end
    pri_beta_steps: int | None = None  # environment steps until then; None: the whole run
    default_priority: float | None = None  # of new samples; None: the greatest so far, at first 1
    save_replay: bool | None = None  # keep the replay in checkpoints; None: if below 200 MB
    mixed_precision: bool = False  # forward passes of training in bfloat16
    compile_loss: bool = False  # compile the losses with torch.compile (needs a C++ compiler)

    learns: ClassVar[str] = "a deterministic policy and its critic"  # what the agent must give
    ready_agents: ClassVar[str] = "DdpgAgent"  # that gives it
    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields

    def __post_init__(self) -> None:
        super().__post_init__()
        check_learning_rate("q_learning_rate", self.q_learning_rate)
        check_range("q_target_clip", self.q_target_clip, 0, open_low=True)
        self.policy_update_interval = whole_number(
            "policy_update_interval", self.policy_update_interval, 1
        )

    def _add_steps(self) -> None:
        agent = self.agent
        mu = self.network("mu", agent.model, agent.mu_parameters())
        q = self.network("q", agent.q_model, agent.q_parameters())
        self.add_step("mu", [mu], self.learning_rate)
        self.add_step("q", [q], self.q_learning_rate)

    def _opt_info(self, columns: tuple[list[Any], ...]) -> Any:
        return OptInfo(*columns)

    def update(self, itr: int) -> tuple[Any, ...]:
        """Move the critic, in turn the policy, then the targets; values for ``OptInfo``."""
        batch = self.replay_buffer.sample_batch(self.batch_size)
        samples = self.on_device(batch)
        q_loss, td_abs_errors = self.compiled(self._q_loss)(samples)
        q_grad_norm = self.descend("q", {"q": q_loss}, itr)["q"]
        self._prioritize(batch, td_abs_errors)
        mu: tuple[list[float], list[float]] = ([], [])
        if not self.policy_rests:
            with frozen(self.agent.q_model):
                mu_loss = self.compiled(self.mu_loss)(samples)
            mu_grad_norm = self.descend("mu", {"mu": mu_loss}, itr)["mu"]
            mu = ([mu_loss.item()], [mu_grad_norm.item()])
        self.count_update()
        return mu[0], [q_loss.item()], mu[1], [q_grad_norm.item()]

    def mu_loss(self, samples: Any, valid: torch.Tensor | None = None) -> torch.Tensor:
        """The policy's loss, -E[Q(s, mu(s))]; to be called with a frozen critic.

        Args:
            samples: from the replay, [B].
            valid: [B], which samples count; ``None``: all.
        """
        q = self.forward(self.agent.q_at_mu, *samples.agent_inputs)
        return -valid_mean(q, valid)

    def q_loss(self, samples: Any, valid: torch.Tensor | None = None) -> torch.Tensor:
        """The critics' loss, E[w (y - Q(s, a))^2 / 2], summed over them.

            y = R + g min_i Q'_i(s', mu'(s')), within +- ``q_target_clip``

        with importance weights w where replay is prioritised.

        Args:
            samples: from the replay, [B].
            valid: [B], which samples count; ``None``: all.
        """
        return self._q_loss(samples, valid)[0]

    def _q_loss(
        self, samples: Any, valid: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same, and absolute TD errors [B] without gradient."""
        with torch.no_grad():
            next_q = self.forward(self.agent.target_q_at_mu, *samples.target_inputs)
            check_values(next_q, samples.return_)
            next_q = least(next_q, samples.return_)
            y = samples.return_ + self.bootstrap_discount(samples) * next_q
            y = y.clamp(-self.q_target_clip, self.q_target_clip)
        q = self.forward(self.agent.q, *samples.agent_inputs, samples.action)
        losses, td_abs_errors = squared_errors(q, y)
        of_all = losses.reshape(-1, *y.shape).sum(0)
        return valid_mean(self.weighted(of_all, samples), valid), td_abs_errors
