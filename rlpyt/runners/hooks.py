"""Hooks of runners (logging, evaluation, checkpoints, stopping) and handling of stop signals."""

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rlpyt.spaces.record import record_of
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import say, silence_blocked
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.logging.snapshots import read_snapshot, write_snapshot
from rlpyt.utils.names import nearest, suggestion
from rlpyt.utils.processes import GROUP_SIGNALS, ignore_signal
from rlpyt.utils.recorded import Recorded

if TYPE_CHECKING:
    from rlpyt.runners.runner import MinibatchRlBase

CHECK_INTERVAL_S = 2.0  # between checks of the run directory
STOPPING = b"\r\nStopping after this iteration. Ctrl-C again: at once, without a checkpoint.\r\n"
# The terminal was closed, and a cluster will end the job soon: sent several times, or followed by
# SIGTERM, they do not force the end. Windows does not have them.
GENTLE = [getattr(signal, name, None) for name in ("SIGHUP", "SIGUSR1")]


class Hook(Recorded):
    """Base class of hooks, which a runner calls in list order; override what you need.

    Useful attributes of the runner: ``itr``, ``n_itr``, ``cum_steps``, ``n_steps``,
    ``steps_per_second`` and ``recent_return``. ``runner.request_stop()`` ends training after the
    iteration.
    """

    owns_terminal = False  # True if the hook shows progress, so that the runner shows none

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Act after startup, before the runner's own hooks, one of which may evaluate."""

    def on_iteration(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Act after an iteration."""

    def on_log(self, runner: "MinibatchRlBase", row: dict[str, Any]) -> None:
        """Act after a row was written to progress.csv."""

    def on_end(self, runner: "MinibatchRlBase") -> None:
        """Act when training has ended, also by an error, after the last checkpoint is saved."""


EVENTS = ("on_start", "on_iteration", "on_log", "on_end")


def check_hooks(hooks: Iterable[Any]) -> None:
    """Raise a TypeError for a hook with a misspelt event, or without any, which would do nothing.

    A hook may be any object. Its other public methods may have any name that is not like an event.
    """
    for hook in hooks:
        methods = {name for name in dir(hook) if callable(getattr(hook, name, None))}
        for name in sorted(methods.difference(EVENTS)):
            near = nearest(name, EVENTS, 1, cutoff=0.8)
            if name.startswith("on_") or (near and not name.startswith("_")):
                raise TypeError(
                    f"hook {type(hook).__name__} must have no method that no runner calls, got "
                    f"{name}{suggestion(name, EVENTS)} Events: {', '.join(EVENTS)}. Begin the "
                    "names of other methods with _."
                )
        if not methods.intersection(EVENTS):
            raise TypeError(
                f"hook {type(hook).__name__} must have a method {' or '.join(EVENTS)}, got none."
            )


class LogHook(Hook):
    """Write a row of statistics of the last trajectories at every logging interval."""

    def on_iteration(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Write a row at the end of a logging interval."""
        if runner.logs_after(itr):
            self.write(runner, itr)

    def write(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Write the row of this iteration; also called at the end of a run that a hook stops."""
        runner.write_row(itr)

    def has_written(self, runner: "MinibatchRlBase", itr: int) -> bool:
        """Return True if ``write`` has nothing to add to the rows of this iteration."""
        return runner.state.last_logged_itr >= itr


class EvalHook(LogHook):
    """Evaluate before training and at every evaluation interval, and write a row.

    Rows at logging intervals in between have no evaluation.
    """

    _evaluated_itr: int | None = None

    def has_written(self, runner: "MinibatchRlBase", itr: int) -> bool:
        """Return True if the agent of this iteration was evaluated."""
        return self._evaluated_itr == itr

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Evaluate the initial policy, or repeat an evaluation that a signal interrupted."""
        if runner.start_itr == 0 or runner.state.evaluation_pending:
            self.evaluate(runner, runner.itr)

    def on_iteration(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Evaluate at the end of an evaluation interval; write a row at that of a logging one."""
        if runner.evaluates_after(itr):
            self.write(runner, itr)
        elif runner.logs_after(itr):
            runner.write_row(itr)

    def write(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Evaluate and write the row."""
        self.evaluate(runner, itr)

    def evaluate(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Evaluate and write the row; write neither row nor snapshot if a signal interrupts.

        Args:
            runner: runner of the agent.
            itr: last iteration, -1 before the first.
        """
        runner.begin_evaluation()
        phase = runner.state.clock.switch("evaluating")
        traj_infos, eval_time = runner.evaluate_agent(max(itr, 0))  # 0 as in rlpyt
        runner.state.clock.switch(phase)
        if runner.end_evaluation(eval_time):
            runner.write_row(itr, (traj_infos, eval_time))
            self._evaluated_itr = itr


class CheckpointHook(Hook):
    """Save a checkpoint every ``interval_steps`` environment steps, and at the end.

    Every few seconds, check that the run directory is still there.

    Args:
        interval_steps: environment steps between checkpoints; ``None`` or 0: only at the end.
    """

    def __init__(self, interval_steps: int | None) -> None:
        self.interval_steps = interval_steps
        self._last_steps = 0
        self._next_check_s = 0.0

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Count from the steps at the start."""
        self._last_steps = runner.cum_steps

    def on_iteration(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Save at the end of an interval or of the run; check the run directory."""
        now = time.monotonic()
        if now >= self._next_check_s:
            logger.check_run_dir()
            self._next_check_s = now + CHECK_INTERVAL_S
        due = self.interval_steps and runner.cum_steps - self._last_steps >= self.interval_steps
        if due or itr + 1 == runner.n_itr:
            runner.save_checkpoint(itr)
            self._last_steps = runner.cum_steps


class StopAtReturn(Hook):
    """Stop training, with a checkpoint, when the mean return is high enough.

    The return is ``ReturnAverage`` of progress.csv: of evaluation episodes in runners that
    evaluate, otherwise of the latest training episodes. It is checked when a row is written.

    Args:
        return_: mean return at which to stop.
        window: number of consecutive rows over which ``ReturnAverage`` is averaged. Rows without
            an episode do not count. A resumed run continues its window, and ends after an iteration
            if it has reached the return before.
    """

    def __init__(self, return_: float, window: int = 1) -> None:
        check_range("return_", return_)
        self.return_ = return_
        self._returns: deque[float] = deque(maxlen=whole_number("window", window, 1))

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Read the rows of a run that is resumed."""
        self._returns.clear()
        directory = logger.get_snapshot_dir()
        if runner.start_itr and directory and Path(directory, "progress.csv").exists():
            self._note(runner, read_progress(directory).get("ReturnAverage", ()))

    def on_log(self, runner: "MinibatchRlBase", row: dict[str, Any]) -> None:
        """Request a stop."""
        self._note(runner, [row.get("ReturnAverage", math.nan)])

    def _note(self, runner: "MinibatchRlBase", returns: Iterable[float]) -> None:
        self._returns.extend(x for x in returns if not math.isnan(x))
        complete = len(self._returns) == self._returns.maxlen
        if complete and sum(self._returns) / len(self._returns) >= self.return_:
            runner.request_stop()


class TimeLimit(Hook):
    """Stop training, with a checkpoint, after a number of seconds.

    Args:
        seconds: time since training started in this process; a resumed run starts again at zero.
    """

    def __init__(self, seconds: float) -> None:
        check_range("seconds", seconds, 0)
        self.seconds = seconds
        self._end = math.inf

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Start the clock."""
        self._end = time.monotonic() + self.seconds

    def on_iteration(self, runner: "MinibatchRlBase", itr: int) -> None:
        """Request a stop when the time is over."""
        if time.monotonic() >= self._end:
            runner.request_stop()


class KeepBest(Hook):
    """Keep the agent with the highest ``ReturnAverage`` of a row as best.pkl in the run directory.

    Atari games have a score, ``GameScoreAverage``, which counts in place of the return of clipped
    rewards.

    Use it with a runner that evaluates, such as ``MinibatchRlEval``; with others, the return is
    that of training episodes, which older parameters collected. In asynchronous runs, the
    parameters may be newer than those evaluated. Load the agent by ``rlpyt.load(run_dir,
    best=True)``, or with::

        agent.load_state_dict(torch.load("best.pkl")["agent_state_dict"])

    The file also holds ``itr``, ``cum_steps``, ``return_`` and ``evaluated`` (True if the return is
    that of an evaluation). A resumed run keeps a better agent of the run before, unless only one of
    the two evaluates.
    """

    FILE = "best.pkl"

    def __init__(self) -> None:
        self.return_ = -math.inf  # of the best agent
        self._path = Path(self.FILE)

    def on_start(self, runner: "MinibatchRlBase") -> None:
        """Find the run directory, and the best agent of a resumed run.

        Raises:
            ValueError: there is no run directory.
        """
        run_dir = logger.get_snapshot_dir()
        if run_dir is None:
            raise ValueError("KeepBest needs a run directory. Train inside logger_context(...).")
        self.return_, self._path = -math.inf, Path(run_dir, self.FILE)
        if runner.start_itr > 0 and self._path.exists():
            best = read_snapshot(self._path)
            alike = best.get("evaluated", runner._eval) == runner._eval
            if alike and best["cum_steps"] <= runner.cum_steps:  # later ones are evaluated again
                self.return_ = best["return_"]

    def on_log(self, runner: "MinibatchRlBase", row: dict[str, Any]) -> None:
        """Save the agent if it is the best so far."""
        return_ = row.get("GameScoreAverage", row.get("ReturnAverage", math.nan))
        if not return_ > self.return_:  # also if it is NaN
            return
        self.return_ = return_
        content = {
            "itr": runner.state.itr,
            "cum_steps": runner.cum_steps,
            "return_": return_,
            "evaluated": runner._eval,
            "agent_state_dict": runner.agent.state_dict(),
            "spaces": record_of(runner.agent.env_spaces),
        }
        try:
            write_snapshot(self._path, content)
        except OSError as error:
            warnings.warn(f"{self._path} could not be saved ({error}); the run continues.")


def _is_ours(handler: Any) -> bool:
    """Return True if a handler is that of another run, such as one of several in lockstep."""
    return isinstance(getattr(handler, "__self__", None), StopSignals)


def _is_free(number: int) -> bool:
    """Return True if no program handles or ignores a signal."""
    handler = signal.getsignal(number)
    return handler in (signal.SIG_DFL, ignore_signal) or _is_ours(handler)


class StopSignals:
    """Turn Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 into a request to stop after the iteration.

    A second Ctrl-C or SIGTERM stops at once. A second SIGHUP or SIGUSR1 does not, because both
    shell and system send one when a terminal is closed, and clusters send SIGUSR1 some time before
    SIGTERM. SIGHUP stays ignored if it is (``nohup``), and SIGUSR1 is left to a program that
    handles it.

    Use as a context manager around training; outside the main thread it does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.at_once = True  # before the first iteration a signal stops at once
        self._previous: dict[int, Any] = {}
        self._earlier: Any = None  # handler before this one, of the signal that was received
        self._received_s = 0.0  # time.monotonic() of the signal
        self._error: BaseException | None = None
        self._interruptible = False

    def interrupt(self, error: BaseException) -> None:
        """Make the main thread raise ``error`` as soon as it runs Python code."""
        if not self._interruptible:
            return
        self._error = error
        if self._previous:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def disable_interrupt(self) -> None:
        """Ignore ``interrupt`` from now on: the main thread is ending."""
        self._interruptible, self._error = False, None

    def has_come(self) -> bool:
        """Return True if a signal was received; long operations poll it and end early."""
        return self.received is not None

    def __enter__(self) -> "StopSignals":
        self.received, self.at_once, self._error = None, True, None
        self._received_s, self._earlier = 0.0, None
        self._interruptible = True
        if threading.current_thread() is threading.main_thread():
            for number in GROUP_SIGNALS:
                if number not in GENTLE or _is_free(number):
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        self._earlier = self._previous.get(self.received or 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        silence_blocked()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.received is not None and number in GENTLE:
            return
        if self.received is not None and self.received not in GENTLE:
            raise KeyboardInterrupt
        if self.received is None:
            self._received_s = time.monotonic()
        self.received = number
        if self.at_once:
            say("Stopped by signal before the first iteration.")
            raise SystemExit(self.exit_code)
        if os.isatty(2) and multiprocessing.parent_process() is None:
            with contextlib.suppress(OSError):
                os.write(2, STOPPING)  # `print` may have been interrupted and cannot be entered

    def seconds_since(self) -> float:
        """Return the time since this process, or another rank, received the signal."""
        return time.monotonic() - self._received_s if self._received_s else 0.0

    def take_over(self, number: int, seconds: float) -> None:
        """Take note of a signal that a rank has received some seconds ago."""
        self.received, self._received_s = number, time.monotonic() - seconds

    def call_earlier(self) -> None:
        """Call the program's own handler of the signal, after all is saved and closed."""
        program_s = callable(self._earlier) and self._earlier is not signal.default_int_handler
        if program_s and not _is_ours(self._earlier):
            self._earlier(self.received, None)

    @property
    def exit_code(self) -> int:
        """Return the exit status for the received signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.received or 0)
