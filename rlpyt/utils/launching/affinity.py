"""Affinities: the cores and GPUs of a run as rlpyt's dictionaries, and affinity codes.

    code = encode_affinity(n_cpu_core=8, n_gpu=2)      # '8cpu_2gpu', for `run_experiments`
    affinity = affinity_from_code("0slt_8cpu_2gpu")    # in the script that it starts
    affinity = make_affinity(n_cpu_core=8, n_gpu=2)    # the same, for one run started by hand

`resources` defines the codes, `shares` computes the affinity of a run from them. Runners take the
affinities returned here, and codes as well.
"""

from typing import Any

from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.machine import Machine, n_gpus
from rlpyt.utils.launching.placement import SlotCpus, get_master_cpus
from rlpyt.utils.launching.resources import ABBREVIATIONS, AffinityError, Resources, parse
from rlpyt.utils.launching.shares import (
    affinity_of,
    get_workers_cpus,  # noqa: F401  (rlpyt has it here)
)

# Abbreviations in a code.
N_GPU = "gpu"
CONTEXTS_PER_GPU = "cxg"
GPU_PER_RUN = "gpr"
N_CPU_CORE = "cpu"
HYPERTHREAD_OFFSET = "hto"
N_SOCKET = "skt"
RUN_SLOT = "slt"
CPU_PER_WORKER = "cpw"
CPU_PER_RUN = "cpr"
CPU_RESERVED = "res"
ASYNC_SAMPLE = "ass"
SAMPLE_GPU_PER_RUN = "sgr"
OPTIM_SAMPLE_SHARE_GPU = "oss"
ALTERNATING = "alt"
SET_AFFINITY = "saf"
ABBREVS = [short for short in ABBREVIATIONS.values() if short != RUN_SLOT]


def encode_affinity(
    n_cpu_core: int = 1,
    n_gpu: int = 0,
    contexts_per_gpu: int = 1,
    gpu_per_run: int = 1,
    cpu_per_run: int = 1,
    cpu_per_worker: int = 1,
    cpu_reserved: int = 0,
    hyperthread_offset: int | None = None,
    n_socket: int | None = None,
    run_slot: int | None = None,
    async_sample: bool = False,
    sample_gpu_per_run: int = 0,
    optim_sample_share_gpu: bool = False,
    alternating: bool = False,
    set_affinity: bool = True,
) -> str:
    """Return the affinity code for a machine's cores and GPUs and their division among runs.

    Args:
        n_cpu_core, n_gpu: physical cores and GPUs of the machine, used by all runs together.
        contexts_per_gpu: runs that share each GPU.
        gpu_per_run: GPUs that a run optimizes on, one rank each. Without GPUs: number of ranks.
        cpu_per_run: cores of a run without GPUs. With GPUs, cores are divided evenly among them.
        cpu_per_worker: cores of a sampler worker; 1 unless environments are multi-threaded.
        cpu_reserved: cores of each rank that its workers do not use.
        hyperthread_offset: distance from a core's first hardware thread to its second, usually the
            number of physical cores; 0: second threads are not used. ``None``: that of this
            machine, or ``n_cpu_core`` if this machine has fewer cores.
        n_socket: sockets of the machine; a run stays on one and uses its GPUs. ``None``: that of
            this machine, or 1 if this machine has fewer cores.
        run_slot: index of the run; `run_experiments` sets it for each run it starts.
        async_sample: for `AsyncRl`, which samples and optimizes in different processes.
        sample_gpu_per_run: GPUs for action selection in an asynchronous run.
        optim_sample_share_gpu: select actions on the optimizer's GPUs in an asynchronous run.
        alternating: for alternating samplers: twice as many workers.
        set_affinity: False to pin no process, for example in a cloud.

    Raises:
        AffinityError, ValueError, TypeError: a number is invalid, or a run needs more cores or
            GPUs than the machine has.
    """
    given = dict(locals())
    n_cpu_core = whole_number("n_cpu_core", n_cpu_core, 1)
    if hyperthread_offset is None or n_socket is None:
        found = Machine.here()
        if found.n_core < n_cpu_core:  # the code is for another machine, unknown here
            found = Machine(cpus=(), n_core=n_cpu_core, hyperthread_offset=n_cpu_core)
        here = {"hyperthread_offset": found.hyperthread_offset, "n_socket": found.n_socket}
        given |= {name: value for name, value in here.items() if given[name] is None}
    resources = Resources(**given).checked()
    if run_slot is not None:
        resources.checked_slot()
    return resources.to_code()


