"""Progress display of a training run: a live view on a terminal, otherwise plain lines."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import Collection
from math import isfinite
from typing import TYPE_CHECKING, Any, TextIO

import torch

from rlpyt.models.utils import unwrap_ddp
from rlpyt.runners.hooks import Hook
from rlpyt.runners.usage import ResourceUse
from rlpyt.utils.logging.console import say, silence
from rlpyt.utils.text import duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from rlpyt.runners.runner import MinibatchRlBase

PLAIN_INTERVAL_S = 5.0
DRAW_INTERVAL_S = 0.25
RESOURCES_INTERVAL_S = 2.0
RECENT_S = 60.0  # time left and shares of the time are those of these last seconds
N_RETURNS = 24  # rows of progress.csv whose returns are drawn
LEVELS = "▁▂▃▄▅▆▇█"


class ProgressHook(Hook):
    """Runner hook that shows progress, speed, return, time left and where the time goes.

    Runs in the main process. On a terminal a few lines are redrawn after an iteration, at most four
    times a second; otherwise a plain line is printed every few seconds, so that logs stay readable.
    Nothing is shown if the stream is not writable.

    Args:
        stream: output stream; standard output by default.
        interval_s: seconds between two plain lines.
        announcement: text printed when all parts of the run have been built; "{steps}" in it is
            replaced by the number of steps, which are those of whole iterations.
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
        self._console: Console | None = None  # of the live view
        self._live: Live | None = None
        self._next_s = 0.0
        self._shown_steps = -1  # steps at the last plain line, or at the start of the run
        self._recent: deque[tuple[float, int, dict[str, float]]] = deque()
        self._returns: deque[float] = deque(maxlen=N_RETURNS)
        self._resources: ResourceUse | None = None
        self._resources_s, self._resources_text = 0.0, ""

    def on_start(self, runner: MinibatchRlBase) -> None:
        """Print the announcement and draw the view, which starts at the steps of a resumed run."""
        self._total = runner.n_itr * runner.itr_batch_size
        self._recent = deque([_moment(runner)])
        self._shown_steps = runner.cum_steps
        if self.announcement and self.stream is not None:
            say(self.announcement.replace("{steps}", f"{self._total:,}"), self.stream)
            say(parameters_in_words(runner.agent), self.stream)
        self._next_s = time.monotonic() + self.interval_s
        self._console = None if self.stream is None else console_of(self.stream)
        if self._console is not None:
            self._resources = ResourceUse(runner.agent.device)
            self._resources_s = time.monotonic() + RESOURCES_INTERVAL_S
            self._draw(runner)

    def on_iteration(self, runner: MinibatchRlBase, itr: int) -> None:
        """Redraw the view, or print a line if the interval has passed."""
        if not self._total or time.monotonic() < self._next_s:
            return
        if self._console is not None:
            self._draw(runner)
        else:
            self._print_line(runner)

    def on_log(self, runner: MinibatchRlBase, row: dict[str, Any]) -> None:
        """Store the return of the row, which the view plots."""
        average = row.get("ReturnAverage", math.nan)
        if isfinite(average):
            self._returns.append(average)

    def on_end(self, runner: MinibatchRlBase) -> None:
        """Show the final state, unless the run never started."""
        if self._console is not None:
            self._draw(runner)
            self._close()
        elif self._total and runner.cum_steps > self._shown_steps:
            self._print_line(runner)

    # The live view.

    def _draw(self, runner: MinibatchRlBase) -> None:
        """Draw the view; stop drawing once the terminal is closed."""
        assert self._console is not None
        self._next_s = time.monotonic() + DRAW_INTERVAL_S
        try:
            if self._live is None:
                self._live = live_on(self._console)
                self._live.start()
                self._console.show_cursor(True)  # a killed run must not leave it hidden
            self._live.update(self._view(runner), refresh=True)
        except (OSError, ValueError):
            silence(self.stream)
            self._close()
            self._console = None

    def _close(self, erase: bool = False) -> None:
        """End the view; it stays on the screen unless it is erased."""
        live, self._live = self._live, None
        if live is not None:
            live.transient = erase
            with contextlib.suppress(OSError, ValueError):
                live.stop()

    def _view(self, runner: MinibatchRlBase) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        steps = runner.cum_steps
        bar = Table.grid(padding=(0, 1), expand=True)
        bar.add_column()
        bar.add_column(ratio=1)
        bar.add_column()
        left = self._left(runner)
        bar.add_row(
            f"{steps / self._total:4.0%}",
            ProgressBar(self._total, steps, complete_style="green", finished_style="green"),
            f"{left} left" if left else "",
        )
        lines = Table.grid(padding=(0, 2))
        lines.add_column(style="bold")
        for title, text in self._lines(runner).items():
            if text:
                lines.add_row(title, text)
        return Group(bar, lines)

    def _lines(self, runner: MinibatchRlBase) -> dict[str, str]:
        """Return the text of each line by its title."""
        steps = [f"{runner.cum_steps:,} of {self._total:,}", *_counts(runner), *_speed(runner)]
        return_ = [f"{runner.recent_return:.1f}"] if isfinite(runner.recent_return) else []
        assert self._console is not None
        if len(self._returns) > 1 and not self._console.options.ascii_only:
            return_.append(sparkline(self._returns))
        then, _, seconds_then = self._recent[0]
        now, _, seconds = _moment(runner)
        elapsed = max(now - then, 1e-9)
        parts = {phase: (total - seconds_then[phase]) / elapsed for phase, total in seconds.items()}
        return {
            "steps": ", ".join(steps),
            "return": "  ".join(return_),
            "time": ", ".join(f"{p} {share:.0%}" for p, share in parts.items() if share >= 0.005),
            "uses": self._read_resources(),
        }

    def _read_resources(self) -> str:
        """Return CPU use and memory, read every few seconds: ``1.9 cores, 512 MB``."""
        if self._resources is not None and time.monotonic() >= self._resources_s:
            self._resources_s = time.monotonic() + RESOURCES_INTERVAL_S
            read = self._resources.read()
            parts = [f"{read['CpuCores']:.1f} cores", f"{read['Memory (MB)']:,.0f} MB"]
            if "GpuMemory (MB)" in read:
                parts.append(f"{read['GpuMemory (MB)']:,.0f} MB on the GPU")
            self._resources_text = ", ".join(parts)
        return self._resources_text

    # Plain lines.

    def _print_line(self, runner: MinibatchRlBase) -> None:
        self._next_s = time.monotonic() + self.interval_s
        self._shown_steps = steps = runner.cum_steps
        done = f"{steps:,} of {self._total:,} steps ({steps / self._total:.0%})"
        if self.stream is not None:
            say(f"{done}, {self._summary(runner)}", self.stream)

    def _summary(self, runner: MinibatchRlBase) -> str:
        """Return known values: ``iteration 11, 21,034 steps/s, return 312.4, 00:18 left``."""
        parts = [*_counts(runner), *_speed(runner)]
        if isfinite(runner.recent_return):
            parts.append(f"return {runner.recent_return:.1f}")
        left = self._left(runner)
        if left:
            parts.append(f"{left} left")
        return ", ".join(parts)

    def _left(self, runner: MinibatchRlBase) -> str:
        """Return the time left by the speed of the last minute; "" if it is not known."""
        now, recent = time.monotonic(), self._recent
        if now - recent[-1][0] >= 1:
            recent.append(_moment(runner))
        while len(recent) > 1 and recent[1][0] <= now - RECENT_S:
            recent.popleft()
        then, steps_then, _ = recent[0]
        speed = runner.steps_per_second
        if now - then >= 1:  # long enough to measure
            speed = (runner.cum_steps - steps_then) / (now - then)
        known = isfinite(speed) and speed > 0
        return duration((self._total - runner.cum_steps) / speed) if known else ""


