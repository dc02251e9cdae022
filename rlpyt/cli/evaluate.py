"""Play episodes with the trained agent of a run and report the returns: `rlpyt eval RUN`.

RUN is the run directory printed by `rlpyt train`, or a model of the Hugging Face Hub
(hf://user/name). Atari scores are without reward clipping.
"""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.run import EVAL_SEED, load
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Eval:
    run: tyro.conf.Positional[Path]  # the run directory
    episodes: int = 20  # number of episodes
    seed: int = EVAL_SEED  # seed of the first episode, incremented for each further one
    # take the most likely action; with --no-deterministic sample actions as in training: from the
    # policy (ppo, sac), or with exploration noise (ddpg, td3)
    deterministic: bool = True
    # number of steps after which an episode counts as unfinished; by default 10000, or the time
    # limit of the environment if that is longer
    max_steps: int | None = None
    json: bool = False  # print every return and length as JSON
    best: bool = False  # the agent with the highest return (train --keep-best), not the last
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    command = parse(Eval, args)
    run = load(command.run, command.trust, command.best)
    result = run.evaluate(command.episodes, command.seed, command.deterministic, command.max_steps)
    if command.json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        say(f"{run.name}: {result}")
    return 0
