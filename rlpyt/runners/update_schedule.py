"""Schedule of updates beside a sampler, by the replay ratio."""

import math
from typing import Any

from rlpyt.algos.replay import ReplayAlgo
from rlpyt.runners.run_state import add_opt_info
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger

STARVED = 0.8  # share of the due updates below which a warning is logged
FEW = 100  # calls; where fewer are due, their number varies too much to be compared


class UpdateSchedule:
    """Schedule of the calls of ``optimize_agent``, by the algorithm's replay ratio.

    Args:
        algo: after ``async_initialize``.
        itr_batch_size: samples in one batch of the sampler's.
    """

    def __init__(self, algo: ReplayAlgo, itr_batch_size: int) -> None:
        learnt = algo.updates_per_optimize * algo.batch_size * algo.world_size  # in one call
        self._ratio = algo.replay_ratio
        self._calls_per_step: float = algo.replay_ratio / learnt
        self._itr_batch_size = itr_batch_size
        self._wait = algo.min_itr_learn
        self._warned = False
        self.restart(0, 0)

    def restart(self, batches: int, calls: int) -> None:
        """Count from these numbers of batches and calls, with an empty replay."""
        self._batches, self._calls = batches + self._wait, calls
        self._seen = calls, calls  # expected and made, when last compared
        self.void = 0  # void rows in these batches

    def leave_out(self, itr: int, n_void: int) -> None:
        """Exclude ``n_void`` rows of the batch of the sampler's iteration ``itr``."""
        if itr >= self._batches:
            self.void += n_void

    def after(self, batches: int) -> int:
        """Return the number of calls that are due in all after this number of stored batches."""
        steps = max(0, batches - self._batches) * self._itr_batch_size - self.void
        new = steps * self._calls_per_step
        calls: int = self._calls + math.floor(new + 1e-6)  # floats fall short of integers
        return calls

    def warn_if_starved(self, batches: int, calls: int) -> None:
        """Log once that many fewer calls were made than were due since the last time.

        Args:
            batches: stored in all.
            calls: made in all.
        """
        (due_before, calls_before), due = self._seen, self.after(batches)
        self._seen = due, calls
        asked, made = due - due_before, calls - calls_before
        if self._warned or asked < FEW or made >= STARVED * asked:
            return
        self._warned = True
        logger.log(
            f"WARNING: only {made / asked:.0%} of the updates were made that "
            f"replay_ratio={self._ratio:g} asked for since the last row: the optimizer does not "
            "keep up with the sampler. To have all of them, let the sampler wait (max_lead=0). "
            "Otherwise give the optimizer more threads (affinity), send parameters less often "
            "(updates_per_sync), or lower replay_ratio. This is said once; the columns "
            "ReplayRatio, OptThrottle and SamplerThrottle go on telling."
        )


def joined(fields: tuple[str, ...], opt_infos: list[Any]) -> AttrDict:
    """Return the results of several calls of ``optimize_agent`` as those of one."""
    columns: dict[str, list[Any]] = {name: [] for name in fields}
    for info in opt_infos:
        add_opt_info(columns, info)
    return AttrDict(columns)
