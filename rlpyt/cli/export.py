"""Export the policy of a run to one file, ONNX or torch.export: `rlpyt export RUN`.

RUN is the run directory printed by `rlpyt train`, that of a script's run, or a model of the Hugging
Face Hub (hf://user/name). The file is written after the exported policy has been compared with the
agent in the environment of the run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.export import STEPS, SUFFIXES, format_of
from rlpyt.experiments.hub import is_reference
from rlpyt.experiments.run import load
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Export:
    run: tyro.conf.Positional[Path]  # the run directory
    # format; by default that of --output
    to: Annotated[str | None, tyro.conf.arg(metavar="{onnx,torch}")] = None
    # .onnx or .pt2 (torch); by default in RUN, or here for a model of the hub
    output: Path | None = None
    steps: int = STEPS  # number of steps of the comparison
    best: bool = False  # the agent with the highest return (train --keep-best), not the last
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    command = parse(Export, args)
    to = command.to or ("onnx" if command.output is None else None)
    directory = Path() if is_reference(command.run) else command.run
    output = command.output or directory / f"policy{SUFFIXES.get(str(to), '')}"
    format_of(output, to)
    run = load(command.run, command.trust, command.best)
    difference = run.export(output, to, command.steps)
    say(
        f"Saved {output} ({output.stat().st_size:,} bytes). Largest difference from the agent in "
        f"{command.steps} steps: {difference:.1e}"
    )
    return 0
