"""One number for each run, its final score, sorted by variant and environment."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rlpyt.vis.grouping import Run
from rlpyt.vis.progress import read_progress
from rlpyt.vis.style import readable

EVALUATION = "evaluation.json"
SOURCES = ("auto", "evaluation", "last")
LAST_PART = 0.1  # of the rows, of which the final score is the mean
STEPS = "Diagnostics/CumSteps"
RANGE = "range"


@dataclass(frozen=True)
class Scores:
    """Final scores of labelled runs: what the pictures of comparisons are drawn from."""

    of: Mapping[str, Mapping[str, NDArray[np.float64]]]  # label -> environment -> [R]
    what: str  # for an axis: "Final episode return"
    normalised: bool = False

    @property
    def environments(self) -> list[str]:
        """Those that any variant was run in."""
        return sorted({name for scores in self.of.values() for name in scores})

    def shared(self) -> Scores:
        """Only the environments that all variants have, so that aggregates compare like with like.

        Raises:
            ValueError: there is none.
        """
        common = sorted(set.intersection(*(set(scores) for scores in self.of.values())))
        if not common:
            raise ValueError(
                f"the variants {', '.join(self.of)} have no environment in common; draw one panel "
                "for each environment (no --normalize), or group otherwise (--group-by)."
            )
        left_out = [name for name in self.environments if name not in common]
        if left_out:
            warnings.warn(f"left out, as not all variants were run in them: {', '.join(left_out)}.")
        chosen = {label: {e: s[e] for e in common} for label, s in self.of.items()}
        return Scores(chosen, self.what, self.normalised)


def final_scores(
    runs: Sequence[Run], y: str = "ReturnAverage", source: str = "auto"
) -> tuple[Scores, dict[Path, float]]:
    """Read every run's final score.

    It is the mean return of the evaluation after training (evaluation.json) or the mean of a
    column over the last tenth of the rows of progress.csv.

    Args:
        runs: labelled; those without a value are left out, with a warning.
        y: column of progress.csv.
        source: "evaluation", "last" (rows), or "auto": the evaluation if ``y`` is the return and
            all runs with returns have one, as scores of two kinds do not compare.

    Returns:
        The scores by variant, and by run directory.

    Raises:
        ValueError: no run has a score, or no such ``source``.
    """
    if source not in SOURCES:
        raise ValueError(f"source={source!r} must be one of {', '.join(SOURCES)}.")
    evaluated = {run.path: read_evaluation(run.path) for run in runs}
    from_evaluation = source == "evaluation" or (
        source == "auto"
        and y == "ReturnAverage"
        and not any(score is None and _has_values(path, y) for path, score in evaluated.items())
    )
    read = {run.path: evaluated[run.path] if from_evaluation else last_rows(run, y) for run in runs}
    without = [str(path) for path, score in read.items() if score is None]
    scores = {path: score for path, score in read.items() if score is not None}
    where = EVALUATION if from_evaluation else f"the column {y!r}"
    if not scores:
        raise ValueError(f"no run has a final score: {where} is missing in all of them.")
    if without:
        warnings.warn(f"left out, without a value in {where}: {', '.join(without)}.", stacklevel=2)

    groups: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if run.path in scores:
            of_label = groups.setdefault(run.label, {})
            of_label.setdefault(run.environment, []).append(scores[run.path])
    what = "Return in evaluation" if from_evaluation else f"Final {readable(y).lower()}"
    arrays = {k: {e: np.array(s) for e, s in of.items()} for k, of in groups.items()}
    return Scores(arrays, what), scores


def read_evaluation(run_dir: Path) -> float | None:
    """Mean return of the evaluation after training; None if there is none that can be read."""
    try:
        content = json.loads((run_dir / EVALUATION).read_text(encoding="utf-8"))
        score = float(content["return_mean"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return score if np.isfinite(score) else None


def last_rows(run: Run, y: str) -> float | None:
    """Mean of a column over the last tenth of its rows with a value, at least one of them.

    A run that ended before the steps it was told has a score nevertheless, with a warning.
    """
    progress = read_progress(run.path)
    values = progress.get(y, np.array([]))
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    steps, told = progress.get(STEPS, np.array([np.nan]))[-1], run.total_steps
    if told is not None and steps < 0.95 * told:
        warnings.warn(f"{run.path} is at {steps:g} of {told} steps; its last rows count as final.")
    return float(values[-max(1, int(LAST_PART * len(values))) :].mean())


def _has_values(run_dir: Path, y: str) -> bool:
    return bool(np.isfinite(read_progress(run_dir).get(y, np.array([]))).any())


def normalise(scores: Scores, ranges: str | Mapping[str, Sequence[float]]) -> Scores:
    """Bring every environment's scores to one scale, (score - low) / (high - low).

    Args:
        scores: raw.
        ranges: low and high of each environment, for example the returns of a random and an expert
            player; or "range": the lowest and highest score of these runs.

    Raises:
        ValueError: an environment has no range, or an empty one.
    """
    environments = scores.environments
    if isinstance(ranges, str):
        if ranges != RANGE:
            raise ValueError(f'ranges={ranges!r} must be "{RANGE}" or low and high by environment.')
        found = {
            e: np.concatenate([s[e] for s in scores.of.values() if e in s]) for e in environments
        }
        ranges = {e: (float(values.min()), float(values.max())) for e, values in found.items()}
    bounds: dict[str, tuple[float, float]] = {}
    for name in environments:
        given = ranges.get(name)
        if not _is_range(given):
            raise ValueError(
                f"the range of {name or 'the environment'} is {given}; give numbers [low, high] "
                "with low < high, as in '{\"CartPole-v1\": [20, 500]}'."
            )
        bounds[name] = (given[0], given[1])
    scaled = {
        label: {e: (s - bounds[e][0]) / (bounds[e][1] - bounds[e][0]) for e, s in of.items()}
        for label, of in scores.of.items()
    }
    return Scores(scaled, "Normalised score", normalised=True)


def _is_range(given: Any) -> TypeGuard[Sequence[float]]:
    return (
        isinstance(given, Sequence)
        and len(given) == 2
        and all(isinstance(end, int | float) and np.isfinite(end) for end in given)
        and given[0] < given[1]
    )
