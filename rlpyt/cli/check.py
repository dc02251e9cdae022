"""``rlpyt check ENV``: whether an environment keeps the contract."""

import dataclasses
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from rlpyt.cli.flags import parse
from rlpyt.experiments.build import env_recipe
from rlpyt.testing.env import examine_env

DESCRIPTION = """Play an environment in many ways and report what breaks the contract.

ENV is what `rlpyt train` takes, or module:Class (or module:function) of your own."""


@dataclasses.dataclass(frozen=True)
class Check:
    """What the user gives."""

    env: tyro.conf.Positional[str]  # name, or module:Class
    env_args: dict[str, Any] = dataclasses.field(default_factory=dict)  # its arguments
    max_steps: int = 2000  # to see episodes end
    seed: int = 0  # of environment and actions
    skip: tuple[str, ...] = ()  # names of checks to leave out


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; 1 if errors were found."""
    command = parse(Check, args, prog="rlpyt check", description=DESCRIPTION)
    make_env, kwargs = _factory(command.env, command.env_args)
    report = examine_env(
        make_env, kwargs, seed=command.seed, max_steps=command.max_steps, skip=command.skip
    )
    print(report)
    return 0 if report.ok else 1


def _factory(name: str, env_args: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    module, _, attribute = name.partition(":")
    if attribute.isidentifier():
        sys.path.insert(0, os.getcwd())  # where the user's own module lies
        made_by = getattr(importlib.import_module(module), attribute, None)
        if made_by is None:
            raise ValueError(
                f"{module} has no '{attribute}'; give module:Class or module:function."
            )
        return made_by, env_args
    recipe = env_recipe(name, env_args)
    return recipe.EnvCls, recipe.kwargs
