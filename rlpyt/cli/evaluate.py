"""``rlpyt eval RUN``: play episodes with a trained agent and report the returns."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.run import EVAL_SEED, load

DESCRIPTION = """Play whole episodes with the trained agent of a run, and report their returns.

RUN is the directory that `rlpyt train` named. Atari games are scored without reward clipping."""


@dataclasses.dataclass(frozen=True)
class Eval:
    """Arguments of the command."""

    run: tyro.conf.Positional[Path]  # the run directory
    episodes: int = 20  # how many to play
    seed: int = EVAL_SEED  # seed of the first episode; the others follow
    # take the likeliest action; with --no-deterministic draw one, as in training: from the policy
    # (ppo, sac), or with the noise of exploration (ddpg, td3)
    deterministic: bool = True
    json: bool = False  # print every return and length as JSON


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    command = parse(Eval, args, prog="rlpyt eval", description=DESCRIPTION)
    run = load(command.run)
    result = run.evaluate(command.episodes, command.seed, command.deterministic)
    if command.json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        print(f"{run.options.algo_name} on {run.options.env}: {result}")
    return 0
