"""``rlpyt check ENV``: whether an environment keeps the contract."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.build import env_recipe
from rlpyt.testing.env import examine_env_in_child
from rlpyt.utils.checks import check_range

DESCRIPTION = """Play an environment in many ways and report what breaks the contract.

ENV is what `rlpyt train` takes, such as module:Class (or module:function) of your own."""


@dataclasses.dataclass(frozen=True)
class Check:
    """Arguments of the command."""

    env: tyro.conf.Positional[str]  # name, or module:Class
    env_args: dict[str, Any] = dataclasses.field(default_factory=dict)  # its arguments
    max_steps: int = 2000  # to see episodes end
    seed: int = 0  # seed of environment and actions
    skip: tuple[str, ...] = ()  # names of checks to leave out
    timeout: float = 300.0  # seconds for the whole examination; a hang is reported after them


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; 1 if errors were found."""
    command = parse(Check, args, prog="rlpyt check", description=DESCRIPTION)
    check_range("timeout", command.timeout, low=0, open_low=True)
    recipe = env_recipe(command.env, command.env_args)
    report = examine_env_in_child(
        recipe.EnvCls,
        recipe.kwargs,
        timeout_s=command.timeout,
        seed=command.seed,
        max_steps=command.max_steps,
        skip=command.skip,
    )
    print(report)
    return 0 if report.ok else 1
