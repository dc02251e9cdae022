"""Replayed batches in the form that losses read: single transitions, or sequences of memories.

A loss evaluates networks at the steps it trains (``now``) and at the states from which their
targets bootstrap (``next``):

    steps = self.replayed(samples)                     # of `ReplayAlgo`
    q = select_at_indexes(steps.action, steps.now(self.agent))
    next_q = steps.next(self.agent.target)
    target = steps.return_ + steps.discount_n * next_q.amax(-1)
    loss = self.weighted_mean((target - q) ** 2, samples, steps.valid)

The same lines serve transitions [B] and sequences [T, B]. For sequences, a network is a function
(*inputs, *arguments, state) -> (*outputs, next state) of rows [L, S]: it starts from the recorded
state, which the burn-in rows bring up to date without gradient, and its state is cleared where
episodes begin. In burn-in, ``None`` takes the place of further arguments.

A function of several networks (critics at the policy's action) works on all rows before they are
selected: ``run`` returns outputs of all rows, to be passed to the next network, and ``rows``
selects:

    action, log_pi = steps.next.run(self.agent.pi)
    next_q = steps.next.rows(steps.next.run(self.agent.target_q, action))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.episodes import EpisodePacking, null_after_done, state_after
from rlpyt.algos.returns import valid_from_done
from rlpyt.replays.batch import ReplayBatch, batch_type
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import buffer_func, buffer_method
from rlpyt.utils.checks import fixed, setting
from rlpyt.utils.collections import NamedArrayTuple

Forward = Callable[..., Any]  # (network, *inputs) -> outputs, such as ``ReplayAlgo.forward``


@dataclass(eq=False, repr=False, init=False, kw_only=True)
class SequenceSettings(RlAlgorithm):
    """Settings of algorithms that can train agents with memory on sequences from a replay."""

    batch_T: int = fixed(20, ge=1, doc="(memory) trained steps of a sequence; 10-80")
    batch_B: int = setting(16, ge=1, doc="(memory) sequences per update; 8-64")
    warmup_T: int = fixed(
        10, ge=0, doc="(memory) first steps of a sequence, which only update the state; 0-40"
    )
    store_rnn_state_interval: int = fixed(
        10, ge=0, doc="(memory) steps between stored states, at which sequences start; 0: zeros"
    )
    pri_eta: float = setting(
        0.9, ge=0, le=1, doc="(memory) weight of the largest TD error against the mean in priority"
    )


class TransitionRows:
    """States of transitions [B] at which networks are evaluated.

    Attributes:
        inputs: ``AgentInputs`` [B, ...] of these states.
    """

    def __init__(self, forward: Forward, inputs: Any) -> None:
        self._forward, self.inputs = forward, inputs

    @property
    def lead(self) -> tuple[int, ...]:
        """Return the leading dimensions of ``run``: (B,)."""
        return tuple(self.inputs.prev_reward.shape)

    def run(self, network: Any, *args: Any) -> Any:
        """Return the network's outputs, [*lead, ...], for these inputs and further arguments."""
        return self._forward(network, *self.inputs, *args)

    def rows(self, outputs: Any) -> Any:
        """Select the outputs of these states; all of them."""
        return outputs

    def __call__(self, network: Any, *args: Any) -> Any:
        """Return the outputs of these states, [B, ...]."""
        return self._forward(network, *self.inputs, *args)

    def shared(self, network: Any) -> Any:
        """Return the outputs of these states; for sequences see `SequenceRows`."""
        return self._forward(network, *self.inputs)


class ReplayedTransitions:
    """Replayed transitions [B], without memory.

    Attributes:
        now, next: `TransitionRows` of the states of the actions, and of those after the returns.
        action: [B, ...].
        return_, discount_n: [B]; targets are ``return_ + discount_n * next_value``.
        valid: ``None``: all count.
    """

    valid: Tensor | None = None

    def __init__(self, samples: NamedArrayTuple, forward: Forward, discount_n: Tensor) -> None:
        self.now = TransitionRows(forward, samples.agent_inputs)
        self.next = TransitionRows(forward, samples.target_inputs)
        self.action, self.return_, self.discount_n = samples.action, samples.return_, discount_n

    @property
    def next_mask(self) -> Any:
        """Return the valid actions of the next states, [B, A]; ``None``: all."""
        return action_mask_of(self.next.inputs.observation)


