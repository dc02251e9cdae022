"""Slots: the shares of a machine, each for one run at a time."""

from dataclasses import dataclass, replace

from rlpyt.utils.launching.affinity import prepend_run_slot
from rlpyt.utils.launching.machine import Machine, n_gpus
from rlpyt.utils.launching.placement import get_master_cpus, run_cpus
from rlpyt.utils.launching.resources import AffinityError, Resources
from rlpyt.utils.text import counted


@dataclass(frozen=True)
class Slot:
    """A share of the hardware, for one run at a time."""

    number: int  # from 0
    resources: Resources  # the machine, its division, and the run slot that this share is
    cpus: tuple[int, ...] | None = None  # cores of the run; None: any
    gpus: tuple[int, ...] = ()  # indices of the run's GPUs, the optimizer's first
    place: int | None = None  # number of the process that trains its runs; None: each its own


def slots_of(resources: Resources, where: str = "local") -> list[Slot]:
    """Return one slot for each of the runs that are carried out in parallel.

    Args:
        resources: this machine and its division; on a cluster each run gets the first run slot.
        where: "local", or the name of a cluster's executor.

    Raises:
        AffinityError: this machine has fewer cores or GPUs, or a run needs more than there are.
    """
    n_slots = resources.checked().n_run_slots
    if where == "local":
        if resources.n_gpu and (here := n_gpus()) < resources.n_gpu:
            raise AffinityError(
                f"affinity code {resources.to_code()!r} is for a machine of {resources.n_gpu} "
                f"GPUs, and this process sees {here}; `rlpyt affinity` suggests codes for this "
                f"machine. It says {resources.describe()}."
            )
        shares = [replace(resources, run_slot=number) for number in range(n_slots)]
        return [Slot(i, own, run_cpus(own), _gpus(own)) for i, own in enumerate(shares)]
    first = replace(resources, run_slot=0)
    # Second hardware threads are requested if they are known to exist.
    threads = resources.hyperthread_offset
    cpus = tuple(sorted(set(get_master_cpus(first.run_cores(), threads))))
    return [Slot(number, first, cpus, _gpus(first)) for number in range(n_slots)]


def read_code(code: str) -> Resources:
    """Return the machine and its division that an affinity code without a run slot describes.

    Raises:
        AffinityError: the code is malformed, has a run slot, or leaves a run without hardware.
    """
    resources = Resources.from_code(code).checked()
    prepend_run_slot(0, code)  # raises if the code has a run slot
    return resources


def divide_machine(
    cpus_per_run: int = 1, gpus_per_run: int = 0, max_parallel: int | None = None
) -> Resources:
    """Divide this machine by cores, or by GPUs, per run.

    Args:
        cpus_per_run: cores of a run; with GPUs, the default is an equal share.
        gpus_per_run: GPUs of a run.
        max_parallel: maximum number of parallel runs; by default as many as the machine can hold.

    Raises:
        ValueError: the machine has fewer cores or GPUs.
    """
    machine = Machine.here()
    pins = machine.n_granted == machine.n_core
    # With GPUs, physical cores are counted, whose second threads belong to the same run. A
    # container with a quota has processor time, but not its own cores.
    cores = len(machine.cpus) if pins and not gpus_per_run else machine.n_granted
    if cores < cpus_per_run:
        raise ValueError(
            f"cpus_per_run must be at most {cores}, the cores of this machine, got {cpus_per_run}."
        )
    if gpus_per_run:
        gpus = n_gpus()
        if gpus < gpus_per_run:
            raise ValueError(
                f"gpus_per_run must be at most {gpus}, the GPUs of this machine, got "
                f"{gpus_per_run}."
            )
        n_runs = min(gpus // gpus_per_run, max_parallel or gpus, cores // cpus_per_run)
        if n_runs < gpus // gpus_per_run:
            cores, gpus = cores // n_runs * n_runs, n_runs * gpus_per_run
        offset = machine.hyperthread_offset
        return Resources(
            n_cpu_core=cores,
            n_gpu=gpus,
            gpu_per_run=gpus_per_run,
            hyperthread_offset=None if offset == cores else offset,
            n_socket=machine.n_socket,
            set_affinity=pins,
        )
    n_runs = min(cores // cpus_per_run, max_parallel or cores)
    return Resources(
        n_cpu_core=n_runs * cpus_per_run,
        cpu_per_run=cpus_per_run,
        hyperthread_offset=0,
        set_affinity=pins,
    )


def divide_cluster(
    cpus_per_run: int = 1, gpus_per_run: int = 0, max_parallel: int = 1
) -> Resources:
    """Return the resources of parallel runs on a cluster, whose nodes need not be known."""
    return Resources(
        n_cpu_core=max_parallel * cpus_per_run,
        n_gpu=max_parallel * gpus_per_run,
        gpu_per_run=max(1, gpus_per_run),
        cpu_per_run=cpus_per_run if not gpus_per_run else 1,
    )


def describe_share(resources: Resources) -> str:
    """Describe the hardware of a run: ``4 cores, 1 GPU each``."""
    first = replace(resources, run_slot=0)
    gpus = [counted(first.gpus_of_a_run, "GPU")] if first.gpus_of_a_run else []
    return f"{', '.join([counted(len(first.run_cores()), 'core'), *gpus])} each"


def _gpus(resources: Resources) -> tuple[int, ...]:
    """Return the indices of a run slot's GPUs, the optimizer's first."""
    optimizing, sampling = resources.run_gpus()
    return tuple(dict.fromkeys(gpu for gpu in (*optimizing, *sampling) if gpu is not None))
