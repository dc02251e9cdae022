"""How an agent acts: shapes, rows, noise, the likeliest action, the numpy path."""

from typing import Any

import numpy as np
import torch

from rlpyt.distributions.base import Distribution
from rlpyt.testing.agent_bench import AgentBench
from rlpyt.testing.inspection import described, leaf_spaces
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import difference, finite, layout_of, row_of
from rlpyt.utils.buffer import _named_leaves, leaves_of
from rlpyt.utils.collections import is_namedarraytuple


def check_step(bench: AgentBench) -> None:
    """Actions and records of every environment, at every step."""
    _check_form(bench, bench.fresh())
    results = bench.run(bench.fresh())
    for t, (action, info) in enumerate(results):
        _check_actions(bench, action)
        for what, tree in (("action", action), ("agent_info", info)):
            path = finite(tree)
            if path is not None:
                bench.report.error(
                    "step",
                    f"step {t}: {what} {path} is not finite",
                    "look at the model's head of that name, its first weights and the scale of "
                    "observations.",
                )
        layout = (getattr(info, "_fields", ()), layout_of(info))
        first = (getattr(results[0][1], "_fields", ()), layout_of(results[0][1]))
        if layout != first:
            bench.report.error(
                "step",
                f"step {t}: agent_info is {described(layout)}, at first {described(first)}",
                "record the same fields, shapes and dtypes at every step: memory is laid out once.",
            )


def _check_form(bench: AgentBench, agent: Any) -> None:
    """One step outside of samplers, where tensors can be looked at."""
    torch.default_generator.manual_seed(bench.seed)
    step: Any = agent.step(*bench.at(0))
    if getattr(step, "_fields", ()) != ("action", "agent_info"):
        bench.report.error(
            "step",
            f"step() returned {type(step).__name__} {step!r:.80}",
            "return rlpyt.agents.base.AgentStep(action, agent_info).",
        )
        raise Stop
    for path, leaf in _named_leaves(step):
        if not isinstance(leaf, torch.Tensor):
            bench.report.error(
                "step", f"{path} is a {type(leaf).__name__}", "return tensors on the CPU."
            )
            raise Stop
        if leaf.device.type != "cpu":
            bench.report.error(
                "step", f"{path} is on {leaf.device}", "return tensors on the CPU: buffer_to(...)."
            )
            raise Stop
        if leaf.dim() == 0 or leaf.shape[0] != bench.B:
            bench.report.error(
                "step",
                f"{path} has shape {tuple(leaf.shape)} for {bench.B} environments",
                "give every output the leading dimension [B] of its inputs.",
            )
            raise Stop
        if leaf.requires_grad:
            bench.report.warning(
                "step",
                f"{path} carries a graph",
                "decorate step with torch.no_grad(): who plays with the agent outside of a sampler "
                "keeps every graph.",
            )
    if not _records(step.agent_info):
        bench.report.error(
            "step",
            f"agent_info is {type(step.agent_info).__name__}, not namedarraytuples throughout",
            'make its types by namedarraytuple("AgentInfo", [...]): algorithms index all fields.',
        )
    _check_heads(bench, agent, step.agent_info)


def _records(info: Any) -> bool:
    """Whether all named parts are namedarraytuples."""
    if not isinstance(info, tuple):
        return True
    return is_namedarraytuple(info) and all(_records(part) for part in tuple(info))


def _check_heads(bench: AgentBench, agent: Any, info: Any) -> None:
    value = getattr(info, "value", None)
    if isinstance(value, torch.Tensor) and value.shape != (bench.B,):
        bench.report.error(
            "step",
            f"agent_info.value has shape {tuple(value.shape)} for {bench.B} environments",
            "squeeze the value head's last dimension: [B].",
        )
    dim = getattr(agent.distribution, "dim", None)
    for name in ("prob", "mean"):
        head = getattr(getattr(info, "dist_info", None), name, None)
        if dim is not None and head is not None and tuple(head.shape) != (bench.B, dim):
            bench.report.error(
                "step",
                f"agent_info.dist_info.{name} has shape {tuple(head.shape)}, expected "
                f"{(bench.B, dim)}",
                "let the policy head have an output per action (discrete) or component.",
            )


def _check_actions(bench: AgentBench, action: Any) -> None:
    for b in range(bench.B):
        parts = leaves_of(row_of(action, b))
        spaces = leaf_spaces(bench.spaces.action, "action")
        if len(parts) != len(spaces):
            bench.report.error(
                "step",
                f"the action has {len(parts)} parts, its space {len(spaces)}",
                "give an action with the structure of the action space.",
            )
            return
        for (path, space), part in zip(spaces, parts, strict=True):
            _check_action(bench, path, space, part)


def _check_action(bench: AgentBench, path: str, space: Any, action: Any) -> None:
    kind = np.dtype(space.dtype).kind
    if action.shape != tuple(space.shape):
        said = f"has shape {action.shape} for one environment; its space {tuple(space.shape)}"
    elif kind != "f" and action.dtype.kind not in "iub":
        said = f"is of dtype {action.dtype}; its space has {space.dtype}"
    elif kind != "f" and not space.contains(action.astype(space.dtype)):
        said = f"is {action}, which is not in {space}"
    else:  # continuous ones may leave the bounds: they are clipped for the environment
        return
    bench.report.error(
        "step", f"{path} {said}", "make the policy's output fit the action space it was given."
    )


