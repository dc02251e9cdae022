"""Write a report of a sweep, or of a directory of runs, as one HTML file: `rlpyt report DIR`.

It contains learning curves, final scores with intervals, all runs and failures, and needs no server
or network.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rlpyt.cli.flags import Several, UsageError, parse
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Report:
    directory: tyro.conf.Positional[Path]  # sweep directory, or a directory above runs
    # output file; by default report.html in the directory
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    y: str = "ReturnAverage"  # column of progress.csv with the return
    # source of the final scores: the evaluation after training, the last tenth of the rows, or
    # (auto) the evaluation if all runs have one
    score: Literal["auto", "evaluation", "last"] = "auto"
    # settings that define a variant, for example algo.learning_rate; by default those that differ
    group_by: Several[str] = ()


def main(args: Sequence[str]) -> int:
    from rlpyt.sweeps.report import write_report

    command = parse(Report, args)
    if not command.directory.is_dir():
        raise UsageError(
            f"{command.directory} is not a directory. Give the directory of a sweep or of runs."
        )
    path = write_report(
        command.directory,
        command.output,
        command.y,
        command.score,
        command.group_by,
    )
    say(f"Saved to {path}")
    return 0
