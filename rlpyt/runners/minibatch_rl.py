"""Runners of one process: with training statistics, or with evaluation."""

from typing import Any

from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.utils.checks import whole_number


class MinibatchRl(MinibatchRlBase):
    """Training with statistics of the trajectories collected for training.

    Args:
        log_traj_window: number of latest trajectories summarized in a row.
        **kwargs: see ``MinibatchRlBase``.
    """

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window, 1)


class MinibatchRlEval(MinibatchRlBase):
    """Training with statistics of separate evaluation episodes.

    The agent is evaluated before the first iteration and at every evaluation interval. A signal
    ends an evaluation early; the resumed run repeats it. ``ReturnAverage`` and the like are of the
    evaluation, empty in rows without one; ``Training/ReturnAverage`` and the like are of the last
    ``log_traj_window`` (an attribute) trajectories collected for training.
    """

    _eval = True
    log_traj_window = 100
