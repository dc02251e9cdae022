"""What an agent gives to the algorithm: parameters, outputs [T, B], likelihoods, gradients."""

from typing import Any

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.untrained import listed, unregistered
from rlpyt.testing.agent_bench import AgentBench, Inputs
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import copied, difference, finite, flattened, stacked
from rlpyt.utils.buffer import _named_leaves, buffer_func, leaves_of


def check_parameters(bench: AgentBench) -> None:
    """There is something to train."""
    agent = bench.fresh()
    parameters = list(agent.parameters())
    if not parameters:
        bench.report.error(
            "parameters",
            "there are none",
            "return the model's parameters; modules in plain lists are not found (nn.ModuleList).",
        )
        return
    if not any(p.requires_grad for p in parameters):
        bench.report.error(
            "parameters",
            "none requires a gradient",
            "leave requires_grad on for what is to be trained.",
        )
    model = agent.model
    if not isinstance(model, torch.nn.Module):
        return
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    if frozen and len(frozen) < len(parameters):
        bench.report.warning("parameters", f"frozen: {listed(frozen)}", "well, if it is meant so.")
    lost = unregistered(model)
    if lost:
        bench.report.warning(
            "parameters",
            f"the model does not know of {listed(lost)}: neither trained nor saved",
            "assign modules to the model directly, or in nn.ModuleList and nn.ModuleDict; tensors "
            "as nn.Parameter.",
        )


def check_call(bench: AgentBench) -> None:
    """``__call__`` answers [T, B] with [T, B], and [B] with [B]."""
    agent = bench.fresh()
    if type(agent).__call__ is BaseAgent.__call__:
        bench.report.open("training", "there is no __call__: the agent acts, and cannot be trained")
        raise Stop
    agent.train_mode(0)
    T, B = bench.T, bench.B
    for lead, inputs in (((T, B), bench.inputs), ((B,), bench.at(0))):
        out = _call(bench, agent, inputs)
        if not isinstance(out, tuple):
            out = (out,)
        outputs = out[:-1] if agent.recurrent else out
        for path, leaf in _named_leaves(tuple(outputs)):
            if tuple(leaf.shape[: len(lead)]) != lead:
                bench.report.error(
                    "training",
                    f"for inputs {list(lead)}, output {path} has shape {tuple(leaf.shape)}",
                    "give outputs the leading dimensions of the inputs, [T, B] or [B] "
                    "(infer_leading_dims and restore_leading_dims help).",
                )
        if agent.recurrent:
            _check_state(bench, out[-1])
        if finite(tuple(outputs)) is not None:
            bench.report.error(
                "training", f"output {finite(tuple(outputs))} is not finite", "look at the model."
            )


def _call(bench: AgentBench, agent: Any, inputs: Inputs) -> Any:
    if not agent.recurrent:
        return agent(*inputs)
    return agent(*inputs, _first_state(bench))


def _first_state(bench: AgentBench) -> Any:
    """The recorded state before the first step, as algorithms hand it in: [N, B, H]."""
    _, info = bench.act(bench.fresh(), 0)
    state = getattr(info, "prev_rnn_state", None)
    return buffer_func(state, lambda leaf: torch.from_numpy(leaf).transpose(0, 1).contiguous())


def _check_state(bench: AgentBench, state: Any) -> None:
    wrong = [leaf for leaf in leaves_of(state) if leaf.dim() < 2 or leaf.shape[1] != bench.B]
    if wrong:
        bench.report.error(
            "training",
            f"the recurrent state it returns has shape {tuple(wrong[0].shape)}",
            f"return the next state last, leaves [N, B, H], here B={bench.B}.",
        )


def check_acting_is_training(bench: AgentBench) -> None:
    """Distribution and value as recorded step by step are those computed over [T, B]."""
    results = bench.run(bench.fresh())
    recorded = [
        tuple(getattr(info, name) for name in ("dist_info", "value") if hasattr(info, name))
        for _, info in results
    ]
    if not recorded[0]:
        bench.report.open(
            "acting-is-training", "agent_info has neither dist_info nor value to compare"
        )
        return
    agent = bench.fresh()
    agent.train_mode(0)
    with torch.no_grad():
        in_training = _call(bench, agent, bench.inputs)[: len(recorded[0])]
        agent.sample_mode(0)
        in_sampling = _call(bench, agent, bench.inputs)[: len(recorded[0])]
    acted = stacked(recorded)
    found = difference(acted, copied(tuple(in_training)), close=True)
    if not found:
        return
    if difference(acted, copied(tuple(in_sampling)), close=True) is None:
        bench.report.error(
            "acting-is-training",
            f"in train mode the model gives something else than in acting: {found}",
            "leave out dropout and batch norm: likelihood ratios would not begin at one.",
        )
        return
    bench.report.error(
        "acting-is-training",
        f"__call__ over [T, B] gives something else than step() recorded: {found}",
        "feed the model alike in both (one-hot, scaling, order of inputs), and let time run over "
        "the first dimension.",
    )


