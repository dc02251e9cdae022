"""Who runs where: the layout of a sampler, and the hardware it is given."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

from rlpyt.utils.processes import available_cpus

MOST_WORKERS_PER_CORE = 10


@dataclass(frozen=True)
class SamplerLayout:
    """What tells one sampler class from another.

    Raises:
        ValueError: the parts contradict each other.
    """

    processes: bool = False  # environments in worker processes, or in the caller's
    agent: Literal["local", "served"] = "local"  # acts beside its environments, or in the master
    groups: int = 1  # of workers, which take turns with a served agent
    overlap: bool = True  # whether a group may step while another does

    def __post_init__(self) -> None:
        served = self.agent == "served"
        if self.agent not in ("local", "served") or self.groups < 1:
            raise ValueError(f"{self}: agent must be 'local' or 'served', groups at least 1.")
        if (served and not self.processes) or (self.groups > 1 and not served):
            raise ValueError(f"{self}: groups need a served agent, and that needs processes.")
        if self.groups == 1 and not self.overlap:
            raise ValueError(f"{self}: a single group has none to wait for; leave overlap=True.")


@dataclass(frozen=True)
class Hardware:
    """One run's share of the machine, from rlpyt's affinity dictionary in any of its forms."""

    n_workers: int = 1
    workers_cpus: list[list[int] | None] = field(default_factory=list)  # per worker; None: free
    worker_torch_threads: int = 1
    master_cpus: list[int] | None = None
    master_torch_threads: int | None = None
    cuda_idx: int | None = None

    @classmethod
    def of(cls, affinity: Any, batch_B: int | None = None, groups: int = 1) -> "Hardware":
        """Read an affinity.

        Args:
            groups: of workers that take turns; as many workers as cores are given for each turn,
                unless their number can be divided by it.
            batch_B: environments to share out; without a number of workers in the affinity, as
                many are taken as divide it, up to the number of cores.
            affinity: ``None`` or "auto" (about a worker per available core, nothing pinned), a
                dictionary such as ``dict(n_workers=4)`` or ``dict(workers_cpus=[0, 1, [2, 3]],
                master_cpus=[0], cuda_idx=0, master_torch_threads=1, worker_torch_threads=1,
                set_affinity=True)``, or an ``Hardware``.

        Raises:
            TypeError: it is something else.
            ValueError: a key is unknown or a number makes no sense.
        """
        if isinstance(affinity, Hardware):
            if affinity.n_workers % groups:
                raise ValueError(f"{affinity}: n_workers must divide into {groups} groups.")
            return affinity
        if affinity is None or affinity == "auto":
            affinity = {}
        if not isinstance(affinity, dict):
            raise TypeError(
                f"affinity={affinity!r}: give None, 'auto' or a dictionary such as "
                "dict(n_workers=2) or dict(workers_cpus=[0, 1], cuda_idx=None)."
            )
        unknown = set(affinity) - _KNOWN_KEYS
        if unknown:
            raise ValueError(
                f"affinity has unknown keys {sorted(unknown)}; known are {sorted(_KNOWN_KEYS)}."
            )
        cpus = affinity.get("workers_cpus")
        cores = len(available_cpus())
        most = len(cpus) if cpus else groups * _largest_divisor(batch_B, cores, groups)
        n_workers = affinity.get("n_workers", most)
        _check_n_workers(n_workers, cores * groups)
        if n_workers % groups:
            n_workers, cpus = n_workers * groups, None if cpus is None else list(cpus) * groups
        pinned: list[list[int] | None] = [None] * n_workers
        if cpus and affinity.get("set_affinity", True):
            for i, own in enumerate(cpus[:n_workers]):
                pinned[i] = [own] if isinstance(own, int) else list(own)
        master = affinity.get("master_cpus") if affinity.get("set_affinity", True) else None
        return cls(
            n_workers=n_workers,
            workers_cpus=pinned,
            worker_torch_threads=affinity.get("worker_torch_threads") or 1,
            master_cpus=None if master is None else [master] if isinstance(master, int) else master,
            master_torch_threads=affinity.get("master_torch_threads")
            or affinity.get("torch_threads"),
            cuda_idx=affinity.get("cuda_idx"),
        )


def split_affinity(affinity: Any) -> dict[str, Any]:
    """What the sampler may use, and a list of what each optimizer may.

    Raises:
        TypeError: the affinity is not that of an asynchronous run.
    """
    if affinity is None or affinity == "auto":  # let both have something
        threads = max(1, len(available_cpus()) // 2)
        return {"sampler": None, "optimizer": [{"torch_threads": threads}]}
    if not isinstance(affinity, dict) or not {"sampler", "optimizer"} & set(affinity):
        raise TypeError(
            f"affinity={affinity!r}: an asynchronous runner takes dict(sampler=..., "
            "optimizer=...), each an affinity of its own (or None), or a list of them."
        )
    optimizer = affinity.get("optimizer")
    several = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    for i, own in enumerate(several):
        if isinstance(own, dict) and "cpus" in own:  # as rlpyt has it
            several[i] = {"master_cpus": own["cpus"], **own}
    return {"sampler": affinity.get("sampler"), "optimizer": several or [None]}


_KNOWN_KEYS = {
    *("all_cpus", "master_cpus", "workers_cpus", "master_torch_threads", "worker_torch_threads"),
    *("cuda_idx", "alternating", "set_affinity", "cpus", "torch_threads", "n_workers"),
}


def _largest_divisor(number: int | None, limit: int, times: int = 1) -> int:
    """The largest n up to a limit such that n * times divides a number, or 1."""
    if number is None:
        return limit
    return max((n for n in range(1, limit + 1) if number % (n * times) == 0), default=1)


def _check_n_workers(n_workers: Any, cores: int) -> None:
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise ValueError(f"n_workers={n_workers!r} must be a whole number of at least 1.")
    if n_workers > MOST_WORKERS_PER_CORE * cores:
        raise ValueError(
            f"n_workers={n_workers} on {cores} cores would only wait for each other; take at most "
            f"{MOST_WORKERS_PER_CORE * cores}, and best {cores}."
        )
    if n_workers > cores:
        warnings.warn(f"n_workers={n_workers} on {cores} cores: workers will share cores.")


def rows_per_worker(B: int, n_workers: int, groups: int = 1) -> int:
    """Environments of each worker.

    Args:
        B: ``batch_B``.
        n_workers: in all.
        groups: in which they take turns.

    Raises:
        ValueError: they cannot be shared out evenly; the message names the nearest that can.
    """
    if B % n_workers:
        down = B // n_workers * n_workers
        up = math.ceil(B / n_workers) * n_workers
        helps = f"batch_B={up}" + (f" or batch_B={down}" if down else "")
        fitting = [n for n in range(groups, min(B, n_workers) + 1, groups) if B % n == 0]
        if fitting:
            n = fitting[-1]
            helps += f", or affinity=dict(n_workers={n}) (--sampler.n-workers {n})"
        who = f"n_workers={n_workers}"
        if groups > 1:
            who = f"{n_workers} workers ({groups} groups of {n_workers // groups}, in turns)"
        raise ValueError(f"batch_B={B} does not divide evenly among {who}; try {helps}.")
    return B // n_workers