class SequenceRows:
    """Rows of sequences at which networks are evaluated.

    Attributes:
        inputs: ``AgentInputs`` [L, S, ...] of the packed rows after burn-in, see `EpisodePacking`.
        lead: (L, S), leading dimensions of ``inputs`` and of the results of ``run``.
    """

    def __init__(self, sequences: "ReplayedSequences", select: Callable[[Tensor], Tensor]) -> None:
        self._sequences, self._select = sequences, select
        self.inputs = sequences.packed
        self.lead = tuple(self.inputs.prev_reward.shape)

    def run(self, network: Any, *args: Any) -> Any:
        """Return the network's outputs for all packed rows.

        Args:
            network: see the module; it is called with ``inputs``, ``args`` and the state.
            *args: tensors [L, S, ...], such as actions, or other values.

        Returns:
            Outputs [L, S, ...] without the state: one, or a tuple of several.
        """
        return self._sequences.run(network, *args)

    def rows(self, outputs: Any) -> Any:
        """Select the outputs [T, B, ...] of these rows from a tree of [L, S, ...]."""
        return buffer_func(outputs, self._select)

    def __call__(self, network: Any, *args: Any) -> Any:
        """Return the outputs of these rows, [T, B, ...]."""
        return self.rows(self.run(network, *args))

    def shared(self, network: Any) -> Any:
        """Return the outputs of these rows of the last pass of ``network`` without arguments.

        Steps and the states of their targets are in the same sequence, so one pass gives the
        outputs of both (noisy layers then have the same noise in both).
        """
        last = self._sequences.last
        return self.rows(last[network] if network in last else self.run(network))


