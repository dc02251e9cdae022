"""Statistics of trajectories computed per batch, equal to those of ``TrajInfo``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rlpyt.samplers.collections import TrajInfo
from rlpyt.utils.buffer import buffer_func

Array = np.ndarray[Any, Any]
COLUMNS: dict[str, tuple[str, Any]] = {  # of `TrajInfo`: key in saved states, dtype
    "Length": ("length", np.int64),
    "Return": ("return", np.float64),
    "NonzeroRewards": ("nonzero", np.int64),
    "DiscountedReturn": ("discounted", np.float64),
}


def are_stock(traj_infos: Iterable[Any]) -> bool:
    """Return True if all are of rlpyt's class, which keeps nothing of a step but numbers."""
    return all(type(info) is TrajInfo for info in traj_infos)


def copier(traj_infos: Iterable[Any]) -> Callable[[Any], Any]:
    """Return a function that copies what users' classes may keep: records are overwritten."""
    if all(type(info).__module__.startswith("rlpyt.") for info in traj_infos):
        return lambda seen: seen
    return lambda seen: buffer_func(seen, lambda leaf: leaf.copy())


class BatchTrajStats:
    """Statistics of ``TrajInfo`` computed from a batch [T, B] with array operations.

    Args:
        traj_infos: trajectories in progress, one per environment; their sums are continued.
        discount: discount factor of ``DiscountedReturn``.
    """

    def __init__(self, traj_infos: Sequence[Any], discount: float) -> None:
        self._discount = discount
        self._sums = {  # of trajectories in progress, [B]
            name: np.array([info[name] for info in traj_infos], dtype)
            for name, (_, dtype) in COLUMNS.items()
        }

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
        carried = np.where(first, self._sums["Length"][env], 0)
        age = np.arange(B * T) - np.repeat(starts - carried, length)
        weighted = r if self._discount == 1 else r * self._discount**age
        segment = {"Length": length + carried}
        steps = {"Return": r, "NonzeroRewards": (r != 0).astype(np.int64)}
        for name, x in {**steps, "DiscountedReturn": weighted}.items():
            segment[name] = np.add.reduceat(x, starts) + first * self._sums[name][env]
        done = np.isin(stops - 1, ends)
        last = stops % T == 0
        for name, own in self._sums.items():
            own[env[last]] = segment[name][last] * ~done[last]
        rows = zip(*(values[done].tolist() for values in segment.values()), strict=True)
        empty = new_info()
        cls: Any = type(empty)
        numbers = dict(empty)
        return [_filled(cls.__new__(cls), numbers, segment, row) for row in rows]

    def state_dict(self) -> dict[str, Array]:
        """Return the sums of trajectories in progress."""
        return {key: self._sums[name].copy() for name, (key, _) in COLUMNS.items()}

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Load a state from ``state_dict``."""
        for name, (key, _) in COLUMNS.items():
            self._sums[name][:] = state[key]


def _filled(
    info: TrajInfo, numbers: dict[str, Any], names: Iterable[str], row: Iterable[float]
) -> TrajInfo:
    """Return an ``info`` without entries with those of a new one, and a trajectory's instead."""
    dict.update(info, numbers)
    dict.update(info, zip(names, row))
    return info.terminate(None)
