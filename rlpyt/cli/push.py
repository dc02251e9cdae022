"""Upload the trained agent of a run to the Hugging Face Hub: `rlpyt push RUN user/name`.

The upload contains what `rlpyt.load("hf://user/name")` needs, a model card, statistics, learning
curve and video. The agent is evaluated first if it has changed since its last evaluation. The token
is that of `hf auth login` or HF_TOKEN. The run is not changed.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.push import push
from rlpyt.experiments.run import load
from rlpyt.utils.logging.console import say


@dataclasses.dataclass(frozen=True)
class Push:
    run: tyro.conf.Positional[Path]  # the run directory
    repo: tyro.conf.Positional[str]  # name on the hub, user/name; created if it does not exist
    private: bool = False  # create it as private
    message: str = ""  # message of the commit
    dry_run: bool = False  # show what would be uploaded, without contacting the hub
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)


def main(args: Sequence[str]) -> int:
    command = parse(Push, args)
    run = load(command.run, command.trust)
    url = push(run, command.repo, command.private, command.message, command.dry_run)
    say("Nothing was uploaded." if command.dry_run else f"Uploaded to {url}")
    return 0
