"""What a search knows of its runs: which belong together, how they stand, how good they were."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments import rundir
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.expansion import run_options, setting_for
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.places import Slot
from rlpyt.sweeps.runs import jobs_of
from rlpyt.sweeps.sources import SourceError
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.utils.names import suggestion

EVALUATION = "evaluation"  # as a metric: the mean return of the evaluation after training
TRIAL = "trial"  # mark of a run: number of its trial
MEMBER, ROUND, FROM = "member", "round", "from"  # of a stretch: whose, and whose checkpoint it took
BEGINS, ENDS = "begins", "ends"  # environment steps of a stretch
MARKS = (TRIAL, MEMBER, ROUND, FROM, BEGINS, ENDS)  # what a search adds to the settings of runs


@dataclass(frozen=True)
class Metric:
    """What a search looks for.

    Attributes:
        name: ``EVALUATION``, or a column of progress.csv.
        maximize: whether more is better.
    """

    name: str = EVALUATION
    maximize: bool = True

    def score(self, run_dir: Path) -> float | None:
        """Of a run that is done; ``None`` if it has left none."""
        if self.name == EVALUATION:
            try:
                text = (run_dir / rundir.EVALUATION).read_text(encoding="utf-8")
                return _finite(json.loads(text)["return_mean"])
            except (OSError, ValueError, KeyError, TypeError):
                pass  # a script may not evaluate after training; its statistics then count
        rows = self.rows(run_dir)
        return rows[-1][1] if rows else None

    @property
    def missing(self) -> str:
        """What a run lacks that has no score."""
        if self.name == EVALUATION:
            return "there is no evaluation.json, and no ReturnAverage in progress.csv."
        return f"there is no number under {self.name} in progress.csv."

    @property
    def column(self) -> str:
        """Of progress.csv."""
        return "ReturnAverage" if self.name == EVALUATION else self.name

    def rows(self, run_dir: Path) -> list[tuple[int, float]]:
        """(environment steps, value) of each row so far."""
        progress = _progress(run_dir)
        steps = progress.get("Diagnostics/CumSteps", np.array([]))
        values = progress.get(self.column, np.full(len(steps), np.nan))
        return [(int(at), float(v)) for at, v in zip(steps, values) if math.isfinite(v)]

    def better(self, values: Sequence[float]) -> list[int]:
        """Indices of values, best first."""
        return sorted(range(len(values)), key=lambda i: -values[i] if self.maximize else values[i])


class Runs:
    """Adds runs with chosen values to a sweep, and finds them again.

    Args:
        sweep: on disk.
        spec: what all runs share.
        share: of the hardware, that a run gets.
    """

    def __init__(self, sweep: SweepDirectory, spec: SweepSpec, share: Slot) -> None:
        self.sweep, self.spec, self.share = sweep, spec, share
        self._next = max((job.job.number for job in sweep.jobs()), default=-1) + 1

    def add(
        self, name: str, values: Mapping[str, Any], seeds: Sequence[int], **marks: Any
    ) -> list[JobDirectory]:
        """A run for each of these seeds, with these values; marks are added to the settings.

        Raises:
            ValueError, TypeError: the values cannot be; nothing is added.
        """
        made = [setting_for(self.spec, values, name, seed) for seed in seeds]
        jobs = [
            job
            for one in made
            for job in jobs_of(self.spec, [one], self.share, first=self.take_number())
        ]
        return [self.sweep.add(job.with_settings(marks)) for job in jobs]

    def take_number(self) -> int:
        """Of one more job."""
        self._next += 1
        return self._next - 1

    def dir_of(self, job: JobDirectory) -> Path:
        """Where a job's run writes."""
        return self.sweep.path / job.job.run_dir

    def check_metric(self, metric: Metric, job: JobDirectory) -> None:
        """See that a run that is done has what the search looks for, as all others will not either.

        Raises:
            SourceError: its statistics lack the column; names the ones they have.
        """
        run_dir = self.dir_of(job)
        columns = list(_progress(run_dir))
        if metric.column in columns or metric.score(run_dir) is not None:
            return
        file = self.sweep.queue / self.sweep.about.file_name
        raise SourceError(
            f"search.metric: {job.job.name} is done, and has no column {metric.column!r} in "
            f"{run_dir / 'progress.csv'}{suggestion(metric.column, columns)} Columns: "
            f"{', '.join(columns) or 'none'}. Correct metric in {file}, then go on with `rlpyt "
            f"sweep {self.sweep.path}`: what has been run counts."
        )


def total_steps(spec: SweepSpec) -> int | None:
    """Environment steps of a run of the search; ``None``: only its script knows."""
    if spec.script is not None:
        return None
    values = {key: draw.values[0] for key, draw in spec.sample.items()}
    return run_options(spec, setting_for(spec, values, "any")).steps


def _progress(run_dir: Path) -> Mapping[str, Any]:
    """Columns of a run's statistics; none before there are any."""
    from rlpyt.vis.progress import read_progress

    try:
        return read_progress(run_dir)
    except FileNotFoundError:
        return {}


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
