"""R2D1: recurrent DQN from replayed sequences (R2D2 of Kapturowski et al. 2019, on one machine)."""

import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.optim import Adam, Optimizer

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.arguments import own_fields_first
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import (
    greedy_value,
    inv_value_scale,
    sequence_priority,
    value_scale,
)
from rlpyt.algos.replay import PRIORITY_EPS, SEQUENCE_SIZE, SamplesToBuffer
from rlpyt.algos.replay_choice import SEQUENCES as SEQUENCES  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.algos.sequences import set_final_values as set_final_values  # noqa: PLC0414
from rlpyt.envs.base import BatchSpec
from rlpyt.replays.batch import PrioritiesSamplesToBuffer
from rlpyt.replays.targets import n_step_targets
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.checks import Scheduled, check_settings, fixed, rate, setting
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, namedarraytuple
from rlpyt.utils.tensor import select_at_indexes

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr", "priority"])
SamplesToBufferRnn = namedarraytuple(
    "SamplesToBufferRnn", (*SamplesToBuffer._fields, "prev_rnn_state")
)


@own_fields_first
@dataclass(eq=False)
class R2D1(DQN):
    """DQN for recurrent agents, trained on sequences that start from a recorded state.

    The first steps of a sequence only update this state ("burn-in"). Episodes may end and begin
    anywhere in a sequence; the state is cleared there as in acting.
    """

    discount: float = fixed(0.997, ge=0, le=1, doc="gamma, per environment step")
    batch_T: int = fixed(80, ge=1, doc="trained steps of a sequence")
    batch_B: int = setting(64, ge=1, doc="sequences per update; 16-64")
    warmup_T: int = fixed(40, ge=0, doc="burn-in steps before the trained steps; 0-40")
    store_rnn_state_interval: int = fixed(40, ge=0, doc="steps between stored states; 1-40")
    min_steps_learn: int = fixed(int(1e5), ge=0, doc="environment steps before learning begins")
    delta_clip: float | None = setting(None, gt=0, doc="Huber loss threshold; None: squared errors")
    replay_size: int = fixed(int(1e6), ge=1, doc="transitions kept")
    replay_ratio: float = setting(1, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_interval: int = setting(2500, ge=1, doc="updates between target updates")
    n_step_return: int = fixed(5, ge=1, doc="rewards in a target before it bootstraps")
    learning_rate: Scheduled[float] = rate(1e-4, doc="usually 1e-4")
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc="optimizer arguments; Adam has eps=1e-3")
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    clip_grad_norm: float | None = setting(80.0, gt=0, doc="gradient norm limit or None; 40-80")
    eps_steps: int | None = fixed(
        int(1e6),
        ge=1,
        doc="environment step at which epsilon is final, falling from min_steps_learn on; "
        "None: the agent decides",
    )
    double_dqn: bool = setting(True, doc="select target actions by the online network")
    prioritized_replay: bool = fixed(True, doc="draw sequences by TD error")
    pri_alpha: float = fixed(0.6, ge=0, finite=True, doc="exponent of priorities; 0: uniform")
    pri_beta_init: float = setting(0.9, ge=0, le=1, doc="initial exponent of importance weights")
    pri_beta_final: float = setting(0.9, ge=0, le=1, doc="final exponent of importance weights")
    pri_beta_steps: int | None = fixed(
        int(50e6), ge=1, doc="steps until pri_beta_final; None: whole run"
    )
    pri_eta: float = setting(0.9, ge=0, le=1, doc="weight of the largest TD error against the mean")
    default_priority: float | None = fixed(
        None, gt=0, finite=True, doc="priority of new samples; None: the largest so far"
    )
    input_priorities: bool = fixed(True, doc="compute priorities of new samples")
    input_priority_shift: int | None = fixed(
        None, ge=0, doc="stored states by which priorities are shifted; None: those of the burn-in"
    )
    value_scale_eps: float = setting(1e-3, ge=0, finite=True, doc="epsilon of the value scale h(x)")
    ReplayBufferCls: Any = fixed(None, doc="custom replay class; None: chosen from the settings")
    updates_per_sync: int = fixed(1, ge=1, doc="(async) updates per transfer of parameters")
    batch_size: int = field(init=False, default=0)  # follows from the lengths above
    compile_loss: bool = field(init=False, default=False)  # shapes differ from batch to batch
    compile: None = field(init=False, default=None)

    takes_munchausen: ClassVar[bool] = False
    ready_agents: ClassVar[str] = "R2d1LstmAgent or AtariR2d1Agent"
    OptInfo: ClassVar[Any] = OptInfo
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *DQN.recorded_fields)
    batch_size_name: ClassVar[str] = SEQUENCE_SIZE

    def __post_init__(self) -> None:
        check_settings(self, self.schedules)
        self.batch_size = (self.batch_T + self.warmup_T) * self.batch_B
        super().__post_init__()
        if self.input_priority_shift is None:
            self.input_priority_shift = self.warmup_T // max(1, self.store_rnn_state_interval)

    @property
    def adam_eps(self) -> float:
        """Return Adam's epsilon, as in Kapturowski et al. 2019."""
        return 1e-3

    def check_parts(self, agent: BaseAgent) -> None:
        """Check that the agent is recurrent, has the required outputs, and a window that fits.

        Raises:
            ValueError: it does not.
        """
        super().check_parts(agent)
        if not agent.recurrent:
            raise ValueError(
                f"agent must be recurrent for {type(self).__name__}, got {type(agent).__name__}. "
                f"Use {self.ready_agents}, or DQN."
            )

    # Storing.

    def replay_arguments(self, batch_spec: BatchSpec) -> dict[str, Any]:
        """Return the replay's arguments, with those of the priorities of new samples."""
        kwargs = super().replay_arguments(batch_spec)
        if self.prioritized_replay:
            self._warn_if_batches_are_short(batch_spec.T)
            kwargs |= dict(
                input_priorities=self.input_priorities,
                input_priority_shift=self.input_priority_shift,
            )
        return kwargs

    def _warn_if_batches_are_short(self, T: int) -> None:
        n, interval = self.n_step_return, self.store_rnn_state_interval
        too_long = [f"n_step_return={n}"] if n >= T else []
        too_long += [f"store_rnn_state_interval={interval}"] if interval > T else []
        if self.input_priorities and too_long:
            warnings.warn(
                f"input_priorities=True has little effect: sampler batches of batch_T={T} steps "
                f"are too short for {' and '.join(too_long)}: most new sequences get "
                f"default_priority. Sample with batch_T={max(n + 1, interval)} or more, or set "
                "input_priorities=False."
            )

    def examples_to_buffer(self, examples: AttrDict) -> Any:
        """Return an example of the data stored for each step, with the states of the memory."""
        return self._with_states(super().examples_to_buffer(examples), examples["agent_info"])

    def _with_states(self, to_buffer: Any, agent_info: Any) -> Any:
        if not self.stores_states:
            return to_buffer
        return SamplesToBufferRnn(*to_buffer, prev_rnn_state=agent_info.prev_rnn_state)

    def samples_to_buffer(self, samples: NamedArrayTuple) -> Any:
        """Return the data of a batch [T, B] to store, with states and priorities."""
        to_buffer = super().samples_to_buffer(samples)
        to_buffer = self._with_states(to_buffer, samples.agent.agent_info)
        if self.prioritized_replay and self.input_priorities:
            priorities = self.compute_input_priorities(samples)
            return PrioritiesSamplesToBuffer(priorities=priorities, samples=to_buffer)
        return to_buffer

    def compute_input_priorities(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return priorities of new samples, from recorded action values.

        TD errors are those of the loss, with the recorded values of the online network in place of
        the target network's. Steps with unknown target do not count: those whose window leaves the
        batch or contains a truncation. Sequences without known targets get the default priority.

        Args:
            samples: batch [T, B] of the sampler.

        Returns:
            Priorities [B], float32.
        """
        env, n = samples.env, self.n_step_return
        T, B = env.reward.shape
        default = torch.full((B,), self.new_priority, dtype=torch.float32)
        if n > T:
            return default
        q = samples.agent.agent_info.q
        timeout = getattr(env.env_info, "timeout", torch.zeros_like(env.done))
        done = env.done.bool()
        truncated = (timeout.bool() & done).numpy()
        targets = n_step_targets(env.reward.numpy(), done.numpy(), truncated, n, self.discount)
        rows = T - n + 1
        next_value = torch.zeros(rows, B, dtype=torch.float32)
        mask = action_mask_of(samples.env.observation[n:])
        next_value[: T - n] = greedy_value(q[n:], mask=mask)
        known = torch.from_numpy(targets.cut_after == 0)
        known[-1] &= torch.from_numpy(targets.done_n[-1])
        valid = self.valid_steps(env)
        if valid is not None:
            known &= valid[:rows] > 0
        target = self.target_of(
            torch.from_numpy(targets.return_), torch.from_numpy(targets.discount_n), next_value
        )
        td_abs = self.clip((target - select_at_indexes(samples.agent.action, q)[:rows]).abs())
        priorities = sequence_priority(td_abs, known, self.pri_eta) + PRIORITY_EPS
        return torch.where(known.any(0), priorities, default)

    # Training.

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Return the loss of the TD errors of sequences [T, B], after their burn-in.

            d_t = h(R_t + g h^-1(Q'(s_{t+n}, a*))) - Q(s_t, a_t),    L = E[w huber(d)]

        Args:
            samples: batch from the replay.

        Returns:
            Loss (a scalar); absolute TD errors [batch_T, B] and priorities [B] without gradient.
        """
        loss, td_abs_errors = super().loss(samples)
        return loss, td_abs_errors, self.priorities(td_abs_errors, samples)

    def target_of(
        self, return_: torch.Tensor, discount_n: torch.Tensor, next_value: torch.Tensor
    ) -> torch.Tensor:
        """Return the targets h(R + g h^-1(next_value))."""
        return self.value_scale(return_ + discount_n * self.inv_value_scale(next_value))

    def value_scale(self, x: torch.Tensor) -> torch.Tensor:
        """Compress values, so that rewards need no clipping."""
        return value_scale(x, self.value_scale_eps)

    def inv_value_scale(self, z: torch.Tensor) -> torch.Tensor:
        """Invert ``value_scale``."""
        return inv_value_scale(z, self.value_scale_eps)
