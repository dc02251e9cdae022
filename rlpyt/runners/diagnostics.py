"""The columns of progress.csv that every run has: how far it is, and how fast."""

import time
from typing import Any

from rlpyt.utils.logging import logger


def record_progress(runner: Any, itr: int, eval_time: float, now: float) -> None:
    """Record time, steps, updates and their rates since the row before.

    Args:
        runner: whose row it is.
        itr: the iteration just run; -1 before the first.
        eval_time: seconds of evaluation, in which nothing was trained.
        now: by ``time.monotonic``.
    """
    elapsed = max(now - runner._last_time - eval_time, 1e-9)
    updates = runner.algo.update_counter
    steps = runner.itr_batch_size * (itr - runner._last_logged_itr)
    new_updates = updates - runner._last_update_counter
    samples_used = getattr(runner.algo, "_batch_size", 0) * runner.world_size
    total = (itr + 1) * runner.itr_batch_size
    nan = float("nan")
    for name, value in {
        "CumTime (s)": runner._cum_time,
        "CumSteps": total,
        "CumCompletedTrajs": runner._cum_completed_trajs,
        "CumUpdates": updates,
        "StepsPerSecond": steps / elapsed if steps else nan,
        "UpdatesPerSecond": new_updates / elapsed if steps else nan,
        "ReplayRatio": new_updates * samples_used / steps if steps else nan,
        "CumReplayRatio": updates * samples_used / total if total else nan,
    }.items():
        logger.record_tabular(name, value)
    for part in (runner.sampler, runner.algo):
        for name, value in getattr(part, "statistics", dict)().items():
            logger.record_tabular(name, value)


def record_waiting(runner: Any, itr: int) -> None:
    """Record how far sampler and optimizer of an asynchronous run are, and who waits for whom.

    Args:
        runner: whose row it is.
        itr: the iteration just run; -1 before the first.
    """
    elapsed = max(time.monotonic() - runner._last_time, 1e-9)
    waited = runner.feed.learner_waited_s, runner.feed.sampler_waited_s
    sampler_waited = waited[1] - runner._waited_at_row[1]
    runner._waited_at_row = waited
    logger.record_tabular("Iteration", runner.opt_itr)
    logger.record_tabular("SamplerIteration", max(itr, 0))
    logger.record_tabular("OptThrottle", min(1.0, runner._throttle_time / elapsed))
    logger.record_tabular("SamplerThrottle", min(1.0, sampler_waited / elapsed))


def begin_row(runner: Any, itr: int) -> None:
    """Count anew, after a row."""
    runner._last_time = time.monotonic()
    runner._last_update_counter = runner.algo.update_counter
    runner._last_logged_itr = itr
    runner._new_completed_trajs = 0
