"""Windows: the part of a batch around each drawn row, either a transition or a sequence."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import from_numpy

from rlpyt.agents.base import AgentInputs
from rlpyt.replays.batch import FinalObservations, Sequences, TimeLimitTransitions, Transitions
from rlpyt.replays.rows import RowBatch, example_array
from rlpyt.replays.targets import one_step
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of, numpify_buffer, torchify_buffer

if TYPE_CHECKING:
    from rlpyt.replays.buffer import ReplayBuffer

Array = NDArray[Any]

# Planes of a transition's rows: the previous step, the step, the step n later and, if n > 1, the
# last step of the window.
BEFORE, NOW, AFTER, LAST = 0, 1, 2, 3


class TransitionWindow:
    """Window of step t, with the previous action and reward and the observation n steps later.

    Args:
        n: number of rewards in a return.
        discount: gamma.
        B: number of environments.
        nulls: leaves of the previous action at the beginning of an episode.
    """

    sequences = False

    def __init__(self, n: int, discount: float, B: int, nulls: list[Array]) -> None:
        self.n, self.nulls = n, nulls
        self._discounts = np.array([discount, 0], np.float32)  # not done, done
        planes = (-1, 0, 1) if n == 1 else (-1, 0, n, n - 1)
        self._offsets = np.array(planes)[:, None] * B
        self._adjacent = (NOW, AFTER) if n == 1 else ()

    def rows_after(self, replay: "ReplayBuffer", T: int | None) -> int:
        """Return the number of rows after its first row that a window needs."""
        return int(replay.off_backward)

    def read(self, replay: "ReplayBuffer", idxs: Array, T: int | None) -> RowBatch:
        """Read the rows of the windows of rows [N], t * B + b."""
        rows: RowBatch = replay.storage.rows.read(idxs + self._offsets)
        rows.adjacent = self._adjacent
        return rows

    def extract(self, replay: "ReplayBuffer", rows: RowBatch) -> Any:
        """Return the batch [N] of the windows in these rows, as torch tensors."""
        n, storage = self.n, replay.storage
        fields, extra = storage.fields, storage.extra_fields
        # Rewards and dones are in the records, because they are small.
        before, now = rows.records[BEFORE], rows.records[NOW]
        done = now[fields.done]
        if n == 1:
            return_ = now[fields.reward]
            done_n, discount_n = one_step(done, now[extra.truncated], self._discounts)
        else:
            return_, done_n = now[extra.return_], now[extra.done_n]
            discount_n = now[extra.discount_n]
        prev_action, prev_reward = rows(fields.action, BEFORE), before[fields.reward]
        _null_at_starts(prev_action, prev_reward, before[fields.done], self.nulls)
        observation = replay.observations(rows, NOW)
        next_observation = replay.observations(rows, AFTER)
        inputs = AgentInputs(_tensors(observation), _tensors(prev_action), from_numpy(prev_reward))
        action, return_ = _tensors(rows(fields.action, NOW)), from_numpy(return_)
        if n == 1:  # the last step of the window is the step itself
            last_action, last_reward = action, return_
        else:
            last_action = _tensors(rows(fields.action, LAST))
            last_reward = from_numpy(rows.records[LAST][fields.reward])
        target = AgentInputs(_tensors(next_observation), last_action, last_reward)
        if len(storage.finals):
            self._replace_truncated_targets(replay, target, rows)
        values = [inputs, action, return_, from_numpy(done), from_numpy(done_n), target]
        if replay.time_limits:
            timeout = now[fields.timeout]
            timeout_n = timeout & done if n == 1 else now[extra.timeout_n]
            values += [from_numpy(timeout), from_numpy(timeout_n)]
        batch = (TimeLimitTransitions if replay.time_limits else Transitions)(*values)
        batch.discount_n, batch.ticket = from_numpy(discount_n), None
        return batch

    def _replace_truncated_targets(
        self, replay: "ReplayBuffer", target: Any, rows: RowBatch
    ) -> None:
        """Replace the target inputs of truncated windows by the final step of the episode."""
        extra, idxs = replay.storage.extra_fields, rows.idxs[NOW]
        cut_after = rows(extra.truncated if self.n == 1 else extra.cut_after, NOW)
        if not np.count_nonzero(cut_after):
            return
        crossing = cut_after.nonzero()[0]
        ends = idxs[crossing] + (cut_after[crossing].astype(np.int64) - 1) * replay.B
        finals = numpify_buffer(replay.extract_final_observation(*replay.to_T_B_idxs(ends)))
        target = numpify_buffer(target)  # shares the memory
        for leaf, final in zip(leaves_of(target.observation), leaves_of(finals)):
            leaf[crossing] = final
        if self.n > 1:  # for n = 1 they are the action and reward of the step
            fields = replay.storage.fields
            steps = replay.storage.rows.read(ends[None])
            lasts = leaves_of((steps(fields.action, 0), steps(fields.reward, 0)))
            for leaf, last in zip(leaves_of((target.prev_action, target.prev_reward)), lasts):
                leaf[crossing] = last


class SequenceWindow:
    """Window of T successive steps, and the next n steps, which their targets need.

    Arguments are those of ``TransitionWindow``.
    """

    sequences = True

    def __init__(self, n: int, discount: float, B: int, nulls: list[Array]) -> None:
        self.n, self.B, self.nulls = n, B, nulls
        self._discounts = np.array([discount, 0], np.float32)  # not done, done

    def rows_after(self, replay: "ReplayBuffer", T: int | None) -> int:
        """Return the number of rows after its first row that a window of ``T`` steps needs."""
        return int(replay.off_backward) + self._length(replay, T) - 1

    def _length(self, replay: "ReplayBuffer", T: int | None) -> int:
        T = replay.batch_T if T is None else T
        if T is None:
            raise ValueError("batch_T must be given to sample_batch or at construction, got None.")
        return T

    def read(self, replay: "ReplayBuffer", idxs: Array, T: int | None) -> RowBatch:
        """Read the rows of sequences that start at rows [N], t * B + b, and the rows before."""
        offsets = np.arange(-1, self._length(replay, T) + self.n)[:, None]
        rows: RowBatch = replay.storage.rows.read(idxs + offsets * self.B)
        return rows

    def extract(self, replay: "ReplayBuffer", rows: RowBatch) -> Any:
        """Return the batch [T, N] of the sequences in these rows, as torch tensors."""
        n, storage, T = self.n, replay.storage, len(rows.idxs) - 1 - self.n
        fields, extra = storage.fields, storage.extra_fields
        whole, shifted, main = slice(1, None), slice(0, -1), slice(1, T + 1)
        all_done, truncated = rows(fields.done, whole), rows(extra.truncated, whole)
        if n == 1:
            return_ = rows(fields.reward, main)
            done_n, discount_n = one_step(all_done[:T], truncated[:T], self._discounts)
        else:
            return_, done_n = rows(extra.return_, main), rows(extra.done_n, main)
            discount_n = rows(extra.discount_n, main)
        all_action, all_reward = rows(fields.action, shifted), rows(fields.reward, shifted)
        first_action = buffer_func(all_action, lambda leaf: leaf[0])
        _null_at_starts(first_action, all_reward[0], rows(fields.done, 0), self.nulls)
        batch = Sequences(
            all_observation=_tensors(replay.observations(rows, whole)),
            all_action=_tensors(all_action),
            all_reward=_tensors(all_reward),
            return_=_tensors(return_),
            done=_tensors(all_done[:T]),
            done_n=_tensors(done_n),
            init_rnn_state=_tensors(replay.rnn_states.at(*replay.to_T_B_idxs(rows.idxs[1]))),
        )
        batch.discount_n, batch.all_done = _tensors(discount_n), _tensors(all_done)
        batch.final = (
            self._final_observations(replay, rows, truncated) if len(storage.finals) else None
        )
        ring = replay.ring
        void = ring.void.reshape(-1).take(rows.idxs[whole], mode="wrap") if ring.has_void else None
        batch.void = None if void is None else _tensors(void)
        batch.ticket = None
        return batch

    def _final_observations(self, replay: "ReplayBuffer", rows: RowBatch, truncated: Array) -> Any:
        """Return ``FinalObservations`` of episodes truncated in [T + n - 1, N], or None."""
        T_idxs, B_idxs = np.nonzero(truncated[:-1])
        if not len(T_idxs):
            return None
        where = replay.to_T_B_idxs(rows.idxs[1:][T_idxs, B_idxs])
        return _tensors(
            FinalObservations(
                T_idxs, B_idxs, numpify_buffer(replay.extract_final_observation(*where))
            )
        )


def _null_at_starts(action: Arrays, reward: Array, begins: Array, nulls: list[Array]) -> None:
    """Set previous actions and rewards [B, ...] to null where an episode begins."""
    if np.count_nonzero(begins):
        where = begins.nonzero()[0]
        reward[where] = 0
        for leaf, null in zip(leaves_of(action), nulls):
            leaf[where] = null


def null_leaves(action: Arrays, null: Any) -> list[Array]:
    """Return the null value of every leaf of an example action.

    Args:
        action: example action.
        null: one value, or a tree like the action.

    Raises:
        ValueError: the shapes of ``null`` do not match the action.
    """
    leaves = [example_array(leaf) for leaf in leaves_of(action)]
    given = [example_array(leaf) for leaf in leaves_of(null)]
    nulls = given * len(leaves) if len(given) == 1 else given
    try:
        pairs = zip(nulls, leaves, strict=True)
        return [np.broadcast_to(value, leaf.shape).astype(leaf.dtype) for value, leaf in pairs]
    except ValueError:
        raise ValueError(
            f"null_action must have the shapes {[leaf.shape for leaf in leaves]} of the example's "
            f"action, got {[value.shape for value in given]}."
        ) from None


def _tensors(tree: Arrays) -> Any:
    """Return tensors that share memory with the arrays, with a shortcut for single arrays."""
    return from_numpy(tree) if type(tree) is np.ndarray else torchify_buffer(tree)
