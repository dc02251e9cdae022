"""An environment that fails as configured: faults for tests of samplers, runners and the CLI."""

import ctypes
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.toy import CountEnv


class FaultError(Exception):
    """Raised by a `FaultyEnv`."""


class UnpicklableError(Exception):
    """An exception that cannot be pickled, with several constructor arguments."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} because {why}")
        self.handle = lambda: None


class RecursiveError(Exception):
    """An exception whose `str` recurses without end."""

    def __str__(self) -> str:
        return f"{self}"

    __repr__ = __str__


class MuteError(Exception):
    """An exception whose `str` ends the program."""

    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


def _raise(error: Callable[[str], BaseException]) -> Callable[[Any], None]:
    def fail(env: Any) -> None:
        raise error(f"told to fail in {env.where}, call {env.n_calls}")

    return fail


def _hang(env: Any) -> None:
    """Sleep in short intervals."""
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        time.sleep(min(0.05, env.hang_s))


def _spin(env: Any) -> None:
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        pass


def _freeze(env: Any) -> None:
    """Sleep in C code that holds the GIL; no other thread can run."""
    libc = ctypes.PyDLL(None)
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        libc.usleep(100_000)


def _bus_error(env: Any) -> None:
    """Read mapped memory whose file was truncated, as happens when /dev/shm is full."""
    fd = os.memfd_create("short") if hasattr(os, "memfd_create") else -1
    if fd < 0:
        os.kill(os.getpid(), signal.SIGBUS)
    os.ftruncate(fd, mmap.PAGESIZE)
    pages = mmap.mmap(fd, mmap.PAGESIZE)
    os.ftruncate(fd, 0)
    pages[0]


def _start_thread(env: Any) -> None:
    """Leave a non-daemon thread running."""
    threading.Thread(target=time.sleep, args=(1000,), daemon=False).start()


def _start_program(env: Any) -> None:
    """Leave a child process running."""
    command = ["sleep", str(env.hang_s)]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _start_session(env: Any) -> None:
    """Leave a process in a session of its own running, like a daemon."""
    command = f"setsid sleep {env.hang_s} < /dev/null > /dev/null 2>&1 &"
    subprocess.run(["sh", "-c", command], check=True)


def _log(env: Any) -> None:
    """Append the name of the call to the tally file."""
    with open(env.tally, "a") as file:
        file.write(f"{env.where}d\n")


# Called in place of the faulty call; most do not return.
DISASTERS: dict[str, Callable[[Any], None]] = {
    # Exceptions.
    "raise": _raise(FaultError),
    "unpicklable": _raise(lambda said: UnpicklableError(said, "this is a test")),
    "unicode": _raise(lambda said: UnicodeDecodeError("utf-8", b"\xff", 0, 1, said)),
    "recursive": _raise(RecursiveError),
    "mute": _raise(MuteError),
    "huge": _raise(lambda said: FaultError(said + "!" * 50_000_000)),
    "chained": lambda env: _raise_chain(),
    "eof": _raise(EOFError),
    "broken pipe": _raise(BrokenPipeError),
    "interrupt": _raise(KeyboardInterrupt),
    "generator exit": _raise(GeneratorExit),
    "exit": lambda env: sys.exit(3),
    # Ends of the process.
    "vanish": lambda env: os._exit(3),
    "kill": lambda env: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda env: ctypes.string_at(0),  # type: ignore[dict-item,return-value]
    "abort": lambda env: os.abort(),
    "bus error": _bus_error,
    # Standstill.
    "hang": _hang,
    "spin": _spin,
    "freeze": _freeze,
    "stop": lambda env: os.kill(os.getpid(), signal.SIGSTOP),
    # Not failures, but obstacles to a clean shutdown.
    "slow": _hang,  # once only, see `FaultyEnv`
    "log": _log,
    "thread": _start_thread,
    "program": _start_program,
    "session": _start_session,
    "none": lambda env: None,
}


def _raise_chain() -> None:
    try:
        raise FaultError("told to fail first")
    except FaultError as error:
        raise FaultError("told to fail second") from error


OtherInfo = namedtuple("OtherInfo", ["action", "traj_done", "timeout", "more"])
FewerInfo = namedtuple("FewerInfo", ["traj_done", "timeout"])
TextInfo = namedtuple("TextInfo", ["action", "traj_done", "timeout"])


def _info(step: EnvStep) -> tuple[Any, bool, bool]:
    return step.env_info.action, step.env_info.traj_done, step.env_info.timeout


# Invalid results of `step`.
LIES: dict[str, Callable[[EnvStep], Any]] = {
    "nan": lambda step: step._replace(
        observation=np.full_like(step.observation, np.nan), reward=float("nan")
    ),
    "observation shape": lambda step: step._replace(observation=np.zeros(7, np.float32)),
    "observation of one": lambda step: step._replace(observation=np.zeros(1, np.float32)),
    "observation number": lambda step: step._replace(observation=1.0),
    "observation float64": lambda step: step._replace(observation=step.observation.astype(float)),
    "observation complex": lambda step: step._replace(observation=step.observation + 1j),
    "observation text": lambda step: step._replace(observation="left"),
    "observation none": lambda step: step._replace(observation=None),
    "reward none": lambda step: step._replace(reward=None),
    "reward text": lambda step: step._replace(reward="1.5"),
    "reward array": lambda step: step._replace(reward=np.ones(3)),
    "reward of one": lambda step: step._replace(reward=np.ones(1)),
    "reward scalar array": lambda step: step._replace(reward=np.array(step.reward)),
    "done none": lambda step: step._replace(done=None),
    "done text": lambda step: step._replace(done="False"),
    "done array": lambda step: step._replace(done=np.zeros(2, bool)),
    "done number": lambda step: step._replace(done=int(step.done)),
    "info dict": lambda step: step._replace(env_info={"action": 0}),
    "info text": lambda step: step._replace(env_info=TextInfo("left", False, False)),
    "info lambda": lambda step: step._replace(env_info=TextInfo(lambda: 0, False, False)),
    "info more": lambda step: step._replace(env_info=OtherInfo(*_info(step), 1.0)),
    "info fewer": lambda step: step._replace(env_info=FewerInfo(*_info(step)[1:])),
    "three parts": lambda step: (step.observation, step.reward, step.done),
    "five parts": lambda step: (*step[:3], False, {}),
}

FAULTS = sorted([*DISASTERS, *LIES, "reuse"])


class FaultyEnv(CountEnv):
    """A `CountEnv` with one fault.

    Args:
        fault: a name from `FAULTS`: one of `DISASTERS`, which replaces the call, or one of `LIES`,
            which changes all results from then on. "reuse" returns every observation in the same
            array, which is allowed; "none" changes nothing.
        where: the faulty call: "init", "reset", "step" or "close".
        at: number of the call that fails, counted from 1 in each instance (ignored for "init").
            "slow", "thread", "program" and "session" happen at this call only.
        victim: index of the only instance that fails, counted from 0 over all processes; ``None``:
            all instances fail. Needs ``tally``.
        tally: path of a file that counts constructions.
        hang_s: duration in seconds of faults that take time.
        kwargs: arguments of `CountEnv`.

    Attributes:
        n_calls: number of calls of ``where`` so far.
    """

    def __init__(
        self,
        fault: str = "raise",
        where: Literal["init", "reset", "step", "close"] = "step",
        at: int = 1,
        victim: int | None = None,
        tally: str | Path | None = None,
        hang_s: float = 1000.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if fault not in FAULTS or where not in ("init", "reset", "step", "close"):
            raise ValueError(f"unknown fault={fault!r} or where={where!r}; faults are {FAULTS}.")
        if victim is not None and tally is None:
            raise ValueError(f"victim={victim} needs tally, the path of a file that counts.")
        self.tally = tally
        number = -1 if tally is None else _count_construction(tally)
        self.fault = fault if victim in (None, number) else "none"
        self.where, self.at, self.hang_s = where, at, hang_s
        self.n_calls = 0
        self._array = np.zeros(3, np.float32)
        self._maybe_fail("init")

    def reset(self) -> Any:
        """Reset, or fail."""
        self._maybe_fail("reset")
        observation = super().reset()
        if self.fault in LIES and self.where == "reset" and self.n_calls >= self.at:
            step = super().step(0)
            return LIES[self.fault](step._replace(observation=observation))[0]
        return self._in_place(observation)

    def step(self, action: Any) -> Any:
        """Step, or fail."""
        self._maybe_fail("step")
        result = super().step(action)
        if self.fault in LIES and self.where == "step" and self.n_calls >= self.at:
            return LIES[self.fault](result)
        return result._replace(observation=self._in_place(result.observation))

    def close(self) -> None:
        """Close, or fail."""
        self._maybe_fail("close")
        super().close()

    def _maybe_fail(self, where: str) -> None:
        """Count the call, and fail if it is the faulty one."""
        if where != self.where:
            return
        self.n_calls += 1
        once = self.fault in ("slow", "thread", "program", "session")
        due = self.n_calls == self.at if once else self.n_calls >= self.at
        if due or where == "init":
            DISASTERS.get(self.fault, DISASTERS["none"])(self)

    def _in_place(self, observation: Any) -> Any:
        if self.fault != "reuse":
            return observation
        self._array[...] = observation
        return self._array


def _count_construction(tally: str | Path) -> int:
    """Append to the file under a lock and return the number of earlier constructions."""
    with open(tally, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        file.write(b".")
        file.flush()
    return before