class TerminalProgress(ProgressHook):
    """Progress of scripts: a live view on standard error if that is a terminal, otherwise nothing.

    Another hook with ``owns_terminal`` replaces it.
    """

    owns_terminal = False

    def on_start(self, runner: MinibatchRlBase) -> None:
        """Draw the view."""
        self.stream = sys.stderr
        shown = self.stream is not None and console_of(self.stream) is not None
        if shown and not any(getattr(hook, "owns_terminal", False) for hook in runner.hooks):
            super().on_start(runner)

    def on_iteration(self, runner: MinibatchRlBase, itr: int) -> None:
        """Redraw the view, or erase it while the logger prints a row."""
        if runner.logs_after(itr):
            self._close(erase=True)
        else:
            super().on_iteration(runner, itr)

    def on_log(self, runner: MinibatchRlBase, row: dict[str, Any]) -> None:
        """Draw the view below the row."""
        super().on_log(runner, row)
        if self._console is not None and self._live is None:
            self._draw(runner)


def console_of(stream: TextIO) -> Console | None:
    """Return a console if the stream is a terminal on which lines can be redrawn."""
    if getattr(stream, "closed", False) or not stream.isatty():
        return None
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            """Raise the error again; the inherited method ends the program."""
            raise  # noqa: PLE0704

    console = Terminal(file=stream, highlight=False)
    return console if console.is_terminal and not console.is_dumb_terminal else None


