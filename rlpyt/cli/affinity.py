"""``rlpyt affinity``: describe an affinity code, or this machine."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import tyro

from rlpyt.cli.flags import parse
from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.machine import Machine, n_gpus
from rlpyt.utils.launching.placement import listed, placement
from rlpyt.utils.launching.resources import AffinityError, Resources
from rlpyt.utils.launching.shares import affinity_of
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.text import counted

DESCRIPTION = """Show which run gets which cores and GPUs.

With a CODE, such as 8cpu_2gpu or 0slt_8cpu_0gpu_4cpr: print a table of its run slots and list the
resources that this machine lacks. Without: print the resources of this machine and codes for it.

A code consists of parts joined by underscores, each a number and three letters:

  cpu  physical cores to use on the machine       gpu  GPUs to use on the machine
  cpr  cores per run, without GPUs                gpr  GPUs on which a run optimizes
  cpw  cores per worker (1)                       cxg  runs that share each GPU (1)
  res  cores per rank without workers (0)         hto  offset of second threads (cpu; 0: none)
  skt  sockets of the machine (1)                 slt  the run's slot, always first
  ass  1: asynchronous sampling                   sgr  GPUs on which it then samples (0)
  oss  1: sample on the optimizer's GPUs          alt  1: twice as many workers, alternating
  saf  0: no process is pinned"""

Row = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Affinity:
    """Arguments of the command."""

    code: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="CODE", help="see above")
    ] = None


def main(args: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    command = parse(Affinity, args, prog="rlpyt affinity", description=DESCRIPTION)
    print(describe_machine() if command.code is None else describe_code(command.code))
    return 0


def describe_code(code: str) -> str:
    """Return a description of a code, a table of its run slots, and notes.

    Raises:
        AffinityError: the code cannot be parsed, or its numbers contradict each other.
    """
    resources = Resources.from_code(code).checked()
    one = resources.run_slot is not None
    numbers = [resources.checked_slot()] if one else list(range(resources.n_run_slots))
    slots = [dataclasses.replace(resources, run_slot=number) for number in numbers]
    rows = [row for slot in slots for row in _rows(slot)]
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    table = tabulate([[row[name] for name in columns] for row in rows], columns, stralign="left")
    runner = "AsyncRl" if resources.async_sample else "SyncRl"
    runner = runner if resources.async_sample or resources.n_ranks > 1 else "MinibatchRl"
    lines = [f"{code}: {resources.describe()}", f"for {runner}", "", table, ""]
    notes = [*resources.notes(), *_missing_here(resources, slots)]
    return "\n".join(lines + [f"Note: {note}." for note in notes]).rstrip()


def describe_machine() -> str:
    """Return the resources of this machine, and codes for it."""
    machine, gpus = Machine.here(), n_gpus()
    found = [
        ("processors this process may use", f"{len(machine.cpus)} ({listed(machine.cpus)})"),
        ("cores", str(machine.n_core)),
        ("second hardware threads start at", str(machine.hyperthread_offset or "none")),
        ("sockets", str(machine.n_socket)),
        ("GPUs", str(gpus)),
    ]
    if machine.quota is not None:
        found.append(("quota of the container, in cores", f"{machine.quota:g}"))
    pins = machine.n_granted == machine.n_core
    suggested = [(code, use) for use, code in _suggested(machine.n_granted, gpus, pins)]
    parts = [
        tabulate(found, tablefmt="plain"),
        "",
        "Codes for this machine (`rlpyt affinity CODE` describes one):",
        "",
        tabulate(suggested, tablefmt="plain"),
    ]
    return "\n".join(parts)


def _suggested(n_core: int, n_gpu: int, pins: bool) -> Iterator[tuple[str, str]]:
    """Yield (use, code) of settings for a machine with these cores and GPUs."""
    settings: list[tuple[str, dict[str, Any]]] = [
        ("one run at a time, with all cores", dict(cpu_per_run=n_core)),
        (f"{counted(n_core, 'run')} at a time, with one core each", dict(cpu_per_run=1)),
        ("an asynchronous run", dict(cpu_per_run=n_core, async_sample=True)),
    ]
    if n_gpu:
        settings += [
            ("a run on each GPU", dict(n_gpu=n_gpu)),
            ("a run on all GPUs", dict(n_gpu=n_gpu, gpu_per_run=n_gpu)),
            ("an asynchronous run on each GPU", dict(n_gpu=n_gpu, async_sample=True,
             optim_sample_share_gpu=True)),
        ]  # fmt: skip
    seen = set()
    for use, arguments in settings:
        try:
            code = encode_affinity(n_cpu_core=n_core, set_affinity=pins, **arguments)
        except AffinityError:  # too few cores
            continue
        if code not in seen:
            seen.add(code)
            yield use, code


def _rows(resources: Resources) -> Iterator[Row]:
    """Yield one row per process of a run, with the process's resources."""
    affinity = affinity_of(resources)
    slot = str(resources.run_slot)
    if isinstance(affinity, list):
        parts = [(f"rank {i}", own) for i, own in enumerate(affinity)]
    elif "optimizer" in affinity:
        samplers = affinity["sampler"]
        samplers = samplers if isinstance(samplers, list) else [samplers]
        parts = [(f"optimizer {i}", own) for i, own in enumerate(affinity["optimizer"])]
        parts += [(f"sampler {i}", own) for i, own in enumerate(samplers)]
    else:
        parts = [("", affinity)]
    cores = set(resources.run_cores())
    for part, own in parts:
        master = own.get("master_cpus", own.get("cpus"))
        workers = own.get("workers_cpus", [])
        if "workers_cpus" in own and not workers:  # one worker shares the master's
            workers = [master]
        used = {cpu for worker in workers for cpu in worker}
        gpu = own.get("cuda_idx")
        yield {
            "slot": slot,
            "process": part,
            "GPU": "" if gpu is None else str(gpu),
            "cores": listed(cores & set(master)),
            "second threads": listed(set(master) - cores),
            "workers": _describe_workers(workers),
            "no worker on": listed(set(master) - used) if workers else "",
        }
        slot = ""


