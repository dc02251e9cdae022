"""What is cut out of a replay around the chosen rows: single transitions, or sequences."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.agents.base import AgentInputs
from rlpyt.replays.batch import FinalObservations, Sequences, TimeLimitTransitions, Transitions
from rlpyt.utils.buffer import buffer_func, leaves_of, torchify_buffer

Array = NDArray[Any]


class TransitionWindow:
    """Cuts out step t, what the agent saw before it, and what it sees n steps later."""

    sequences = False

    def rows_after(self, replay: Any, T: int | None) -> int:
        """Newer rows that a window needs."""
        return int(replay.off_backward)

    def cut(self, replay: Any, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """The batch [B] of windows around the rows (T_idxs, B_idxs), torch tensors."""
        n, B, storage = replay.n_step_return, replay.B, replay.storage
        fields, extra = storage.fields, storage.extra_fields
        before, now, after, last = 0, 1, 2, 1 if n == 1 else 3  # ``last`` step of the window
        offsets = (-B, 0, B) if n == 1 else (-B, 0, n * B, (n - 1) * B)
        idxs = T_idxs * B + B_idxs
        cut = storage.rows.cut(idxs + np.array(offsets)[:, None])
        done = cut(fields.done, now)
        if n == 1:
            return_ = cut(fields.reward, now)
            cut_after = cut(extra.truncated, now)
            done_n = done & ~cut_after
            discount_n = np.where(done_n, np.float32(0), np.float32(replay.discount))
        else:
            return_ = cut(extra.return_, now)
            cut_after = cut(extra.cut_after, now)
            done_n, discount_n = cut(extra.done_n, now), cut(extra.discount_n, now)
        prev_action, prev_reward = cut(fields.action, before), cut(fields.reward, before)
        _null((prev_action, prev_reward), cut(fields.done, before))
        inputs = AgentInputs(replay.observe(cut, now, T_idxs, B_idxs), prev_action, prev_reward)
        target = AgentInputs(
            replay.observe(cut, after, T_idxs + n, B_idxs),
            cut(fields.action, last),
            cut(fields.reward, last),
        )
        if len(storage.finals):
            _cross_truncations(replay, target, cut_after, idxs)
        values = [inputs, cut(fields.action, now), return_, done, done_n, target]
        if replay.time_limits:
            timeout = cut(fields.timeout, now)
            values += [timeout, timeout & done if n == 1 else cut(extra.timeout_n, now)]
        cls = TimeLimitTransitions if replay.time_limits else Transitions
        batch = cls._make(torchify_buffer(tuple(values)))
        batch.discount_n = torch.from_numpy(discount_n)
        return batch


class SequenceWindow:
    """Cuts out T steps in a row, and the n further ones that their targets need."""

    sequences = True

    def rows_after(self, replay: Any, T: int | None) -> int:
        """Newer rows that a window of ``T`` steps needs."""
        T = replay.batch_T if T is None else T
        if T is None:
            raise ValueError("batch_T is not set: give it to sample_batch, or at construction.")
        return int(replay.off_backward) + T - 1

    def cut(self, replay: Any, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """The batch [T, B] of sequences that begin at the rows (T_idxs, B_idxs), torch tensors."""
        T = replay.batch_T if T is None else T
        n, B, storage = replay.n_step_return, replay.B, replay.storage
        fields, extra = storage.fields, storage.extra_fields
        rows = np.arange(-1, T + n)[:, None] + T_idxs  # the row before comes first
        cut = storage.rows.cut(rows * B + B_idxs)
        shifted, whole, main = slice(0, -1), slice(1, None), slice(1, T + 1)
        all_done = cut(fields.done, whole)
        truncated = cut(extra.truncated, whole)
        if n == 1:
            done_n = all_done[:T] & ~truncated[:T]
            return_ = cut(fields.reward, main)
            discount_n = np.where(done_n, np.float32(0), np.float32(replay.discount))
        else:
            done_n, return_ = cut(extra.done_n, main), cut(extra.return_, main)
            discount_n = cut(extra.discount_n, main)
        all_action, all_reward = cut(fields.action, shifted), cut(fields.reward, shifted)
        _null((_first(all_action), all_reward[0]), cut(fields.done, 0))
        batch = Sequences(
            all_observation=torchify_buffer(replay.observe(cut, whole, T_idxs, B_idxs, T + n)),
            all_action=torchify_buffer(all_action),
            all_reward=torch.from_numpy(all_reward),
            return_=torch.from_numpy(return_),
            done=torch.from_numpy(all_done[:T]),
            done_n=torch.from_numpy(done_n),
            init_rnn_state=torchify_buffer(replay.rnn_states.at(T_idxs, B_idxs)),
        )
        batch.discount_n = torch.from_numpy(discount_n)
        batch.all_done = torch.from_numpy(all_done)
        batch.final = self._finals(replay, cut, truncated) if len(storage.finals) else None
        return batch

    def _finals(self, replay: Any, cut: Any, truncated: Array) -> Any:
        """Final observations of the episodes that were cut off in these rows."""
        T_idxs, B_idxs = np.nonzero(truncated[:-1])
        if not len(T_idxs):
            return None
        idxs = cut.idxs[1:][T_idxs, B_idxs] % (replay.T * replay.B)
        observation = replay.storage.final_observations(replay.keys(idxs), idxs)
        return torchify_buffer(FinalObservations(T_idxs, B_idxs, observation))


def _cross_truncations(replay: Any, target: Any, cut_after: Array, idxs: Array) -> None:
    """Where a window ends with a truncation, its target is what was seen there."""
    crossing = np.flatnonzero(cut_after)
    if not len(crossing):
        return
    steps = cut_after[crossing].astype(np.int64) - 1
    ends = (idxs[crossing] + steps * replay.B) % (replay.T * replay.B)
    finals = replay.storage.final_observations(replay.keys(ends), ends)
    for leaf, final in zip(leaves_of(target.observation), leaves_of(finals)):
        leaf[crossing] = final
    if replay.n_step_return > 1:  # with one step these are the step's own
        fields = replay.storage.fields
        cut = replay.storage.rows.cut(ends[None])
        kept = leaves_of((target.prev_action, target.prev_reward))
        for leaf, own in zip(kept, leaves_of((cut(fields.action, 0), cut(fields.reward, 0)))):
            leaf[crossing] = own


def _null(tree: Any, mask: Array) -> None:
    """Zero the leaves [B, ...] where an episode begins."""
    if mask.any():
        for leaf in leaves_of(tree):
            leaf[mask] = 0


def _first(tree: Any) -> Any:
    return buffer_func(tree, lambda leaf: leaf[0])
