"""``rlpyt affinity``: what a code stands for, or what this machine has."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import tyro

from rlpyt.cli.flags import parse
from rlpyt.utils.launching.affinity import affinity_from_code, encode_affinity, prepend_run_slot
from rlpyt.utils.launching.machine import Machine, n_gpus
from rlpyt.utils.launching.placement import listed, placement
from rlpyt.utils.launching.resources import AffinityError, Resources
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.text import counted

DESCRIPTION = """Show which run gets which cores and GPUs.

With a CODE, such as 8cpu_2gpu or 0slt_8cpu_0gpu_4cpr: a table of its run slots, and what this
machine lacks of it. Without: what this machine has, and codes for it.

A code is parts joined by underscores, each a number and three letters:

  cpu  physical cores to use on the machine       gpu  GPUs to use on the machine
  cpr  cores of a run, where there are no GPUs    gpr  GPUs on which a run optimizes
  cpw  cores of each worker (1)                   cxg  runs that share each GPU (1)
  res  cores per rank that no worker gets (0)     hto  first to second thread (cpu; 0: none)
  skt  sockets of the machine (1)                 slt  the run's slot, in front
  ass  1: samples beside optimizing               sgr  GPUs on which it then samples (0)
  oss  1: those are the optimizer's               alt  1: twice as many workers, alternating
  saf  0: nothing is pinned"""

Row = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Affinity:
    """What the user gives."""

    code: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="CODE", help="see above")
    ] = None


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    command = parse(Affinity, args, prog="rlpyt affinity", description=DESCRIPTION)
    print(machine_told() if command.code is None else code_told(command.code))
    return 0


def code_told(code: str) -> str:
    """A code in words, a table of its run slots, and what is odd about it.

    Raises:
        AffinityError: it cannot be read, or its numbers do not go together.
    """
    resources = Resources.from_code(code).checked()
    one = resources.run_slot is not None
    slots = [resources.checked_slot()] if one else list(range(resources.n_run_slots))
    whole = dataclasses.replace(resources, run_slot=None).to_code()
    rows = [row for slot in slots for row in _rows(prepend_run_slot(slot, whole))]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    table = tabulate([[row[name] for name in shown] for row in rows], shown, stralign="left")
    runner = "AsyncRl" if resources.async_sample else "SyncRl"
    runner = runner if resources.async_sample or resources.n_ranks > 1 else "MinibatchRl"
    lines = [f"{code}: {resources.describe()}", f"for {runner}", "", table, ""]
    notes = [*resources.notes(), *_missing_here(resources, whole, slots)]
    return "\n".join(lines + [f"Note: {note}." for note in notes]).rstrip()


def machine_told() -> str:
    """What this machine has, and codes for it."""
    machine, gpus = Machine.here(), n_gpus()
    found = [
        ("processors this process may use", f"{len(machine.cpus)} ({listed(machine.cpus)})"),
        ("cores", str(machine.n_core)),
        ("second hardware threads begin at", str(machine.hyperthread_offset or "none")),
        ("sockets", str(machine.n_socket)),
        ("GPUs", str(gpus)),
    ]
    if machine.quota is not None:
        found.append(("a container's quota, in cores", f"{machine.quota:g}"))
    pins = machine.n_granted == machine.n_core
    suggested = [(code, what) for what, code in _suggested(machine.n_granted, gpus, pins)]
    parts = [
        tabulate(found, tablefmt="plain"),
        "",
        "Codes for it (`rlpyt affinity CODE` shows what they stand for):",
        "",
        tabulate(suggested, tablefmt="plain"),
    ]
    return "\n".join(parts)


def _suggested(n_core: int, n_gpu: int, pins: bool) -> Iterator[tuple[str, str]]:
    """(what for, code) of settings that suit so many cores and GPUs."""
    settings: list[tuple[str, dict[str, Any]]] = [
        ("one run at a time, with all cores", dict(cpu_per_run=n_core)),
        (f"{counted(n_core, 'run')} at a time, with a core each", dict(cpu_per_run=1)),
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
    for what, arguments in settings:
        try:
            code = encode_affinity(n_cpu_core=n_core, set_affinity=pins, **arguments)
        except AffinityError:  # too few cores
            continue
        if code not in seen:
            seen.add(code)
            yield what, code


def _rows(code: str) -> Iterator[Row]:
    """What each process of a run gets, a row for each."""
    affinity, resources = affinity_from_code(code), Resources.from_code(code)
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
            "workers": _workers_told(workers),
            "no worker on": listed(set(master) - used) if workers else "",
        }
        slot = ""


def _workers_told(workers: list[tuple[int, ...]]) -> str:
    """How many, and where."""
    if not workers:
        return ""
    shown = [listed(worker) for worker in workers]
    if len(shown) > 8:
        shown[4:-2] = ["..."]
    return f"{len(workers)}: " + " | ".join(shown)


def _missing_here(resources: Resources, whole: str, slots: list[int]) -> Iterator[str]:
    """What a code has that this machine has not."""
    gpus, wanted = n_gpus(), resources.n_gpu
    if gpus < wanted:
        yield f"this machine has {gpus} of the {wanted} GPUs"
    if not resources.set_affinity:
        yield "processes are not pinned, cores only say how many workers there are"
        return
    moved: dict[int, int] = {}
    missing: set[int] = set()  # second hardware threads
    lost = []
    for slot in slots:
        try:
            where = placement(prepend_run_slot(slot, whole))
        except AffinityError:
            lost.append(slot)
            continue
        cores = dataclasses.replace(resources, run_slot=slot).run_cores()
        used = {where[core] for core in cores}
        missing |= {cpu for cpu, here in where.items() if cpu not in cores and here in used}
        moved.update(where)
    moved = {cpu: here for cpu, here in moved.items() if cpu not in missing}
    if lost:
        yield (
            f"this process may use the processors {listed(Machine.here().cpus)} only; launchers "
            f"refuse run slots {listed(lost)}, and runs of these are not pinned"
        )
        return
    if missing:
        yield (
            f"second threads {listed(missing)} of the code are not here, runs use the first ones "
            "of their cores"
        )
    if any(code_cpu != cpu for code_cpu, cpu in moved.items()):
        yield f"cores {listed(moved)} of the code are the processors {listed(moved.values())} here"
