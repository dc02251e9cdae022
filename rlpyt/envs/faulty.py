"""An environment that fails as told, where and when told: for tests of what surrounds it."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.toy import CountEnv


class FaultError(Exception):
    """What `FaultyEnv` raises."""


class UnpicklableError(Exception):
    """An exception that no pickle can carry, with a constructor of several arguments."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} because {why}")
        self.handle = lambda: None


class FaultyEnv(CountEnv):
    """A `CountEnv` with one fault.

    Args:
        fault: "raise" an exception, raise an "unpicklable" one, "exit" by ``SystemExit``,
            "vanish" by ``os._exit``, "kill" the process with SIGKILL, "hang" for ``hang_s``, give
            "nan" as reward and observation, or "none".
        where: in the constructor ("init"), in "reset" or in "step".
        at: how often that is called before it fails, counted from 1 in each instance; a fault
            in the constructor is always at its first call.
        victim: number of the one construction, from 0 and over all processes, whose instance
            fails; ``None`` lets all fail. Needs ``tally``.
        tally: path of a file that counts constructions.
        hang_s: seconds.
        kwargs: those of `CountEnv`.
    """

    def __init__(
        self,
        fault: Literal[
            "raise", "unpicklable", "exit", "vanish", "kill", "hang", "nan", "none"
        ] = "raise",
        where: Literal["init", "reset", "step"] = "step",
        at: int = 1,
        victim: int | None = None,
        tally: str | Path | None = None,
        hang_s: float = 1000.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if fault not in FAULTS or where not in ("init", "reset", "step"):
            raise ValueError(f"unknown fault={fault!r} or where={where!r}.")
        if victim is not None and tally is None:
            raise ValueError(f"victim={victim} needs tally, the path of a file that counts.")
        number = -1 if tally is None else _count_construction(tally)
        self.fault = fault if victim in (None, number) else "none"
        self.where, self.at, self.hang_s = where, at, hang_s
        self._calls = 0
        self._maybe_fail("init")

    def reset(self) -> Any:
        """Reset, or fail."""
        self._maybe_fail("reset")
        return super().reset()

    def step(self, action: Any) -> EnvStep:
        """Step, or fail."""
        failed = self._maybe_fail("step")
        result = super().step(action)
        if failed:
            result = result._replace(
                observation=np.full_like(result.observation, np.nan), reward=float("nan")
            )
        return result

    def _maybe_fail(self, where: str) -> bool:
        """Count a call and fail if it is time; return whether it was."""
        if where != self.where:
            return False
        self._calls += 1
        if self._calls < self.at and where != "init":
            return False
        FAULTS[self.fault](self)
        return self.fault == "nan"


def _raise(env: FaultyEnv) -> None:
    raise FaultError(f"told to fail in {env.where}, call {env._calls}, {env._rank=}")


def _raise_unpicklable(env: FaultyEnv) -> None:
    raise UnpicklableError(f"told to fail in {env.where}", "this is a test")


def _hang(env: FaultyEnv) -> None:
    until = time.monotonic() + env.hang_s
    while time.monotonic() < until:
        time.sleep(0.05)


FAULTS: dict[str, Callable[[FaultyEnv], None]] = {
    "raise": _raise,
    "unpicklable": _raise_unpicklable,
    "exit": lambda env: sys.exit(3),
    "vanish": lambda env: os._exit(3),
    "kill": lambda env: os.kill(os.getpid(), signal.SIGKILL),
    "hang": _hang,
    "nan": lambda env: None,
    "none": lambda env: None,
}


def _count_construction(tally: str | Path) -> int:
    """Append to the file under a lock; return how many constructions came before."""
    import fcntl

    with open(tally, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        file.write(b".")
        file.flush()
    return before
