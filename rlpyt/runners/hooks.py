"""What may happen beside training: hooks that a runner calls, in list order."""

import signal
import threading
from typing import Any

from rlpyt.utils.logging.console import say

HANG_UP = getattr(signal, "SIGHUP", None)  # the terminal was closed; not there on Windows


class Hook:
    """Base of hooks; override what is needed.

    The runner offers ``itr``, ``n_itr``, ``cum_steps``, ``n_steps``, ``steps_per_second`` and
    ``recent_return``; ``runner.request_stop()`` ends training after the iteration.
    """

    owns_terminal = False  # true if it shows progress itself; the runner then shows none

    def on_start(self, runner: Any) -> None:
        """After startup, before the first iteration."""

    def on_iteration(self, runner: Any, itr: int) -> None:
        """After each iteration."""

    def on_log(self, runner: Any, row: dict[str, Any]) -> None:
        """After a row was written to progress.csv."""

    def on_end(self, runner: Any) -> None:
        """When training ends, however it ends."""


class CheckpointHook(Hook):
    """Saves a checkpoint every so many environment steps, and at the end.

    Args:
        interval_steps: ``None`` for the end only.
    """

    def __init__(self, interval_steps: int | None) -> None:
        self.interval_steps = interval_steps
        self._last_steps = 0

    def on_start(self, runner: Any) -> None:
        """Count from where the run begins."""
        self._last_steps = runner.cum_steps

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Save when the interval is over or the run is."""
        due = self.interval_steps and runner.cum_steps - self._last_steps >= self.interval_steps
        if due or itr + 1 == runner.n_itr:
            runner.save_checkpoint(itr)
            self._last_steps = runner.cum_steps


class StopSignals:
    """Turns Ctrl-C, SIGTERM and SIGHUP into a request to stop after the iteration.

    A second Ctrl-C or SIGTERM forces the end. SIGHUP does not: when a terminal is closed, shell
    and system both send it. Where it is ignored (``nohup``), it stays ignored.

    Use as a context manager around training; outside the main thread it does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.at_once = True  # until there is something to save, a signal ends the run where it is
        self._previous: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._interruptible = False

    def interrupt(self, error: BaseException) -> None:
        """From another thread: have the main thread raise this as soon as it runs Python code."""
        if not self._interruptible:
            return
        self._error = error
        if self._previous:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def interrupt_no_more(self) -> None:
        """The main thread is ending as it is."""
        self._interruptible, self._error = False, None

    def has_come(self) -> bool:
        """Whether there was a signal; what takes long looks here, and ends early."""
        return self.received is not None

    def __enter__(self) -> "StopSignals":
        self.received, self.at_once, self._error = None, True, None
        self._interruptible = True
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if HANG_UP is not None and signal.getsignal(HANG_UP) != signal.SIG_IGN:
                numbers.append(HANG_UP)
            for number in numbers:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.received is not None and number == HANG_UP:
            return
        if self.received not in (None, HANG_UP):
            raise KeyboardInterrupt
        self.received = number
        if self.at_once:
            say("Stopped by signal before the first iteration.")
            raise SystemExit(self.exit_code)

    @property
    def exit_code(self) -> int:
        """Return the exit code of a process stopped by a signal, such as 130 for Ctrl-C."""
        return 128 + (self.received or 0)