class ReplayedSequences:
    """Replayed sequences [warmup_T + T, B], for networks with memory.

    Episodes may end and begin anywhere: previous actions and rewards are then null, states are
    cleared, and n-step windows with a truncation bootstrap from the final observation.

    Args:
        samples: batch of sequences from the replay.
        forward: calls a network.
        discount_n: [warmup_T + T, B].
        warmup_T: number of burn-in rows.
        n_step_return: n, number of rewards in a return.
        mid_batch_reset: see ``valid_and_ends``.
        null_action: previous action where an episode begins.
        takes_starts: networks reset their state within sequences.
        initial_state: function (network, recorded state [N, B, H] or None) -> the state before the
            first row; ``None``: the recorded one for all networks.

    Attributes:
        action: [T, B, ...], actions of the trained steps.
        return_, discount_n: [T, B]; targets are ``return_ + discount_n * next_value``.
        valid: [T, B] float, zero in rows in which an environment waited for its reset.
        packed: ``AgentInputs`` [L, S, ...] of the rows after burn-in.
        last: outputs of the last pass of each network without arguments.
    """

    def __init__(
        self,
        samples: NamedArrayTuple,
        forward: Forward,
        discount_n: Tensor,
        warmup_T: int,
        n_step_return: int,
        mid_batch_reset: bool,
        null_action: Any,
        takes_starts: bool,
        initial_state: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        wT, T, n = warmup_T, len(samples.return_) - warmup_T, n_step_return
        self._samples, self._forward, self._n, self._warmup_T = samples, forward, n, wT
        self._takes_starts, self._initial_state = takes_starts, initial_state
        self._inputs = AgentInputs(
            samples.all_observation,
            null_after_done(samples.all_action, samples.all_done, null_action),
            null_after_done(samples.all_reward, samples.all_done),
        )
        self.valid, self._ends = valid_and_ends(samples, wT, mid_batch_reset)
        self._tails, self._at = tails_after_burn_in(samples, wT)
        self._packing = EpisodePacking(self._ends, self._at, takes_starts)
        self.packed = self._packing.pack(self._inputs[wT:], self._tails)
        self.action = samples.all_action[wT + 1 : wT + 1 + T]
        self.return_, self.discount_n = samples.return_[wT:], discount_n[wT:]
        self.last: dict[Any, Any] = {}
        self._states: dict[Any, Any] = {}  # packed state after burn-in, by network

    # The rows refer to the sequences and not the other way round, so that a batch and its graph
    # are freed without the garbage collector.

    @property
    def now(self) -> SequenceRows:
        """Return the rows of the trained steps."""
        T = len(self.return_)
        return SequenceRows(self, lambda packed: self._packing.unpack(packed)[:T])

    @property
    def next(self) -> SequenceRows:
        """Return the rows of the states after the returns."""
        return SequenceRows(self, self._after_returns)

    @property
    def next_mask(self) -> Any:
        """Return the valid actions of the next states, [T, B, A]; ``None``: all."""
        return self.next.rows(action_mask_of(self.packed.observation))

    def run(self, network: Any, *args: Any) -> Any:
        """Return a network's outputs for all packed rows, see `SequenceRows`."""
        state = self._state(network, len(args))
        *outputs, _ = self._forward(network, *self.packed, *args, state)
        result = outputs[0] if len(outputs) == 1 else tuple(outputs)
        if not args:
            self.last[network] = result
        return result

    @torch.no_grad()
    def _state(self, network: Any, n_args: int) -> Any:
        """Return the packed state of a network after burn-in."""
        if network not in self._states:
            self._states[network] = self._packing.pack_state(self._burn_in(network, n_args))
        return self._states[network]

    def _burn_in(self, network: Any, n_args: int) -> Any:
        """Return the state [N, B, H] of a network after the burn-in rows."""
        recorded = self._samples.init_rnn_state  # [B, N, H]
        state = buffer_method(buffer_method(recorded, "transpose", 0, 1), "contiguous")
        if self._initial_state is not None:
            state = self._initial_state(network, state)
        wT = self._warmup_T
        if not wT:
            return state

        def run(inputs: Any, state: Any) -> Any:
            return self._forward(network, *inputs, *(None,) * n_args, state)[-1]

        done = self._samples.all_done[:wT]
        return state_after(run, self._inputs[:wT], done, state, self._takes_starts)

    def _after_returns(self, packed: Tensor) -> Tensor:
        """Select the rows n steps later, or the final observations of truncated episodes."""
        rows = self._packing.unpack(packed)[self._n :]
        if self._at is None:
            return rows
        assert self._packing.tails is not None  # rows are then a copy
        set_final_values(rows, packed[self._packing.tails], self._at, self._ends, self._n)
        return rows


def as_sequences(batch: Any, n: int) -> Any:
    """Return a batch of sequences with all attributes of ``ReplayBatch``.

    Batches that a custom replay has made itself lack them; ``done`` of the ``n`` rows of targets
    is then unknown and taken as False, and there are no final observations.
    """
    if "all_done" in getattr(batch, "__dict__", ()):
        return batch
    new = batch_type(type(batch).__name__, batch._fields)(*tuple(batch))
    done = torch.as_tensor(batch.done)
    new.all_done = torch.cat([done, torch.zeros_like(done[:1]).expand(n, -1)])
    void = valid_from_done(new.all_done) == 0
    new.void = void if void.any() else None
    new.final = new.ticket = None
    return new


def valid_and_ends(
    samples: NamedArrayTuple, warmup_T: int, mid_batch_reset: bool
) -> tuple[Tensor, Tensor]:
    """Return masks of valid rows and of episode ends after the burn-in rows.

    Void rows are invalid. All of them are done, but only the last of consecutive ones counts as an
    end, so that the next valid row starts from a cleared recurrent state.

    Args:
        samples: batch of sequences from the replay.
        warmup_T: number of burn-in rows.
        mid_batch_reset: True if environments never wait for a reset.

    Returns:
        (valid [T, B] float, ends [T + n, B] bool).
    """
    ends = samples.all_done[warmup_T:].bool()
    return_ = samples.return_[warmup_T:]
    if mid_batch_reset:
        return torch.ones_like(return_), ends
    if not isinstance(samples, ReplayBatch):  # custom replays do not mark void rows
        mask = valid_from_done(ends)
        return mask[: len(return_)], ends & (mask > 0)
    if samples.void is None:
        return torch.ones_like(return_), ends
    void = samples.void[warmup_T:]
    inside = void.clone()
    inside[:-1] &= void[1:]
    return (~void[: len(return_)]).float(), ends & ~inside


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
    next_value: Tensor,
    final_value: Tensor,
    at: tuple[Tensor, Tensor],
    done: Tensor,
    n: int,
) -> None:
    """Set the next value of n-step windows with a truncation to that of the final observation.

    Args:
        next_value: [T, B, ...], values after each row's window of n steps; changed in place.
        final_value: [K, ...], values of final observations.
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
