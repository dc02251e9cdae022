"""Losses and gradient steps of several agents as one computation, with the agents as an axis.

A loss is written for one agent. `AgentAxis` evaluates it for E agents by ``torch.func.vmap``: the
parameters, the settings that differ and the inputs of all agents are stacked, and each operation
runs once for all. Random numbers are drawn from each agent's own generator, as many and in the
order in which it would draw them alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from rlpyt.algos.axis_functions import AgentAxisMode, is_batched
from rlpyt.algos.axis_step import Place, StackedStep, gradients_of, stack_in_place
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.optim import GradientStep, check_losses, sum_of
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.processes import summary_of

TOLERANCE = 1e-3  # of the first evaluation, relative to the largest number


class Trainee(NamedTuple):
    """One of the agents: its algorithm, and the generator from which its losses draw."""

    algo: RlAlgorithm
    generator: torch.Generator


class Inputs(NamedTuple):
    """Arguments of a loss, trees of tensors, and their leaves."""

    arguments: tuple[Any, ...]
    leaves: list[Tensor]


class Stack:
    """Stacked tensors of some agents, whose own tensors are views of their rows.

    Attributes:
        places: places of the tensors of each agent.
        tensors: [E, ...], one of each place.
    """

    def __init__(self, places: list[list[Place]]) -> None:
        self.places = places
        self.tensors: list[Tensor] = []

    def update(self) -> None:
        """Stack those tensors that are not views of their rows, such as replaced ones."""
        own = [[owner[key] for owner, key in column] for column in zip(*self.places)]
        self.tensors = stack_in_place(own, self.tensors)


class AgentAxis:
    """Evaluates losses and takes gradient steps of several agents at once."""

    def __init__(self) -> None:
        self._places: dict[RlAlgorithm, list[Place]] = {}
        self._stacks: dict[tuple[int, ...], Stack] = {}
        self._steps: dict[tuple[int, ...], StackedStep] = {}
        # What the next gradient of an agent depends on: (stack, row), or None for its own tensors.
        self._used: dict[RlAlgorithm, set[tuple[Stack, int] | None]] = {}
        self._checked: set[Hashable] = set()
        self._alone: set[Hashable] = set()  # methods that are evaluated one by one

    def places(self, algo: RlAlgorithm) -> list[Place]:
        """Return the places of all tensors that a loss of this algorithm may read."""
        if algo not in self._places:
            self._places[algo] = places_of(algo)
        return self._places[algo]

    def signature(self, algo: RlAlgorithm) -> Hashable:
        """Return what two agents must have in common to be evaluated as one."""
        places = [(key, owner[key]) for owner, key in self.places(algo)]
        plain = ((k, v) for k, v in vars(algo).items() if v is None or isinstance(v, bool | str))
        shapes = tuple((key, x.shape, x.dtype) for key, x in places)
        return type(algo), type(algo.agent), shapes, tuple(plain)

    def losses(self, name: str, trainees: Sequence[Trainee], inputs: Sequence[Inputs]) -> list[Any]:
        """Evaluate a method of all algorithms.

        At the first time the results are compared with those of each agent alone.

        Args:
            name: name of the method, such as "loss".
            trainees: E agents with the same `signature`.
            inputs: arguments of the method for each agent, with leaves of the same shapes.

        Returns:
            The results of each agent; what the methods record is recorded.
        """
        kind = (type(trainees[0].algo), name)
        if kind in self._alone or len(trainees) == 1:
            return [self._evaluate_alone(name, t, x) for t, x in zip(trainees, inputs)]
        states = [] if kind in self._checked else [t.generator.get_state() for t in trainees]
        try:
            results = self._evaluate(name, trainees, inputs)
            why = self._difference(name, trainees, inputs, results, states) if states else ""
        except Exception as error:
            if kind in self._checked:
                raise
            why = summary_of(error)
        self._checked.add(kind)
        if not why:
            return results
        warnings.warn(
            f"{kind[0].__name__}.{name} is evaluated for one agent after the other, which takes as "
            f"long as in runs of their own, since it cannot be evaluated for all at once: {why}"
        )
        self._alone.add(kind)
        for trainee, state in zip(trainees, states):
            trainee.generator.set_state(state)
        return [self._evaluate_alone(name, t, x) for t, x in zip(trainees, inputs)]

    def _evaluate_alone(self, name: str, trainee: Trainee, inputs: Inputs) -> Any:
        self._used.setdefault(trainee.algo, set()).add(None)
        with drawing_from(trainee.generator):
            return getattr(trainee.algo, name)(*inputs.arguments)

    def _evaluate(
        self, name: str, trainees: Sequence[Trainee], inputs: Sequence[Inputs]
    ) -> list[Any]:
        algos = [t.algo for t in trainees]
        template, key = algos[0], tuple(map(id, algos))
        if key not in self._stacks:
            if len(self._stacks) > len(self._places):  # of groups that existed for a moment
                self._stacks.clear()
                self._steps.clear()
            self._stacks[key] = Stack([self.places(algo) for algo in algos])
        stack = self._stacks[key]
        stack.update()
        places = [*stack.places[0]]
        given = [
            x if owner[key].requires_grad else x.detach()
            for (owner, key), x in zip(places, stack.tensors)
        ]
        for number in differing_numbers(algos):
            places.append((vars(template), number))
            given.append(torch.tensor([vars(algo)[number] for algo in algos]))
        n = len(given)
        given += [torch.stack(xs) for xs in zip(*(x.leaves for x in inputs), strict=True)]
        mode = AgentAxisMode([t.generator for t in trainees])
        outer = template.recorded.current
        structure: list[Any] = []

        def call(*tensors: Tensor) -> list[Tensor]:
            remaining = iter(tensors[n:])
            arguments = filled(inputs[0].arguments, remaining)
            with in_places(places, tensors[:n]), mode:
                template.recorded.current = {}
                try:
                    result = as_tree(getattr(template, name)(*arguments))
                    recorded = template.recorded.current
                finally:
                    template.recorded.current = outer
            if any(map(is_batched, vars(template).values())):
                raise NotImplementedError(f"{name} stores a tensor in an attribute")
            structure[:] = [result, [*recorded]]
            return [*map(torch.as_tensor, all_leaves(result)), *recorded.values()]

        # "same", since the mode draws for each agent from its own generator.
        outputs = vmap(call, randomness="same")(*given)
        rows = [iter(row) for row in zip(*(x.unbind() for x in outputs), strict=True)]
        result, recorded = structure
        results = []
        for k, (algo, row) in enumerate(zip(algos, rows)):
            self._used.setdefault(algo, set()).add((stack, k))
            results.append(filled(result, row))
            algo.record(**dict(zip(recorded, row)))
        return results

    def _difference(
        self,
        name: str,
        trainees: Sequence[Trainee],
        inputs: Sequence[Inputs],
        results: Sequence[Any],
        states: Sequence[Tensor],
    ) -> str:
        """Return in words how results differ from those of each agent alone; empty: they do not."""
        for trainee, x, result, state in zip(trainees, inputs, results, states):
            algo, generator = trainee.algo, trainee.generator
            after = generator.get_state()
            generator.set_state(state)
            outer, algo.recorded.current = algo.recorded.current, {}
            try:
                with torch.no_grad(), drawing_from(generator):
                    expected = as_tree(getattr(algo, name)(*x.arguments))
            finally:
                algo.recorded.current = outer
            if not torch.equal(generator.get_state(), after):
                return "it draws other random numbers"
            for own, right in zip(all_leaves(result), all_leaves(expected), strict=True):
                a, b = own.detach().double(), torch.as_tensor(right).double()
                limit = TOLERANCE * max(1.0, float(b.abs().max())) if b.numel() else 0.0
                if a.shape != b.shape or not torch.allclose(a, b, 0, limit, equal_nan=True):
                    return f"its results differ by {float((a - b).abs().max()):.3g}"
        return ""

    def steps(
        self,
        trainees: Sequence[Trainee],
        steps: Sequence[GradientStep],
        losses: Sequence[Mapping[str, Tensor]],
    ) -> list[Any]:
        """Take a gradient step with each agent, to minimize the sum of its own losses.

        Args:
            trainees: E agents with the same `signature`.
            steps: the same step of each.
            losses: losses of each by name.

        Returns:
            What each step returns, or the error that it raises.
        """
        used = [self._used.pop(t.algo, {None}) for t in trainees]
        first = next(iter(used[0]))
        joined = first is not None and all(
            uses == {(first[0], k)} and is_scalar_loss(parts)
            for k, (uses, parts) in enumerate(zip(used, losses))
        )
        if not joined or first is None:
            return [self._step_alone(*x) for x in zip(trainees, steps, losses, used, strict=True)]
        stack = first[0]
        key = tuple(map(id, steps))
        if key not in self._steps:
            self._steps[key] = StackedStep(steps, stack.places)
        return self._steps[key].take(losses, stack.tensors)

    def _step_alone(
        self,
        trainee: Trainee,
        step: GradientStep,
        losses: Mapping[str, Tensor],
        used: set[tuple[Stack, int] | None],
    ) -> Any:
        """Take a step with one agent; return its result or error."""
        try:
            check_losses(losses)
            places = self.places(trainee.algo)
            own = [owner[key] for owner, key in places]
            # (tensor of which the loss is a function, parameter, its row or None)
            sources: list[tuple[Tensor, Tensor, int | None]] = []
            for use in used:
                tensors, row = (own, None) if use is None else (use[0].tensors, use[1])
                sources += [(x, p, row) for x, p in zip(tensors, own) if p.requires_grad]
            loss = sum_of(losses)
            found = gradients_of(loss, [x for x, _, _ in sources])
            for p in own:
                p.grad = None
            for g, (_, p, row) in zip(found, sources):
                if g is not None:
                    own_g = g if row is None else g[row]
                    p.grad = own_g if p.grad is None else p.grad + own_g
            return step.apply(loss, losses)
        except Exception as error:
            return error


def places_of(algo: RlAlgorithm) -> list[Place]:
    """Return the places of the tensors of an algorithm and its agent, each tensor once."""
    found: list[Place] = []
    seen: set[int] = set()

    def add(owner: Any) -> None:
        for key, x in owner.items():
            if isinstance(x, Tensor) and id(x) not in seen:
                seen.add(id(x))
                found.append((owner, key))

    for part in (algo.agent, algo):
        add(vars(part))
        for value in list(vars(part).values()):
            for module in value.modules() if isinstance(value, torch.nn.Module) else ():
                add(module._parameters)
                add(module._buffers)
    return found


def differing_numbers(algos: Sequence[RlAlgorithm]) -> list[str]:
    """Return the names of the settings that are not the same number in all algorithms."""
    first, *others = (vars(algo) for algo in algos)
    return [
        k
        for k, v in first.items()
        if isinstance(v, float) and k != "progress" and any(other[k] != v for other in others)
    ]


def all_leaves(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree, also those that are data besides its fields."""
    leaves: list[Tensor] = []
    buffer_func(tree, leaves.append)
    return leaves


