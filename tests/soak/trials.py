"""One trial of the soak test: start a run, inject a fault, wait for the end, check what is left.

A kind of run is a subclass of `Trial` that declares its faults, how to start it, the error to
expect and checks of its own. All else is the same for all of them, here and in `tests.soak.chaos`.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import rlpyt
from rlpyt.agents.pg.vector import agent_for
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.progress_csv import read_progress
from tests.faulty import FaultyEnv

# Faults of `FaultyEnv`, with what the error says about them.
EXCEPTIONS = {
    "raise": "FaultError",
    "unpicklable": "UnpicklableError",
    "unicode": "UnicodeDecodeError",
    "recursive": "RecursiveError",
    "mute": "MuteError",
    "huge": "FaultError",
    "chained": "FaultError: told to fail second",
    "eof": "EOFError",
    "broken pipe": "BrokenPipeError",
    "interrupt": "KeyboardInterrupt",
    "generator exit": "GeneratorExit",
    "exit": "SystemExit: 3",
}
DEATHS = {
    "kill": "killed by SIGKILL",
    "vanish": "exited with code 3",
    "segfault": "killed by SIGSEGV",
    "abort": "killed by SIGABRT",
    "bus error": "killed by SIGBUS",
}
LIES = {
    "observation shape": "observation",
    "observation none": "observation",
    "reward none": "reward is None",
    "reward array": "reward",
    "done array": "done",
    "info dict": "env_info",
    "three parts": "step returned 3 values",
}
STANDSTILLS = ("hang", "spin", "freeze", "stop")
IGNORED = ("SIGTERM", "SIGINT", "SIGUSR1")  # workers go on

TIMEOUT_S = 2.0
SAMPLER = dict(max_decorrelation_steps=0, env_timeout=TIMEOUT_S, reset_timeout=TIMEOUT_S)
START_S = {"forkserver": 10.0, "fork": 5.0, "spawn": 40.0}  # on a busy machine
PATIENCE_S = 10.0  # until a process or file that should be gone counts as left


class Trial:
    """One run and one fault; the constructor draws both.

    Attributes:
        KINDS: kinds of faults: how often each is drawn, and the faults of that kind.
        ENDS_S: time that the processes may need to end in turn.
        STILL_S: time until a process that stands still is noticed.
        hang_s: time after which the trial is ended.
        in_child: whether to carry out the trial in a child process.
        sampler_cls: sampler that must collect the same batch afterwards.
        delay_s: time from when the run is ready to a fault that comes from outside.
    """

    KINDS: dict[str, tuple[int, Sequence[str]]]
    ENDS_S = 0.0
    STILL_S = 1.5 * TIMEOUT_S
    hang_s = 120.0
    in_child = False
    sampler_cls: Any = rlpyt.SerialSampler

    def __init__(self, kind: str, rng: random.Random, longest_delay_s: float = 1.0) -> None:
        self.kind, self.fault = kind, rng.choice(self.KINDS[kind][1])
        self.delay_s = rng.uniform(0, longest_delay_s)

    def play(self, directory: Path, strike: "Strike") -> None:
        """Start the run and let it go on until its end, or its error."""
        raise NotImplementedError

    def on_start(self, runner: Any, strike: "Strike") -> None:
        """Act when a run is ready."""

    def on_iteration(self, runner: Any, itr: int, strike: "Strike") -> None:
        """Act after an iteration of a run."""

    @property
    def errors(self) -> tuple[type | None, ...]:
        """Return the classes of error to expect; ``None``: no error."""
        return (None,)

    def patterns(self, error: Any, strike: "Strike") -> list[str]:
        """Return regular expressions that must match in the error and its notes."""
        return []

    def check(self, directory: Path, error: Any, strike: "Strike") -> dict[str, str]:
        """Return further complaints, by column of the table."""
        return {}

    @property
    def stopped(self) -> bool:
        """Return True if the run is a program that is stopped by Ctrl-C."""
        return self.kind.endswith("stopped training")

    @property
    def separate(self) -> bool:
        """Return True if the run is a program, which is killed or stopped."""
        return self.stopped or self.kind.endswith("killed program")

    @property
    def still(self) -> bool:
        """Return True if a process stands still, which is noticed only after a timeout."""
        return self.fault in (*STANDSTILLS, "SIGSTOP") and not self.separate

    @property
    def control(self) -> bool:
        """Return True if nothing fails, so that the run must go on or stop in order."""
        return self.stopped or self.fault in IGNORED

    @property
    def allowance_s(self) -> float:
        """Return the time that the fault has to be waited for."""
        return self.ENDS_S + self.STILL_S * self.still + 10.0 * self.stopped

    def __str__(self) -> str:
        own = {k: f"{v:.2g}" if isinstance(v, float) else v for k, v in vars(self).items()}
        kind, fault = own.pop("kind"), own.pop("fault")
        return f"{kind}: {fault}, {', '.join(f'{k}={v}' for k, v in own.items())}"


class Strike(rlpyt.Hook):  # type: ignore[misc]
    """Injector of a trial's fault, and clock of its consequences.

    Attributes:
        began: time of the fault, or of the start of the call that contains it.
        extra_s: allowance beside the trial's.
        before: processes that may stay.
        who: name of the process that is struck, as in the error, if known.
        runner: the run, if it has one.
        cleanup: functions to call after the end.
        facts: what to report beside the table.
    """

    owns_terminal = True

    def __init__(self, trial: Trial) -> None:
        self.trial, self.began, self.extra_s, self.who = trial, time.monotonic(), 0.0, ""
        self.before = processes().keys()
        self.runner: Any = None
        self.cleanup = contextlib.ExitStack()
        self.facts: dict[str, Any] = {}
        self._over = threading.Event()
        self._thread = threading.Thread()

    def restart_clock(self) -> None:
        """Start a call in which the fault may happen."""
        self.began = time.monotonic()

    def on_start(self, runner: Any) -> None:
        """Let the trial prepare its fault, and tell the program that watches this one."""
        self.restart_clock()
        self.trial.on_start(runner, self)
        print("ready", flush=True)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Let the trial act."""
        self.trial.on_iteration(runner, itr, self)

    def arm(self, find: Callable[[], Sequence[int]], name: str) -> None:
        """Send a signal to the processes that ``find`` returns, once it returns any."""
        arguments = (find, signal.Signals[name])
        self._thread = threading.Thread(target=self._strike, args=arguments, daemon=True)
        self._thread.start()

    def _strike(self, find: Callable[[], Sequence[int]], number: int) -> None:
        self._over.wait(self.trial.delay_s)
        pids: Sequence[int] = ()
        while not pids and not self._over.is_set():
            with contextlib.suppress(psutil.Error):
                pids = find()
            time.sleep(0.001)
        self.restart_clock()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def new_processes(self) -> list[int]:
        """Return the processes that have started since."""
        return sorted(processes().keys() - self.before)

    def wait(self) -> None:
        """Wait until the signal has been sent, if there is one."""
        if self._thread.ident is not None:
            self._thread.join()

    def end(self) -> None:
        """Disarm, then clean up."""
        self._over.set()
        self.wait()
        self.cleanup.close()


