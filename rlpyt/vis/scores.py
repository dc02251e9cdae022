"""Final scores of runs, by variant and environment."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.signed import read_json
from rlpyt.vis.grouping import RunRecord
from rlpyt.vis.style import readable

EVALUATION = "evaluation.json"
SOURCES = ("auto", "evaluation", "last")
LAST_PART = 0.1  # fraction of rows that are averaged for the final score
STEPS = "Diagnostics/CumSteps"
RANGE = "range"


@dataclass(frozen=True)
class Scores:
    """Final scores of labeled runs, for the plots of comparisons."""

    of: Mapping[str, Mapping[str, NDArray[np.float64]]]  # label -> environment -> [R]
    what: str  # axis label: "Final episode return"
    normalized: bool = False

    @property
    def environments(self) -> list[str]:
        """Names of the environments of all variants."""
        return sorted({name for scores in self.of.values() for name in scores})

    def shared(self) -> "Scores":
        """Return the scores in environments that all variants share, for comparable aggregates.

        Raises:
            ValueError: the variants have no environment in common.
        """
        common = sorted(set.intersection(*(set(scores) for scores in self.of.values())))
        if not common:
            raise ValueError(
                f"the variants {', '.join(self.of)} have no environment in common. Plot a panel "
                "for each environment (no --normalize), or change the grouping (--group-by)."
            )
        left_out = [name for name in self.environments if name not in common]
        if left_out:
            warnings.warn(f"left out environments that some variants lack: {', '.join(left_out)}.")
        chosen = {label: {e: s[e] for e in common} for label, s in self.of.items()}
        return Scores(chosen, self.what, self.normalized)


def final_scores(
    runs: Sequence[RunRecord], y: str = "ReturnAverage", source: str = "auto"
) -> tuple[Scores, dict[Path, float]]:
    """Read every run's final score.

    It is the mean return of the evaluation after training (evaluation.json) or the mean of a
    column over the last tenth of the rows of progress.csv.

    Args:
        runs: labeled runs; those without a value are left out with a warning.
        y: column of progress.csv.
        source: "evaluation", "last" (rows), or "auto": the evaluation if ``y`` is the return and
            all runs with returns have one, since the two kinds of scores are not comparable.

    Returns:
        The scores by variant, and by run directory.

    Raises:
        ValueError: no run has a score, or ``source`` is unknown.
    """
    if source not in SOURCES:
        raise ValueError(f"source={source!r} must be one of {', '.join(SOURCES)}.")
    evaluated = {run.path: read_evaluation(run.path) for run in runs}
    from_evaluation = source == "evaluation" or (
        source == "auto"
        and y == "ReturnAverage"
        and any(score is not None for score in evaluated.values())
        and not any(score is None and _has_values(path, y) for path, score in evaluated.items())
    )
    read = {run.path: evaluated[run.path] if from_evaluation else last_rows(run, y) for run in runs}
    without = [str(path) for path, score in read.items() if score is None]
    scores = {path: score for path, score in read.items() if score is not None}
    where = EVALUATION if from_evaluation else f"the column {y!r}"
    if not scores:
        raise ValueError(f"no run has a final score: {where} is missing or has no number.")
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
    """Return the mean return of the evaluation after training, or None if it cannot be read."""
    try:
        content = read_json(run_dir / EVALUATION, "an evaluation")
        score = float(content["return_mean"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return score if np.isfinite(score) else None


def last_rows(run: RunRecord, y: str) -> float | None:
    """Return the mean of a column over the last tenth (at least one) of its rows with a value.

    A run without a value near its end, such as an incomplete one, has a score with a warning.
    """
    progress = read_progress(run.path)
    values = progress.get(y, np.array([]))
    valid = np.isfinite(values)
    if not valid.any():
        return None
    steps, total = progress.get(STEPS, np.full(len(values), np.nan))[valid][-1], run.total_steps
    values = values[valid]
    if total is not None and steps < 0.95 * total:
        warnings.warn(f"{run.path}: last {y} at {steps:g} of {total} steps, which counts as final.")
    return float(values[-max(1, int(LAST_PART * len(values))) :].mean())


def _has_values(run_dir: Path, y: str) -> bool:
    return bool(np.isfinite(read_progress(run_dir).get(y, np.array([]))).any())


def normalize(scores: Scores, ranges: str | Mapping[str, Sequence[float]]) -> Scores:
    """Normalize the scores of every environment to (score - low) / (high - low).

    Args:
        scores: raw scores.
        ranges: low and high of each environment, for example the returns of a random and an expert
            player; or "range": the lowest and highest score of these runs.

    Raises:
        ValueError: the range of an environment is missing or empty.
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
                f"the range of {name or 'the environment'} must be numbers [low, high] with "
                f"low < high, as in '{{\"CartPole-v1\": [20, 500]}}', got {given}."
            )
        bounds[name] = (given[0], given[1])
    scaled = {
        label: {e: (s - bounds[e][0]) / (bounds[e][1] - bounds[e][0]) for e, s in of.items()}
        for label, of in scores.of.items()
    }
    return Scores(scaled, "Normalized score", normalized=True)


def _is_range(given: Any) -> TypeGuard[Sequence[float]]:
    return (
        isinstance(given, Sequence)
        and len(given) == 2
        and all(isinstance(end, int | float) and np.isfinite(end) for end in given)
        and given[0] < given[1]
    )