def filled(tree: Any, leaves: Iterator[Tensor]) -> Any:
    """Return a tree with other leaves, in order."""
    if type(tree) is tuple and all(isinstance(x, Tensor) for x in tree):  # most results
        return tuple(next(leaves) for _ in tree)
    return buffer_func(tree, lambda _: next(leaves))


def as_tree(result: Any) -> Any:
    """Return a result with its lists as tuples."""
    return tuple(map(as_tree, result)) if type(result) in (list, tuple) else result


def is_scalar_loss(losses: Mapping[str, Any]) -> bool:
    """Return True if losses are scalars with a gradient."""
    try:
        check_losses(losses)
    except (TypeError, ValueError):
        return False
    return True


@contextmanager
def drawing_from(generator: torch.Generator) -> Any:
    """Let torch's default generator continue another one in a block."""
    default = torch.default_generator
    before = default.get_state()
    default.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(default.get_state())
        default.set_state(before)


@contextmanager
def in_places(places: Sequence[Place], tensors: Sequence[Tensor]) -> Any:
    """Put other tensors into these places for a block."""
    before = [owner[key] for owner, key in places]
    try:
        for (owner, key), x in zip(places, tensors):
            owner[key] = x
        yield
    finally:
        for (owner, key), x in zip(places, before):
            owner[key] = x