@dataclasses.dataclass
class Found:
    """Result of a trial."""

    seconds: float = 0.0  # from the fault to the error
    allowance_s: float = 0.0
    complaints: dict[str, str] = dataclasses.field(default_factory=dict)  # by column of the table
    error: str = ""
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


def attempt(trial: Trial, directory: Path) -> Found:
    """Carry out a trial, and check its error, its processes and its files."""
    strike, error = Strike(trial), None
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            try:
                (play_separately if trial.separate else type(trial).play)(trial, directory, strike)
                strike.wait()
            except (Exception, KeyboardInterrupt) as caught:
                error = caught
            seconds = time.monotonic() - strike.began
        finally:
            strike.end()
        complaints = {"unnamed": wrong_error(trial, error, strike), **wrong_files(directory)}
        if not trial.in_child:
            complaints["orphans"] = ", ".join(left(strike.new_processes))
        if not any(complaints.values()):
            complaints |= trial.check(directory, error, strike)
    said, cause = str(error or ""), error
    while cause is not None:  # references from an error's frames would look like leaks
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    return Found(seconds, trial.allowance_s + strike.extra_s, complaints, said, strike.facts)


PROGRAM = """
import pickle
from tests.soak.trials import Strike

trial, directory = pickle.loads({data!r})
trial.play(directory, Strike(trial))
"""


def play_separately(trial: Trial, directory: Path, strike: Strike) -> None:
    """Run a trial in a program, kill it or stop it once it is ready, and wait for its end."""
    code = PROGRAM.format(data=pickle.dumps((trial, directory)))
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    strike.cleanup.callback(program.communicate)
    strike.cleanup.callback(program.kill)  # first
    for line in program.stdout:  # type: ignore[union-attr]
        if line == "ready\n":
            break
    time.sleep(trial.delay_s)
    strike.restart_clock()
    os.killpg(program.pid, signal.SIGINT) if trial.stopped else program.kill()
    out, err = program.communicate(timeout=60)
    left(strike.new_processes)
    stopped = program.returncode == 130 and out.count("Stopped by signal") == 1
    assert stopped or not trial.stopped, f"exit code {program.returncode}, said {out[-300:]!r}"
    assert "Traceback" not in err and "leaked" not in err, f"said {err[-500:]!r}"


def wrong_error(trial: Trial, error: BaseException | None, strike: Strike) -> str:
    """Return what is wrong with the error of a trial, or an empty text."""
    expected = (None,) if trial.separate else trial.errors
    if (None if error is None else type(error)) not in expected:
        return f"{error!r:.600}, expected {expected}"
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    patterns = [] if error is None else trial.patterns(error, strike)
    missing = [x for x in patterns if not re.search(x, text)]
    return f"missing {missing} in: {text:.600}" if missing else ""


def wrong_files(directory: Path) -> dict[str, str]:
    """Check that the checkpoint, if there is one, can be loaded, and the rows of progress.csv."""
    complaints = {"rows": logged_steps(directory)[1]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a damaged checkpoint before which there is another
        try:
            if any(directory.glob("checkpoint*")):
                load_checkpoint(directory / "checkpoint")
        except Exception as error:
            complaints["checkpoint"] = f"{error!r:.400}"
    return complaints


def logged_steps(directory: Path) -> tuple[list[float], str]:
    """Return the steps of the rows of progress.csv, and what is wrong with them."""
    path = directory / "run" / "progress.csv"
    if not path.exists():
        return [], ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps = read_progress(path).get("Diagnostics/CumSteps", np.zeros(0)).tolist()
    if any(x >= y for x, y in itertools.pairwise(steps)):
        return steps, f"steps do not increase: {steps}"
    return steps, "; ".join(str(warning.message) for warning in caught)


def processes() -> dict[int, str]:
    """Return this program's processes, orphans included: all of them have its TMPDIR."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR") == tempfile.gettempdir():
                found[process.pid] = " ".join(process.cmdline())
    return found


def left(find: Callable[[], Sequence[Any]]) -> list[str]:
    """Return what is still found after some time."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [str(thing) for thing in found]


def small_agent() -> Any:
    """Construct a small agent for `FaultyEnv`."""
    return agent_for(FaultyEnv("none").spaces)
