"""Checks of training: parameters, outputs [T, B], likelihoods, gradients, the state dict."""

import inspect
from typing import Any

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.untrained import join_names, unregistered
from rlpyt.testing.agent_case import AgentCase, Inputs
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import copied, difference, non_finite, stacked
from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of
from rlpyt.utils.names import flattened


def check_parameters(case: AgentCase) -> None:
    """Check that there are parameters to train."""
    agent, expect = case.fresh(), case.report.expect
    parameters = list(agent.parameters())
    expect(
        parameters,
        "there are none",
        "return the model's parameters; modules in plain lists are not found (nn.ModuleList).",
        stop=True,
    )
    trained = any(p.requires_grad for p in parameters)
    expect(trained, "none requires a gradient", "set requires_grad on the parameters to train.")
    if not isinstance(agent.model, torch.nn.Module):
        return
    frozen = [name for name, p in agent.model.named_parameters() if not p.requires_grad]
    if frozen and len(frozen) < len(parameters):
        text = f"frozen parameters: {join_names(frozen)}"
        case.report.warning(text, "ignore this if it is intentional.")
    lost = unregistered(agent.model)
    if lost:
        case.report.warning(
            f"not registered in the model, so neither trained nor saved: {join_names(lost)}",
            "use attributes, nn.ModuleList or nn.ModuleDict for modules, nn.Parameter for tensors.",
        )


def check_call(case: AgentCase) -> None:
    """Check that ``__call__`` returns [T, B] for inputs [T, B], and [B] for [B]."""
    agent, expect = case.fresh(), case.report.expect
    if type(agent).__call__ is BaseAgent.__call__:
        case.report.open("__call__ is missing: the agent cannot be trained")
        raise Stop
    agent.train_mode(0)
    for lead, inputs in (((case.T, case.B), case.inputs), ((case.B,), case.at(0))):
        out = _call(case, agent, inputs)
        outputs = out[:-1] if agent.recurrent else out
        for path, leaf in _named_leaves(outputs):
            expect(
                tuple(leaf.shape[: len(lead)]) == lead,
                f"for inputs {list(lead)}, output {path} has shape {tuple(leaf.shape)}",
                "restore the leading dimensions of the inputs (see restore_leading_dims).",
            )
        for leaf in leaves_of(out[-1]) if agent.recurrent else ():
            expect(
                leaf.dim() >= 2 and leaf.shape[1] == case.B,
                f"the recurrent state it returns has shape {tuple(leaf.shape)}",
                f"return the next state last, leaves [N, B, H], here B={case.B}.",
            )
        wrong = non_finite(outputs)
        expect(wrong is None, f"output {wrong} is not finite", "check the model.")


def _call(case: AgentCase, agent: Any, inputs: Inputs) -> tuple[Any, ...]:
    """Call the agent, with the recorded state [N, B, H] before the first step if recurrent."""
    if not agent.recurrent:
        out = agent(*inputs)
    else:
        _, info = case.act(case.fresh(), 0)
        recorded = getattr(info, "prev_rnn_state", None)
        state = buffer_func(recorded, lambda x: torch.from_numpy(x).transpose(0, 1).contiguous())
        if "init_rnn_state" in inspect.signature(agent).parameters:
            out = agent(*inputs, init_rnn_state=state)
        else:
            out = agent(*inputs, state)
    return tuple(out) if isinstance(out, tuple) else (out,)


def check_acting_is_training(case: AgentCase) -> None:
    """Check that outputs recorded step by step equal those computed over [T, B]."""
    recorded = [
        tuple(getattr(info, name) for name in ("dist_info", "value") if hasattr(info, name))
        for _, info in case.run(case.fresh())
    ]
    n = len(recorded[0])
    if not n:
        case.report.open("agent_info has neither dist_info nor value to compare")
        return
    agent, acted = case.fresh(), stacked(recorded)
    with torch.no_grad():
        agent.train_mode(0)
        found = difference(acted, copied(_call(case, agent, case.inputs)[:n]), close=True)
        agent.sample_mode(0)
        in_sampling = difference(acted, copied(_call(case, agent, case.inputs)[:n]), close=True)
    if found and in_sampling is None:
        what = f"in train mode the model gives another output than in sampling: {found}"
        fix = "remove dropout and batch norm: likelihood ratios would not start at one."
    else:
        what = f"__call__ over [T, B] gives another output than step() recorded: {found}"
        fix = "use the same inputs in both (one-hot, scaling, order), with time as first dimension."
    case.report.expect(not found, what, fix)