def make_affinity(run_slot: int = 0, **kwargs: Any) -> Any:
    """Return the affinity of one run from the arguments of ``encode_affinity``."""
    return affinity_from_code(encode_affinity(run_slot=run_slot, **kwargs))


def affinity_from_code(run_slot_affinity_code: str) -> Any:
    """Return the affinity of one run, for its runner.

    Args:
        run_slot_affinity_code: affinity code with a run slot, such as "0slt_8cpu_2gpu".

    Returns:
        For a single training process (`MinibatchRl`) an AttrDict with ``all_cpus, master_cpus,
        workers_cpus, master_torch_threads, worker_torch_threads, alternating, set_affinity``, and
        with GPUs ``cuda_idx``; for several (`SyncRl`) a list of them; for asynchronous runs
        (`AsyncRl`) AttrDict(all_cpus, optimizer=[...], sampler=..., set_affinity). Processors are
        numbered as in the code; runners map them to the processors of this machine.

    Raises:
        AffinityError: the code is malformed, or its run slot is missing or out of range.
    """
    return affinity_of(Resources.from_code(run_slot_affinity_code))


def quick_affinity_code(
    n_parallel: int | None = None, use_gpu: bool = True, contexts_per_gpu: int = 1
) -> str:
    """Return an affinity code for all cores and GPUs that this process may use.

    Args:
        n_parallel: number of parallel runs. They divide the cores among them, and the GPUs if
            there are enough. ``None``: one run for each GPU context; without GPUs one run.
        use_gpu: if True, use GPUs where available.
        contexts_per_gpu: runs that share each GPU.

    Raises:
        TypeError, ValueError: an argument is invalid, or there are fewer cores than runs.
    """
    contexts_per_gpu = whole_number("contexts_per_gpu", contexts_per_gpu, 1)
    if n_parallel is not None:
        n_parallel = whole_number("n_parallel", n_parallel, 1)
    machine, n_gpu = Machine.here(), n_gpus() if use_gpu else 0
    n_core = machine.n_granted
    if n_gpu and n_parallel is not None:
        n_gpu = min(n_gpu, -(-n_parallel // contexts_per_gpu))
    runs = n_gpu * contexts_per_gpu or n_parallel or 1
    if runs > n_core:
        raise ValueError(
            f"the number of parallel runs must be at most the number of cores ({n_core}), got "
            f"{runs}. Lower n_parallel (or contexts_per_gpu)."
        )
    return encode_affinity(
        n_cpu_core=n_core - n_core % runs,
        n_gpu=n_gpu,
        contexts_per_gpu=contexts_per_gpu if n_gpu else 1,
        cpu_per_run=n_core // runs if not n_gpu else 1,
        # A CPU quota grants a container time, not specific cores to pin processes to.
        set_affinity=n_core == machine.n_core,
    )


def prepend_run_slot(run_slot: int, affinity_code: str) -> str:
    """Return the code of one run: "1slt_8cpu_2gpu".

    Raises:
        AffinityError: the code is malformed, or already has a run slot.
    """
    if RUN_SLOT in parse(affinity_code):
        raise AffinityError(
            f"affinity code {affinity_code!r} already has a run slot. Pass the code without it "
            "(`remove_run_slot`)."
        )
    return f"{run_slot}{RUN_SLOT}_{affinity_code}"


def remove_run_slot(run_slot_affinity_code: str) -> tuple[int, str]:
    """Return the run slot and the code without it.

    Raises:
        AffinityError: the code is malformed or has no run slot.
    """
    slot = Resources.from_code(run_slot_affinity_code).checked_slot()
    parts = run_slot_affinity_code.split("_")
    return slot, "_".join(part for part in parts if not part.endswith(RUN_SLOT))


def get_n_run_slots(affinity_code: str) -> int:
    """Return the number of runs that fit on the machine in parallel.

    Raises:
        AffinityError: the code is malformed, or a run needs more than the machine has.
    """
    return Resources.from_code(affinity_code).checked().n_run_slots


def decode_affinity(affinity_code: str) -> dict[str, int]:
    """Return the parts of a code: ``{"cpu": 8, "gpu": 2}``.

    Raises:
        AffinityError: the code is malformed.
    """
    return parse(affinity_code)


def get_n_socket() -> int:
    """Return the number of sockets of this machine, among the cores that this process may use."""
    return Machine.here().n_socket


def get_hyperthread_offset() -> int:
    """Return the distance between the two hardware threads of a core on this machine, or 0."""
    return Machine.here().hyperthread_offset


def build_cpu_affinity(
    slt: int,
    cpu: int,
    cpr: int,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    gpu: int = 0,
    alt: int = 0,
    saf: int = 1,
) -> Any:
    """Return the affinity of a run without GPUs; arguments are the parts of a code."""
    return _build(slt=slt, cpu=cpu, gpu=0, cpr=cpr, cpw=cpw, hto=hto, res=res, skt=skt,
                  alt=alt, saf=saf)  # fmt: skip


def build_gpu_affinity(
    slt: int,
    gpu: int,
    cpu: int,
    cxg: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
) -> Any:
    """Return the affinity of a run with one GPU; arguments are the parts of a code."""
    return _build(slt=slt, cpu=cpu, gpu=gpu, cxg=cxg, cpw=cpw, hto=hto, res=res, skt=skt,
                  alt=alt, saf=saf)  # fmt: skip


def build_multigpu_affinity(
    run_slot: int,
    gpu: int,
    cpu: int,
    gpr: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
) -> list[Any]:
    """Return the affinities of a run's ranks, one GPU each; arguments are the parts of a code."""
    found = _build(slt=run_slot, cpu=cpu, gpu=gpu, gpr=gpr, cpw=cpw, hto=hto, res=res, skt=skt,
                   alt=alt, saf=saf)  # fmt: skip
    return found if isinstance(found, list) else [found]


def build_async_affinity(
    run_slot: int,
    gpu: int,
    cpu: int,
    gpr: int = 1,
    sgr: int = 0,
    oss: int = 0,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 1,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
) -> Any:
    """Return the affinity of an asynchronous run; arguments are the parts of a code.

    Without GPUs the run uses all cores.
    """
    return _build(slt=run_slot, cpu=cpu, gpu=gpu, gpr=gpr, sgr=sgr, oss=oss, cpw=cpw, hto=hto,
                  res=res, skt=skt, alt=alt, saf=saf, ass=1, cpr=1 if gpu else cpu)  # fmt: skip


def build_affinities_gpu_1cpu_drive(
    slt: int,
    gpu: int,
    cpu: int,
    cxg: int = 1,
    gpr: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    skt: int = 1,
) -> Any:
    """Return the affinity of ``build_gpu_affinity`` with one core of each rank for its master."""
    hto = cpu if hto is None else hto
    found = _build(slt=slt, cpu=cpu, gpu=gpu, cxg=cxg, gpr=gpr, cpw=cpw, hto=hto, res=1, skt=skt)
    for one in found if isinstance(found, list) else [found]:
        core = one["master_cpus"][:1]
        one["master_cpus"] = SlotCpus.of(get_master_cpus(core, hto), one["all_cpus"].resources)
        one["master_torch_threads"] = 1
    return found


def _build(**numbers: int | None) -> Any:
    given = {short: number for short, number in numbers.items() if number is not None}
    return affinity_of(Resources.from_numbers(given))
