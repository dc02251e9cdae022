"""R2D1: recurrent DQN from replayed sequences (R2D2 of Kapturowski et al. 2019, on one machine)."""

import warnings
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.optim import Adam, Optimizer

from rlpyt.agents.base import AgentInputs, BaseAgent
from rlpyt.algos.arguments import own_fields_first
from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.losses import (
    greedy_value,
    huber,
    inv_value_scale,
    sequence_priority,
    value_scale,
)
from rlpyt.algos.episodes import (
    EpisodePacking,
    check_window,
    null_action_of,
    null_after_done,
    state_after,
)
from rlpyt.algos.replay import PRIORITY_EPS, SamplesToBuffer
from rlpyt.algos.replay_choice import Replays
from rlpyt.algos.returns import valid_from_done
from rlpyt.envs.base import BatchSpec
from rlpyt.replays.batch import PrioritiesSamplesToBuffer, ReplayBatch
from rlpyt.replays.sequence.frame import (
    AsyncPrioritizedSequenceReplayFrameBuffer,
    AsyncUniformSequenceReplayFrameBuffer,
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.prioritized import (
    AsyncPrioritizedSequenceReplayBuffer,
    PrioritizedSequenceReplayBuffer,
)
from rlpyt.replays.sequence.uniform import (
    AsyncUniformSequenceReplayBuffer,
    UniformSequenceReplayBuffer,
)
from rlpyt.replays.targets import n_step_targets
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import buffer_func, buffer_method
from rlpyt.utils.checks import check_settings, setting
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, namedarraytuple, with_fields
from rlpyt.utils.tensor import select_at_indexes, valid_mean

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr", "priority"])
SamplesToBufferRnn = namedarraytuple(
    "SamplesToBufferRnn", (*SamplesToBuffer._fields, "prev_rnn_state")
)

SEQUENCES: Replays = {
    (False, False): (UniformSequenceReplayFrameBuffer, UniformSequenceReplayBuffer),
    (True, False): (PrioritizedSequenceReplayFrameBuffer, PrioritizedSequenceReplayBuffer),
    (False, True): (AsyncUniformSequenceReplayFrameBuffer, AsyncUniformSequenceReplayBuffer),
    (True, True): (
        AsyncPrioritizedSequenceReplayFrameBuffer,
        AsyncPrioritizedSequenceReplayBuffer,
    ),
}


@own_fields_first
@dataclass(eq=False)
class R2D1(DQN):
    """DQN for recurrent agents, trained on sequences that start from a recorded state.

    The first steps of a sequence only update this state ("burn-in"). Episodes may end and begin
    anywhere in a sequence; the state is cleared there as in acting.
    """

    discount: float = setting(0.997, ge=0, le=1, doc="gamma, per environment step")
    batch_T: int = setting(80, ge=1, doc="trained steps of a sequence")
    batch_B: int = setting(64, ge=1, doc="sequences per update; 16-64")
    warmup_T: int = setting(40, ge=0, doc="burn-in steps before the trained steps; 0-40")
    store_rnn_state_interval: int = setting(40, ge=0, doc="steps between stored states; 1-40")
    min_steps_learn: int = setting(int(1e5), ge=0, doc="environment steps before learning begins")
    delta_clip: float | None = setting(None, gt=0, doc="Huber loss threshold; None: squared errors")
    replay_size: int = setting(int(1e6), ge=1, doc="transitions kept")
    replay_ratio: float = setting(1, gt=0, le=1e6, doc="samples trained on per sample collected")
    target_update_interval: int = setting(2500, ge=1, doc="updates between target updates")
    n_step_return: int = setting(5, ge=1, doc="rewards in a target before it bootstraps")
    learning_rate: float = setting(1e-4, gt=0, le=100, warn_above=1, doc="usually 1e-4")
    OptimCls: type[Optimizer] = setting(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = setting(
        None, doc="optimizer arguments; Adam has eps=1e-3"
    )
    initial_optim_state_dict: Any = setting(None, doc="initial state of the optimizer")
    clip_grad_norm: float | None = setting(80.0, gt=0, doc="gradient norm limit or None; 40-80")
    eps_steps: int | None = setting(
        int(1e6), ge=1, doc="environment steps until epsilon is final; None: the agent decides"
    )
    double_dqn: bool = setting(True, doc="select target actions by the online network")
    prioritized_replay: bool = setting(True, doc="draw sequences by TD error")
    pri_alpha: float = setting(0.6, ge=0, finite=True, doc="exponent of priorities; 0: uniform")
    pri_beta_init: float = setting(0.9, ge=0, le=1, doc="initial exponent of importance weights")
    pri_beta_final: float = setting(0.9, ge=0, le=1, doc="final exponent of importance weights")
    pri_beta_steps: int | None = setting(
        int(50e6), ge=1, doc="steps until pri_beta_final; None: whole run"
    )
    pri_eta: float = setting(0.9, ge=0, le=1, doc="weight of the largest TD error against the mean")
    default_priority: float | None = setting(
        None, gt=0, finite=True, doc="priority of new samples; None: the largest so far"
    )
    input_priorities: bool = setting(True, doc="compute priorities of new samples")
    input_priority_shift: int | None = setting(
        None, ge=0, doc="stored states by which priorities are shifted; None: those of the burn-in"
    )
    value_scale_eps: float = setting(1e-3, ge=0, finite=True, doc="epsilon of the value scale h(x)")
    ReplayBufferCls: Any = setting(None, doc="custom replay class; None: chosen from the settings")
    updates_per_sync: int = setting(1, ge=1, doc="(async) updates per transfer of parameters")
    batch_size: int = field(init=False, default=0)  # follows from the lengths above
    compile_loss: bool = field(init=False, default=False)  # shapes differ from batch to batch

    ready_agents: ClassVar[str] = "R2d1LstmAgent or AtariR2d1Agent"
    OptInfo: ClassVar[Any] = OptInfo
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *DQN.recorded_fields)
    batch_size_name: ClassVar[str] = "(batch_T + warmup_T) * batch_B"
    replays: ClassVar[Replays] = SEQUENCES

    def __post_init__(self) -> None:
        check_settings(self)
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
        self.check_agent(agent)
        if not agent.recurrent:
            raise ValueError(
                f"agent must be recurrent for {type(self).__name__}, got {type(agent).__name__}. "
                f"Use {self.ready_agents}, or DQN."
            )
        check_window(agent, self.warmup_T + self.batch_T, "warmup_T + batch_T")

    # Storing.

    def replay_arguments(self, batch_spec: BatchSpec) -> dict[str, Any]:
        """Return the replay's arguments, except the example.

        Raises:
            ValueError: the replay is too small for a sequence.
        """
        length = self.warmup_T + self.batch_T
        if self.replay_size // batch_spec.B <= length + self.n_step_return:
            raise ValueError(
                f"replay_size={self.replay_size:,} is too small: it holds "
                f"{self.replay_size // batch_spec.B} steps of {batch_spec.B} environments, but a "
                "sequence with its targets takes "
                f"{length} + {self.n_step_return}."
            )
        kwargs = super().replay_arguments(batch_spec)
        kwargs |= dict(rnn_state_interval=self.store_rnn_state_interval, batch_T=length)
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
        """Return an example of the data stored for each step, with the recurrent state."""
        example = super().examples_to_buffer(examples)
        if self.store_rnn_state_interval < 1:
            return example
        return with_fields(example, prev_rnn_state=examples["agent_info"].prev_rnn_state)

    def samples_to_buffer(self, samples: NamedArrayTuple) -> Any:
        """Return the data of a batch [T, B] to store, with states and priorities."""
        to_buffer = super().samples_to_buffer(samples)
        if self.store_rnn_state_interval > 0:
            state = samples.agent.agent_info.prev_rnn_state
            to_buffer = with_fields(to_buffer, prev_rnn_state=state)
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
        default = torch.full((B,), self.new_priority)
        if n > T:
            return default
        q = samples.agent.agent_info.q
        timeout = getattr(env.env_info, "timeout", torch.zeros_like(env.done))
        done = env.done.bool()
        truncated = (timeout.bool() & done).numpy()
        targets = n_step_targets(env.reward.numpy(), done.numpy(), truncated, n, self.discount)
        rows = T - n + 1
        next_value = torch.zeros(rows, B)
        mask = action_mask_of(samples.env.observation[n:])
        next_value[: T - n] = greedy_value(q[n:], mask=mask)
        known = torch.from_numpy(targets.cut_after == 0)
        known[-1] &= torch.from_numpy(targets.done_n[-1])
        if not self.mid_batch_reset:
            known &= valid_from_done(env.done)[:rows] > 0
        target = self.target_of(
            torch.from_numpy(targets.return_), torch.from_numpy(targets.discount_n), next_value
        )
        td_abs = self.clip((target - select_at_indexes(samples.agent.action, q)[:rows]).abs())
        priorities = sequence_priority(td_abs, known, self.pri_eta) + PRIORITY_EPS
        return torch.where(known.any(0), priorities, default)

    # Training.

    def draw_batch(self) -> Any:
        """Draw the sequences of one update from the replay."""
        return self.replay_buffer.sample_batch(self.batch_B)

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # type: ignore[override]
        """Return the loss of the TD errors of sequences [T, B], after their burn-in.

            d_t = h(R_t + g h^-1(Q'(s_{t+n}, a*))) - Q(s_t, a_t),    L = E[w huber(d)]

        Online and target network each update the recorded state on the burn-in rows, and then
        process the remaining rows and the n rows of the targets.

        Args:
            samples: batch from the replay.

        Returns:
            Loss (a scalar); absolute TD errors [batch_T, B] and priorities [B] without gradient.
        """
        wT, bT, n = self.warmup_T, self.batch_T, self.n_step_return
        done = samples.all_done
        inputs = AgentInputs(
            samples.all_observation,
            null_after_done(samples.all_action, done, null_action_of(self.agent)),
            null_after_done(samples.all_reward, done),
        )
        online_state, target_state = self.warm_up(samples, inputs[:wT])
        valid, ends = self.valid_and_ends(samples)
        tails, at = tails_after_burn_in(samples, wT)
        packing = EpisodePacking(ends, at, self.agent.takes_starts)
        packed = packing.pack(inputs[wT:], tails)
        q_packed, _ = self.forward(self.agent, *packed, packing.pack_state(online_state))
        q = packing.unpack(q_packed)[:bT]
        with torch.no_grad():
            state = packing.pack_state(target_state)
            target_q, _ = self.forward(self.agent.target, *packed, state)
            mask = action_mask_of(packed.observation)
            value = greedy_value(target_q, q_packed if self.double_dqn else None, mask)
            next_value = packing.unpack(value)[n:].clone()
            if at is not None:
                set_final_values(next_value, value[packing.tails], at, ends, n)
            discount_n = self.bootstrap_discount(samples)[wT:]
            target = self.target_of(samples.return_[wT:], discount_n, next_value)
        chosen_q = select_at_indexes(samples.all_action[wT + 1 : wT + 1 + bT], q)
        self.record(q=only_valid(chosen_q, valid))
        delta = target - chosen_q
        losses = huber(delta, self.delta_clip)
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        td_abs_errors = self.clip(delta.detach().abs()) * valid
        priorities = sequence_priority(td_abs_errors, valid, self.pri_eta)
        return valid_mean(losses, valid), td_abs_errors, priorities

    def valid_and_ends(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor]:
        """Return masks of valid rows and of episode ends after the burn-in rows.

        Void rows are invalid. All of them are done, but only the last of consecutive ones counts as
        an end, so that the next valid row starts from a cleared recurrent state.

        Returns:
            (valid [batch_T, B] float, ends [batch_T + n, B] bool).
        """
        ends = samples.all_done[self.warmup_T :].bool()
        if self.mid_batch_reset:
            return torch.ones_like(samples.return_[self.warmup_T :]), ends
        if not isinstance(samples, ReplayBatch):  # custom replays do not mark void rows
            mask = valid_from_done(ends)
            return mask[: self.batch_T], ends & (mask > 0)
        if samples.void is None:
            return torch.ones_like(samples.return_[self.warmup_T :]), ends
        void = samples.void[self.warmup_T :]
        inside = void.clone()
        inside[:-1] &= void[1:]
        return (~void[: self.batch_T]).float(), ends & ~inside

    @torch.no_grad()
    def warm_up(self, samples: NamedArrayTuple, inputs: Any) -> tuple[Any, Any]:
        """Return the states [N, B, H] of online and target network after the burn-in rows."""
        recorded = samples.init_rnn_state  # [B, N, H]
        state = buffer_method(buffer_method(recorded, "transpose", 0, 1), "contiguous")
        if not self.warmup_T:
            return state, state
        done = samples.all_done[: self.warmup_T]

        def burn_in(network: Any) -> Any:
            def run(x: Any, h: Any) -> Any:
                return self.forward(network, *x, h)[1]

            return state_after(run, inputs, done, state, self.agent.takes_starts)

        return burn_in(self.agent), burn_in(self.agent.target)

    def target_of(
        self, return_: torch.Tensor, discount_n: torch.Tensor, next_value: torch.Tensor
    ) -> torch.Tensor:
        """Return the targets h(R + g h^-1(next_value))."""
        return self.value_scale(return_ + discount_n * self.inv_value_scale(next_value))

    def clip(self, td_abs: torch.Tensor) -> torch.Tensor:
        """Limit absolute TD errors to ``delta_clip``."""
        return td_abs if self.delta_clip is None else td_abs.clamp(max=self.delta_clip)

    def value_scale(self, x: torch.Tensor) -> torch.Tensor:
        """Compress values, so that rewards need no clipping."""
        return value_scale(x, self.value_scale_eps)

    def inv_value_scale(self, z: torch.Tensor) -> torch.Tensor:
        """Invert ``value_scale``."""
        return inv_value_scale(z, self.value_scale_eps)


def tails_after_burn_in(samples: NamedArrayTuple, warmup_T: int) -> tuple[Any, Any]:
    """Return the final inputs of episodes truncated after the burn-in, and their steps.

    Args:
        samples: batch of sequences from the replay.
        warmup_T: number of burn-in rows.

    Returns:
        ``AgentInputs`` [K, ...], and (T_idxs, B_idxs) [K] of the rows after the burn-in; two
        ``None`` if there are no truncations.
    """
    final = samples.final
    kept = None if final is None else (final.T_idxs >= warmup_T).nonzero().squeeze(1)
    if kept is None or not len(kept):
        return None, None
    T_idxs, B_idxs = final.T_idxs[kept], final.B_idxs[kept]
    after = (T_idxs + 1, B_idxs)  # the action and reward of the last step
    tails = AgentInputs(
        buffer_func(final.observation, lambda leaf: leaf[kept]),
        buffer_func(samples.all_action, lambda leaf: leaf[after]),
        samples.all_reward[after],
    )
    return tails, (T_idxs - warmup_T, B_idxs)


def set_final_values(
    next_value: torch.Tensor,
    final_value: torch.Tensor,
    at: tuple[torch.Tensor, torch.Tensor],
    done: torch.Tensor,
    n: int,
) -> None:
    """Set the next value of n-step windows with a truncation to that of the final observation.

    Args:
        next_value: [T, B], value after each row's window of n steps; changed in place.
        final_value: [K], values of final observations.
        at: (T_idxs, B_idxs) [K] of the truncated steps.
        done: [T + n, B].
        n: number of rewards in a window.
    """
    T_idxs, B_idxs = at
    alive = torch.ones_like(
        T_idxs, dtype=torch.bool
    )  # no other end between the row and the truncation
    for k in range(n):
        rows = T_idxs - k
        alive = alive & (rows >= 0)
        if k:
            alive = alive & ~done[rows.clamp(min=0), B_idxs].bool()
        chosen = alive & (rows < len(next_value))
        next_value[rows[chosen], B_idxs[chosen]] = final_value[chosen]