def _describe_workers(workers: list[tuple[int, ...]]) -> str:
    """Return the number of workers and their cores."""
    if not workers:
        return ""
    cores = [listed(worker) for worker in workers]
    if len(cores) > 8:
        cores[4:-2] = ["..."]
    return f"{len(workers)}: " + " | ".join(cores)


def _missing_here(resources: Resources, slots: list[Resources]) -> Iterator[str]:
    """Yield notes on the resources of run slots that this machine lacks or numbers differently."""
    gpus, wanted = n_gpus(), resources.n_gpu
    if gpus < wanted:
        yield f"this machine has {gpus} of the {wanted} GPUs"
    if not resources.set_affinity:
        yield "processes are not pinned; cores only set the number of workers"
        return
    moved: dict[int, int] = {}
    missing: set[int] = set()  # second hardware threads
    lost = []
    for slot in slots:
        try:
            where = placement(slot)
        except AffinityError:
            lost.append(slot.checked_slot())
            continue
        cores = slot.run_cores()
        used = {where[core] for core in cores}
        missing |= {cpu for cpu, here in where.items() if cpu not in cores and here in used}
        moved.update(where)
    moved = {cpu: here for cpu, here in moved.items() if cpu not in missing}
    if lost:
        yield (
            f"this process may only use processors {listed(Machine.here().cpus)}; launchers "
            f"refuse run slots {listed(lost)}, and runs in these slots are not pinned"
        )
        return
    if missing:
        yield (
            f"second threads {listed(missing)} of the code do not exist on this machine; runs use "
            "the first threads of their cores"
        )
    if any(code_cpu != cpu for code_cpu, cpu in moved.items()):
        yield (
            f"cores {listed(moved)} of the code are processors {listed(moved.values())} of this "
            "machine"
        )
