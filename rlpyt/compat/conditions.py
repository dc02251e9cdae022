"""Conditions that are true at regular intervals, or a given number of times in a run.

A condition is called with a count and returns True when another interval has passed. For example,
in a hook::

    class SavePeriodically(Hook):
        def on_start(self, runner):
            self.condition = NConditioner(runner.n_itr, num_conditions=10, mode="accumulative")

        def on_iteration(self, runner, itr):
            if self.condition(itr + 1):
                runner.save_checkpoint(itr)
"""

from typing import Literal

from rlpyt.utils.checks import check_range, whole_number

Mode = Literal["accumulative", "incremental"]


class IntervalConditioner:
    """Condition that is true when the count has passed another multiple of ``interval``.

    Counts 0, 3, 5, 7, 8, 11, 12 with interval 4 give true at 5, 8 and 12. A count that passes
    several multiples at once gives true once.

    Args:
        interval: length of the interval, above 0.
        mode: argument of calls: "accumulative" for the total count, "incremental" for the increase
            since the last call.

    Attributes:
        count: total count.

    Raises:
        ValueError: the mode is unknown or the interval is not above 0.
    """

    def __init__(self, interval: float, mode: Mode) -> None:
        check_range("interval", interval, 0, open_low=True)
        if mode not in ("accumulative", "incremental"):
            raise ValueError(f"mode={mode!r} must be 'accumulative' or 'incremental'.")
        self.interval, self.mode = interval, mode
        self.count: float = 0
        self._passed = 0  # number of intervals reported so far

    def __call__(self, n: float) -> bool:
        """Return True if another interval has passed; ``n`` is the count or increase by mode."""
        self.count = n if self.mode == "accumulative" else self.count + n
        passed = self._intervals()
        is_true, self._passed = passed > self._passed, max(passed, self._passed)
        return is_true

    def _intervals(self) -> int:
        return int(self.count / self.interval + 1e-9)  # tolerance: 0.3 // 0.1 is 2


class NConditioner(IntervalConditioner):
    """Condition that is true ``num_conditions`` times up to ``max_n``, at even intervals.

    Args:
        max_n: count at which the condition is true for the last time.
        num_conditions: number of times the condition is true, at least 1.
        mode: see `IntervalConditioner`.
    """

    def __init__(self, max_n: float, num_conditions: int, mode: Mode) -> None:
        check_range("max_n", max_n, 0, open_low=True)
        self.max_n = max_n
        self.num_conditions = whole_number("num_conditions", num_conditions, 1)
        super().__init__(max_n / num_conditions, mode)

    def _intervals(self) -> int:
        return int(min(self.count, self.max_n) * self.num_conditions / self.max_n)  # exact at max_n
