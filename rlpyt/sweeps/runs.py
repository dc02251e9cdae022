"""From a sweep file to the jobs of its runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.rundir import ROOT
from rlpyt.sweeps.expansion import Setting, expand, run_options
from rlpyt.sweeps.jobs import Job, script_command
from rlpyt.sweeps.places import Slot
from rlpyt.sweeps.slots import default_code, slots_of
from rlpyt.sweeps.spec import SweepSpec, read_spec
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.names import dir_names, flattened
from rlpyt.utils.text import counted
from rlpyt.vis.grouping import Run

RLPYT = (sys.executable, "-m", "rlpyt.cli.main")
SHOWN = 40  # runs, of a sweep that is only looked at


@dataclass(frozen=True)
class Planned:
    """A sweep that could begin.

    Attributes:
        spec: of the file.
        slots: affinity code.
        jobs: known from the start; with ``spec.search`` none.
    """

    spec: SweepSpec
    slots: str
    jobs: tuple[Job, ...]

    def default_directory(self) -> Path:
        """``data/<title>-<timestamp>``."""
        name = dir_names([{"": self.spec.title}])[0].removeprefix("_")
        return ROOT / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"

    def described(self) -> list[str]:
        """What would be run, first in one line, then in many."""
        spec = self.spec
        slots = slots_of(self.slots, spec.where, spec.place.get("at_once"))
        what = counted(len(self.jobs), "run")
        lines = [f"  {job.name}" for job in self.jobs[:SHOWN]]
        if spec.search is not None:
            from rlpyt.sweeps.search import read_search
            from rlpyt.sweeps.search_plan import runs_told, space_told

            search = read_search(spec)
            what, lines = runs_told(spec, search), space_told(spec, search, slots[0])
        lines.insert(0, f"{spec.title}: {what}, {len(slots)} at once ({self.slots}, {spec.where})")
        left = len(self.jobs) - SHOWN
        return lines + [f"  ... and {left} more"] * (left > 0)

    def arguments(self) -> dict[str, Any]:
        """Of :func:`rlpyt.sweeps.start.launch`."""
        path, search = self.spec.path, dict(self.spec.search or {})
        if self.spec.search is not None:
            search.setdefault("method", "optuna")
        if path is not None and search and self.spec.script is not None:
            search["home"] = os.path.abspath(path.parent)
            search["script"] = os.path.abspath(self.spec.script)
        return {
            "jobs": self.jobs,
            "title": self.spec.title,
            "slots": self.slots,
            "where": self.spec.where,
            "place_settings": self.spec.place,
            "search": search,
            "file": path,
        }


def sweep_of(path: Path, slots: str | None = None, any_number: bool = False) -> Planned:
    """Read a sweep file and plan its runs.

    Args:
        path: of the file.
        slots: affinity code, instead of that in the file.
        any_number: of runs is meant, whatever ``max_runs`` says.

    Raises:
        ValueError, TypeError, ImportError: see ``read_spec`` and ``expand``.
    """
    from rlpyt.sweeps.search import read_search

    spec = read_spec(path)
    if any_number:
        spec = replace(spec, max_runs=sys.maxsize)
    code = slots or _slots_in(spec)
    share = slots_of(code, spec.where)[0]
    if spec.search is not None:
        read_search(spec)
        return Planned(spec, code, ())
    jobs = jobs_of(spec, expand(spec), share)
    return Planned(spec, code, tuple(jobs))


def _slots_in(spec: SweepSpec) -> str:
    """The affinity code that a file gives, or that does what it says; of this machine, checked."""
    if spec.slots is not None:
        with spec.blaming("slots"):
            slots_of(spec.slots, spec.where)
            return spec.slots
    with spec.blaming("gpus_per_run" if spec.gpus_per_run else "cpus_per_run"):
        return default_code(spec.cpus_per_run, spec.gpus_per_run)


def jobs_of(spec: SweepSpec, settings: list[Setting], share: Slot, first: int = 0) -> list[Job]:
    """A job for each setting.

    Args:
        spec: of the sweep.
        settings: of its runs.
        share: of the hardware, that each run gets.
        first: number of the first job.
    """
    make = _train_job if spec.script is None else _script_job
    return [make(spec, one, share, first + at) for at, one in enumerate(settings)]


def _train_job(spec: SweepSpec, setting: Setting, share: Slot, number: int) -> Job:
    options = fitting(run_options(spec, setting), setting.changes, share)
    return Job(
        number=number,
        name=setting.name,
        command=(*RLPYT, "train", "--config", "{job}/config.json", "--run-dir", "{run_dir}"),
        resume=(*RLPYT, "resume", "{run_dir}"),
        run_dir=setting.name,
        cwd=os.getcwd(),
        settings={**setting.varied, "seed": setting.seed},
        variant=setting.changes,
        config=options.as_dict(),
        total_steps=Run(Path(), flattened(options.as_dict())).total_steps,
        retries=spec.retries,
    )


def _script_job(spec: SweepSpec, setting: Setting, share: Slot, number: int) -> Job:
    log_dir = f"{{sweep}}/{Path(setting.name).parent}"
    return Job(
        number=number,
        name=setting.name,
        command=script_command(str(spec.script), log_dir, setting.seed, spec.args),
        run_dir=setting.name,
        cwd=os.getcwd(),
        settings={**flattened(setting.varied), "seed": setting.seed},
        variant=setting.changes,
        retries=spec.retries,
    )


def fitting(options: RunOptions, given: Mapping[str, Any], share: Slot) -> RunOptions:
    """Options made to fit the run's share of the machine, where the sweep does not say otherwise.

    As many workers as the share has cores, as far as they divide the environments (which changes
    no result), its GPU, and no film of each of many runs.
    """
    sampler = given.get("sampler", {})
    if "n_workers" not in sampler and options.sampler.kind in ("cpu", "gpu"):
        own = Resources.from_code(share.code)
        cores = len(own.run_cores()) if share.cpus else options.sampler.n_workers
        B = options.sampler.batch_B
        n_workers = max(n for n in range(1, min(cores, B) + 1) if B % n == 0)
        options = options.updated({"sampler": {"n_workers": n_workers}})
    if "device" not in given and share.gpus:
        options = options.updated({"device": "cuda"})
    return options if "video" in given else options.updated({"video": False})
