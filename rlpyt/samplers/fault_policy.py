"""Policy of a sampler for faults of its environments and workers (``on_fault``)."""

import time
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NoReturn, get_args, get_type_hints

from rlpyt.utils.checks import check_range, whole_number

HOUR_S = 3600.0
MAX_BACKOFF_S = 30.0
LONGEST_STREAK = 5  # faults in a row, without a complete step or batch
HEALED = "healed (on_fault)"  # begins each line of the log about a fault
# Columns of progress.csv that count, over all sampler processes of an asynchronous run.
FAULT_COUNTS = (
    "EnvRestarts",
    "WorkerRestarts",
    "DroppedEnvs",
    "VoidSteps",
    "ActorRestarts",
    "DroppedEpisodes",
)
CAUSES = ("env_error", "env_hang", "worker_death")


@dataclass(frozen=True)
class FaultPolicy:
    """Actions of a run if environments fail, and if workers hang or die.

    With --on-fault restart, whatever fails is started again.
    """

    # an environment raises, or returns something invalid or not finite. restart_env builds it anew,
    # restart_worker starts its worker again, drop_worker goes on without its environments; what the
    # broken episode recorded is not used
    env_error: Literal["raise", "restart_env", "restart_worker", "drop_worker"] = "raise"
    # a worker makes no progress for too long (--sampler.env-timeout, --sampler.reset-timeout)
    env_hang: Literal["raise", "restart_worker", "drop_worker"] = "raise"
    # the process of a worker ends
    worker_death: Literal["raise", "restart_worker", "drop_worker"] = "raise"
    # one of several ranks fails; restart_run: all ranks start again from the newest checkpoint
    rank_death: Literal["raise", "restart_run"] = "raise"
    # faults of one cause within an hour after which the first of them is raised; those of
    # environments are counted in each worker
    max_per_hour: int = 60
    # seconds before the second restart in a row, doubled for each further one, at most 30
    backoff_s: float = 1.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            TypeError, ValueError: one has the wrong type, or is unknown or out of range.
        """
        hints = get_type_hints(type(self))
        for cause, given in self.actions():
            known = get_args(hints[cause])
            if given not in known:
                listed = ", ".join(map(repr, known))
                raise ValueError(f"on_fault: {cause} must be one of {listed}, got {given!r}.")
        whole_number("on_fault: max_per_hour", self.max_per_hour, 1)
        check_range("on_fault: backoff_s", self.backoff_s, low=0)

    def actions(self) -> list[tuple[str, str]]:
        """Return each cause with its action."""
        return [(cause, getattr(self, cause)) for cause in (*CAUSES, "rank_death")]

    @property
    def heals(self) -> bool:
        """Return True if a sampler has a fault to heal."""
        return any(getattr(self, cause) != "raise" for cause in CAUSES)


RAISE = FaultPolicy()
RESTART = FaultPolicy("restart_env", "restart_worker", "restart_worker", "restart_run")


def as_policy(on_fault: Any) -> FaultPolicy:
    """Return the policy of an ``on_fault`` argument.

    Args:
        on_fault: ``None`` or "raise"; "restart": restart environments that fail and workers that
            hang or die; a mapping with fields of ``FaultPolicy``; a ``FaultPolicy``.

    Raises:
        TypeError, ValueError: it is something else.
    """
    known = [field.name for field in fields(FaultPolicy)]
    if on_fault == "restart":
        on_fault = RESTART
    elif on_fault is None or on_fault == "raise":
        on_fault = RAISE
    elif isinstance(on_fault, Mapping) and set(on_fault) <= {*known}:
        on_fault = FaultPolicy(**on_fault)
    if not isinstance(on_fault, FaultPolicy):
        raise ValueError(
            f'on_fault must be None, "restart", or a dictionary with some of {known}, got '
            f"{on_fault!r}."
        )
    return on_fault


class FaultLimit:
    """Counts faults of one cause, and says how long to wait before the next restart.

    Attributes:
        lines: about the faults, for the log of the run.
    """

    def __init__(self, policy: FaultPolicy) -> None:
        self.policy = policy
        self.lines: list[str] = []
        self._recent: deque[tuple[float, BaseException]] = deque()  # of the last hour

    def count(self, error: BaseException, streak: int) -> float:
        """Count a fault; return the seconds to wait before a restart.

        Args:
            error: the fault.
            streak: faults of the same environment or worker in a row, with this one.

        Raises:
            BaseException: the first fault of the last hour, if there were too many.
        """
        # Frames would keep alive what has failed, such as a replay buffer.
        parts: list[BaseException] = [error]
        for part in parts:
            traceback.clear_frames(part.__traceback__)
            causes = (part.__cause__, part.__context__, *getattr(part, "exceptions", ()))
            parts += [x for x in causes if x is not None and all(x is not own for own in parts)]
        now = time.monotonic()
        self._recent.append((now, error))
        while now - self._recent[0][0] > HOUR_S:
            self._recent.popleft()
        if len(self._recent) > self.policy.max_per_hour:
            self._give_up(f"max_per_hour={self.policy.max_per_hour}")
        if streak > LONGEST_STREAK:
            self._give_up(f"at most {LONGEST_STREAK} in a row")
        if streak == 1:
            return 0.0
        return float(min(self.policy.backoff_s * 2.0 ** (streak - 2), MAX_BACKOFF_S))

    def _give_up(self, limit: str) -> NoReturn:
        first = self._recent[0][1]
        first.add_note(f"(The first of {len(self._recent)} faults; on_fault heals {limit}.)")
        raise first
