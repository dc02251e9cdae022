"""Counters and statistics of a run, which are part of its checkpoints."""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlpyt.runners.usage import PhaseClock
from rlpyt.utils.checks import check_range
from rlpyt.utils.collections import AttrDict

SAVED_FIELDS = (
    *("cum_eval_time", "cum_completed_trajs", "new_completed_trajs"),
    *("last_update_counter", "last_logged_itr", "recent_return"),
)


@dataclass
class RunState:
    """Counters and statistics of a run.

    Attributes:
        itr: last complete iteration, -1 before the first.
        evaluation_pending: number of evaluations that a signal interrupted, at most one unless they
            run in parallel with training; the resumed run repeats them.
        opt_infos: values of each of the algorithm's statistics since the last row.
        traj_infos: trajectories summarized in the next row, at most the runner's window.
        start_time, last_time: times (``time.monotonic``) of the start and of the last row; a
            checkpoint contains the seconds since then.
        clock: seconds in each phase of the training loop, with a lap for each row.
        cum_eval_time: total seconds of evaluation.
        cum_completed_trajs, new_completed_trajs: number of completed trajectories, in total and
            since the last row.
        last_update_counter, last_logged_itr: number of updates and iteration at the last row.
        recent_return: mean return of the trajectories summarized in the last row.
    """

    itr: int = -1
    evaluation_pending: int = 0
    opt_infos: dict[str, list[Any]] = field(default_factory=dict)
    traj_infos: deque[Any] = field(default_factory=deque)
    start_time: float = field(default_factory=time.monotonic)
    last_time: float = field(default_factory=time.monotonic)
    clock: PhaseClock = field(default_factory=PhaseClock)
    cum_eval_time: float = 0.0
    cum_completed_trajs: int = 0
    new_completed_trajs: int = 0
    last_update_counter: int = 0
    last_logged_itr: int = -1
    recent_return: float = float("nan")

    @property
    def cum_time(self) -> float:
        """Return the seconds since the start of the run, excluding interruptions."""
        return time.monotonic() - self.start_time

    def begin_row(self, itr: int, updates: int) -> None:
        """Reset the counters of a row."""
        self.last_time = time.monotonic()
        self.last_update_counter, self.last_logged_itr = updates, itr
        self.new_completed_trajs = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the state, without ``itr`` and ``evaluation_pending``."""
        return {
            # A subclass that keeps its own may assign None.
            "opt_infos": {name: _compact(x) for name, x in (self.opt_infos or {}).items()},
            "traj_infos": to_plain(self.traj_infos),
            "cum_time": self.cum_time,
            "time_since_row": time.monotonic() - self.last_time,
            "phases_since_row": self.clock.since_lap(),
            **{name: vars(self)[name] for name in SAVED_FIELDS},
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Load a state from ``to_dict``."""
        given = {name: np.asarray(x).tolist() for name, x in saved["opt_infos"].items()}
        # A unary plus refuses what is not a number.
        self.opt_infos = {name: [+x for x in values] for name, values in given.items()}
        self.traj_infos.extend(from_plain(saved["traj_infos"]))
        for info in self.traj_infos:  # what every row reads
            _ = +info["Length"], +info.get("Return", 0.0)
        now = time.monotonic()
        for name in ("cum_time", "time_since_row"):
            check_range(name, saved[name], low=0.0, finite=True)
        self.start_time, self.last_time = now - saved["cum_time"], now - saved["time_since_row"]
        self.clock.load(saved.get("phases_since_row", {}))
        for name in SAVED_FIELDS:
            setattr(self, name, +saved[name])


def _compact(values: list[Any]) -> Any:
    """Return floats as an array, since there may be very many; other lists as they are."""
    return np.array(values) if all(type(x) is float for x in values) else list(values)


def add_opt_info(columns: dict[str, list[Any]], opt_info: object) -> None:
    """Append the statistics that ``optimize_agent`` returned.

    Args:
        columns: values by name of the statistic; extended in place, also by new names.
        opt_info: named tuple, or `AttrDict`, of numbers or lists; missing statistics are skipped.
    """
    fields = opt_info if isinstance(opt_info, dict) else getattr(opt_info, "_fields", ())
    for name in dict.fromkeys((*columns, *fields)):
        new = getattr(opt_info, name, [])
        columns.setdefault(name, []).extend(new if isinstance(new, list) else [new])


def to_plain(traj_infos: Iterable[Any]) -> list[dict[str, Any]]:
    """Convert trajectory infos to plain dictionaries, without private entries."""
    return [{k: v for k, v in info.items() if not k.startswith("_")} for info in traj_infos]


def from_plain(dictionaries: Iterable[dict[str, Any]]) -> list[AttrDict]:
    """Convert dictionaries from ``to_plain`` back to trajectory infos."""
    return [AttrDict(**d) for d in dictionaries]
