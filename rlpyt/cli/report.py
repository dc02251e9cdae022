"""``rlpyt report DIR``: a page about a sweep, or about any runs."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rlpyt.cli.flags import UsageError, parse

DESCRIPTION = """Write a report of a sweep, or of a directory of runs, as one HTML file.

It holds learning curves, final scores with intervals, every run, failures and configurations, and
needs neither a server nor a network."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Arguments of the command."""

    directory: tyro.conf.Positional[Path]  # directory of a sweep, or one above runs
    # the file; by default report.html in the directory
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    y: str = "ReturnAverage"  # column of progress.csv that is the return
    # where final scores come from: the evaluation after training, the last tenth of the rows, or
    # (auto) the evaluation if all runs have one
    score: Literal["auto", "evaluation", "last"] = "auto"
    # settings that make a variant, for example algo.learning_rate; else what differs
    group_by: tuple[str, ...] = ()


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    from rlpyt.sweeps.report import write_report

    command = parse(Report, args, prog="rlpyt report", description=DESCRIPTION)
    if not command.directory.is_dir():
        raise UsageError(f"{command.directory} is no directory; expected that of a sweep or runs.")
    path = write_report(
        command.directory, command.output, command.y, command.score, command.group_by
    )
    print(f"Written to {path}")
    return 0
