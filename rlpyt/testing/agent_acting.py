"""Checks of acting: outputs of ``step`` and ``value``, rows, noise, the mode, acting in numpy."""

from typing import Any

import numpy as np
import torch

from rlpyt.distributions.base import Distribution
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.testing.agent_case import AgentCase
from rlpyt.testing.trees import described, difference, non_finite, row_of, same_layout
from rlpyt.utils.buffer import _named_leaves, leaves_of, numpify_buffer
from rlpyt.utils.collections import is_namedarraytuple


def check_step(case: AgentCase) -> None:
    """Check actions and agent_info of every environment at every step."""
    _check_first_step(case, case.fresh())
    results = case.run(case.fresh())
    first = results[0][1]
    for t, (action, info) in enumerate(results):
        _check_actions(case, action)
        for name, tree in (("action", action), ("agent_info", info)):
            case.report.expect(
                non_finite(tree) is None,
                f"step {t}: {name} {non_finite(tree)} is not finite",
                "check that output of the model, initial weights and the scale of observations.",
            )
        case.report.expect(
            same_layout(info, first),
            f"step {t}: agent_info is {described(info)}, at first {described(first)}",
            "return the same fields, shapes and dtypes at every step: memory is allocated once.",
        )


def _check_first_step(case: AgentCase, agent: Any) -> None:
    """Check the tensors of one step."""
    expect, B = case.report.expect, case.B
    torch.default_generator.manual_seed(case.seed)
    step: Any = agent.step(*case.at(0))
    expect(
        getattr(step, "_fields", ()) == ("action", "agent_info"),
        f"step() returned {type(step).__name__} {step!r:.80}",
        "return rlpyt.agents.base.AgentStep(action, agent_info).",
        stop=True,
    )
    on_cpu = "return tensors on the CPU (buffer_to(...))."
    for path, leaf in _named_leaves(step):
        tensor = isinstance(leaf, torch.Tensor)
        expect(tensor, f"{path} is a {type(leaf).__name__}", on_cpu, stop=True)
        cpu = leaf.device.type == "cpu"
        expect(cpu, f"{path} is on {leaf.device}", on_cpu, stop=True)
        expect(
            leaf.dim() > 0 and leaf.shape[0] == B,
            f"{path} has shape {tuple(leaf.shape)} for {B} environments",
            "give every output the leading dimension [B] of the inputs.",
            stop=True,
        )
        if leaf.requires_grad:
            fix = "decorate step with torch.no_grad(); outside of samplers, every graph stays in "
            case.report.warning(f"{path} carries a graph", f"{fix}memory.")
    info = step.agent_info
    expect(
        _is_record(info),
        f"agent_info is {type(info).__name__}, not namedarraytuples throughout",
        'make its types by namedarraytuple("AgentInfo", [...]): algorithms index all fields.',
    )
    value, dist_info = getattr(info, "value", None), getattr(info, "dist_info", None)
    dim = getattr(agent.distribution, "dim", None)
    outputs: list[tuple[str, Any, tuple[Any, ...], str]]
    outputs = [("value", value, (B,), "squeeze the last dimension of the value output: [B].")]
    for name in ("prob", "mean") if dim is not None else ():
        fix = "give the policy one output per action (discrete) or component (continuous)."
        outputs.append((f"dist_info.{name}", getattr(dist_info, name, None), (B, dim), fix))
    for name, output, shape, fix in outputs:
        if isinstance(output, torch.Tensor):
            given = tuple(output.shape)
            expect(given == shape, f"agent_info.{name} has shape {given}; expected {shape}", fix)


def _is_record(info: Any) -> bool:
    """Return True if all named parts are namedarraytuples."""
    if not isinstance(info, tuple):
        return True
    return is_namedarraytuple(info) and all(_is_record(part) for part in tuple(info))


def _check_actions(case: AgentCase, action: Any) -> None:
    spaces = leaf_spaces(case.spaces.action, "action")
    for b in range(case.B):
        parts = leaves_of(row_of(action, b))
        what = f"the action has {len(parts)} parts, its space {len(spaces)}"
        fix = "return actions with the structure of the action space."
        if not case.report.expect(len(parts) == len(spaces), what, fix):
            return
        for (path, space), part in zip(spaces, parts, strict=True):
            discrete = np.dtype(space.dtype).kind != "f"
            if part.shape != tuple(space.shape):
                wrong = f"has shape {part.shape} for one environment; its space {space.shape}"
            elif discrete and part.dtype.kind not in "iub":
                wrong = f"is of dtype {part.dtype}; its space has {space.dtype}"
            elif discrete and not space.contains(part.astype(space.dtype)):
                wrong = f"is {part}, which is not in {space}"
            else:  # continuous actions may leave the bounds: they are clipped for the environment
                continue
            fix = "fit the policy's output to the given action space."
            case.report.error(f"{path} {wrong}", fix)


