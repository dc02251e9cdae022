"""The same gradient step of several agents as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW

from rlpyt.algos.optim import CLIP_EPS, GradientStep
from rlpyt.models.unit_norm import project

Place = tuple[dict[str, Any], str]  # a dictionary with a tensor, and its key
# Updates in place, of the exact classes.
FUSED: dict[Any, Any] = {Adam: torch._fused_adam_, AdamW: torch._fused_adamw_}
SLOTS = ("step", "exp_avg", "exp_avg_sq")  # Adam's state of a parameter


def stack_in_place(own: Sequence[Sequence[Tensor]], stacks: Sequence[Tensor]) -> list[Tensor]:
    """Return stacks of tensors, after making the tensors views of their rows.

    Args:
        own: tensors of the same shape, for each stack.
        stacks: earlier stacks, which are used again if the tensors are still views of them.
    """
    result = []
    for i, tensors in enumerate(own):
        if i < len(stacks):
            stack = stacks[i]
            first, size = stack.data_ptr(), stack.stride(0) * stack.element_size()
            if all(x.data_ptr() == first + k * size for k, x in enumerate(tensors)):
                result.append(stack)
                continue
        stack = torch.stack([x.detach() for x in tensors])
        for x, row in zip(tensors, stack):
            x.data = row
        result.append(stack.requires_grad_(stack.is_floating_point()))
    return result


def gradients_of(
    loss: Tensor, inputs: Sequence[Tensor], retain_graph: bool = False
) -> list[Tensor | None]:
    """Return gradients in memory of their own, contiguous as fused optimizers expect.

    torch gives two tensors that are added, such as the biases of an LSTM, one gradient in common,
    which would be clipped twice.
    """
    result: list[Tensor | None] = []
    seen: set[int] = set()
    for g in torch.autograd.grad(loss, inputs, retain_graph=retain_graph, allow_unused=True):
        own = None if g is None else g.contiguous()
        if own is not None and own.data_ptr() in seen:
            own = own.clone()
        if own is not None:
            seen.add(own.data_ptr())
        result.append(own)
    return result


class StackedStep:
    """The same gradient step of several agents.

    Gradients, norms and clipping are computed for all agents at once, and Adam's update too, unless
    agents differ in what it depends on. The optimizers and their states remain each agent's own.

    Args:
        steps: the step of each agent.
        places: places of the tensors of each agent, of which ``take`` gets the stacks.
        owners: step that has stacked the state of each optimizer; shared by all steps.
    """

    def __init__(
        self,
        steps: Sequence[GradientStep],
        places: Sequence[Sequence[Place]],
        owners: dict[Any, StackedStep],
    ) -> None:
        self._steps, self._owners = steps, owners
        index = {id(owner[key]): i for i, (owner, key) in enumerate(places[0])}
        self._networks = [[index[id(p)] for p in n.parameters] for n in steps[0].networks]
        groups = steps[0].optimizer.param_groups
        self._groups = [[index[id(p)] for p in group["params"]] for group in groups]
        self._began = False
        self._places = places
        self._states: list[Tensor] = []  # stacked states of Adam
        self._trained: Any = None  # what they are the states of
        self._sources: list[Any] = []  # each optimizer's states, by parameter

    def take(self, losses: Sequence[Mapping[str, Tensor]], stacks: Sequence[Tensor]) -> list[Any]:
        """Take the steps.

        Args:
            losses: losses of each agent by name.
            stacks: stacked tensors of which they are functions.

        Returns:
            What the step of each agent returns, or the error that it raises.
        """
        steps = self._steps
        totals = torch.stack([sum(parts.values(), torch.zeros(())) for parts in losses])
        gradients = self._gradients(totals.sum(), stacks)
        norms = [self._norms(i, gradients) for i in range(len(self._networks))]
        rows = [[None if n is None else n[k] for n in norms] for k in range(len(steps))]
        if not self._began:
            self._give(range(len(steps)), gradients)  # the warning names parameters without one
            for step, row in zip(steps, rows):
                step.warn_without_gradient(row)
            self._began = True
        if all(n is None for n in norms):
            error = ValueError("the loss depends on no parameter of this optimizer.")
            return [error] * len(steps)
        present = [n for n in norms if n is not None]
        numbers = torch.cat((*present, totals.detach().unsqueeze(1)), 1).tolist()
        results: list[Any] = []
        for step, row, own, total in zip(steps, rows, numbers, totals):
            finite = math.isfinite(sum(own))
            results.append(step.by_network(row, total) if finite else None)
        sound = [k for k, result in enumerate(results) if result is not None]
        failed = set(range(len(steps))) - {*sound}
        self._give(failed, gradients)
        for k in failed:
            results[k] = steps[k].diagnose(totals[k], losses[k])
        self._clip(norms, numbers, gradients)
        if len(sound) < len(steps) or not self._adam(stacks, gradients):
            self._give(sound, gradients)
            for k in sound:
                steps[k].optimizer.step()
        else:
            for step in steps:
                project(step.vectors)
        return results

    def _gradients(self, total: Tensor, stacks: Sequence[Tensor]) -> list[Tensor | None]:
        """Return the gradient of a loss for each stack, [E, ...], or ``None``.

        Terms that were not evaluated for all agents at once, such as SAC's temperature loss, are
        functions of the agents' own parameters.
        """
        wanted = [i for i, x in enumerate(stacks) if x.requires_grad]
        own = [i for i in wanted if self._own(i) is not None]
        single = [x for i in own for x in self._own(i) or ()]
        inputs = [stacks[i] for i in wanted] + single
        found = iter(gradients_of(total, inputs))
        by_stack = {i: g for i in wanted if (g := next(found)) is not None}
        for i in own:
            rows = [next(found) for _ in self._steps]
            if any(g is not None for g in rows):
                parameters = self._own(i) or ()
                zeros = map(torch.zeros_like, parameters)
                stacked = torch.stack([z if g is None else g for g, z in zip(rows, zeros)])
                by_stack[i] = by_stack[i] + stacked if i in by_stack else stacked
        return [by_stack.get(i) for i in range(len(stacks))]

    def _own(self, index: int) -> list[Tensor] | None:
        """Return the agents' parameters of a stack, if their gradient is wanted."""
        own = [places[index][0][places[index][1]] for places in self._places]
        return own if own[0].requires_grad else None

    def _give(self, agents: Iterable[int], gradients: Sequence[Tensor | None]) -> None:
        """Give parameters of agents their gradients."""
        for k in agents:
            for network, indices in zip(self._steps[k].networks, self._networks):
                for p, i in zip(network.parameters, indices):
                    p.grad = None if (g := gradients[i]) is None else g[k]

    def _norms(self, network: int, gradients: Sequence[Tensor | None]) -> Tensor | None:
        """Return the norms of a network's gradients, [E, 1], or [E, M] of M members."""
        own = [g for i in self._networks[network] if (g := gradients[i]) is not None]
        if not own:
            return None
        if self._steps[0].networks[network].n_members is None:
            flat = torch.cat([g.flatten(1) if g.dim() > 1 else g.unsqueeze(1) for g in own], 1)
            return torch.linalg.vector_norm(flat, dim=1, keepdim=True)  # type: ignore[no-any-return]
        each = [torch.linalg.vector_norm(g.flatten(2), dim=2) for g in own]
        return torch.linalg.vector_norm(torch.stack(each), dim=0)  # type: ignore[no-any-return]

    def _clip(
        self,
        norms: Sequence[Tensor | None],
        numbers: Sequence[Sequence[float]],
        gradients: Sequence[Tensor | None],
    ) -> None:
        """Scale down the gradients of agents whose norm exceeds their limit."""
        limits = [math.inf if (c := s.clip_grad_norm) is None else c for s in self._steps]
        if not any(max(own[:-1]) > limit for own, limit in zip(numbers, limits)):
            return
        for own, indices in zip(norms, self._networks):
            if own is None:
                continue
            limit = torch.tensor(limits, dtype=own.dtype, device=own.device).unsqueeze(1)
            scale = (limit / (own + CLIP_EPS)).clamp(max=1).nan_to_num(nan=1.0)
            for g in (g for i in indices if (g := gradients[i]) is not None):
                g.mul_(
                    scale.reshape(*scale.shape, *[1] * (g.dim() - 2))
                    if g.dim() > 1
                    else scale[:, 0]
                )

    def _adam(self, stacks: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> bool:
        """Take all agents' steps of Adam at once; return False if that is not possible."""
        optimizers = [step.optimizer for step in self._steps]
        trained = [[i for i in group if gradients[i] is not None] for group in self._groups]
        options = [[plain_options(group) for group in o.param_groups] for o in optimizers]
        same_options = all(
            x == options[0] and type(o) is type(optimizers[0]) for x, o in zip(options, optimizers)
        )
        fused = FUSED.get(type(optimizers[0]))
        if fused is None or not same_options:
            return False
        decoupled = fused is torch._fused_adamw_
        if any(not x["fused"] or x["decoupled_weight_decay"] != decoupled for x in options[0]):
            return False
        if any(step.has_step_hooks for step in self._steps):
            return False
        n = sum(map(len, trained))
        if not self._stack_states(optimizers, trained):
            return False
        steps, first, second = (self._states[k : k + n] for k in range(0, 3 * n, n))
        rates = [[group["lr"] for group in o.param_groups] for o in optimizers]
        counts = torch.stack(steps)
        same = all(x == rates[0] for x in rates) and bool((counts == counts[0, 0]).all())
        with torch.no_grad():
            torch._foreach_add_(steps, 1)
            for k in range(1 if same else len(optimizers)):
                rows = slice(None) if same else slice(k, k + 1)
                done = 0
                for group, indices in enumerate(trained):
                    here = slice(done, done + len(indices))
                    done += len(indices)
                    if not indices:  # no gradient in this update
                        continue
                    settings = optimizers[k].param_groups[group]
                    fused(
                        [stacks[i].data[rows] for i in indices],
                        [g[rows] for i in indices if (g := gradients[i]) is not None],
                        [x[rows] for x in first[here]],
                        [x[rows] for x in second[here]],
                        [],
                        [x[k] for x in steps[here]],
                        amsgrad=False,
                        lr=settings["lr"],
                        beta1=settings["betas"][0],
                        beta2=settings["betas"][1],
                        weight_decay=settings["weight_decay"],
                        eps=settings["eps"],
                        maximize=settings["maximize"],
                    )
        return True

    def _stack_states(self, optimizers: Sequence[Any], trained: Sequence[Sequence[int]]) -> bool:
        """Stack Adam's states; return False before the first step, which creates them."""
        # Loading or clearing states replaces that of a parameter.
        sources = [state for o in optimizers for state in o.state.values()]
        owned = all(self._owners.get(o) is self for o in optimizers)
        same = len(sources) == len(self._sources) and all(map(is_, sources, self._sources))
        if owned and trained == self._trained and same:
            return True
        found: list[list[dict[str, Tensor]]] = []  # by parameter, then by agent
        for k, (group, indices) in enumerate(zip(self._groups, trained)):
            for j in (j for j, i in enumerate(group) if i in set(indices)):
                found.append([o.state[o.param_groups[k]["params"][j]] for o in optimizers])
        if not all(state.keys() == {*SLOTS} for states in found for state in states):
            return False
        own = [[state[slot] for state in states] for slot in SLOTS for states in found]
        with torch.no_grad():
            self._states = [x.requires_grad_(False) for x in stack_in_place(own, [])]
        self._trained, self._sources = trained, sources
        self._owners.update(dict.fromkeys(optimizers, self))
        return True


def plain_options(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a parameter group, except its learning rate."""
    return {k: v for k, v in group.items() if k not in ("params", "lr", "initial_lr")}
