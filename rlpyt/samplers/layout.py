"""The layout of a sampler, and its hardware."""

import math
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.machine import n_granted_cpus
from rlpyt.utils.launching.placement import listed, placed
from rlpyt.utils.launching.resources import is_code
from rlpyt.utils.processes import available_cpus, pin

MOST_PER_CORE = 10
# More threads than any machine has cores would exhaust the limit on processes, which ends the
# interpreter. A code of a larger machine stays usable.
MOST_TORCH_THREADS = max(256, 4 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class SamplerLayout:
    """The difference between one sampler class and another.

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
            batch_B: environments to share out. Where the affinity's workers cannot share them
                evenly, fewer workers are used, with a warning; an affinity that names neither
                workers nor cores gets as many workers as divide it, up to the number of cores.
            affinity: ``None`` or "auto" (about a worker per core that a container's quota
                pays for, nothing pinned), a
                dictionary such as ``dict(n_workers=4)`` or ``dict(workers_cpus=[0, 1, [2, 3]],
                master_cpus=[0], cuda_idx=0, master_torch_threads=1, worker_torch_threads=1,
                set_affinity=True)``, what ``affinity_from_code`` gives, such a code, or an
                ``Hardware``. Processors that this process may not use are nobody's, with a warning;
                those that a code names are looked for, see ``launching.placement``.

        Raises:
            TypeError: it is something else, or has a value of the wrong kind.
            ValueError: a key is unknown, a number makes no sense, or a code is for a larger
                machine.
        """
        if isinstance(affinity, Hardware):
            if affinity.n_workers % groups:
                raise ValueError(f"{affinity}: n_workers must divide into {groups} groups.")
            return affinity
        affinity = _of_one_process(decoded(affinity))
        available = available_cpus()
        cores = n_granted_cpus()
        master = affinity.get("master_cpus", affinity.get("cpus"))
        master = None if master is None else _listed("master_cpus", master)
        cpus = _of_workers(affinity.get("workers_cpus"))
        if master and not cpus and affinity.get("workers_cpus") is not None:
            warnings.warn(
                "affinity has no core for workers (workers_cpus is empty): one worker shares the "
                "master's. Give a run more cores, or lower cpu_reserved (res) or cpu_per_worker "
                "(cpw)."
            )
            cpus = [master]
        if len(cpus) % groups:
            cpus *= groups
        most = len(cpus) or groups * cores
        given = "n_workers" in affinity
        wanted = whole_number("n_workers", affinity.get("n_workers", most), 1)
        even = wanted * groups if wanted % groups else wanted
        n_workers = _fitting(even, batch_B, groups, given or bool(cpus))
        check_n_processes("n_workers", wanted if given else n_workers, "workers", cores * groups)
        cuda_idx = affinity.get("cuda_idx")
        if not affinity.get("set_affinity", True) or not _may_use([*cpus, master or []]):
            master, cpus = None, []
        return cls(
            n_workers=n_workers,
            # Free workers must not inherit a master's place.
            workers_cpus=_shared_out(cpus, n_workers, groups, available if master else None),
            worker_torch_threads=_threads(affinity, "worker_torch_threads") or 1,
            master_cpus=master,
            master_torch_threads=_threads(affinity, "master_torch_threads")
            or _threads(affinity, "torch_threads"),
            cuda_idx=None if cuda_idx is None else whole_number("cuda_idx", cuda_idx, 0),
        )

    def settle(self) -> list[int] | None:
        """Take the master's place in this process; what it could use before, if it was pinned."""
        if self.master_torch_threads is not None:
            torch.set_num_threads(self.master_torch_threads)
        if self.master_cpus is None:
            return None
        before = available_cpus()
        return before if pin(self.master_cpus) else None


def decoded(affinity: Any) -> Any:
    """An affinity that may be a code, as what the code stands for; ``None`` if it is "auto".

    Raises:
        AffinityError: it is a code that cannot be read.
    """
    if isinstance(affinity, str) and affinity == "auto":
        return None
    return affinity_from_code(affinity) if is_code(affinity) else affinity


def split_affinity(affinity: Any) -> dict[str, Any]:
    """Return the sampler's hardware, and a list of each optimizer's.

    Raises:
        TypeError: the affinity is not that of an asynchronous run.
        ValueError: it is a code that cannot be read, or there are no optimizers or far too many.
    """
    affinity = decoded(affinity)
    if affinity is None:  # let both have something
        threads = max(1, n_granted_cpus() // 2)
        return {"sampler": None, "optimizer": [{"torch_threads": threads}]}
    if not isinstance(affinity, dict) or not {"sampler", "optimizer"} & set(affinity):
        raise TypeError(
            f"affinity={affinity!r}: an asynchronous runner takes dict(sampler=..., "
            "optimizer=...), each an affinity of its own (or None), or a list of them; or a code "
            "with 1ass (async_sample=True)."
        )
    optimizer = affinity.get("optimizer")
    several = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]
    if not several:
        raise ValueError(
            "affinity['optimizer'] is an empty list; give an entry for each optimizer."
        )
    check_n_processes("optimizers", len(several), "optimizers")
    return {"sampler": affinity.get("sampler"), "optimizer": several}


_KNOWN_KEYS = {
    *("all_cpus", "master_cpus", "workers_cpus", "master_torch_threads", "worker_torch_threads"),
    *("cuda_idx", "alternating", "set_affinity", "cpus", "torch_threads", "n_workers"),
}


def _of_one_process(affinity: Any) -> dict[str, Any]:
    if affinity is None:
        return {}
    if isinstance(affinity, list | tuple):
        raise TypeError(
            f"affinity={affinity!r}: one process takes one dictionary; a list, with one for each "
            "rank, is for SyncRl."
        )
    if not isinstance(affinity, dict):
        raise TypeError(
            f"affinity={affinity!r}: give None, 'auto', a dictionary such as dict(n_workers=2) or "
            "dict(workers_cpus=[0, 1], cuda_idx=None), or a code such as '0slt_4cpu_0gpu_2cpr'."
        )
    unknown = set(affinity) - _KNOWN_KEYS
    if unknown:
        hint = ""
        if unknown <= {"sampler", "optimizer"}:
            hint = " This is an affinity for AsyncRl, of a code with async_sample."
        raise ValueError(
            f"affinity has unknown keys {sorted(unknown)}; known are {sorted(_KNOWN_KEYS)}.{hint}"
        )
    own: dict[str, Any] = placed(affinity)
    return own


def _threads(affinity: dict[str, Any], name: str) -> int | None:
    """Return the number of torch threads in an affinity; ``None`` if it has none.

    Raises:
        TypeError, ValueError: the number is not an integer in [1, ``MOST_TORCH_THREADS``].
    """
    if not affinity.get(name):
        return None
    threads = whole_number(name, affinity[name], 1)
    if threads > MOST_TORCH_THREADS:
        raise ValueError(
            f"{name}={threads} must be at most {MOST_TORCH_THREADS} on this machine. Leave it out "
            "for one thread per core, or give the number of cores."
        )
    return threads


def _of_workers(cpus: Any) -> list[list[int]]:
    """The processors of each worker that is given some."""
    if cpus is not None and (isinstance(cpus, str) or not isinstance(cpus, Iterable)):
        raise TypeError(
            f"workers_cpus={cpus!r} must be a list, with a processor or a list of them for each "
            "worker; dict(n_workers=...) has so many wherever the system puts them."
        )
    return [] if cpus is None else [_listed("workers_cpus", own) for own in cpus]


def _listed(name: str, cpus: Any) -> list[int]:
    """One processor or several."""
    several = isinstance(cpus, Iterable) and not isinstance(cpus, str)
    return [whole_number(name, cpu, 0) for cpu in (cpus if several else [cpus])]


def _may_use(cpus: list[list[int]]) -> bool:
    """Return True if all of these processors may be used; if not, says so."""
    allowed = available_cpus()
    others = {cpu for own in cpus for cpu in own} - set(allowed)
    if others:
        warnings.warn(
            f"affinity names cpus {listed(others)}, and this process may use {listed(allowed)}: "
            "nothing is pinned."
        )
    return not others


def _shared_out(
    cpus: list[list[int]], n_workers: int, groups: int, rest: list[int] | None
) -> list[list[int] | None]:
    """For each worker its processors; groups of workers have equal parts of what there is."""
    there, wanted = len(cpus) // groups, n_workers // groups
    return [
        cpus[group * there + i] if i < there else rest
        for group in range(groups)
        for i in range(wanted)
    ]


def _fitting(most: int, batch_B: int | None, groups: int, given: bool) -> int:
    """Return the greatest number of workers that share environments evenly, ``most`` at the most.

    Args:
        most: number of workers, a multiple of ``groups``.
        batch_B: number of environments; ``None`` leaves ``most`` as it is.
        groups: of workers that take turns.
        given: whether the user gave the number of workers, or their cores: warns of fewer.
    """
    if batch_B is None:
        return most
    fitting = [n for n in range(groups, most + 1, groups) if batch_B % n == 0]
    n_workers = max(fitting, default=groups)
    if given and fitting and n_workers < most:
        warnings.warn(
            f"batch_B must be divisible by the number of workers, got batch_B={batch_B} and {most} "
            f"workers: {n_workers} are used. Set batch_B to a multiple of {most} to use all."
        )
    return n_workers


def check_n_processes(named: str, n: int, who: str, cores: int | None = None) -> None:
    """Look whether the machine has cores for so many processes that compute; warn if it has not.

    Args:
        named: what their number is called where it is given.
        n: their number.
        who: they are.
        cores: that they may use; ``None``: as this process.

    Raises:
        ValueError: there are far too many.
    """
    cores = n_granted_cpus() if cores is None else cores
    if n > MOST_PER_CORE * cores:
        raise ValueError(
            f"{named}={n} on {cores} cores would only wait for each other; take at most "
            f"{MOST_PER_CORE * cores}, and best {cores}."
        )
    if n > cores:
        warnings.warn(f"{named}={n} on {cores} cores: {who} will share cores.")


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
