"""What is cut out of a replay around the chosen rows: single transitions, or sequences."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.agents.base import AgentInputs
from rlpyt.replays.batch import FinalObservations, Sequences, TimeLimitTransitions, Transitions
from rlpyt.replays.records import example_array
from rlpyt.replays.targets import one_step
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer, torchify_buffer

Array = NDArray[Any]


class TransitionWindow:
    """Cuts out step t, what the agent saw before it, and what it sees n steps later.

    Args:
        n: rewards in a return.
        discount: gamma.
        B: environments.
        nulls: the previous action where an episode begins; leaves in the order of the action's.
    """

    sequences = False

    def __init__(self, n: int, discount: float, B: int, nulls: list[Array]) -> None:
        self.n, self.discount, self.nulls = n, np.float32(discount), nulls
        # The step before, the step, the one n later and, if it is another, the window's last.
        rows = (-1, 0, 1) if n == 1 else (-1, 0, n, n - 1)
        self._offsets = np.array(rows)[:, None] * B

    def rows_after(self, replay: Any, T: int | None) -> int:
        """Newer rows that a window needs."""
        return int(replay.off_backward)

    def cut(self, replay: Any, idxs: Array, T: int | None = None) -> Any:
        """The batch [N] of windows around the rows at ``idxs`` [N], torch tensors."""
        n, storage = self.n, replay.storage
        fields, extra = storage.fields, storage.extra_fields
        before, now, after, last = 0, 1, 2, 1 if n == 1 else 3
        cut = storage.rows.cut(idxs + self._offsets)
        done = cut(fields.done, now)
        if n == 1:
            return_, cut_after = cut(fields.reward, now), cut(extra.truncated, now)
            done_n, discount_n = one_step(done, cut_after, self.discount)
        else:
            return_, cut_after = cut(extra.return_, now), cut(extra.cut_after, now)
            done_n, discount_n = cut(extra.done_n, now), cut(extra.discount_n, now)
        prev_action, prev_reward = cut(fields.action, before), cut(fields.reward, before)
        _null(prev_action, prev_reward, cut(fields.done, before), self.nulls)
        observation, next_observation = replay.observe_pair(cut, now, after)
        target = AgentInputs(next_observation, cut(fields.action, last), cut(fields.reward, last))
        if len(storage.finals):
            _cross_truncations(replay, target, cut_after, idxs)
        values = [
            AgentInputs(
                _tensors(observation),
                _tensors(prev_action),
                _tensors(prev_reward),
            ),
            _tensors(cut(fields.action, now)),
            _tensors(return_),
            _tensors(done),
            _tensors(done_n),
            AgentInputs._make(_tensors(part) for part in tuple(target)),
        ]
        if replay.time_limits:
            timeout = cut(fields.timeout, now)
            timeout_n = timeout & done if n == 1 else cut(extra.timeout_n, now)
            values += [_tensors(timeout), _tensors(timeout_n)]
        cls = TimeLimitTransitions if replay.time_limits else Transitions
        batch = cls._make(values)
        batch.discount_n, batch.ticket = _tensors(discount_n), None
        return batch


class SequenceWindow:
    """Cuts out T steps in a row, and the n further ones that their targets need.

    Arguments are those of ``TransitionWindow``.
    """

    sequences = True

    def __init__(self, n: int, discount: float, B: int, nulls: list[Array]) -> None:
        self.n, self.discount, self.B, self.nulls = n, np.float32(discount), B, nulls

    def rows_after(self, replay: Any, T: int | None) -> int:
        """Newer rows that a window of ``T`` steps needs."""
        T = replay.batch_T if T is None else T
        if T is None:
            raise ValueError("batch_T is not set: give it to sample_batch, or at construction.")
        return int(replay.off_backward) + T - 1

    def cut(self, replay: Any, idxs: Array, T: int | None = None) -> Any:
        """The batch [T, N] of sequences that begin at the rows at ``idxs`` [N], torch tensors."""
        T = replay.batch_T if T is None else T
        n, storage = self.n, replay.storage
        fields, extra = storage.fields, storage.extra_fields
        rows = np.arange(-1, T + n)[:, None]  # the row before comes first
        cut = storage.rows.cut(idxs + rows * self.B)
        shifted, whole, main = slice(0, -1), slice(1, None), slice(1, T + 1)
        all_done, truncated = cut(fields.done, whole), cut(extra.truncated, whole)
        if n == 1:
            return_ = cut(fields.reward, main)
            done_n, discount_n = one_step(all_done[:T], truncated[:T], self.discount)
        else:
            return_, done_n = cut(extra.return_, main), cut(extra.done_n, main)
            discount_n = cut(extra.discount_n, main)
        all_action, all_reward = cut(fields.action, shifted), cut(fields.reward, shifted)
        first_action = buffer_func(all_action, lambda leaf: leaf[0])
        _null(first_action, all_reward[0], cut(fields.done, 0), self.nulls)
        batch = Sequences(
            all_observation=_tensors(replay.observe(cut, whole)),
            all_action=_tensors(all_action),
            all_reward=_tensors(all_reward),
            return_=_tensors(return_),
            done=_tensors(all_done[:T]),
            done_n=_tensors(done_n),
            init_rnn_state=_tensors(replay.rnn_states.at(idxs)),
        )
        batch.discount_n, batch.all_done = _tensors(discount_n), _tensors(all_done)
        batch.final = self._finals(replay, cut, truncated) if len(storage.finals) else None
        ring = replay.ring
        void = ring.void.reshape(-1).take(cut.idxs[whole], mode="wrap") if ring.has_void else None
        batch.void = None if void is None else _tensors(void)
        batch.ticket = None
        return batch

    def _finals(self, replay: Any, cut: Any, truncated: Array) -> Any:
        """Final observations of the episodes that were cut off in these rows."""
        T_idxs, B_idxs = np.nonzero(truncated[:-1])
        if not len(T_idxs):
            return None
        where = replay.unplace(cut.idxs[1:][T_idxs, B_idxs])
        observation = numpify_buffer(replay.extract_final_observation(*where))
        return _tensors(FinalObservations(T_idxs, B_idxs, observation))


def _cross_truncations(replay: Any, target: Any, cut_after: Array, idxs: Array) -> None:
    """Where a window ends with a truncation, its target is what was seen there."""
    if not np.count_nonzero(cut_after):
        return
    crossing = cut_after.nonzero()[0]
    steps = cut_after[crossing].astype(np.int64) - 1
    ends = idxs[crossing] + steps * replay.B
    finals = numpify_buffer(replay.extract_final_observation(*replay.unplace(ends)))
    for leaf, final in zip(leaves_of(target.observation), leaves_of(finals)):
        leaf[crossing] = final
    if replay.n_step_return > 1:  # with one step these are the step's own
        fields = replay.storage.fields
        cut = replay.storage.rows.cut(ends[None])
        kept = leaves_of((target.prev_action, target.prev_reward))
        for leaf, own in zip(kept, leaves_of((cut(fields.action, 0), cut(fields.reward, 0)))):
            leaf[crossing] = own


def _null(action: Any, reward: Array, begins: Array, nulls: list[Array]) -> None:
    """Null previous actions and rewards [B, ...] where an episode begins."""
    if np.count_nonzero(begins):
        where = begins.nonzero()[0]
        reward[where] = 0
        for leaf, null in zip(leaves_of(action), nulls):
            leaf[where] = null


def null_leaves(action: Any, null: Any) -> list[Array]:
    """What stands for "no action yet", for every leaf of an example action.

    Args:
        action: the example.
        null: one value, or a tree like the action.

    Raises:
        ValueError: it does not fit the action.
    """
    leaves = [example_array(leaf) for leaf in leaves_of(action)]
    given = [example_array(leaf) for leaf in leaves_of(null)]
    nulls = given * len(leaves) if len(given) == 1 else given
    try:
        pairs = zip(nulls, leaves, strict=True)
        return [np.broadcast_to(value, leaf.shape).astype(leaf.dtype) for value, leaf in pairs]
    except ValueError:
        raise ValueError(
            f"null_action has the shapes {[value.shape for value in given]}; the example's action "
            f"has {[leaf.shape for leaf in leaves]}."
        ) from None


def _tensors(tree: Any) -> Any:
    """``torchify_buffer``, with a short way for single arrays."""
    return torch.from_numpy(tree) if type(tree) is np.ndarray else torchify_buffer(tree)
