"""``rlpyt plot DIR...``: draw learning curves, and comparisons of final scores."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rlpyt.cli.flags import UsageError, parse

DESCRIPTION = """Draw the runs in one or more directories into one picture.

Seeds of one variant become an interquartile mean with a bootstrap interval; every environment has
its own panel."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """Arguments of the command."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run directories, or directories above them
    # the picture: .png, .svg or .pdf
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("learning_curves.png")
    # learning curves; or of the final scores: performance profiles, probabilities of
    # improvement between pairs, intervals of IQM, median, mean and optimality gap
    kind: Literal["curves", "profile", "improvement", "intervals"] = "curves"
    x: str = "steps"  # steps, time, updates, iterations, or a column of progress.csv
    y: str = "ReturnAverage"  # column of progress.csv
    smooth: int = 1  # width, in rows, of a moving average over each run
    # settings by which to group, for example algo.learning_rate; else what differs
    group_by: tuple[str, ...] = ()
    # where final scores come from: the evaluation after training, the last tenth of the rows, or
    # (auto) the evaluation if all runs have one
    score: Literal["auto", "evaluation", "last"] = "auto"
    # bring final scores to one scale, to aggregate over environments: "range" (of these runs), or
    # JSON such as '{"CartPole-v1": [20, 500]}'
    normalize: str | None = None
    confidence: float = 0.95  # confidence level of the intervals
    title: str = ""  # above the picture


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    command = parse(Plot, args, prog="rlpyt plot", description=DESCRIPTION)
    if not command.runs:
        raise UsageError("give at least one run directory, as in `rlpyt plot data/*`.")
    draw(command)
    print(f"Drawn into {command.output}")
    return 0


def draw(command: Plot) -> None:
    """Draw the picture that was asked for."""
    from rlpyt.vis import comparisons, style
    from rlpyt.vis.curves import draw_curves
    from rlpyt.vis.grouping import read_runs, warn_of_uneven_groups
    from rlpyt.vis.scores import final_scores, normalise

    if not 0 < command.confidence < 1:
        raise UsageError(f"--confidence {command.confidence} must lie between 0 and 1.")
    _refuse_idle(command)
    style.check_output(command.output)
    ranges = _ranges(command.normalize)
    runs = read_runs(*command.runs, group_by=command.group_by)
    if not command.group_by:
        warn_of_uneven_groups(runs)
    if command.kind == "curves":
        try:
            figure = draw_curves(
                runs, command.y, command.x, command.title,
                smooth=command.smooth, confidence=command.confidence,
            )  # fmt: skip
        except KeyError as error:  # its text is for people, str(error) is not
            raise UsageError(error.args[0]) from error
    else:
        scores, _ = final_scores(runs, command.y, command.score)
        if ranges is not None:
            scores = normalise(scores, ranges)
        picture: Any = getattr(comparisons, f"draw_{command.kind}")
        figure = picture(scores, command.title, command.confidence)
    style.save(figure, command.output)


def _refuse_idle(command: Plot) -> None:
    """A flag that would change nothing was meant for another picture."""
    curves = command.kind == "curves"
    for name in ("score", "normalize") if curves else ("x", "smooth"):
        if getattr(command, name) != getattr(Plot, name):
            suits = "profile, improvement or intervals" if curves else "curves"
            raise UsageError(
                f"--{name} is for --kind {suits}, and changes nothing of {command.kind}."
            )


def _ranges(text: str | None) -> str | dict[str, list[float]] | None:
    """Return the value of ``--normalize``: None, "range", or JSON."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        ranges: dict[str, list[float]] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--normalize {text} is no JSON: {error}.") from None
    return ranges
