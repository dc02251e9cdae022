"""Progress towards the next log, in the terminal."""

import sys


class ProgBarCounter:
    """A progress bar on standard error; nothing is shown where that is no terminal."""

    def __init__(self, total_count: int) -> None:
        from tqdm import tqdm

        self.total_count = total_count
        closed = sys.stderr is None  # disable=None asks the stream if it is a terminal
        self._bar = tqdm(total=total_count, disable=closed or None, leave=False)

    def update(self, current_count: int) -> None:
        """Show that ``current_count`` of ``total_count`` are done; counts are not increments."""
        self._bar.update(current_count - self._bar.n)

    def stop(self) -> None:
        """Take the bar away; further updates show nothing. May be called again."""
        self._bar.close()