def check_value(bench: AgentBench) -> None:
    """Values for bootstrapping."""
    agent = bench.fresh()
    if not hasattr(agent, "value"):
        bench.report.open("value", "there is none; algorithms that bootstrap cannot use this agent")
        return
    undisturbed = bench.run(bench.fresh())
    for t in range(bench.T):
        with torch.inference_mode():
            value, again = agent.value(*bench.at(t)), agent.value(*bench.at(t))
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != (bench.B,):
            shape = getattr(value, "shape", None)
            bench.report.error(
                "value",
                f"value() returned {type(value).__name__} of shape {shape}",
                f"return a tensor [B], here [{bench.B}], on the CPU.",
            )
            raise Stop
        action, info = bench.act(agent, t)
        if finite(value) is not None:
            bench.report.error(
                "value", f"value() is not finite: {value}", "look at the model's value head."
            )
        if difference((action, info), undisturbed[t], close=True) or difference(
            value, again, close=True
        ):
            bench.report.error(
                "value",
                f"at step {t} the agent acted otherwise after value() was asked",
                "let value() read the memory and leave it as it is.",
            )
            return
        recorded = getattr(info, "value", None)
        found = None if recorded is None else difference(recorded, value, close=True)
        if found:
            bench.report.error(
                "value",
                f"step {t}: agent_info.value and value() of the same inputs differ: {found}",
                "compute both in one way: one is V(s_t) for the algorithm, the other V(s_{t+1}).",
            )


def check_rows(bench: AgentBench) -> None:
    """Environments in another order, or among others, get the same."""
    usual = bench.run(bench.fresh())
    noise_is_theirs = bench.fresh().noise_spec is not None
    for order in ([*range(1, bench.B), 0], [0] * bench.B):
        turned = bench.run(bench.fresh(), order)
        for t in range(bench.T):
            for i, b in enumerate(order):
                own, other = row_of(usual[t], b), row_of(turned[t], i)
                if not noise_is_theirs:  # drawn from torch's generator, in the order of rows
                    own, other = own[1], other[1]
                found = difference(own, other, close=True)
                if found:
                    bench.report.error(
                        "rows",
                        f"step {t}: with rows {order} instead of {list(range(bench.B))}, "
                        f"environment {b} got something else: {found}",
                        "treat rows alone: no statistics over the batch while acting, no index "
                        "fixed to a place.",
                    )
                    return


def check_noise(bench: AgentBench) -> None:
    """The same noise gives the same action, whatever torch's generator does."""
    agent = bench.fresh()
    spec = agent.noise_spec
    if spec is None:
        bench.report.open(
            "noise",
            "the distribution takes no noise from outside: actions come from torch's generator, "
            "and differ between numbers of workers",
        )
        return
    for t in range(bench.T):
        actions = []
        for seed in (1, 2):
            own = bench.fresh()
            bench.run(own, T=t)
            torch.default_generator.manual_seed(1000 * seed + t)
            own.set_noise(torch.from_numpy(bench.noise(spec, t)))
            with torch.inference_mode():
                actions.append(own.step(*bench.at(t))[0])
        found = difference(actions[0], actions[1])
        if found:
            bench.report.error(
                "noise",
                f"step {t}: the same noise gave two actions: {found}",
                "let sample() compute actions of what set_noise() was given (noise_spec says what "
                "that is), and draw nothing itself.",
            )
            return


def check_deterministic(bench: AgentBench) -> None:
    """In evaluation, with ``deterministic`` set, noise has no influence."""
    agent = bench.fresh()
    mode = getattr(type(agent.distribution), "mode", None)
    if mode is None or mode is Distribution.mode:
        bench.report.open("deterministic", "the distribution has no likeliest action")
        return
    actions = []
    for seed in (1, 2, 3):
        agent = bench.fresh()
        agent.deterministic = True
        agent.eval_mode(0)
        actions.append([bench.act(agent, t, noise_seed=seed)[0] for t in range(bench.T)])
    found = next((d for other in actions[1:] for d in _differences(actions[0], other)), None)
    if found:
        bench.report.error(
            "deterministic",
            f"with deterministic set, actions in evaluation depend on the noise: {found}",
            "in eval_mode take distribution.mode(dist_info) if self.deterministic.",
        )


def _differences(a: list[Any], b: list[Any]) -> list[str]:
    found = [difference(x, y) for x, y in zip(a, b, strict=True)]
    return [text for text in found if text]


def check_fast_policy(bench: AgentBench) -> None:
    """Where it acts in numpy, it acts as ``step`` does."""
    agent = bench.fresh()
    policy = agent.fast_policy()
    if policy is None:
        bench.report.open("fast-policy", "there is none for this model")
        return
    for t in range(bench.T):
        action, info = bench.act(agent, t)
        observation = bench.at(t).observation.numpy()
        own, parameters, value = policy(observation, bench.noise(agent.noise_spec, t))
        ours = [np.asarray(x) for x in (own, *parameters, value)]
        found = difference(tuple(ours), (*leaves_of(action), *leaves_of(info)), close=True)
        if found:
            bench.report.error(
                "fast-policy",
                f"step {t}: fast_policy() and step() differ: {found}",
                "bring the numpy functions in line with the model and the distribution, or pass "
                "fast_acting=False.",
            )
            return
