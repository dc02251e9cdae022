"""Statistics of trajectories computed per batch, equal to those of ``TrajInfo``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rlpyt.samplers.collections import TrajInfo

Array = np.ndarray[Any, Any]


class BatchTrajStats:
    """Statistics of ``TrajInfo`` computed from a batch [T, B] with array operations.

    Args:
        traj_infos: trajectories in progress, one per environment; their sums are continued.
        discount: discount factor of ``DiscountedReturn``.
    """

    def __init__(self, traj_infos: Sequence[Any], discount: float) -> None:
        self._discount = discount
        self.length = np.array([info.Length for info in traj_infos], np.int64)
        self.return_ = np.array([info.Return for info in traj_infos], np.float64)
        self.nonzero = np.array([info.NonzeroRewards for info in traj_infos], np.int64)
        self.discounted = np.array([info.DiscountedReturn for info in traj_infos], np.float64)

    def add(self, reward: Array, ended: Array, new_info: Callable[[], Any]) -> list[Any]:
        """Add a batch; return the trajectories that ended, sorted by environment, then time.

        Args:
            reward: rewards [T, B].
            ended: [T, B] bool, True where a trajectory ended with step t.
            new_info: function that makes an empty ``TrajInfo``.
        """
        T, B = reward.shape
        r = np.ascontiguousarray(reward.T, np.float64).ravel()  # [B * T], by environment, then time
        ends = np.flatnonzero(np.ascontiguousarray(ended.T).ravel())
        row_starts = np.arange(B) * T
        # Segments: each environment's steps, cut after every end (an end at T - 1 cuts nothing).
        cuts = ends[(ends + 1) % T != 0] + 1
        starts = np.union1d(row_starts, cuts)
        stops = np.append(starts[1:], B * T)
        env = starts // T
        first = starts == env * T  # continues the last batch
        length = stops - starts
        carried = np.where(first, self.length[env], 0)
        age = np.arange(B * T) - np.repeat(starts - carried, length)
        weighted = r if self._discount == 1 else r * self._discount**age
        segment = {
            "Length": length + carried,
            "Return": np.add.reduceat(r, starts) + first * self.return_[env],
            "NonzeroRewards": np.add.reduceat((r != 0).astype(np.int64), starts)
            + first * self.nonzero[env],
            "DiscountedReturn": np.add.reduceat(weighted, starts) + first * self.discounted[env],
        }
        done = np.isin(stops - 1, ends)
        self._carry(segment, env, stops % T == 0, done)
        rows = zip(*(values[done].tolist() for values in segment.values()), strict=True)
        empty = new_info()
        cls: Any = type(empty)
        numbers = dict(empty)
        return [_filled(cls.__new__(cls), numbers, segment, row) for row in rows]

    def _carry(self, segment: dict[str, Array], env: Array, last: Array, done: Array) -> None:
        """Keep the sums of each environment's last segment, or zero if the trajectory ended."""
        unfinished = ~done[last]
        self.length[env[last]] = segment["Length"][last] * unfinished
        self.return_[env[last]] = segment["Return"][last] * unfinished
        self.nonzero[env[last]] = segment["NonzeroRewards"][last] * unfinished
        self.discounted[env[last]] = segment["DiscountedReturn"][last] * unfinished

    def state_dict(self) -> dict[str, Array]:
        """Return the sums of trajectories in progress."""
        return {
            "length": self.length.copy(),
            "return": self.return_.copy(),
            "nonzero": self.nonzero.copy(),
            "discounted": self.discounted.copy(),
        }

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Load a state from ``state_dict``."""
        self.length[:] = state["length"]
        self.return_[:] = state["return"]
        self.nonzero[:] = state["nonzero"]
        self.discounted[:] = state["discounted"]


def _filled(
    info: TrajInfo, numbers: dict[str, Any], names: Iterable[str], row: Iterable[float]
) -> TrajInfo:
    """Return an ``info`` without entries with those of a new one, and a trajectory's instead."""
    dict.update(info, numbers)
    dict.update(info, zip(names, row))
    return info.terminate(None)
