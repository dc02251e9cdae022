"""Terminal progress bar, for progress towards the next log."""

import sys


class ProgBarCounter:
    """Progress bar on standard error, hidden if that is not a terminal."""

    def __init__(self, total_count: int) -> None:
        from tqdm import tqdm

        self.total_count = total_count
        closed = sys.stderr is None  # disable=None checks whether the stream is a terminal
        self._bar = tqdm(total=total_count, disable=closed or None, leave=False)

    def update(self, current_count: int) -> None:
        """Set progress to ``current_count`` (not an increment) of ``total_count``."""
        self._bar.update(current_count - self._bar.n)

    def stop(self) -> None:
        """Remove the bar; further updates have no effect. May be called again."""
        self._bar.close()
