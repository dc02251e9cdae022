"""Progress display of a training run: a bar on a terminal, otherwise plain lines."""

import sys
import time
from collections import deque
from collections.abc import Callable
from math import isfinite
from typing import Any, TextIO

from tqdm import tqdm

from rlpyt.runners.hooks import Hook, terminal_is_owned
from rlpyt.utils.logging.console import say, silence

PLAIN_INTERVAL_S = 5.0
DRAW_INTERVAL_S = 0.1
RECENT_S = 60.0  # the time left follows the speed in these last seconds


class ProgressHook(Hook):
    """Runner hook that shows iteration, steps, steps per second, return and time left.

    Runs in the main process. On a terminal one line is redrawn; otherwise a plain line is printed
    every few seconds, so that logs stay readable. Nothing is shown if the stream is not writable.

    Args:
        stream: output stream; standard output by default.
        interval_s: seconds between two plain lines.
        announcement: text printed when all parts of the run have been built.
    """

    owns_terminal = True  # disables the runner's own progress display

    def __init__(
        self,
        stream: TextIO | None = None,
        interval_s: float = PLAIN_INTERVAL_S,
        announcement: str = "",
    ) -> None:
        self.stream = stream or sys.stdout  # None if standard output is closed
        self.interval_s = interval_s
        self.announcement = announcement
        self._total = 0  # total steps of the run; 0 before the start
        self._bar: tqdm[Any] | None = None
        self._next_line_s = 0.0
        self._shown_steps = -1  # steps at the last plain line, or at the start of the run
        self._recent: deque[tuple[float, int]] = deque()  # (time, steps) in the last minute

    def on_start(self, runner: Any) -> None:
        """Print the announcement and draw the bar, which starts at the steps of a resumed run."""
        if self.announcement and self.stream is not None:
            say(self.announcement, self.stream)
        self._total = runner.n_itr * runner.itr_batch_size
        self._shown_steps = runner.cum_steps
        self._recent = deque([(time.monotonic(), runner.cum_steps)])
        self._next_line_s = time.monotonic() + self.interval_s
        if self.stream is not None and self.stream.isatty():
            self._bar = tqdm(
                total=self._total,
                initial=runner.cum_steps,
                unit_scale=True,
                file=self.stream,
                dynamic_ncols=True,
                bar_format="{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps{postfix}",
            )
            self._next_line_s = 0.0

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Redraw the bar, or print a line if the interval has passed."""
        if not self._total or time.monotonic() < self._next_line_s:
            return
        if self._bar is not None:
            self._next_line_s = time.monotonic() + DRAW_INTERVAL_S
            self._bar.set_postfix_str(self._summary(runner), refresh=False)
            self._draw(self._bar.update, runner.cum_steps - self._bar.n)
        else:
            self._print_line(runner)

    def on_end(self, runner: Any) -> None:
        """Show the final state, unless the run never started."""
        if self._bar is not None:
            self._bar.n = runner.cum_steps
            self._draw(self._bar.set_postfix_str, self._summary(runner))
        if self._bar is not None:
            self._draw(self._bar.close)
            self._bar = None
        elif self._total and runner.cum_steps > self._shown_steps:
            self._print_line(runner)

    def _draw(self, method: Callable[..., object], *arguments: Any) -> None:
        """Call a method of the bar; stop drawing once the terminal is closed."""
        try:
            method(*arguments)
        except (OSError, ValueError):
            silence(self.stream)
            self._bar = None

    def _print_line(self, runner: Any) -> None:
        self._next_line_s = time.monotonic() + self.interval_s
        self._shown_steps = steps = runner.cum_steps
        done = f"{steps:,} of {self._total:,} steps ({steps / self._total:.0%})"
        if self.stream is not None:
            say(f"{done}, {self._summary(runner)}", self.stream)

    def _summary(self, runner: Any) -> str:
        """Return known values: ``iteration 11, 21,034 steps/s, return 312.4, 00:18 left``."""
        itr = runner.cum_steps // runner.itr_batch_size - 1  # last complete one; -1: none yet
        parts = [f"iteration {itr:,}"] if itr >= 0 else []
        taken = getattr(runner.algo, "steps_taken", None)  # without steps of idle environments
        if taken is not None:
            parts.append(f"{taken:,} steps taken")
        speed = runner.steps_per_second
        if isfinite(speed) and speed > 0:
            parts.append(f"{speed:,.0f} steps/s")
        if isfinite(runner.recent_return):
            parts.append(f"return {runner.recent_return:.1f}")
        recent_speed = self._recent_speed(runner)
        if isfinite(recent_speed) and recent_speed > 0:
            left_s = (self._total - runner.cum_steps) / recent_speed
            parts.append(f"{tqdm.format_interval(left_s)} left")
        return ", ".join(parts)

    def _recent_speed(self, runner: Any) -> float:
        """Return steps per second in the last minute, including evaluation."""
        now, steps, recent = time.monotonic(), runner.cum_steps, self._recent
        if now - recent[-1][0] >= 1:
            recent.append((now, steps))
        while len(recent) > 1 and recent[1][0] <= now - RECENT_S:
            recent.popleft()
        then, steps_then = recent[0]
        if now - then < 1:  # too short to measure
            return float(runner.steps_per_second)
        return float((steps - steps_then) / (now - then))


class TerminalProgress(ProgressHook):
    """Progress of scripts: a bar on standard error if that is a terminal, otherwise nothing.

    Another hook with ``owns_terminal`` replaces it.
    """

    owns_terminal = False

    def on_start(self, runner: Any) -> None:
        """Draw the bar."""
        self.stream = sys.stderr
        shown = self.stream is not None and self.stream.isatty()
        if shown and not terminal_is_owned(runner.hooks):
            super().on_start(runner)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Redraw the bar, or remove it while the logger prints a row."""
        super().on_iteration(runner, itr)
        if self._bar is not None and runner.logs_after(itr):
            self._draw(self._bar.clear)
