"""Plans of sweeps: what ``rlpyt sweep FILE`` would run, before it starts."""

import os
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlpyt.experiments.rundir import ROOT
from rlpyt.sweeps.directory import About
from rlpyt.sweeps.expansion import RLPYT, expand, jobs_of, setting_for
from rlpyt.sweeps.jobs import Job
from rlpyt.sweeps.search import Search, read_search
from rlpyt.sweeps.search_results import short_text
from rlpyt.sweeps.slots import (
    Slot,
    describe_share,
    divide_cluster,
    divide_machine,
    read_code,
    slots_of,
)
from rlpyt.sweeps.spec import Draw, SweepSpec, read_spec
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.names import shortened
from rlpyt.utils.seed import stream
from rlpyt.utils.text import counted

MAX_LISTED = 40  # runs in the description of a sweep


@dataclass(frozen=True)
class SweepPlan:
    """A sweep that is ready to start."""

    spec: SweepSpec
    resources: Resources  # the hardware and its division among runs
    jobs: tuple[Job, ...]  # known from the start; empty with a search

    def default_directory(self) -> Path:
        """Return ``data/<title>-<timestamp>``, which may exist."""
        return ROOT / f"{shortened(self.spec.title)}-{time.strftime('%Y%m%d-%H%M%S')}"

    def describe(self) -> list[str]:
        """Describe the runs: a summary, followed by one line for each."""
        spec = self.spec
        slots = slots_of(self.resources, spec.where)
        what = counted(len(self.jobs), "run")
        lines = [f"  {job.name}" for job in self.jobs[:MAX_LISTED]]
        if spec.search is not None:
            search = read_search(spec)
            trials, seeds = counted(search.trials, "trial"), counted(len(spec.seeds), "seed")
            what = f"a search by optuna, {trials} of {seeds} each"
            lines = _describe_space(spec, search, slots[0])
        share = describe_share(self.resources)
        if spec.together > 1:
            share = f"{spec.together} in a process: {share}"
        n, left = len(slots) * spec.together, len(self.jobs) - MAX_LISTED
        first = f"{spec.title}: {what}, {n} at once ({share}, {spec.where})"
        return [first, *lines, *[f"  ... and {left} more"] * (left > 0)]

    def about(self) -> About:
        """Return the settings of the sweep's directory."""
        spec, search = self.spec, dict(self.spec.search or {})
        if spec.search is not None:
            search.setdefault("method", "optuna")
            if spec.path is not None and spec.script is not None:
                search["home"] = os.path.abspath(spec.path.parent)
                search["script"] = os.path.abspath(spec.script)
        return About(
            spec.title,
            self.resources,
            where=spec.where,
            place=spec.place,
            search=search,
            together=spec.together,
        )


def plan_sweep(path: Path, slots: str | None = None, any_number: bool = False) -> SweepPlan:
    """Read a sweep file and plan its runs.

    Args:
        slots: affinity code of the hardware, in place of the file's resources.
        any_number: True to ignore ``max_runs``.

    Raises:
        ValueError, TypeError, ImportError: see ``read_spec`` and ``expand``.
    """
    spec = read_spec(path)
    if any_number:
        spec = replace(spec, max_runs=sys.maxsize)
    resources = _resources_in(spec) if slots is None else read_code(slots)
    share = slots_of(resources, spec.where)[0]
    if spec.search is not None:
        read_search(spec)
        return SweepPlan(spec, resources, ())
    jobs = jobs_of(spec, expand(spec), share)
    return SweepPlan(spec, resources, tuple(jobs))


def _resources_in(spec: SweepSpec) -> Resources:
    """Return the resources that the file asks for; checked for this machine."""
    if spec.slots is not None:
        with spec.blaming("slots"):
            resources = read_code(spec.slots)
            slots_of(resources, spec.where)
            return resources
    with spec.blaming("resources"):
        divide = divide_machine if spec.where == "local" else divide_cluster
        return divide(**(spec.resources or {}))


def _describe_space(spec: SweepSpec, search: Search, share: Slot) -> list[str]:
    """Return lines with the search space, the metric and an example of a run."""
    draws = [(key, describe_draw(draw)) for key, draw in spec.sample.items()]
    lines = tabulate(draws, tablefmt="plain").split("\n")
    lines += [f"to {search.direction} {search.metric}", *_example(spec, search, share)]
    return [f"  {line}" for line in lines]


def describe_draw(draw: Draw) -> str:
    """Describe a distribution with its range.

    >>> describe_draw(Draw("log_uniform", (1e-4, 1e-2)))
    'log_uniform from 0.0001 to 0.01'
    >>> describe_draw(Draw("choice", ([64, 64], None)))
    'choice of [64, 64], null'
    """
    if draw.kind == "choice":
        return f"choice of {', '.join(map(short_text, draw.values))}"
    low, high = map(short_text, draw.values)
    return f"{draw.kind} from {low} to {high}"


def _example(spec: SweepSpec, search: Search, share: Slot) -> list[str]:
    rng = stream(search.seed, "example")
    values: dict[str, Any] = {key: draw.draw(rng) for key, draw in spec.sample.items()}
    values_text = ", ".join(f"{key}={short_text(value)}" for key, value in values.items())
    try:
        setting = setting_for(spec, values, "trial_0", spec.seeds[0])
    except (ValueError, TypeError) as error:
        return [f"for example {values_text}, which is invalid: {error}"]
    [job] = jobs_of(spec, [setting], share)
    command = [*job.command]
    if job.config:
        command[: len(RLPYT)] = ["rlpyt"]
    return [f"for example {values_text}, by", f"  {' '.join(map(_quoted, command))}"]


def _quoted(word: str) -> str:
    """Quote a word for a shell, except placeholders such as ``{run_dir}``."""
    return word if word.startswith("{") and " " not in word else shlex.quote(word)
