"""Time of each part of a run, and CPU time and memory of its processes."""

import contextlib
import time

import psutil
import torch

PHASES = ("sampling", "optimizing", "waiting", "evaluating", "logging")
LIST_INTERVAL_S = 10.0  # listing child processes reads all processes of the machine
MB = 1e6


class PhaseClock:
    """Stopwatch of the training loop, which is in one phase at a time.

    In asynchronous runs, the seconds of the sampler, which works in parallel, are added.

    Attributes:
        seconds: seconds by phase, until the last ``switch``.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "logging", time.perf_counter()
        self._at_lap = dict(self.seconds)

    def switch(self, phase: str) -> str:
        """Begin a phase; return the one that ends."""
        ended, now = self._phase, time.perf_counter()
        self.seconds[ended] += now - self._since
        self._phase, self._since = phase, now
        return ended

    @property
    def current(self) -> tuple[str, float]:
        """Phase, and the time of ``time.perf_counter`` at which it has begun or was read."""
        return self._phase, self._since

    def read(self) -> dict[str, float]:
        """Return the seconds by phase until now."""
        self.switch(self._phase)
        return dict(self.seconds)

    def since_lap(self) -> dict[str, float]:
        """Return the seconds by phase since the last lap."""
        return {phase: total - self._at_lap[phase] for phase, total in self.read().items()}

    def lap(self) -> dict[str, float]:
        """Return the seconds by phase since the last lap, and begin another one.

        They are NaN if no phase was ever begun, as in a ``train`` of a subclass for rlpyt (2019).
        """
        result, self._at_lap = self.since_lap(), dict(self.seconds)
        begun = any(self.seconds[phase] for phase in PHASES if phase != "logging")
        return result if begun else dict.fromkeys(PHASES, float("nan"))

    def load(self, since_lap: dict[str, float]) -> None:
        """Continue a lap with the seconds that ``since_lap`` returned before an interruption."""
        self._at_lap = {p: total - since_lap.get(p, 0.0) for p, total in self.read().items()}


class ResourceUse:
    """CPU time and memory of this process and its descendants on this machine.

    Args:
        device: device of the training; its memory is read if it is a GPU.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device
        self._own = psutil.Process()
        self._processes: list[psutil.Process] = [self._own]
        self._list_at = 0.0  # time at which to list the processes again
        self._cpu_s: dict[psutil.Process, float] = {}
        self._read_at = 0.0
        self.read()

    def read(self) -> dict[str, float]:
        """Return the columns of progress.csv, with CPU use since the last reading.

        Memory that processes share, such as libraries and the batches of workers, counts once.
        """
        now = time.monotonic()
        if now >= self._list_at:
            self._list_at = now + LIST_INTERVAL_S
            self._processes = [self._own]
            with contextlib.suppress(psutil.Error):
                self._processes += self._own.children(recursive=True)
        before, self._cpu_s = self._cpu_s, {}
        own_memory, shared_memory, busy_s = 0, 0, 0.0
        for process in self._processes:
            with contextlib.suppress(psutil.Error), process.oneshot():  # it may have ended
                times, memory = process.cpu_times(), process.memory_info()
                self._cpu_s[process] = times.user + times.system
                busy_s += self._cpu_s[process] - before.get(process, 0.0)
                shared: int = getattr(memory, "shared", 0)  # Linux
                own_memory += memory.rss - shared
                shared_memory = max(shared_memory, shared)
        elapsed, self._read_at = max(now - self._read_at, 1e-9), now
        result = {"CpuCores": busy_s / elapsed, "Memory (MB)": (own_memory + shared_memory) / MB}
        if self.device is not None and self.device.type == "cuda":
            result["GpuMemory (MB)"] = torch.cuda.memory_reserved(self.device) / MB
        return result


def rate(n: float, seconds: float) -> float:
    """Return ``n`` per second; NaN if nothing was done."""
    return n / max(seconds, 1e-9) if n else float("nan")
