"""``check_agent``: check that an agent keeps the contract with samplers and algorithms."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch

from rlpyt.testing import agent_acting, agent_training
from rlpyt.testing.agent_case import AgentCase, spaces_of
from rlpyt.testing.report import Report, Stop
from rlpyt.utils.checks import whole_number
from rlpyt.utils.names import flattened

CHECKS = {
    "pickle": "can be sent to worker processes before it is initialized",
    "initialize": "builds its model for these spaces, the same from the same seed",
    "parameters": "exist, require gradients, and are registered in the model",
    "step": "actions and agent_info [B, ...], finite, of one structure",
    "value": "[B], as recorded by step, without changing the recurrent state",
    "rows": "an environment's action does not depend on the others",
    "noise": "actions are a function of the given noise",
    "deterministic": "the distribution's mode in evaluation, if requested",
    "fast-policy": "acting in numpy equals acting in torch",
    "memory": "cleared by reset and reset_one, and by nothing else",
    "modes": "sampling, evaluation and training have separate recurrent states",
    "groups": "alternating groups have separate recurrent states",
    "training": "__call__ returns [T, B] for inputs [T, B], and [B] for [B]",
    "acting-is-training": "step records what __call__ computes",
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
    """Check an agent: acting, recurrent state and training.

    >>> from rlpyt.agents.pg.vector import CategoricalLstmAgent
    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.testing import check_agent
    >>> check_agent(CategoricalLstmAgent(), MemoryEnv).ok
    True

    Args:
        agent: an agent as constructed, not initialized; it is copied and not changed.
        env_or_spaces: an environment, a class or function that makes one, or ``EnvSpaces``.
        T, B: time steps and environments of the inputs.
        seed: seed of parameters, inputs and noise.
        skip: names of checks (``rlpyt.testing.agent.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors. Warnings are issued as `ConformanceWarning`.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        TypeError: ``env_or_spaces`` has no spaces.
        ValueError: ``skip`` has an unknown name, or T or B is too small.
    """
    report = Report(f"check_agent({type(agent).__name__})", CHECKS, skip)
    T, B = whole_number("T", T, 3), whole_number("B", B, 1)
    with torch.random.fork_rng(devices=[]):  # keep the caller's generator
        _examine(AgentCase(agent, spaces_of(env_or_spaces), report, T, B, seed))
    return report.conclude()


def _examine(case: AgentCase) -> None:
    def run(name: str, check: Callable[[AgentCase], None], needed: bool = False) -> bool:
        return case.report.run(name, partial(check, case), needed=needed)

    if not run("pickle", check_pickle) or not run("initialize", check_initialize, True):
        return
    run("parameters", agent_training.check_parameters)
    if not run("step", agent_acting.check_step, True):
        return
    run("value", agent_acting.check_value)
    run("rows", agent_acting.check_rows)
    run("noise", agent_acting.check_noise)
    run("deterministic", agent_acting.check_deterministic)
    run("fast-policy", agent_acting.check_fast_policy)
    run("memory", agent_acting.check_memory)
    run("modes", agent_acting.check_modes)
    run("groups", agent_acting.check_groups)
    if run("training", agent_training.check_call):
        run("acting-is-training", agent_training.check_acting_is_training)
        run("gradients", agent_training.check_gradients)
    run("likelihood", agent_training.check_likelihood)
    run("state-dict", agent_training.check_state_dict)


def check_pickle(case: AgentCase) -> None:
    """Check that the agent can be pickled as constructed."""
    agent, expect = case.agent, case.report.expect
    expect(
        not isinstance(agent, type) and hasattr(agent, "step"),
        f"got {agent!r:.80}, expected an agent",
        "pass an agent as constructed: MyAgent(...).",
        stop=True,
    )
    expect(
        getattr(agent, "model", None) is None,
        f"{type(agent).__name__} is initialized already",
        "pass it as constructed; build the model in initialize(), not in the constructor.",
        stop=True,
    )
    try:
        case.recreated()
    except Exception as error:
        fix = "let the constructor only store its arguments; build everything in initialize()."
        case.report.error(f"{error}", fix)
        raise Stop from error


def check_initialize(case: AgentCase) -> None:
    """Check that it can be initialized, with equal parameters from equal seeds."""
    first, second = (flattened(case.initialized().state_dict()) for _ in range(2))
    differing = [
        name
        for name, value in first.items()
        if hasattr(value, "equal") and not value.equal(second.get(name))
    ]
    if differing:
        case.report.warning(
            f"two copies after the same torch.manual_seed differ in {differing[0]}",
            "draw initial parameters from torch's generator, so that runs can be repeated.",
        )
