"""``rlpyt record RUN``: film a trained agent."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.run import load
from rlpyt.experiments.rundir import VIDEO
from rlpyt.experiments.video import MAX_STEPS, record_video

DESCRIPTION = """Film the trained agent of a run as MP4.

RUN is the directory that `rlpyt train` named."""


@dataclasses.dataclass(frozen=True)
class Record:
    """What the user gives."""

    run: tyro.conf.Positional[Path]  # the run directory
    output: tyro.conf.Positional[Path | None] = None  # the film; by default video.mp4 in the run
    episodes: int = 1  # how many to film, one after the other
    max_steps: int = MAX_STEPS  # the film ends after this many steps at the latest
    seed: int = 0  # of the first episode; the others follow


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    command = parse(Record, args, prog="rlpyt record", description=DESCRIPTION)
    output = command.output or command.run / VIDEO
    frames = record_video(
        load(command.run), output, command.episodes, command.max_steps, command.seed
    )
    print(f"{frames} frames in {output}")
    return 0
