"""Learning curves of runs and of publications: per algorithm and task, one for each seed.

Files of results have the form in which SimbaV2 and FlashSAC publish theirs, that of Dopamine's
baselines, or that of a plain table. `compare` compares returns at the same number of steps.
"""

import csv
import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlpyt.errors import DamagedFile
from rlpyt.utils.files import read_regular
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.names import UnknownName
from rlpyt.utils.signed import read_json
from rlpyt.utils.text import counted
from rlpyt.vis.comparisons import improvement
from rlpyt.vis.grouping import (
    RunRecord,
    label_runs,
    natural_key,
    read_runs,
    read_settings,
    warn_of_uneven_groups,
)
from rlpyt.vis.progress import find_runs
from rlpyt.vis.scores import EVALUATION, STEPS
from rlpyt.vis.statistics import Array, bootstrap_interval, interquartile_mean

PUBLISHED = Path(__file__).with_name("published.json")
RETURNS = "ReturnAverage"  # column of progress.csv
SCORE = "GameScoreAverage"  # in its place for Atari, whose returns are those of clipped rewards
TRAINED = "training episodes"  # what returns are without evaluations, and in Dopamine's files
EPISODES = "Diagnostics/TrajsInEval"  # column of runs that evaluate
MAX_BYTES = 2**28  # of a table
NEAR = 0.1  # a row counts for a step that it misses by at most this part
RETURN = "avg_return"  # the metric that is read, among others such as avg_success
COLUMNS = ("exp_name", "env_name", "seed", "metric", "env_step", "value")  # as SimbaV2 writes them
# Other names of the columns in plain tables.
NAMES = {
    "exp_name": ("exp_name", "algorithm", "algo", "agent", "label"),
    "env_name": ("env_name", "task", "env", "environment", "game"),
    "seed": ("seed", "run"),
    "env_step": ("env_step", "step", "steps"),
    "value": ("value", "return", RETURN),
}
DOPAMINE_STEPS = 250_000  # of the agent, in an iteration of its Atari baselines


class Curve(NamedTuple):
    """Returns [P] of one seed at environment steps [P], in increasing order."""

    steps: Array
    returns: Array

    def at(self, step: float) -> tuple[float, float]:
        """Return step and return of the row that is nearest to a step.

        Raises:
            ValueError: no row is near.
        """
        nearest = np.abs(self.steps - step).argmin()
        if abs(self.steps[nearest] - step) > NEAR * step:
            raise ValueError(
                f"no row within {NEAR:.0%} of step {step:,.0f}; the nearest is at "
                f"{self.steps[nearest]:,.0f}"
            )
        return float(self.steps[nearest]), float(self.returns[nearest])


@dataclass
class Results:
    """Curves of algorithms, and what a return is by algorithm: "evaluations of 10 episodes"."""

    curves: dict[str, dict[str, list[Curve]]] = field(default_factory=dict)  # by algorithm and task
    returns: dict[str, str] = field(default_factory=dict)

    def add(self, algorithm: str, task: str, steps: Any, returns: Any) -> None:
        """Add the curve of a seed; rows without a number are left out."""
        at, values = np.asarray(steps, float), np.asarray(returns, float)
        known = np.isfinite(values) & np.isfinite(at)
        if known.any():
            order = np.argsort(at[known], kind="stable")
            curve = Curve(at[known][order], values[known][order])
            name = re.sub(r"_(v\d+)$", r"-\1", task)  # HalfCheetah_v4
            self.curves.setdefault(algorithm, {}).setdefault(name, []).append(curve)


def published(name: str = "") -> Results:
    """Return curves of publications.

    Args:
        name: an algorithm, such as "XQC" or "BRO (UTD 10)"; empty: all of them.

    Raises:
        UnknownName: there is no such algorithm.
    """
    content = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    chosen = [
        k for k in content if not name or name.lower() in (k.lower(), k.lower().split(" (")[0])
    ]
    if not chosen:
        raise UnknownName("run, file or published algorithm", name, content)
    results = Results()
    for algorithm in chosen:
        results.returns[algorithm] = evaluation_of(content[algorithm]["episodes"])
        for task, rows in content[algorithm]["curves"].items():
            steps, *seeds = zip(*rows, strict=True)
            for returns in seeds:
                results.add(algorithm, task, steps, returns)
    return results


