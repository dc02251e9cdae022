"""Compare runs with a publication or other runs: `rlpyt compare RUNS --against PUBLISHED`.

Tables have the interquartile mean and the mean over seeds, and the probability that a run of the
first has a higher return than one of the second, each with a bootstrap interval.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rlpyt.cli.flags import Several, UsageError, parse


@dataclasses.dataclass(frozen=True)
class Compare:
    # run directories, directories above them, or files of results (.csv, .json)
    runs: tyro.conf.Positional[Several[Path]]
    # published algorithms ("XQC", "SAC", or "published" for all); or run directories or files
    against: tuple[str, ...] = ("published",)
    at: Several[int] = ()  # environment steps; by default the last ones that both have
    y: str = "ReturnAverage"  # column of progress.csv
    # plot of these returns: .png, .svg or .pdf
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    kind: Literal["intervals", "profile", "improvement"] = "intervals"  # of plot
    csv: Path | None = None  # also write the curves of the runs, as SimbaV2 and FlashSAC do
    confidence: float = 0.95  # confidence level of the intervals


def main(args: Sequence[str]) -> int:
    command = parse(Compare, args)
    if not command.runs:
        raise UsageError("Give runs, as in `rlpyt compare data/sac --against XQC`.")
    if not 0 < command.confidence < 1:
        raise UsageError(f"--confidence must be between 0 and 1, got {command.confidence}.")
    from rlpyt.utils.logging.console import say
    from rlpyt.utils.logging.tabulate import tabulate
    from rlpyt.vis import comparisons, style
    from rlpyt.vis.results import (
        RETURN,
        RETURNS,
        compare,
        differences,
        over_tasks,
        read_sides,
        write_results,
    )
    from rlpyt.vis.scores import Scores

    if command.output is not None:
        style.check_output(command.output)
    ours, theirs = read_sides(command.runs, command.against, command.y)
    found = compare(ours, theirs, command.at, command.confidence)
    rows: list[tuple[str, ...]] = []
    shown = None
    for pair in found:
        one, steps = pair.one, f"{pair.step:,.0f}"
        if shown != (one.label, one.task, steps):
            shown = (one.label, one.task, steps)
            rows.append((one.task, steps, *_cells(one), ""))
        rows.append(("", "", *_cells(pair.other), _interval(pair.better, ".2f")))
    for step, *labels, n_tasks, better in over_tasks(found, command.at, command.confidence):
        at = "last" if step is None else f"{step:,.0f}"
        cells = (" > ".join(labels), "", "", "", _interval(better, ".2f"))
        rows.append((f"{n_tasks} tasks", at, *cells))
    titles = ("Task", "Steps", "Algorithm", "Seeds", "IQM", "Mean", "P(first > this)")
    say(tabulate(rows, titles, colalign=("left", "right", "left", *["right"] * 4)))
    for line in differences(found, {**theirs.returns, **ours.returns}):
        say(f"They differ: {line}.")
    if command.csv is not None:
        write_results(ours, command.csv, RETURN if command.y == RETURNS else command.y)
        say(f"Curves written to {command.csv}")
    if command.output is not None:
        of: dict[str, dict[str, Any]] = {}
        for pair in found:
            for side in (pair.one, pair.other):
                of.setdefault(side.label, {})[f"{pair.one.task}, {pair.step:,.0f}"] = side.returns
        draw = getattr(comparisons, f"draw_{command.kind}")
        figure = draw(Scores(of, "Return"), confidence=command.confidence)
        style.save(figure, command.output)
        say(f"Saved to {command.output}")
    return 0


def _cells(side: Any) -> tuple[str, ...]:
    largest = max(map(abs, (*side.iqm, *side.mean)))
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0
    means = (_interval(x, f",.{decimals}f") for x in (side.iqm, side.mean))
    return (side.label, str(len(side.returns)), *means)


def _interval(values: tuple[float, float, float], form: str) -> str:
    value, low, high = (format(x, form) for x in values)
    return f"{value} [{low}, {high}]"