def live_on(console: Console) -> Live:
    """Return a view, not started; lines printed to a terminal appear above it."""
    from rich.live import Live

    return Live(
        console=console,
        auto_refresh=False,
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
    )


def parameters_in_words(agent: Any) -> str:
    """Return the number of an agent's parameters, and the layer that has most of them.

    Target networks, which are copies, do not count.
    """
    targets = [unwrap_ddp(network) for network in agent.target_networks()]
    layers: list[tuple[str, Any, int]] = []
    counted: set[int] = set()
    for attribute, value in vars(agent).items():
        if not isinstance(value, torch.nn.Module) or unwrap_ddp(value) in targets:
            continue
        for name, layer in unwrap_ddp(value).named_modules(prefix=attribute):
            own = {id(p): p.numel() for p in layer.parameters(recurse=False)}
            new = [n for key, n in own.items() if key not in counted]
            counted.update(own)
            layers.append((name, layer, sum(new)))
    total = sum(n for _, _, n in layers)
    if not total:
        return "The agent has no parameters."
    name, layer, n = max(layers, key=lambda entry: entry[2])
    return f"The agent has {total:,} parameters, {n:,} of them in {name} ({type(layer).__name__})."


def sparkline(values: Collection[float]) -> str:
    """Plot numbers as a line of bars between the smallest and the largest."""
    low, high = min(values), max(values)
    steps = [(x - low) / ((high - low) or 1) for x in values]
    return "".join(LEVELS[round(step * (len(LEVELS) - 1))] for step in steps)


def _moment(runner: MinibatchRlBase) -> tuple[float, int, dict[str, float]]:
    """Return the time, the steps until now, and the seconds in each phase."""
    return time.monotonic(), runner.cum_steps, runner.state.clock.read()


def _counts(runner: MinibatchRlBase) -> list[str]:
    """Return the last complete iteration, and the steps without those of idle environments."""
    itr = runner.cum_steps // runner.itr_batch_size - 1  # -1: none yet
    parts = [f"iteration {itr:,}"] if itr >= 0 else []
    taken = getattr(runner.algo, "steps_taken", None)
    return parts if taken is None else [*parts, f"{taken:,} steps taken"]


def _speed(runner: MinibatchRlBase) -> list[str]:
    """Return the steps per second, if they are known."""
    speed = runner.steps_per_second
    return [f"{speed:,.0f} steps/s"] if isfinite(speed) and speed > 0 else []