def read_results(source: str | Path, column: str = RETURNS) -> Results:
    """Return the curves in a source.

    Returns of runs are those of evaluations: the rows of a run that evaluates at intervals, else
    the evaluation after training. Without any, they are those of training, which `differences`
    tells.

    Args:
        source: a directory of runs; a .csv or .json file; "published", or an algorithm of
            `published`.
        column: column of the runs' progress.csv; another one than the default is taken as it is.

    Raises:
        FileNotFoundError, DamagedFile, UnknownName, ValueError: the source cannot be read.
    """
    path = Path(source)
    if path.suffix == ".csv":
        return _read_table(path)
    if path.suffix == ".json":
        return _read_dopamine(path)
    if path.exists():
        return _curves_of(read_runs(path), column, [path])
    return published("" if str(source) == "published" else str(source))


def _curves_of(runs: Sequence[RunRecord], column: str, paths: Sequence[Path]) -> Results:
    warn_of_uneven_groups(runs, seeds_too=False)
    results = Results()
    kinds: dict[str, dict[str, list[str]]] = {}  # runs by algorithm and by what their returns are
    left_out = []
    for run in runs:
        algorithm = run.label or str(run.settings.get("algo_name", run.path.parent.name))
        rows = read_progress(run.path)
        name = SCORE if column == RETURNS and SCORE in rows else column
        steps, values = rows.get(STEPS, np.array([])), rows.get(name, np.array([]))
        what, played = f"column {column}", {int(n) for n in rows.get(EPISODES, ()) if n > 0}
        if column == RETURNS and (run.settings.get("eval_interval_steps") or EPISODES in rows):
            number = played.pop() if len(played) == 1 else None
            what = evaluation_of(run.settings.get("eval_episodes", number))
        elif column == RETURNS:
            what, evaluation = TRAINED, _evaluation_after(run.path)
            if evaluation and len(steps):
                steps, values = steps[-1:], np.array([np.mean(evaluation)])
                what = evaluation_of(len(evaluation))
        if len(steps) == len(values) and np.isfinite(values).any():
            results.add(algorithm, run.environment, steps, values)
            kinds.setdefault(algorithm, {}).setdefault(what, []).append(run.path.name)
        else:
            left_out.append(str(run.path))
    if not results.curves:
        listed = ", ".join(map(str, paths))
        raise ValueError(f"no run in {listed} has a number in column {column} of progress.csv.")
    if left_out:
        warnings.warn(f"left out, without a number in column {column}: {', '.join(left_out)}.")
    for algorithm, of in kinds.items():
        results.returns[algorithm] = " and ".join(of)
        if len(of) > 1:
            listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in of.items())
            warnings.warn(f"the runs of {algorithm} have different returns: {listed}.")
    return results


def read_sides(
    ours: Sequence[str | Path], theirs: Sequence[str | Path], column: str = RETURNS
) -> tuple[Results, Results]:
    """Return the curves in the sources of both sides of a comparison.

    Runs are labeled by what differs among those of both sides. An algorithm of theirs that has the
    same label as one of ours is marked "(against)".

    Args:
        ours, theirs: sources, see `read_results`.
        column: column of the runs' progress.csv.

    Raises:
        FileNotFoundError, DamagedFile, UnknownName, ValueError: a source cannot be read.
    """
    directories = [[path for path in map(Path, side) if path.is_dir()] for side in (ours, theirs)]
    found = [find_runs(*paths) if paths else [] for paths in directories]
    records = {
        path.resolve(): RunRecord(path, read_settings(path)) for side in found for path in side
    }
    labeled = dict(zip(records, label_runs([*records.values()])))
    sides = []
    for sources, paths, own in zip((ours, theirs), directories, found):
        several = [read_results(source, column) for source in sources if not Path(source).is_dir()]
        if own:
            runs = [labeled[path.resolve()] for path in own]
            several.insert(0, _curves_of(runs, column, paths))
        sides.append(merged(several))
    one, other = sides
    names = {
        label: f"{label} (against)" if label in one.curves else label
        for label in (*other.curves, *other.returns)
    }
    return one, Results(
        {names[label]: tasks for label, tasks in other.curves.items()},
        {names[label]: what for label, what in other.returns.items()},
    )


def evaluation_of(episodes: Any) -> str:
    """Return in words what an evaluation is."""
    if not isinstance(episodes, int):
        return "evaluations of an unknown number of episodes"
    return f"evaluations of {counted(episodes, 'episode')}"


def _evaluation_after(run_dir: Path) -> list[float]:
    """Return the returns of the evaluation after training; empty if there is none."""
    try:
        content = read_json(run_dir / EVALUATION, "an evaluation")
        return [float(x) for x in content["returns"]]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def merged(several: Sequence[Results]) -> Results:
    """Return the curves of several results; those of one algorithm are seeds of it."""
    whole = Results()
    for results in several:
        whole.returns |= results.returns
        for algorithm, tasks in results.curves.items():
            for task, curves in tasks.items():
                whole.curves.setdefault(algorithm, {}).setdefault(task, []).extend(curves)
    return whole


