"""n-step targets of stored rows, as pure functions and as a part of the replay."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.ring import Ring
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

Array = NDArray[Any]


class NStepTargets(NamedTuple):
    """n-step targets of rows [N, B].

    The target of row t is ``return_ + discount_n * value``, with the value of row t + n, or of the
    final observation if the episode is truncated earlier.
    """

    return_: Array  # float, sum of gamma^k r_{t+k} over the window, up to and including a done
    done_n: Array  # bool, True if the window contains a terminal state: no bootstrapping
    discount_n: Array  # float, gamma^(number of rewards in return_), zero where done_n
    cut_after: Array  # uint16, number of steps until a truncation in the window, 0 if there is none
    timeout_n: Array | None  # bool, True if the first done in the window is a time limit


def n_step_targets(
    reward: Array,
    done: Array,
    truncated: Array,
    n: int,
    discount: float,
    timeout: Array | None = None,
) -> NStepTargets:
    """Return the n-step targets of all rows with a complete window of ``n`` rewards.

        return_t = sum_{k <= K} gamma^k r_{t+k},    K = first k with d_{t+k}, else n - 1

    Args:
        reward: [T, B], r_t received after a_t.
        done: [T, B] bool, True if the episode ended with step t.
        truncated: [T, B] bool, True if it was truncated there and its true final observation is
            known; false where not done.
        n: number of rewards in a window, 1 <= n <= T.
        discount: gamma.
        timeout: [T, B] bool, True if the episode ended by a time limit; None: omit ``timeout_n``.

    Returns:
        Arrays [T - n + 1, B]; ``return_`` has the dtype of ``reward``, or at least float32.
    """
    rows = len(reward) - n + 1
    dtype = np.result_type(reward.dtype, np.float32)
    return_ = np.zeros(reward[:rows].shape, dtype)
    discount_n = np.full(return_.shape, discount**n, dtype)
    done_n = np.zeros(return_.shape, bool)
    cut_after = np.zeros(return_.shape, np.uint16)
    timeout_n = None if timeout is None else np.zeros(return_.shape, bool)
    alive = np.ones(return_.shape, bool)
    for k in range(n):
        here = slice(k, k + rows)
        np.add(return_, dtype.type(discount**k) * reward[here], out=return_, where=alive)
        ends = alive & done[here]
        if not ends.any():
            continue
        cut = ends & truncated[here]
        discount_n[cut] = discount ** (k + 1)
        cut_after[cut] = k + 1
        done_n |= ends & ~cut
        if timeout is not None and timeout_n is not None:
            timeout_n |= ends & timeout[here]
        alive &= ~ends
    discount_n[done_n] = 0
    return NStepTargets(return_, done_n, discount_n, cut_after, timeout_n)


def one_step(done: Array, truncated: Array, discounts: Array) -> tuple[Array, Array]:
    """Return (done_n, discount_n) of one-step targets.

    Args:
        done, truncated: bool, as for ``n_step_targets``.
        discounts: [2] float32, gamma and zero.
    """
    done_n = done > truncated
    return done_n, discounts.take(done_n)


class NStep:
    """n-step targets of stored rows, computed when rows are written.

    For n = 1 targets follow from the rows; for n > 1 they are stored with the rows.

    Args:
        n: number of rewards in a return.
        discount: gamma.
        time_limits: True to store ``timeout_n`` too; samples then have the field ``timeout``.
    """

    def __init__(self, n: int, discount: float, time_limits: bool) -> None:
        self.n = whole_number("n_step_return", n, 1)
        check_range("discount", discount, 0.0, 1.0)
        self.discount = float(discount)
        self.time_limits = time_limits

    def extra(self, reward: Array) -> Any:
        """Return an example of the targets stored with every row, given an example reward."""
        fields: dict[str, Any] = {"truncated": np.bool_(False)}
        if self.n > 1:
            dtype = np.result_type(np.asarray(reward).dtype, np.float32)
            fields |= {"return_": dtype.type(0), "discount_n": dtype.type(0)}
            fields |= {"done_n": np.bool_(False), "cut_after": np.uint16(0)}
            if self.time_limits:
                fields["timeout_n"] = np.bool_(False)
        return namedarraytuple("Targets", tuple(fields))(*fields.values())

    def update(self, ring: Ring, samples: NamedArrayTuple, extra: Any, rows: int) -> None:
        """Complete the windows that end in the ``rows`` newest rows, already written.

        Args:
            ring: cursor before these rows.
            samples, extra: trees [T, B] of the storage.
            rows: number of rows written.
        """
        if self.n == 1:
            return
        start = max(0, ring.written - self.n + 1)
        span = ring.written + rows - start
        if span < self.n:
            return
        T_idxs = np.arange(start, start + span) % ring.T
        targets = n_step_targets(
            samples.reward[T_idxs],
            samples.done[T_idxs],
            extra.truncated[T_idxs],
            self.n,
            self.discount,
            samples.timeout[T_idxs] if self.time_limits else None,
        )
        complete = T_idxs[: span - self.n + 1]
        for name in extra._fields:
            if name != "truncated":
                getattr(extra, name)[complete] = getattr(targets, name)
