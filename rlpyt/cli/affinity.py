"""Show which run gets which cores and GPUs: `rlpyt affinity CODE`.

With a CODE, such as 8cpu_2gpu or 0slt_8cpu_0gpu_4cpr: print a table of its run slots, with their
processors in the code's numbers and, if these differ, those here. Without: print the resources of
this machine and codes for it.

A code consists of parts joined by underscores, each a number and three letters:

  cpu  physical cores to use on the machine       gpu  GPUs to use on the machine
  cpr  cores per run, without GPUs                gpr  GPUs on which a run optimizes
  cpw  cores per worker (1)                       cxg  runs that share each GPU (1)
  res  cores per rank without workers (0)         hto  offset of second threads (cpu; 0: none)
  skt  sockets of the machine (1)                 slt  the run's slot, always first
  ass  1: asynchronous sampling                   sgr  GPUs on which it then samples (0)
  oss  1: sample on the optimizer's GPUs          alt  1: twice as many workers, alternating
  saf  0: no process is pinned
"""

import contextlib
import dataclasses
from collections.abc import Sequence
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


@dataclasses.dataclass(frozen=True)
class Affinity:
    code: Annotated[
        tyro.conf.Positional[str | None], tyro.conf.arg(metavar="CODE", help="see above")
    ] = None


def main(args: Sequence[str]) -> int:
    command = parse(Affinity, args)
    print(describe_machine() if command.code is None else describe_code(command.code))
    return 0


def describe_code(code: str) -> str:
    """Return a description of a code, a table of its run slots, and notes.

    Raises:
        AffinityError: the code cannot be parsed, or its numbers contradict each other.
    """
    resources = Resources.from_code(code).checked()
    one = resources.run_slot is not None
    numbers = [resources.checked_slot()] if one else range(resources.n_run_slots)
    rows = [row for number in numbers for row in _rows(resources, number)]
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    if all(row["here"] == row["processors"] for row in rows):
        columns.remove("here")
    runner = "SyncRl" if resources.n_ranks > 1 else "MinibatchRl"
    notes, gpus = resources.notes(), n_gpus()
    if gpus < resources.n_gpu:
        notes.append(f"this machine has {gpus} of the {resources.n_gpu} GPUs")
    if not resources.set_affinity:
        notes.append("processes are not pinned; cores only set the number of workers")
    elif not all(row["here"] for row in rows):
        notes.append(
            f"this process may only use processors {listed(Machine.here().cpus)}; launchers refuse "
            "slots without processors here, and runs in these are not pinned"
        )
    lines = [
        f"{code}: {resources.describe()}",
        f"for {'AsyncRl' if resources.async_sample else runner}",
        "",
        tabulate([[row[name] for name in columns] for row in rows], columns),
        "",
        *(f"Note: {note}." for note in notes),
    ]
    return "\n".join(lines).rstrip()


def _rows(resources: Resources, slot: int) -> list[dict[str, str]]:
    """Return a row for each process of a run, with the process's resources."""
    resources = dataclasses.replace(resources, run_slot=slot)
    affinity, here = affinity_of(resources), {}
    if resources.set_affinity:
        with contextlib.suppress(AffinityError):  # this machine is too small
            here = placement(resources)
    ranks = affinity if isinstance(affinity, list) else [affinity]
    parts = [(f"rank {i}" if ranks[1:] else "", own) for i, own in enumerate(ranks)]
    if "optimizer" in ranks[0]:
        samplers = affinity["sampler"]
        samplers = samplers if isinstance(samplers, list) else [samplers]
        parts = [(f"optimizer {i}", own) for i, own in enumerate(affinity["optimizer"])]
        parts += [(f"sampler {i}", own) for i, own in enumerate(samplers)]
    rows = []
    for part, own in parts:
        cpus = own.get("master_cpus", own.get("cpus"))
        # Without cores for workers, one worker shares the master's.
        workers = (own["workers_cpus"] or [cpus]) if "workers_cpus" in own else []
        row = {"slot": str(slot), "process": part, "GPU": str(own.get("cuda_idx", ""))}
        row["processors"] = listed(cpus)
        row["here"] = listed(here[cpu] for cpu in cpus if here)
        row["workers"] = f"{len(workers)} on {listed(sum(workers, ()))}" if workers else ""
        rows.append(row)
    return rows


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
    n_core, pins = machine.n_granted, machine.n_granted == machine.n_core
    uses: dict[str, dict[str, Any]] = {
        "one run at a time, with all cores": dict(cpu_per_run=n_core),
        f"{counted(n_core, 'run')} at a time, with one core each": dict(cpu_per_run=1),
        "an asynchronous run": dict(cpu_per_run=n_core, async_sample=True),
    }
    if gpus:
        shared = dict(n_gpu=gpus, async_sample=True, optim_sample_share_gpu=True)
        uses["a run on each GPU"] = dict(n_gpu=gpus)
        uses["a run on all GPUs"] = dict(n_gpu=gpus, gpu_per_run=gpus)
        uses["an asynchronous run on each GPU"] = shared
    codes: dict[str, str] = {}
    for use, arguments in uses.items():
        with contextlib.suppress(AffinityError):  # too few cores
            code = encode_affinity(n_cpu_core=n_core, set_affinity=pins, **arguments)
            codes.setdefault(code, use)
    title = "Codes for this machine (`rlpyt affinity CODE` describes one):"
    tables = [tabulate(rows, tablefmt="plain") for rows in (found, codes.items())]
    return "\n\n".join([tables[0], title, tables[1]])
