"""An environment that fails as told, where and when told: for tests of what surrounds it."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlpyt.envs.faults import DISASTERS, LIES, FaultError, UnpicklableError  # noqa: F401
from rlpyt.envs.toy import CountEnv

FAULTS = sorted([*DISASTERS, *LIES, "reuse"])


class FaultyEnv(CountEnv):
    """A `CountEnv` with one fault.

    Args:
        fault: a name from ``rlpyt.envs.faults``: a disaster, which happens in place of the call,
            or a lie, which is what steps give from then on. "reuse" gives the same array, written
            anew, as every observation, which is no fault; "none" neither.
        where: in the constructor ("init"), in "reset", "step" or "close".
        at: how often that is called before it fails, counted from 1 in each instance; a fault
            in the constructor is always at its first call. "slow" and what it leaves behind
            happens at this call only.
        victim: number of the one construction, from 0 and over all processes, whose instance
            fails; ``None`` lets all fail. Needs ``tally``.
        tally: path of a file that counts constructions.
        hang_s: seconds, of whatever takes time.
        kwargs: those of `CountEnv`.

    Attributes:
        n_calls: of the faulty place so far.
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
        """Count a call and fail if it is time."""
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
    """Append to the file under a lock; return how many constructions came before."""
    import fcntl

    with open(tally, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = os.fstat(file.fileno()).st_size
        file.write(b".")
        file.flush()
    return before