def check_value(case: AgentCase) -> None:
    """Check the values for bootstrapping."""
    agent, report = case.fresh(), case.report
    if not hasattr(agent, "value"):
        report.open("value() is missing; algorithms that bootstrap need it")
        return
    undisturbed = case.run(case.fresh())
    for t in range(case.T):
        with torch.inference_mode():
            value, again = agent.value(*case.at(t)), agent.value(*case.at(t))
        report.expect(
            isinstance(value, torch.Tensor) and tuple(value.shape) == (case.B,),
            f"value() returned {type(value).__name__} of shape {getattr(value, 'shape', None)}",
            f"return a tensor [B], here [{case.B}], on the CPU.",
            stop=True,
        )
        action, info = case.act(agent, t)
        what, fix = f"value() is not finite: {value}", "check the value output of the model."
        report.expect(non_finite(value) is None, what, fix)
        same = difference((action, info), undisturbed[t], close=True) is None
        report.expect(
            same and difference(value, again, close=True) is None,
            f"at step {t} the agent acted differently after value() was called",
            "read the recurrent state in value(), and do not change it.",
            stop=True,
        )
        if hasattr(info, "value"):
            case.expect_same(
                info.value,
                value,
                f"step {t}: agent_info.value and value() of the same inputs differ",
                "compute both alike: algorithms use one as V(s_t), the other as V(s_{t+1}).",
            )


def check_rows(case: AgentCase) -> None:
    """Check that outputs of an environment depend neither on its index nor on the others."""
    usual = case.run(case.fresh())
    noise_per_row = case.fresh().noise_spec is not None

    def outputs(results: list[Any], row: int) -> list[Any]:
        rows = [row_of(result, row) for result in results]
        # Without noise per row, actions are drawn from torch's generator, in order of rows.
        return rows if noise_per_row else [info for _, info in rows]

    for order in ([*range(1, case.B), 0], [0] * case.B):
        permuted = case.run(case.fresh(), order)
        for i, b in enumerate(order):
            case.expect_same(
                outputs(usual, b),
                outputs(permuted, i),
                f"with rows {order}, environment {b} got another output than in usual order",
                "do not use statistics of the batch or fixed indices while acting.",
            )


def check_noise(case: AgentCase) -> None:
    """Check that the same noise gives the same action for any state of torch's generator."""
    spec = case.fresh().noise_spec
    if spec is None:
        text = "the distribution takes no noise: actions come from torch's generator, and depend on"
        case.report.open(f"{text} the number of workers")
        return
    for t in range(case.T):
        actions = []
        for seed in (1, 2):
            own = case.fresh()
            case.run(own, T=t)
            torch.default_generator.manual_seed(1000 * seed + t)
            own.set_noise(torch.from_numpy(case.noise(spec, t)))
            with torch.inference_mode():
                actions.append(own.step(*case.at(t))[0])
        what = f"step {t}: the same noise gave two actions"
        fix = "compute actions in sample() from the noise of set_noise() only (see noise_spec)."
        if not case.expect_same(actions[0], actions[1], what, fix, close=False):
            return


def check_deterministic(case: AgentCase) -> None:
    """Check that in evaluation with ``deterministic`` set, noise has no influence."""
    mode = getattr(type(case.fresh().distribution), "mode", None)
    if mode is None or mode is Distribution.mode:
        case.report.open("the distribution has no mode()")
        return
    runs = []
    for seed in (1, 2, 3):
        agent = case.fresh()
        agent.deterministic = True
        agent.eval_mode(0)
        runs.append([case.act(agent, t, noise_seed=seed)[0] for t in range(case.T)])
    what = "with deterministic set, actions in evaluation depend on the noise"
    fix = "use distribution.mode(dist_info) in eval_mode if self.deterministic."
    for run in runs[1:]:
        case.expect_same(runs[0], run, what, fix, close=False)


def check_fast_policy(case: AgentCase) -> None:
    """Check that acting in numpy equals ``step``, where it is offered."""
    agent = case.fresh()
    policy = agent.fast_policy()
    if policy is None:
        case.report.open("fast_policy() returns None for this model")
        return
    for t in range(case.T):
        action, info = case.act(agent, t)
        observation = numpify_buffer(case.at(t).observation)
        own, parameters, value = policy(observation, case.noise(agent.noise_spec, t))
        ours = tuple(np.asarray(x) for x in (*leaves_of(own), *parameters, value))
        theirs = (*leaves_of(action), *leaves_of(info))
        what = f"step {t}: fast_policy() and step() differ"
        fix = "make its functions equal to model and distribution, or pass fast_acting=False."
        if not case.expect_same(ours, theirs, what, fix):
            return