def _read_table(path: Path) -> Results:
    """Read a table with a row for each algorithm, task, seed and step."""
    rows: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        given = {name.strip().lower(): name for name in reader.fieldnames or ()}
        found = {
            key: next((given[n] for n in names if n in given), "") for key, names in NAMES.items()
        }
        missing = [key for key, name in found.items() if not name]
        if missing:
            expected = "; ".join(f"{key}: {' or '.join(NAMES[key])}" for key in missing)
            raise DamagedFile(f"{path} must have the columns {expected}; it has {[*given]}.")
        for row in reader:
            if "metric" in given and row[given["metric"]] != RETURN:
                continue
            try:
                point = float(row[found["env_step"]]), float(row[found["value"]])
            except (TypeError, ValueError) as error:
                raise DamagedFile(f"{path}, line {reader.line_num}: {error}.") from error
            exp_name, env_name, seed = (str(row[found[x]]) for x in COLUMNS[:3])
            rows.setdefault((exp_name, env_name, seed), []).append(point)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DamagedFile(f"{path} is not a table: {error}.") from error
    results = Results()
    for (algorithm, task, _), points in rows.items():
        results.add(algorithm, task, *zip(*points, strict=True))
    if not results.curves:
        raise DamagedFile(f"{path} has no row with a return.")
    return results


def _read_dopamine(path: Path) -> Results:
    """Read a game's baselines: records of iteration, value and agent, one seed after the other."""
    results, records = Results(), read_json(path, "a list of records")
    try:
        seeds: list[tuple[str, list[tuple[int, float]]]] = []
        for record in records:
            agent, point = str(record["Agent"]), (int(record["Iteration"]), float(record["Value"]))
            if not seeds or seeds[-1][0] != agent or point[0] <= seeds[-1][1][-1][0]:
                seeds.append((agent, []))
            seeds[-1][1].append(point)
        curves = [(agent, np.array(points, float).T) for agent, points in seeds]
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DamagedFile(
            f"{path} must be a list of records with Agent, Iteration and Value ({error!r})."
        ) from error
    if not curves:
        raise DamagedFile(f"{path} has no record.")
    for agent, (iterations, values) in curves:
        results.add(agent, path.stem, (iterations + 1) * DOPAMINE_STEPS, values)
        results.returns[agent] = TRAINED
    return results


def write_results(results: Results, path: Path, metric: str = RETURN) -> None:
    """Write curves as a table in the form of SimbaV2's and FlashSAC's results.

    Args:
        results: the curves.
        path: .csv file.
        metric: what the values are; `read_results` reads returns.
    """
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("", *COLUMNS))
        number = 0
        for algorithm, tasks in results.curves.items():
            for task, curves in tasks.items():
                for seed, curve in enumerate(curves):
                    for step, value in zip(*curve, strict=True):
                        writer.writerow((number, algorithm, task, seed, metric, step, value))
                        number += 1


class Side(NamedTuple):
    """Returns of an algorithm at a step, with (value, low, high) of their means."""

    label: str  # the algorithm
    task: str  # its name of the task
    steps: Array  # [R], of the rows of each seed
    returns: Array  # [R], of each seed
    iqm: tuple[float, float, float]  # interquartile mean
    mean: tuple[float, float, float]


class Comparison(NamedTuple):
    """Two algorithms in one task at one step."""

    step: float  # environment steps
    one: Side
    other: Side
    better: tuple[float, float, float]  # probability that a run of the one has a higher return


