"""The runners of one process: with statistics of training, or with evaluation."""

import time
from typing import Any

from rlpyt.runners.hooks import EvalHook, Hook, ProgressBar
from rlpyt.runners.runner import MinibatchRlBase
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter


class MinibatchRl(MinibatchRlBase):
    """Training with statistics of the trajectories it learns from.

    Args:
        log_traj_window: number of last trajectories that a row describes.
        **kwargs: see ``MinibatchRlBase``.
    """

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window, 1)


class MinibatchRlEval(MinibatchRlBase):
    """Training with statistics of separate evaluation episodes.

    They are played before the first iteration and at every logging interval. A signal ends an
    evaluation early; the resumed run starts with that evaluation.
    """

    _eval = True

    def own_hooks(self) -> list[Hook]:
        """Return the hooks that evaluate, log and show progress."""
        return [ProgressBar(), EvalHook()]

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Evaluate; return (trajectories, seconds it took)."""
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

    def begin_evaluation(self) -> None:
        """Keep the state that the evaluation changes, for a checkpoint in the middle of it."""
        self.begun = True
        if self.checkpoint_place() is not None:
            self.before_evaluation = self._changed_by_evaluation()

    def end_evaluation(self, eval_time: float) -> bool:
        """Leave an evaluation's seconds out of the speed of training.

        Returns:
            whether the evaluation is complete: no signal has interrupted it.
        """
        self._training_since += eval_time
        self.state.owes_evaluation = self._signals.has_come()
        if self.state.owes_evaluation:
            self.state.last_time += eval_time
            return False
        self.before_evaluation = None
        return True
