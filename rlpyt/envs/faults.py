"""What can go wrong in an environment, done for real: the catalogue of ``rlpyt.envs.faulty``."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep


class FaultError(Exception):
    """What a `FaultyEnv` raises."""


class UnpicklableError(Exception):
    """An exception that no pickle can carry, with a constructor of several arguments."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} because {why}")
        self.handle = lambda: None


class RecursiveError(Exception):
    """An exception whose text never ends."""

    def __str__(self) -> str:
        return f"{self}"

    __repr__ = __str__


class MuteError(Exception):
    """An exception whose text ends the program."""

    def __str__(self) -> str:
        raise SystemExit(4)

    __repr__ = __str__


def _raise(error: Callable[[str], BaseException]) -> Callable[[Any], None]:
    def fail(env: Any) -> None:
        raise error(f"told to fail in {env.where}, call {env.n_calls}")

    return fail


def _hang(env: Any) -> None:
    """Sleep, as one who waits for something."""
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        time.sleep(min(0.05, env.hang_s))


def _spin(env: Any) -> None:
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        pass


def _freeze(env: Any) -> None:
    """Stay in C code that keeps the interpreter lock; no other thread can run."""
    libc = ctypes.PyDLL(None)
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        libc.usleep(100_000)


def _bus_error(env: Any) -> None:
    """Read memory whose file is gone, as happens when /dev/shm is full."""
    fd = os.memfd_create("short") if hasattr(os, "memfd_create") else -1
    if fd < 0:
        os.kill(os.getpid(), signal.SIGBUS)
    os.ftruncate(fd, mmap.PAGESIZE)
    pages = mmap.mmap(fd, mmap.PAGESIZE)
    os.ftruncate(fd, 0)
    pages[0]


def _start_thread(env: Any) -> None:
    """Leave a thread behind that keeps the process from ending."""
    threading.Thread(target=time.sleep, args=(1000,), daemon=False).start()


def _start_program(env: Any) -> None:
    """Leave a program behind, which takes its time."""
    command = ["sleep", str(env.hang_s)]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _start_session(env: Any) -> None:
    """Start a program in a new session, as daemons do, and leave it running."""
    command = f"setsid sleep {env.hang_s} < /dev/null > /dev/null 2>&1 &"
    subprocess.run(["sh", "-c", command], check=True)


def _log(env: Any) -> None:
    """Write down that this happened, where constructions are counted."""
    with open(env.tally, "a") as file:
        file.write(f"{env.where}d\n")


# Called in the faulty place; most do not return.
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
    # What is no fault, but in the way of a clean end.
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


# What a step gives instead of what it should.
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