def compare(
    ours: Results,
    theirs: Results,
    steps: Sequence[float] = (),
    confidence: float = 0.95,
) -> list[Comparison]:
    """Compare each algorithm with each other one in all tasks that both have.

    The return of a seed is that of its row nearest to the step. Intervals are of the stratified
    bootstrap (Agarwal et al. 2021). Algorithms without a row near a step are left out, which a
    warning says.

    Args:
        steps: environment steps of the comparisons; by default the last step that all have.
        confidence: confidence level of intervals.

    Raises:
        ValueError: they have no task in common, or in none both have a row near a step.
    """
    found: list[Comparison] = []
    left_out: dict[tuple[str, str], dict[str, None]] = {}  # tasks by label and reason

    def sides(curves: Sequence[tuple[str, str, Sequence[Curve]]], step: float) -> Iterator[Side]:
        for label, task, of in curves:
            try:
                yield _side(label, task, of, step, confidence)
            except ValueError as error:
                left_out.setdefault((label, str(error)), {})[task] = None

    rivals = [(k, task, curves) for k, of in theirs.curves.items() for task, curves in of.items()]
    for label, tasks in ours.curves.items():
        for task in sorted(tasks, key=natural_key):
            others = [rival for rival in rivals if base_of(rival[1]) == base_of(task)]
            curves = [*tasks[task], *(curve for *_, them in others for curve in them)]
            last = min(float(curve.steps[-1]) for curve in curves)
            for step in (steps or (last,)) if others else ():
                for one in sides([(label, task, tasks[task])], step):
                    for other in sides(others, step):
                        better = improvement([one.returns], [other.returns], confidence)
                        found.append(Comparison(step, one, other, better))
    reasons = "; ".join(
        f"{label} in {', '.join(of)} ({error})" for (label, error), of in left_out.items()
    )
    if reasons and not found:
        raise ValueError(
            f"nothing to compare: {reasons}. Choose steps that both have; eval_interval_steps "
            "gives runs more rows."
        )
    if reasons:
        warnings.warn(f"left out: {reasons}.")
    if not found:
        a, b = (sorted({t for of in r.curves.values() for t in of}) for r in (ours, theirs))
        raise ValueError(f"no task in common: {', '.join(a)} against {', '.join(b)}.")
    return found


def base_of(task: str) -> str:
    """Return the name of a task without version and family.

    >>> [base_of(x) for x in ("HalfCheetah-v4", "ALE/Pong-v5", "PongNoFrameskip-v4", "pong")]
    ['halfcheetah', 'pong', 'pong', 'pong']
    """
    return re.sub(r"^.*/|NoFrameskip|-v\d+$|_", "", task).lower()


def _side(label: str, task: str, curves: Sequence[Curve], step: float, confidence: float) -> Side:
    steps, returns = np.array([curve.at(step) for curve in curves]).T
    intervals = []
    for statistic in (interquartile_mean, np.mean):
        low, high = bootstrap_interval(returns, statistic, confidence)  # type: ignore[arg-type]
        intervals.append((float(statistic(returns)), float(low), float(high)))
    return Side(label, task, steps, returns, *intervals)


def over_tasks(
    found: Sequence[Comparison], steps: Sequence[float] = (), confidence: float = 0.95
) -> list[tuple[float | None, str, str, int, tuple[float, float, float]]]:
    """Return probabilities of improvement over all tasks that two algorithms have in common.

    Resamples are stratified: of each task, as many seeds are drawn as there are.

    Args:
        found, steps: result and argument of `compare`.

    Returns:
        Step (``None``: the last of each task), labels, number of tasks, at least 2, and the
        probability with its interval.
    """
    rows = []
    for step in steps or (None,):
        groups: dict[tuple[str, str], list[Comparison]] = {}
        for pair in found:
            if step in (None, pair.step):
                groups.setdefault((pair.one.label, pair.other.label), []).append(pair)
        for labels, pairs in groups.items():
            if len(pairs) > 1:
                x, y = [p.one.returns for p in pairs], [p.other.returns for p in pairs]
                rows.append((step, *labels, len(pairs), improvement(x, y, confidence)))
    return rows


def differences(found: Sequence[Comparison], returns: Mapping[str, str]) -> list[str]:
    """Return, in words, in what the protocols of results differ that `compare` has compared.

    ``returns`` says what a return is by algorithm, see `Results`.
    """
    at = [(pair.step, side) for pair in found for side in (pair.one, pair.other)]
    named = [(base_of(side.task), side.task, side.label) for _, side in at]
    named += [(":", returns.get(side.label, "unknown returns"), side.label) for _, side in at]
    named += [(f"{base_of(x.task)}:{n}", _steps_of(x.steps, n), x.label) for n, x in at]
    groups: dict[str, dict[str, dict[str, None]]] = {}  # labels by name, names by what they name
    for group, name, label in named:
        groups.setdefault(group, {}).setdefault(name, {})[label] = None
    lines = [
        "; ".join(f"{name}: {', '.join(labels)}" for name, labels in group.items())
        for group in groups.values()
        if len(group) > 1
    ]
    return [*dict.fromkeys(lines)]  # tasks with equal steps give equal lines


def _steps_of(rows: Array, step: float) -> str:
    if (np.abs(rows - step) <= 0.01 * step).all():
        return f"rows at {step:,.0f}"
    ends = dict.fromkeys(f"{n:,.0f}" for n in (rows.min(), rows.max()))
    return f"rows at {' to '.join(ends)}"
