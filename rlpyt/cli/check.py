"""Step an environment in many ways and report violations of the interface: `rlpyt check ENV`.

ENV is an environment as in `rlpyt train`, such as module:Class or module:function.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tyro

from rlpyt.cli.flags import Several, parse
from rlpyt.experiments.agents import build_agent
from rlpyt.experiments.build import EnvRecipe, env_recipe, env_spaces
from rlpyt.experiments.registry import ALGORITHMS
from rlpyt.experiments.settings import default_options
from rlpyt.testing.env import examine_env_in_child
from rlpyt.utils.checks import check_range


@dataclasses.dataclass(frozen=True)
class Check:
    env: tyro.conf.Positional[str]  # name, or module:Class
    # arguments of the environment
    env_args: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_steps: int = 2000  # maximum number of steps to wait for the end of an episode
    seed: int = 0  # seed of environment and actions
    skip: Several[str] = ()  # names of checks to skip
    timeout: float = 300.0  # seconds for all checks; a hang is reported after this time


def main(args: Sequence[str]) -> int:
    """Run the command and return its exit code, 1 if errors were found."""
    command = parse(Check, args)
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
    if report.ok:
        print(_ready_agents(command.env, recipe))
    return 0 if report.ok else 1


def _ready_agents(env: str, recipe: EnvRecipe) -> str:
    """Return a sentence about the algorithms that have an agent for the environment's spaces."""
    spaces, suited, reasons = env_spaces(recipe, in_child=True), [], []
    for name in ALGORITHMS:
        try:
            build_agent(default_options(name, env), spaces).initialize(spaces)
        except (TypeError, ValueError) as error:
            reasons.append(str(error))
        else:
            suited.append(name)
    if suited:
        return f"Algorithms with an agent for these spaces: {', '.join(suited)}."
    return f"No agent of rlpyt suits these spaces; write a custom one (--agent). {reasons[0]}"
