"""``rlpyt plot RUN...``: draw learning curves."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from rlpyt.cli.finish import draw_curve
from rlpyt.cli.flags import UsageError, parse

DESCRIPTION = """Draw the learning curves of one or more runs into one picture.

RUN... are directories that `rlpyt train` named, or directories above them."""


@dataclasses.dataclass(frozen=True)
class Plot:
    """What the user gives."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run directories
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("learning_curves.png")  # picture


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    command = parse(Plot, args, prog="rlpyt plot", description=DESCRIPTION)
    if not command.runs:
        raise UsageError("give at least one run directory, as in `rlpyt plot data/*`.")
    draw_curve(list(command.runs), command.output)
    print(f"Drawn into {command.output}")
    return 0
