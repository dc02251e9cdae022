"""The runners of one process: with statistics of training, or with evaluation."""

import time
from collections import deque
from typing import Any

from rlpyt.runners import state as run_state
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter


class MinibatchRl(MinibatchRlBase):
    """Training with statistics of the trajectories it learns from.

    Args:
        log_traj_window: how many of the last trajectories a row describes.
        **kwargs: see ``MinibatchRlBase``.
    """

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window, 1)

    def initialize_logging(self) -> None:
        """Keep a window of trajectories."""
        super().initialize_logging()
        self._traj_infos = deque(maxlen=self.log_traj_window)

    def store_diagnostics(self, itr: int, traj_infos: list[Any], opt_info: Any) -> None:
        """Move the window on."""
        self._traj_infos.extend(traj_infos)
        if traj_infos:
            window = [info["Return"] for info in self._traj_infos]
            self.recent_return = sum(window) / len(window)
        super().store_diagnostics(itr, traj_infos, opt_info)

    def log_diagnostics(self, itr: int, prefix: str = "Diagnostics/") -> None:  # type: ignore[override]
        """Write a row about the window of trajectories."""
        with logger.tabular_prefix(prefix):
            logger.record_tabular("NewCompletedTrajs", self._new_completed_trajs)
            steps = sum(info["Length"] for info in self._traj_infos)
            logger.record_tabular("StepsInTrajWindow", steps)
        super().log_diagnostics(itr, prefix=prefix)


class MinibatchRlEval(MinibatchRlBase):
    """Training with statistics of separate evaluation episodes, before the first iteration and
    at every logging interval.

    A signal ends an evaluation early; the resumed run begins with that evaluation.
    """

    _eval = True

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate; returns (trajectories, seconds it took)."""
        if self.pbar is not None:
            self.pbar.stop()
            self.pbar = ProgBarCounter(self.log_interval_itrs)
        started = time.monotonic()
        traj_infos: list[Any] = []
        if itr >= self.min_itr_learn - 1 or itr <= 0:
            self.agent.eval_mode(max(itr, 0))
            traj_infos = self.sampler.evaluate_agent(max(itr, 0))
            if not traj_infos and not self._signals.has_come():
                logger.log("WARNING: no evaluation episode ended; raise eval_max_steps.")
        return traj_infos, time.monotonic() - started

    def _evaluate_and_log(self, itr: int) -> None:
        if self.checkpoint_place() is not None:
            self.before_evaluation = run_state.evaluation_changes(self)
        traj_infos, eval_time = self.evaluate_agent(itr)
        self._eval_time_here += eval_time
        self.owes_evaluation = self._signals.has_come()
        if self.owes_evaluation:  # half an evaluation says nothing: neither row nor snapshot
            self._last_time += eval_time
            return
        self.before_evaluation = None
        self.log_diagnostics(itr, traj_infos, eval_time)
        self._tell("on_log", dict(self._last_row))

    def log_diagnostics(  # type: ignore[override]
        self,
        itr: int,
        eval_traj_infos: list[Any],
        eval_time: float,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Write a row about evaluation episodes."""
        self._cum_eval_time += eval_time
        with logger.tabular_prefix(prefix):
            steps = sum(info["Length"] for info in eval_traj_infos)
            logger.record_tabular("StepsInEval", steps)
            logger.record_tabular("TrajsInEval", len(eval_traj_infos))
            logger.record_tabular("CumEvalTime", self._cum_eval_time)
        super().log_diagnostics(itr, eval_traj_infos, eval_time, prefix)
