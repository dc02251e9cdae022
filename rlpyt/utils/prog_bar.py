"""Terminal progress bar, for progress towards the next log."""

import sys


class ProgBarCounter:
    """Progress bar on standard error, hidden if that is not a terminal."""

    def __init__(self, total_count: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.total_count = total_count
        shown = sys.stderr is not None and sys.stderr.isatty()
        self._bar = Progress(console=Console(stderr=True), transient=True, disable=not shown)
        self._task = self._bar.add_task("", total=total_count)
        self._stopped = not shown

    def update(self, current_count: int) -> None:
        """Set progress to ``current_count`` (not an increment) of ``total_count``."""
        if not self._stopped:
            self._bar.update(self._task, completed=current_count)
            self._bar.start()

    def stop(self) -> None:
        """Remove the bar; further updates have no effect. May be called again."""
        if not self._stopped:
            self._bar.stop()
        self._stopped = True
