"""Layout and hardware of a sampler: where it runs its parts, on which cores, threads and GPU."""

import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.machine import check_gpu, n_granted_cpus
from rlpyt.utils.launching.placement import listed, placed
from rlpyt.utils.launching.resources import is_code
from rlpyt.utils.processes import available_cpus, pin

MAX_PER_CORE = 10  # processes
# Too many threads exhaust the limit on processes, which ends the interpreter. The limit leaves
# affinity codes for larger machines valid.
MAX_TORCH_THREADS = max(256, 4 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class SamplerLayout:
    """Location of a sampler's environments and agent, the only difference between samplers.

    Raises:
        ValueError: settings contradict each other.
    """

    processes: bool = False  # True: environments are in worker processes
    # "local": in the process of the environments; "served": in the master
    agent: Literal["local", "served"] = "local"
    groups: int = 1  # number of groups of workers, for which a served agent acts in turn
    overlap: bool = True  # True: groups may step at the same time

    def __post_init__(self) -> None:
        served = self.agent == "served"
        if self.agent not in ("local", "served") or self.groups < 1:
            raise ValueError(f"{self}: agent must be 'local' or 'served', groups at least 1.")
        if (served and not self.processes) or (self.groups > 1 and not served):
            raise ValueError(f"{self}: groups need a served agent, and that needs processes.")
        if self.groups != 2 and not self.overlap:
            raise ValueError(f"{self}: overlap must be True unless there are two groups.")


@dataclass(frozen=True)
class Hardware:
    """Cores, threads and GPU of a sampler, built from an affinity by ``Hardware.of``."""

    n_workers: int = 1
    workers_cpus: list[list[int] | None] = field(default_factory=list)  # None: not pinned
    worker_torch_threads: int = 1
    master_cpus: list[int] | None = None
    master_torch_threads: int | None = None
    cuda_idx: int | None = None

    @classmethod
    def of(cls, affinity: "Affinity", batch_B: int | None = None, groups: int = 1) -> "Hardware":
        """Build the hardware from an affinity.

        Args:
            affinity: ``None`` or "auto": one worker per available core, none pinned. Or a
                dictionary, such as ``dict(n_workers=4)`` or ``dict(workers_cpus=[0, 1, [2, 3]],
                master_cpus=[0], cuda_idx=0, master_torch_threads=1, worker_torch_threads=1,
                set_affinity=True)``; an affinity code; or a ``Hardware``. If cores are not
                available to this process, nothing is pinned, with a warning; cores of a code are
                mapped to available ones, see ``launching.placement``.
            batch_B: number of environments. If the given workers cannot share them evenly, fewer
                workers are used, with a warning. Without ``n_workers`` and cores, the largest
                number of workers that divides them is used, up to the number of cores.
            groups: number of groups of workers. If it does not divide the number of workers, there
                are ``groups`` times as many workers.

        Raises:
            TypeError: the affinity, or one of its values, has the wrong type.
            ValueError: a key is unknown, a number is out of range, or a code is for a larger
                machine.
        """
        if isinstance(affinity, Hardware):
            if affinity.n_workers % groups:
                raise ValueError(f"{affinity}: n_workers must divide into {groups} groups.")
            return affinity
        affinity = _checked(decoded(affinity))
        available = available_cpus()
        cores = n_granted_cpus()
        master = affinity.get("master_cpus", affinity.get("cpus"))
        master = None if master is None else _core_list("master_cpus", master)
        cpus = _cores_of_workers(affinity.get("workers_cpus"))
        if master and not cpus and affinity.get("workers_cpus") is not None:
            warnings.warn(
                "workers_cpus must have a core for each worker, got an empty list: one worker "
                "shares the master's cores. Give a run more cores, or lower cpu_reserved (res) or "
                "cpu_per_worker (cpw)."
            )
            cpus = [master]
        if len(cpus) % groups:
            cpus *= groups
        default = len(cpus) or groups * cores
        explicit = "n_workers" in affinity
        requested = whole_number("n_workers", affinity.get("n_workers", default), 1)
        in_groups = requested * groups if requested % groups else requested
        n_workers = _fitting(in_groups, batch_B, groups, explicit or bool(cpus))
        n_checked = requested if explicit else n_workers
        check_n_processes("n_workers", n_checked, "workers", cores * groups)
        cuda_idx = affinity.get("cuda_idx")
        if not affinity.get("set_affinity", True) or not _may_use([*cpus, master or []]):
            master, cpus = None, []
        return cls(
            n_workers=n_workers,
            # Workers that are not pinned must not inherit the cores of the master.
            workers_cpus=_cpus_by_worker(cpus, n_workers, groups, available if master else None),
            worker_torch_threads=_threads(affinity, "worker_torch_threads") or 1,
            master_cpus=master,
            master_torch_threads=_threads(affinity, "master_torch_threads")
            or _threads(affinity, "torch_threads"),
            cuda_idx=None if cuda_idx is None else whole_number("cuda_idx", cuda_idx, 0),
        )

    def __getitem__(self, key: str) -> Any:
        """Return a value by its key, as in an affinity dictionary."""
        if key not in vars(self):
            raise KeyError(key)
        return vars(self)[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value by its key, or the default."""
        return vars(self).get(key, default)

    def apply(self) -> list[int] | None:
        """Set threads and cores of this process; return its former cores if it was pinned.

        Raises:
            ValueError: the GPU does not exist.
        """
        if self.cuda_idx is not None:
            check_gpu(self.cuda_idx)
        if self.master_torch_threads is not None:
            torch.set_num_threads(self.master_torch_threads)
        if self.master_cpus is None:
            return None
        before = available_cpus()
        return before if pin(self.master_cpus) else None


Affinity = Hardware | dict[str, Any] | str | None  # in any form that ``Hardware.of`` reads


def decoded(affinity: object) -> Any:
    """Decode an affinity code; return ``None`` for "auto", and other affinities as they are.

    Raises:
        AffinityError: the code is invalid.
    """
    if not isinstance(affinity, str):
        return affinity
    if affinity == "auto":
        return None
    if not is_code(affinity):
        return affinity
    from rlpyt.utils.launching.affinity import affinity_from_code

    return affinity_from_code(affinity)


def split_affinity(affinity: object) -> dict[str, Any]:
    """Return the affinities of the sampler and, as a list, of the optimizers.

    Raises:
        TypeError: the affinity is not one for an asynchronous run.
        ValueError: the code is invalid, or the number of optimizers is 0 or far too large.
    """
    affinity = decoded(affinity)
    if affinity in (None, {}):  # the optimizer gets half the cores
        threads = max(1, n_granted_cpus() // 2)
        return {"sampler": None, "optimizer": [{"torch_threads": threads}]}
    if not isinstance(affinity, dict) or not {"sampler", "optimizer"} & set(affinity):
        raise TypeError(
            f"affinity of an asynchronous runner must be dict(sampler=..., optimizer=...), each an "
            f"affinity, None or a list of affinities, or a code with 1ass (async_sample=True), got "
            f"{affinity!r}."
        )
    optimizer = affinity.get("optimizer")
    optimizers = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    if not optimizers:
        raise ValueError(
            "affinity['optimizer'] must have an entry for each optimizer, got an empty list."
        )
    check_n_processes("optimizers", len(optimizers), "optimizers")
    return {"sampler": affinity.get("sampler"), "optimizer": optimizers}


_KNOWN_KEYS = {
    *("all_cpus", "master_cpus", "workers_cpus", "master_torch_threads", "worker_torch_threads"),
    *("cuda_idx", "alternating", "set_affinity", "cpus", "torch_threads", "n_workers"),
}


def _checked(affinity: object) -> dict[str, Any]:
    """Return the affinity of one process as a dictionary, with cores that it may use.

    Raises:
        TypeError: the affinity is not a dictionary or None.
        ValueError: a key is unknown.
    """
    if affinity is None:
        return {}
    if isinstance(affinity, list | tuple):
        raise TypeError(
            f"affinity must be one dictionary, got {affinity!r}. A list with an entry for each "
            "rank is for SyncRl."
        )
    if not isinstance(affinity, dict):
        raise TypeError(
            "affinity must be None, 'auto', a dictionary such as dict(n_workers=2) or "
            "dict(workers_cpus=[0, 1], cuda_idx=None), or a code such as '0slt_4cpu_0gpu_2cpr', "
            f"got {affinity!r}."
        )
    unknown = set(affinity) - _KNOWN_KEYS
    if unknown:
        hint = ""
        if unknown <= {"sampler", "optimizer"}:
            hint = " This is an affinity for AsyncRl, from a code with async_sample."
        raise ValueError(
            f"affinity has unknown keys {sorted(unknown)}; known are {sorted(_KNOWN_KEYS)}.{hint}"
        )
    placed_affinity: dict[str, Any] = placed(affinity)
    return placed_affinity


def _threads(affinity: dict[str, Any], name: str) -> int | None:
    """Return the number of torch threads in an affinity; ``None`` if it is not set.

    Raises:
        TypeError, ValueError: the number is not an integer in [1, ``MAX_TORCH_THREADS``].
    """
    if not affinity.get(name):
        return None
    threads = whole_number(name, affinity[name], 1)
    if threads > MAX_TORCH_THREADS:
        raise ValueError(
            f"{name}={threads} must be at most {MAX_TORCH_THREADS} on this machine. Leave it out "
            "for one thread per core, or give the number of cores."
        )
    return threads


def _cores_of_workers(cpus: object) -> list[list[int]]:
    """Return the cores of each worker."""
    if cpus is not None and (isinstance(cpus, str) or not isinstance(cpus, Iterable)):
        raise TypeError(
            f"workers_cpus={cpus!r} must be a list with a core, or a list of cores, for each "
            "worker. For workers that are not pinned use dict(n_workers=...)."
        )
    return [] if cpus is None else [_core_list("workers_cpus", cores) for cores in cpus]


def _core_list(name: str, cpus: object) -> list[int]:
    """Return a list of cores, given one or several."""
    cpu_list = cpus if isinstance(cpus, Iterable) and not isinstance(cpus, str) else [cpus]
    return [whole_number(name, cpu, 0) for cpu in cpu_list]


def _may_use(cpus: list[list[int]]) -> bool:
    """Return True if this process may use all of these cores; warn if not."""
    allowed = available_cpus()
    others = {cpu for cpu_list in cpus for cpu in cpu_list} - set(allowed)
    if others:
        warnings.warn(
            f"affinity names cpus {listed(others)}, but this process may only use "
            f"{listed(allowed)}: nothing is pinned."
        )
    return not others


def _cpus_by_worker(
    cpus: list[list[int]], n_workers: int, groups: int, default: list[int] | None
) -> list[list[int] | None]:
    """Return the cores of each worker; groups of workers have equal parts of them."""
    n_available, n_per_group = len(cpus) // groups, n_workers // groups
    return [
        cpus[group * n_available + i] if i < n_available else default
        for group in range(groups)
        for i in range(n_per_group)
    ]


def _fitting(n_max: int, batch_B: int | None, groups: int, explicit: bool) -> int:
    """Return the largest number of workers, up to ``n_max``, that share environments evenly.

    Args:
        n_max: maximum number of workers, a multiple of ``groups``.
        batch_B: number of environments; ``None``: ``n_max`` is returned.
        groups: number of groups of workers.
        explicit: the user set the number of workers or their cores, so warn if fewer are used.
    """
    if batch_B is None:
        return n_max
    fitting = [n for n in range(groups, n_max + 1, groups) if batch_B % n == 0]
    n_workers = max(fitting, default=groups)
    if explicit and fitting and n_workers < n_max:
        warnings.warn(
            f"batch_B must be divisible by the number of workers, got batch_B={batch_B} and "
            f"{n_max} workers, so their number is {n_workers}. Set batch_B to a multiple of "
            f"{n_max} to use all."
        )
    return n_workers


def check_n_processes(named: str, n: int, who: str, cores: int | None = None) -> None:
    """Warn if there are more computing processes than cores.

    Args:
        named: name of the argument with their number, for messages.
        n: number of processes.
        who: plural name of the processes, for messages.
        cores: number of cores; ``None``: the number granted to this process.

    Raises:
        ValueError: there are more than ``MAX_PER_CORE`` processes per core.
    """
    cores = n_granted_cpus() if cores is None else cores
    if n > MAX_PER_CORE * cores:
        raise ValueError(
            f"{named} must be at most {MAX_PER_CORE * cores} on {cores} cores, got {n}. Best is "
            f"{cores}."
        )
    if n > cores:
        warnings.warn(f"{named}={n} on {cores} cores: {who} will share cores.")


def rows_per_worker(B: int, n_workers: int, groups: int = 1) -> int:
    """Return the number of environments of each worker.

    Args:
        B: ``batch_B``.
        n_workers: number of workers.
        groups: number of groups of workers.

    Raises:
        ValueError: ``batch_B`` is not divisible by ``n_workers``.
    """
    if B % n_workers:
        down = B // n_workers * n_workers
        up = math.ceil(B / n_workers) * n_workers
        remedy = f"batch_B={up}" + (f" or batch_B={down}" if down else "")
        fitting = [n for n in range(groups, min(B, n_workers) + 1, groups) if B % n == 0]
        if fitting:
            n = fitting[-1]
            remedy += f", or affinity=dict(n_workers={n}) (--sampler.n-workers {n})"
        who = f"n_workers={n_workers}"
        if groups > 1:
            who = f"{n_workers} workers ({groups} groups of {n_workers // groups}, in turns)"
        raise ValueError(f"batch_B={B} must be divisible among {who}. Use {remedy}.")
    return B // n_workers
