"""Conditions that come true every so many steps, or so many times in a run.

A condition is called with a count and says whether it is time, once for each interval that has
passed. In a hook it is asked after each iteration::

    class SaveNowAndThen(Hook):
        def on_start(self, runner):
            self.due = NConditioner(runner.n_itr, num_conditions=10, mode="accumulative")

        def on_iteration(self, runner, itr):
            if self.due(itr + 1):
                runner.save_checkpoint(itr)
"""

from typing import Literal

from rlpyt.utils.checks import check_range, whole_number

Mode = Literal["accumulative", "incremental"]


class IntervalConditioner:
    """True where another ``interval`` has passed since it was true last (at first, since zero).

    It keeps to multiples of the interval: counts 0, 3, 5, 7, 8, 11, 12 with interval 4 give true at
    5, 8 and 12. A count that goes over several multiples gives true once.

    Args:
        interval: above 0.
        mode: "accumulative": calls give the count so far, "incremental": what has been added to
            it since the last call.

    Attributes:
        count: so far.

    Raises:
        ValueError: the mode or interval is wrong.
    """

    def __init__(self, interval: float, mode: Mode) -> None:
        check_range("interval", interval, 0, open_low=True)
        if mode not in ("accumulative", "incremental"):
            raise ValueError(f"mode={mode!r} must be 'accumulative' or 'incremental'.")
        self.interval, self.mode = interval, mode
        self.count: float = 0
        self._passed = 0  # intervals, of those it has told of

    def __call__(self, n: float) -> bool:
        """Return True if it is time; ``n`` counts what the mode says."""
        self.count = n if self.mode == "accumulative" else self.count + n
        passed = self._intervals()
        due, self._passed = passed > self._passed, max(passed, self._passed)
        return due

    def _intervals(self) -> int:
        return int(self.count / self.interval + 1e-9)  # 0.3 is three times 0.1, which // denies


class NConditioner(IntervalConditioner):
    """True ``num_conditions`` times on the way to ``max_n``, evenly spaced, the last time there.

    Args:
        max_n: the count at the end; beyond it there are no more.
        num_conditions: how many times, at least 1.
        mode: of `IntervalConditioner`.
    """

    def __init__(self, max_n: float, num_conditions: int, mode: Mode) -> None:
        check_range("max_n", max_n, 0, open_low=True)
        self.max_n = max_n
        self.num_conditions = whole_number("num_conditions", num_conditions, 1)
        super().__init__(max_n / num_conditions, mode)

    def _intervals(self) -> int:
        return int(min(self.count, self.max_n) * self.num_conditions / self.max_n)  # exact at max_n
