"""``check_agent``: whether an agent keeps the contract with samplers and algorithms."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch

from rlpyt.testing import agent_acting, agent_memory, agent_training
from rlpyt.testing.agent_bench import AgentBench, spaces_of
from rlpyt.testing.report import Report, Stop
from rlpyt.testing.trees import flattened

CHECKS = {
    "pickle": "travels to worker processes before it is initialized",
    "initialize": "builds its model for these spaces, the same from the same seed",
    "parameters": "there are some, they want gradients, none is hidden",
    "step": "actions and agent_info [B, ...], finite, of one structure",
    "value": "[B], as recorded by step, without moving the memory",
    "rows": "an environment's action does not depend on its neighbours",
    "noise": "actions are a function of the noise that is set",
    "deterministic": "the likeliest action in evaluation, where it is asked for",
    "fast-policy": "acting in numpy is acting in torch",
    "memory": "forgotten by reset and reset_one, and by nothing else",
    "modes": "sampling, evaluation and training leave each other's memory alone",
    "groups": "alternating groups have memories of their own",
    "training": "__call__ takes [T, B] and [B] and gives the same back",
    "acting-is-training": "what step records is what __call__ computes",
    "likelihood": "the distribution gives finite likelihoods and entropies",
    "gradients": "finite, for every parameter",
    "state-dict": "a copy that loads it acts the same",
}


def check_agent(
    agent: Any,
    env_or_spaces: Any,
    *,
    T: int = 5,
    B: int = 3,
    seed: int = 0,
    skip: Collection[str] = (),
) -> Report:
    """Examine an agent: how it acts, what it remembers, what it gives to the algorithm.

    >>> from rlpyt.agents.pg.vector import CategoricalLstmAgent
    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.testing import check_agent
    >>> check_agent(CategoricalLstmAgent(), MemoryEnv).ok
    True

    Args:
        agent: as constructed, not initialized; copies of it are examined, itself it is not.
        env_or_spaces: an environment, what makes one, or ``EnvSpaces``.
        T, B: time steps and environments of the inputs.
        seed: of parameters, inputs and noise.
        skip: names of checks (``rlpyt.testing.agent.CHECKS``) whose findings you know better.

    Returns:
        The report, if there are no errors; what is unwise is warned of.

    Raises:
        ConformanceError: with all findings.
        TypeError: no spaces were given.
        ValueError: ``skip`` has an unknown name.
    """
    return examine_agent(agent, env_or_spaces, T=T, B=B, seed=seed, skip=skip).conclude()


def examine_agent(
    agent: Any,
    env_or_spaces: Any,
    *,
    T: int = 5,
    B: int = 3,
    seed: int = 0,
    skip: Collection[str] = (),
) -> Report:
    """As `check_agent`, but errors are left in the report."""
    report = Report(f"check_agent({type(agent).__name__})", CHECKS, skip)
    bench = AgentBench(agent, spaces_of(env_or_spaces), report, T, B, seed)
    with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
        _examine(bench)
    return report


def _examine(bench: AgentBench) -> None:
    def run(name: str, examine: Callable[[AgentBench], None]) -> bool:
        return bench.report.run(name, partial(examine, bench))

    if not run("pickle", check_recipe) or not run("initialize", check_initialize):
        return
    run("parameters", agent_training.check_parameters)
    if not run("step", agent_acting.check_step):
        return
    run("value", agent_acting.check_value)
    run("rows", agent_acting.check_rows)
    run("noise", agent_acting.check_noise)
    run("deterministic", agent_acting.check_deterministic)
    run("fast-policy", agent_acting.check_fast_policy)
    run("memory", agent_memory.check_memory)
    run("modes", agent_memory.check_modes)
    run("groups", agent_memory.check_groups)
    if run("training", agent_training.check_call):
        run("acting-is-training", agent_training.check_acting_is_training)
        run("gradients", agent_training.check_gradients)
    run("likelihood", agent_training.check_likelihood)
    run("state-dict", agent_training.check_state_dict)


def check_recipe(bench: AgentBench) -> None:
    """It can be pickled as constructed, and comes as constructed."""
    agent, report = bench.agent, bench.report
    if isinstance(agent, type) or not hasattr(agent, "step"):
        report.error(
            "pickle",
            f"got {agent!r:.80}, which is no agent",
            "give an agent as constructed: MyAgent(...).",
        )
        raise Stop
    if getattr(agent, "model", None) is not None:
        report.error(
            "pickle",
            f"{type(agent).__name__} is initialized already",
            "give it as constructed; if the constructor builds the model, let initialize() do so.",
        )
        raise Stop
    try:
        bench.keep_recipe()
        bench.recreated()
    except Exception as error:
        report.error(
            "pickle",
            f"{error}",
            "let the constructor only remember its arguments; acquire in initialize().",
        )
        raise Stop from error


def check_initialize(bench: AgentBench) -> None:
    """It can be initialized, with equal parameters from equal seeds."""
    states = [flattened(bench.initialized().state_dict()) for _ in range(2)]
    differing = [
        name
        for name, value in states[0].items()
        if hasattr(value, "equal") and not value.equal(states[1].get(name))
    ]
    if differing:
        bench.report.warning(
            "initialize",
            f"two copies after the same torch.manual_seed differ in {differing[0]}",
            "draw first parameters from torch's generator, so that runs can be repeated.",
        )
