"""Record a video of the trained agent of a run as MP4 or GIF: `rlpyt record RUN`.

RUN is the run directory printed by `rlpyt train`, that of a script's run, or a model of the Hugging
Face Hub (hf://user/name).
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import UsageError, parse
from rlpyt.experiments.hub import is_reference
from rlpyt.experiments.run import load
from rlpyt.experiments.rundir import VIDEO
from rlpyt.experiments.video import MAX_STEPS, record_video
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Record:
    run: tyro.conf.Positional[Path]  # the run directory
    # .mp4 or .gif; by default video.mp4 in RUN, or here for a model of the hub
    output: tyro.conf.Positional[Path | None] = None
    grid: str = "1x1"  # rows x columns of environments recorded side by side
    episodes: int | None = None  # total number of episodes; by default one per cell of the grid
    max_steps: int = MAX_STEPS  # maximum number of frames
    seed: int = 0  # seed of the first episode, incremented for each further one
    gif: bool = False  # write video.gif instead of video.mp4
    best: bool = False  # the agent with the highest return (train --keep-best), not the last
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    command = parse(Record, args)
    grid = _grid(command.grid)
    default = Path() / VIDEO if is_reference(command.run) else command.run / VIDEO
    output = command.output or (default.with_suffix(".gif") if command.gif else default)
    if command.gif and output.suffix.lower() != ".gif":
        raise UsageError(f"--gif requires an output file that ends in .gif, got {output}.")
    episodes = grid[0] * grid[1] if command.episodes is None else command.episodes
    run = load(command.run, command.trust, command.best)
    frames = record_video(run, output, episodes, command.max_steps, command.seed, grid)
    limit = " (the limit, --max-steps)" if frames == command.max_steps else ""
    say(f"Saved {frames} frames{limit} to {output}")
    return 0


def _grid(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise UsageError(f"--grid must be ROWSxCOLUMNS, such as 2x3, got {text}.")
    return int(match[1]), int(match[2])
