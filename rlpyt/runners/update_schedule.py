"""Schedule of updates in asynchronous runs, by the replay ratio."""

import math
from typing import Any

from rlpyt.algos.replay import ReplayAlgo
from rlpyt.runners.run_state import add_opt_info
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger

STARVED = 0.8  # fraction of the due updates below which a warning is logged
MIN_CALLS = 100  # due calls below which the comparison is too noisy


class UpdateSchedule:
    """Schedule of the calls of ``optimize_agent``, by the algorithm's replay ratio.

    Args:
        algo: algorithm, after ``async_initialize``.
        itr_batch_size: samples in one batch of the sampler.
    """

    def __init__(self, algo: ReplayAlgo, itr_batch_size: int) -> None:
        samples_per_call = algo.updates_per_optimize * algo.samples_per_update * algo.world_size
        self._ratio = algo.replay_ratio
        self._calls_per_step: float = algo.replay_ratio / samples_per_call
        self._itr_batch_size = itr_batch_size
        self._min_itr_learn = algo.min_itr_learn
        self._warned = False
        self.restart(0, 0)

    def restart(self, batches: int, calls: int) -> None:
        """Restart the schedule at these numbers of batches and calls, with an empty replay."""
        self._batches, self._calls = batches + self._min_itr_learn, calls
        self._last_compared = calls, calls  # due and made
        self.n_void = 0  # void rows in the batches counted

    def exclude_void(self, itr: int, n_void: int) -> None:
        """Do not count ``n_void`` rows of the batch of the sampler's iteration ``itr``."""
        if itr >= self._batches:
            self.n_void += n_void

    def calls_due(self, batches: int) -> int:
        """Return the total number of calls due after this number of stored batches."""
        steps = max(0, batches - self._batches) * self._itr_batch_size - self.n_void
        new = steps * self._calls_per_step
        calls: int = self._calls + math.floor(
            new + 1e-6
        )  # rounding errors may fall below an integer
        return calls

    def warn_if_starved(self, batches: int, calls: int) -> None:
        """Log once if far fewer calls were made than were due since the last check.

        Args:
            batches: total number of stored batches.
            calls: total number of calls made.
        """
        (due_before, calls_before), due = self._last_compared, self.calls_due(batches)
        self._last_compared = due, calls
        expected, made = due - due_before, calls - calls_before
        if self._warned or expected < MIN_CALLS or made >= STARVED * expected:
            return
        self._warned = True
        logger.log(
            f"WARNING: since the last row only {made / expected:.0%} of the updates required by "
            f"replay_ratio={self._ratio:g} were made: the optimizer does not keep up with the "
            "sampler. To make all updates, let the sampler wait (max_lead=0). Otherwise give the "
            "optimizer more threads (affinity), send parameters less often (updates_per_sync), or "
            "lower replay_ratio. This warning is logged once; see the columns ReplayRatio, "
            "OptThrottle and SamplerThrottle."
        )


def merge_opt_infos(fields: tuple[str, ...], opt_infos: list[Any]) -> AttrDict:
    """Merge the results of several calls of ``optimize_agent`` into one."""
    columns: dict[str, list[Any]] = {name: [] for name in fields}
    for info in opt_infos:
        add_opt_info(columns, info)
    return AttrDict(columns)