def check_likelihood(case: AgentCase) -> None:
    """Check likelihoods and entropies of sampled actions."""
    agent, report = case.fresh(), case.report
    action, info = case.act(agent, 0)
    distribution, dist_info = agent.distribution, getattr(info, "dist_info", None)
    if dist_info is None or not hasattr(distribution, "log_likelihood"):
        report.open("no dist_info is recorded, or log_likelihood is missing")
        return
    parts = getattr(distribution, "parts", (distribution,))
    if any(getattr(part, "squash", None) is not None for part in parts):
        report.open("actions are squashed: the drawn values are not recorded")
        return
    action, dist_info = (buffer_func(x, torch.from_numpy) for x in (action, dist_info))
    for name, result in (
        ("log_likelihood", distribution.log_likelihood(action, dist_info)),
        ("entropy", distribution.entropy(dist_info)),
    ):
        report.expect(
            tuple(result.shape) == (case.B,) and torch.isfinite(result).all(),
            f"{name} of sampled actions is {result!r:.100}",
            f"return finite numbers [B], here [{case.B}].",
            stop=True,
        )
    ratio = distribution.likelihood_ratio(action, dist_info, dist_info)
    report.expect(
        torch.allclose(ratio, torch.ones(case.B), atol=1e-4),
        f"likelihood_ratio of a distribution with itself is {ratio!r:.100}",
        "return p_new(x) / p_old(x), which is 1 for equal distributions.",
    )


def check_gradients(case: AgentCase) -> None:
    """Check that every parameter gets a finite gradient."""
    agent, report = case.fresh(), case.report
    agent.train_mode(0)
    used = [leaf for leaf in leaves_of(_call(case, agent, case.inputs)) if leaf.requires_grad]
    report.expect(
        used,
        "no output of __call__ depends on a parameter",
        "remove detach and no_grad from __call__.",
        stop=True,
    )
    named = isinstance(agent.model, torch.nn.Module)
    names = {id(p): name for name, p in agent.model.named_parameters()} if named else {}
    parameters = {
        names.get(id(p), f"parameter {i}"): p
        for i, p in enumerate(agent.parameters())
        if p.requires_grad
    }
    loss = torch.stack([(leaf.float() ** 2).sum() for leaf in used]).sum()
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    pairs = list(zip(parameters, gradients, strict=True))
    missing = [name for name, gradient in pairs if gradient is None]
    if missing:
        fix = "use these parameters, or remove them."
        report.warning(f"no output depends on {join_names(missing)}", fix)
    for name, gradient in pairs:
        report.expect(
            gradient is None or torch.isfinite(gradient).all(),
            f"the gradient of {name} is not finite",
            "look for log, sqrt and division near zero in the model.",
        )


def check_state_dict(case: AgentCase) -> None:
    """Check that another agent that loads the state acts the same."""
    agent, other = case.fresh(), case.fresh(seed=1)
    state = agent.state_dict()
    kept = {
        name: value.clone() if isinstance(value, torch.Tensor) else value
        for name, value in flattened(state).items()
    }
    other.load_state_dict(state)
    what = "an agent that loaded it acts differently"
    fix = "include all that acting depends on: buffers, running statistics, further networks."
    if not case.expect_same(case.run(agent), case.run(other), what, fix):
        return
    again = flattened(other.state_dict())
    changed = [name for name, value in kept.items() if difference(value, again.get(name))]
    case.report.expect(
        not changed,
        f"after loading it, state_dict() has another {(changed or [''])[0]}",
        "load every entry, and let acting change none.",
    )
