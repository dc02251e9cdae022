"""Checks of an agent's memory between steps, across episodes and groups of environments."""

from typing import Any

import numpy as np
import torch

from rlpyt.testing.agent_bench import AgentBench
from rlpyt.testing.trees import difference, row_of
from rlpyt.utils.buffer import leaves_of


@torch.inference_mode()
def check_memory(bench: AgentBench) -> None:
    """``reset`` forgets everything, ``reset_one`` one row; without memory there is nothing."""
    agent = bench.fresh()
    first = bench.run(agent)
    agent.reset()
    found = _difference(first, bench.run(agent))
    if found:
        bench.report.error(
            "memory",
            f"after reset() it does not act as in the beginning: {found}",
            "let reset() forget all that step() keeps (RecurrentAgentMixin does).",
        )
        return
    if not agent.recurrent:
        _check_that_it_forgets(bench)
        return
    _check_recorded_state(bench, first)
    _check_reset_one(bench, first)


def _check_that_it_forgets(bench: AgentBench) -> None:
    agent = bench.fresh()
    alone = bench.act(agent, 1)
    bench.act(agent, 2)
    found = difference(alone, bench.act(agent, 1), close=True)
    if found:
        bench.report.error(
            "memory",
            f"recurrent is False, and yet step() depends on earlier steps: {found}",
            "mix in RecurrentAgentMixin (recurrent = True) and keep what is remembered by "
            "advance_rnn_state.",
        )


def _check_recorded_state(bench: AgentBench, first: list[Any]) -> None:
    state = getattr(first[0][1], "prev_rnn_state", None)
    if state is None:
        bench.report.note(
            "memory",
            "agent_info has no prev_rnn_state; algorithms for recurrent agents start from it",
        )
        return
    if any(np.any(leaf != 0) for leaf in leaves_of(state)):
        bench.report.error(
            "memory",
            "agent_info.prev_rnn_state of the first step is not zero",
            "record the state before the step, zeros at the start of an episode.",
        )
    later = getattr(first[1][1], "prev_rnn_state", None)
    if all(np.all(leaf == 0) for leaf in leaves_of(later)):
        bench.report.error(
            "memory",
            "agent_info.prev_rnn_state of the second step is zero still",
            "end step() with advance_rnn_state(new_state), and record the state before it.",
        )


def _check_reset_one(bench: AgentBench, usual: list[Any]) -> None:
    """Row 1 begins anew at step 2, its neighbours go on."""
    t, b = 2, bench.B - 1
    agent, beginner = bench.fresh(), bench.fresh()
    bench.run(agent, T=t)
    agent.reset_one(b)
    now, anew = bench.act(agent, t), bench.act(beginner, t)
    found = difference(row_of(now, b), row_of(anew, b), close=True)
    if found:
        bench.report.error(
            "memory",
            f"after reset_one({b}) environment {b} does not act as in the beginning: {found}",
            "zero its column of the state: leaves are [N, B, H].",
        )
    for other in range(b):
        found = difference(row_of(now, other), row_of(usual[t], other), close=True)
        if found:
            bench.report.error(
                "memory",
                f"reset_one({b}) changed environment {other}: {found}",
                "zero one column only: leaves are [N, B, H], B in the middle.",
            )
            return


@torch.inference_mode()
def check_modes(bench: AgentBench) -> None:
    """Sampling goes on after evaluation and training; evaluation begins anew."""
    usual = bench.run(bench.fresh())
    agent = bench.fresh()
    results = [bench.act(agent, t) for t in range(2)]
    agent.eval_mode(1)
    evaluation = [bench.act(agent, t) for t in range(2)]
    agent.train_mode(1)
    _check_training_flag(bench, agent, True)
    agent.sample_mode(1)
    _check_training_flag(bench, agent, False)
    results += [bench.act(agent, t) for t in range(2, bench.T)]
    agent.eval_mode(2)
    _check_training_flag(bench, agent, False)
    again = [bench.act(agent, t) for t in range(2)]
    found = _difference(usual, results)
    if found:
        bench.report.error(
            "modes",
            f"sampling does not go on where it was before evaluation and training: {found}",
            "keep a memory for each mode (RecurrentAgentMixin does), and let modes change nothing "
            "else that acting depends on.",
        )
    found = _difference(evaluation, again)
    if found:
        bench.report.error(
            "modes",
            f"two evaluations began differently: {found}",
            "clear the evaluation's memory in eval_mode().",
        )


def _check_training_flag(bench: AgentBench, agent: Any, training: bool) -> None:
    flag = getattr(agent.model, "training", None)
    if flag is not None and flag is not training:
        bench.report.warning(
            "modes",
            f"model.training is {flag} in {'train' if training else 'sample or eval'} mode",
            "call super() in train_mode, sample_mode and eval_mode: dropout and batch norm go by "
            "it.",
        )


@torch.inference_mode()
def check_groups(bench: AgentBench) -> None:
    """Check that acting for one group of environments leaves the other's memory alone."""
    usual = bench.run(bench.fresh())
    agent = bench.fresh()
    groups: list[list[Any]] = [[], []]
    for t in range(bench.T):
        for group in (0, 1):
            agent.set_group(group)
            groups[group].append(bench.act(agent, t))
    for group, results in enumerate(groups):
        found = _difference(usual, results)
        if found:
            bench.report.error(
                "groups",
                f"acting for two groups in turn, group {group} got something else: {found}",
                "keep a memory for each group that set_group(group) names (RecurrentMemory does).",
            )
            return


def _difference(a: list[Any], b: list[Any]) -> str | None:
    for t, (own, other) in enumerate(zip(a, b, strict=True)):
        found = difference(own, other, close=True)
        if found:
            return f"step {t}: {found}"
    return None