@torch.inference_mode()
def check_memory(case: AgentCase) -> None:
    """Check that ``reset`` clears all recurrent state, and ``reset_one`` that of one row."""
    agent = case.fresh()
    first = case.run(agent)
    agent.reset()
    what = "after reset() it does not act as at the start"
    fix = "clear in reset() all that step() keeps (RecurrentAgentMixin does)."
    if not case.expect_same(first, case.run(agent), what, fix):
        return
    if agent.recurrent:
        _check_recorded_state(case, first)
        _check_reset_one(case, first)
        return
    agent = case.fresh()
    alone = case.act(agent, 1)
    case.act(agent, 2)
    case.expect_same(
        alone,
        case.act(agent, 1),
        "recurrent is False, and yet step() depends on earlier steps",
        "mix in RecurrentAgentMixin (recurrent = True) and keep the state by advance_rnn_state.",
    )


def _check_recorded_state(case: AgentCase, results: list[Any]) -> None:
    first, second = (getattr(info, "prev_rnn_state", None) for _, info in results[:2])
    if first is None:
        text = "agent_info has no prev_rnn_state, from which algorithms for recurrent agents start"
        case.report.note(text)
        return
    case.report.expect(
        all(np.all(leaf == 0) for leaf in leaves_of(first)),
        "agent_info.prev_rnn_state of the first step is not zero",
        "record the state before the step, zeros at the start of an episode.",
    )
    case.report.expect(
        any(np.any(leaf != 0) for leaf in leaves_of(second)),
        "agent_info.prev_rnn_state of the second step is still zero",
        "call advance_rnn_state(new_state) at the end of step(), and record the state before it.",
    )


def _check_reset_one(case: AgentCase, usual: list[Any]) -> None:
    """Reset the last row before step 2; the others must continue."""
    t, b = 2, case.B - 1
    agent = case.fresh()
    case.run(agent, T=t)
    agent.reset_one(b)
    now, at_start = case.act(agent, t), case.act(case.fresh(), t)
    what = f"after reset_one({b}) environment {b} does not act as at the start"
    fix = "zero its column of the state: leaves are [N, B, H]."
    case.expect_same(row_of(now, b), row_of(at_start, b), what, fix)
    for other in range(b):
        what = f"reset_one({b}) changed environment {other}"
        fix = "zero one column only: leaves are [N, B, H], B in the middle."
        case.expect_same(row_of(now, other), row_of(usual[t], other), what, fix)


@torch.inference_mode()
def check_modes(case: AgentCase) -> None:
    """Check that sampling continues after evaluation and training, and that evaluation restarts."""
    usual, agent = case.run(case.fresh()), case.fresh()
    results = [case.act(agent, t) for t in range(2)]
    agent.eval_mode(1)
    evaluation = [case.act(agent, t) for t in range(2)]
    agent.train_mode(1)
    _check_training_flag(case, agent, True)
    agent.sample_mode(1)
    _check_training_flag(case, agent, False)
    results += [case.act(agent, t) for t in range(2, case.T)]
    agent.eval_mode(2)
    _check_training_flag(case, agent, False)
    what = "sampling does not continue as before evaluation and training"
    fix = "keep a recurrent state per mode (RecurrentAgentMixin does), and change nothing else."
    case.expect_same(usual, results, what, fix)
    again = [case.act(agent, t) for t in range(2)]
    fix = "clear the state of evaluation in eval_mode()."
    case.expect_same(evaluation, again, "two evaluations started differently", fix)


def _check_training_flag(case: AgentCase, agent: Any, training: bool) -> None:
    flag = getattr(agent.model, "training", None)
    if flag is not None and flag is not training:
        case.report.warning(
            f"model.training is {flag} in {'train' if training else 'sample or eval'} mode",
            "call super() in train_mode, sample_mode and eval_mode; dropout and batch norm use it.",
        )


@torch.inference_mode()
def check_groups(case: AgentCase) -> None:
    """Check that acting for one group leaves the recurrent state of the other unchanged."""
    usual, agent = case.run(case.fresh()), case.fresh()
    groups: list[list[Any]] = [[], []]
    for t in range(case.T):
        for group in (0, 1):
            agent.set_group(group)
            groups[group].append(case.act(agent, t))
    for group, results in enumerate(groups):
        what = f"acting for two groups in turn, group {group} got another output"
        fix = "keep one recurrent state per group of set_group(group) (RecurrentMemory does)."
        case.expect_same(usual, results, what, fix)
