"""Plot the runs in one or more directories: `rlpyt plot DIR...`.

Seeds of a variant are aggregated to an interquartile mean with a bootstrap interval. Each
environment has its own panel.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rlpyt.cli.flags import Several, UsageError, parse
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Plot:
    # run directories, directories above them, or models of the hub (hf://user/name)
    runs: tyro.conf.Positional[Several[Path]]
    # output file: .png, .svg or .pdf
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("learning_curves.png")
    # learning curves; or, of the final scores, performance profiles, pairwise probabilities of
    # improvement, or intervals of IQM, median, mean and optimality gap
    kind: Literal["curves", "profile", "improvement", "intervals"] = "curves"
    x: str = "steps"  # steps, time, updates, iterations, or a column of progress.csv
    y: str = "ReturnAverage"  # column of progress.csv
    smooth: int = 1  # window, in rows, of a moving average over each run
    # settings to group by, for example algo.learning_rate; by default those that differ
    group_by: Several[str] = ()
    # source of the final scores: the evaluation after training, the last tenth of the rows, or
    # (auto) the evaluation if all runs have one
    score: Literal["auto", "evaluation", "last"] = "auto"
    # normalize final scores to aggregate over environments: by the "range" of these runs, or by
    # JSON such as '{"CartPole-v1": [20, 500]}'
    normalize: str | None = None
    confidence: float = 0.95  # confidence level of the intervals
    title: str = ""  # title of the plot


def main(args: Sequence[str]) -> int:
    command = parse(Plot, args)
    if not command.runs:
        raise UsageError("Give at least one run directory, as in `rlpyt plot data/*`.")
    draw(command)
    say(f"Saved to {command.output}")
    return 0


def draw(command: Plot) -> None:
    """Draw the requested plot and save it."""
    from rlpyt.experiments.hub import local_path
    from rlpyt.vis import comparisons, style
    from rlpyt.vis.curves import draw_curves
    from rlpyt.vis.grouping import read_runs, warn_of_uneven_groups
    from rlpyt.vis.scores import final_scores, normalize

    if not 0 < command.confidence < 1:
        raise UsageError(f"--confidence must be between 0 and 1, got {command.confidence}.")
    _check_unused(command)
    style.check_output(command.output)
    ranges = _ranges(command.normalize)
    runs = read_runs(*map(local_path, command.runs), group_by=command.group_by)
    if not command.group_by:
        warn_of_uneven_groups(runs)
    if command.kind == "curves":
        try:
            figure = draw_curves(
                runs, command.y, command.x, command.title,
                smooth=command.smooth, confidence=command.confidence,
            )  # fmt: skip
        except KeyError as error:  # str(error) would quote the message
            raise UsageError(error.args[0]) from error
    else:
        scores, _ = final_scores(runs, command.y, command.score)
        if ranges is not None:
            scores = normalize(scores, ranges)
        draw_comparison: Any = getattr(comparisons, f"draw_{command.kind}")
        figure = draw_comparison(scores, command.title, command.confidence)
    style.save(figure, command.output)


def _check_unused(command: Plot) -> None:
    """Raise a UsageError for a flag that has no effect on this kind of plot."""
    curves = command.kind == "curves"
    for name in ("score", "normalize") if curves else ("x", "smooth"):
        if getattr(command, name) != getattr(Plot, name):
            suits = "profile, improvement or intervals" if curves else "curves"
            raise UsageError(
                f"--{name} is for --kind {suits}, and has no effect on --kind {command.kind}. "
                "Remove it."
            )


def _ranges(text: str | None) -> str | dict[str, list[float]] | None:
    """Return the value of ``--normalize``: None, "range", or JSON."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        ranges: dict[str, list[float]] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--normalize must be valid JSON, got {text}: {error}.") from None
    return ranges
