"""What a sampler does about faults of its environments and workers (``on_fault``)."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from rlpyt.utils.checks import check_range, whole_number

HOUR_S = 3600.0
MAX_BACKOFF_S = 30.0
LONGEST_STREAK = 5  # faults of an environment in a row, without a complete step
CAUSES = ("env_error", "env_hang", "worker_death")
ACTIONS = {
    "env_error": ("raise", "restart_env", "restart_worker"),
    "env_hang": ("raise", "restart_worker"),
    "worker_death": ("raise", "restart_worker"),
}


@dataclass(frozen=True)
class FaultPolicy:
    """What a sampler does about faults, by cause: ``on_fault`` of samplers.

    Attributes:
        env_error: an environment raises, or returns something invalid or not finite: "raise",
            "restart_env" or "restart_worker".
        env_hang: a worker makes no progress (``env_timeout``): "raise" or "restart_worker".
        worker_death: a worker's process ends: "raise" or "restart_worker".
        max_per_hour: faults of one cause within an hour before the first of them is raised; those
            of environments are counted in each worker.
        backoff_s: seconds before the second restart in a row; doubled for each further one, up to
            30 s.
    """

    env_error: str = "raise"
    env_hang: str = "raise"
    worker_death: str = "raise"
    max_per_hour: int = 60
    backoff_s: float = 1.0

    def __post_init__(self) -> None:
        for cause, known in ACTIONS.items():
            if getattr(self, cause) not in known:
                raise ValueError(
                    f"on_fault: {cause} must be one of {', '.join(map(repr, known))}, got "
                    f"{getattr(self, cause)!r}."
                )
        whole_number("on_fault: max_per_hour", self.max_per_hour, 1)
        check_range("on_fault: backoff_s", self.backoff_s, low=0)

    @property
    def in_parent(self) -> bool:
        """Return True if workers are restarted."""
        return "restart_worker" in (self.env_error, self.env_hang, self.worker_death)


def fault_policy(on_fault: Any) -> FaultPolicy | None:
    """Return the policy of an ``on_fault`` argument; ``None``: every fault ends the run.

    Args:
        on_fault: ``None`` or "raise"; "restart" (environments, else workers); a mapping with fields
            of ``FaultPolicy``; a ``FaultPolicy``.

    Raises:
        TypeError, ValueError: it is something else.
    """
    if on_fault is None or on_fault == "raise":
        return None
    if isinstance(on_fault, FaultPolicy):
        return on_fault
    if on_fault == "restart":
        return FaultPolicy("restart_env", "restart_worker", "restart_worker")
    known = [field.name for field in fields(FaultPolicy)]
    if not isinstance(on_fault, Mapping) or not set(on_fault) <= {*known}:
        raise ValueError(
            f'on_fault must be None, "restart", or a dictionary with some of {known}, got '
            f"{on_fault!r}."
        )
    return FaultPolicy(**on_fault)


class FaultLimit:
    """Counts faults of one cause, and says how long to wait before the next restart.

    Attributes:
        n: faults so far.
        first: the first fault of the last hour.
    """

    def __init__(self, policy: FaultPolicy) -> None:
        self.policy, self.n = policy, 0
        self._recent: deque[tuple[float, BaseException]] = deque()
        self.streak = 0  # faults in a row

    def count(self, error: BaseException) -> float:
        """Count a fault; return the seconds to wait before a restart.

        Raises:
            BaseException: the first fault of the last hour, if there were too many.
        """
        now = time.monotonic()
        self.n += 1
        self.streak += 1
        self._recent.append((now, error))
        while now - self._recent[0][0] > HOUR_S:
            self._recent.popleft()
        if len(self._recent) > self.policy.max_per_hour:
            limit = f"{len(self._recent)} within an hour, on_fault: max_per_hour="
            self._give_up(f"{limit}{self.policy.max_per_hour}")
        if self.streak > LONGEST_STREAK:
            self._give_up(f"{self.streak} in a row")
        if self.streak == 1:
            return 0.0
        return float(min(self.policy.backoff_s * 2.0 ** (self.streak - 2), MAX_BACKOFF_S))

    def _give_up(self, why: str) -> NoReturn:
        first = self._recent[0][1]
        first.add_note(f"(The first of {why}. Faults before the last were healed.)")
        raise first