def check_likelihood(bench: AgentBench) -> None:
    """Likelihoods and entropies of the actions that were chosen."""
    agent = bench.fresh()
    action, info = bench.act(agent, 0)
    distribution, dist_info = agent.distribution, getattr(info, "dist_info", None)
    if dist_info is None or not hasattr(distribution, "log_likelihood"):
        bench.report.open("likelihood", "no dist_info is recorded, or there is no log_likelihood")
        return
    if getattr(distribution, "squash", None) is not None:
        bench.report.open("likelihood", "actions are squashed: what was drawn is not recorded")
        return
    action, dist_info = (buffer_func(x, torch.from_numpy) for x in (action, dist_info))
    for name, result in (
        ("log_likelihood", distribution.log_likelihood(action, dist_info)),
        ("entropy", distribution.entropy(dist_info)),
    ):
        if tuple(result.shape) != (bench.B,) or not torch.isfinite(result).all():
            bench.report.error(
                "likelihood",
                f"{name} of sampled actions is {result!r:.100}",
                f"return finite numbers [B], here [{bench.B}].",
            )
            return
    ratio = distribution.likelihood_ratio(action, dist_info, dist_info)
    if not torch.allclose(ratio, torch.ones(bench.B), atol=1e-4):
        bench.report.error(
            "likelihood",
            f"likelihood_ratio of a distribution with itself is {ratio!r:.100}",
            "return p_new(x) / p_old(x); of equal distributions that is 1.",
        )


def check_gradients(bench: AgentBench) -> None:
    """Every parameter gets a finite gradient from policy and value."""
    agent = bench.fresh()
    agent.train_mode(0)
    out = _call(bench, agent, bench.inputs)
    out = out if isinstance(out, tuple) else (out,)
    used = [leaf for leaf in leaves_of(tuple(out)) if leaf.requires_grad]
    parameters = [(name, p) for name, p in _named_parameters(agent) if p.requires_grad]
    if not used:
        bench.report.error(
            "gradients",
            "no output of __call__ depends on a parameter",
            "do not detach in __call__, and do not decorate it with no_grad.",
        )
        return
    loss = torch.stack([(leaf.float() ** 2).sum() for leaf in used]).sum()
    gradients = torch.autograd.grad(loss, [p for _, p in parameters], allow_unused=True)
    missing = [name for (name, _), g in zip(parameters, gradients, strict=True) if g is None]
    if missing:
        bench.report.warning(
            "gradients",
            f"no output depends on {listed(missing)}",
            "use these parameters, or leave them out.",
        )
    for (name, _), gradient in zip(parameters, gradients, strict=True):
        if gradient is not None and not torch.isfinite(gradient).all():
            bench.report.error(
                "gradients",
                f"the gradient of {name} is not finite",
                "look for log, sqrt and division near zero in the model.",
            )
            return


def _named_parameters(agent: Any) -> list[tuple[str, Any]]:
    if isinstance(agent.model, torch.nn.Module):
        known = {id(p): name for name, p in agent.model.named_parameters()}
    else:
        known = {}
    return [(known.get(id(p), f"parameter {i}"), p) for i, p in enumerate(agent.parameters())]


def check_state_dict(bench: AgentBench) -> None:
    """Another agent that loads the state acts the same."""
    agent, other = bench.fresh(), bench.fresh(seed=1)
    state = agent.state_dict()
    kept = {name: _copied(value) for name, value in flattened(state).items()}
    other.load_state_dict(state)
    usual, own = bench.run(agent), bench.run(other)
    for t in range(bench.T):
        found = difference(usual[t], own[t], close=True)
        if found:
            bench.report.error(
                "state-dict",
                f"an agent that loaded it acts otherwise at step {t}: {found}",
                "put everything that acting depends on into state_dict(): buffers of the model "
                "(register_buffer), running statistics, further networks.",
            )
            return
    again = flattened(other.state_dict())
    changed = [name for name, value in kept.items() if difference(value, again.get(name))]
    if changed:
        bench.report.error(
            "state-dict",
            f"after loading it, state_dict() has another {changed[0]}",
            "load every entry, and let acting change none.",
        )


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
