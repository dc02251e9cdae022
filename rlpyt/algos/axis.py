"""Losses and gradient steps of several agents as one computation, with the agents as an axis.

A loss is written for one agent. `AgentAxis` evaluates it for E agents by ``torch.func.vmap``: the
parameters, the settings that differ and the inputs of all agents are stacked, and each operation
runs once for all. Random numbers are drawn from each agent's own generator, as many and in the
order in which it would draw them alone.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import warnings
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from rlpyt.algos.axis_functions import AgentAxisMode
from rlpyt.algos.axis_step import Place, StackedStep, gradients_of, stack_in_place
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.optim import GradientStep, check_losses
from rlpyt.distributions.base import Distribution
from rlpyt.models.utils import hooks_of, matmul_precision
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.checks import declared
from rlpyt.utils.processes import summary_of

TOLERANCE = 1e-3  # of the first evaluation, relative to the largest number
# Of a parameter's first gradient, relative to its norm: an input near the kink of a ReLU may change
# it, too, by the share of one sample. And relative to the norm of all.
GRADIENT_TOLERANCE, SMALL_GRADIENT = 0.1, 1e-5
CACHES = {"_flat_weights", "_flat_weight_refs"}  # of torch's LSTM, renewed in each forward pass
# Numbers of agents that differ between agents and change: of exploration, and counts.
NOT_IN_LOSSES = {"eps_init", "eps_final", "eps_final_min", "eps_eval", "eps_sample", "_epsilon"}
NOT_IN_LOSSES |= {"_version", "policy_updates"}
OF_MODULES = frozenset(vars(torch.nn.Module()))  # attributes of all modules
LONGEST = 1000  # elements of a container that are compared
ALONE = object()  # result of a loss that its agent has to evaluate itself


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

    def __init__(self, places: list[list[Place]], tensors: Sequence[Tensor] = ()) -> None:
        self.places = places
        self.tensors = tensors

    def updated(self) -> Stack:
        """Return a stack with those tensors stacked anew that are not views of their rows.

        Others have replaced them, or stacked them with those of other agents. A loss may still be
        a function of the tensors before.
        """
        own = [[owner[key] for owner, key in column] for column in zip(*self.places)]
        tensors = stack_in_place(own, self.tensors)
        same = len(tensors) == len(self.tensors) and all(map(is_, tensors, self.tensors))
        return self if same else Stack(self.places, tensors)


class AgentAxis:
    """Evaluates losses and takes gradient steps of several agents at once."""

    def __init__(self) -> None:
        self._places: dict[RlAlgorithm, list[Place]] = {}
        self._ties: dict[RlAlgorithm, list[tuple[Place, int]]] = {}
        self._stacks: dict[tuple[int, ...], Stack] = {}
        self._steps: dict[tuple[int, ...], StackedStep] = {}
        self._owners: dict[Any, StackedStep] = {}  # of optimizers' states
        # What the next gradient of an agent depends on: (stack, row), or None for its own tensors.
        self._used: dict[RlAlgorithm, set[tuple[Stack, int] | None]] = {}
        self._checked: set[tuple[str, RlAlgorithm]] = set()
        self._alone: set[Hashable] = set()  # methods that are evaluated one by one

    def forget(self, algo: RlAlgorithm) -> None:
        """Free what is kept of an agent that takes no further step."""
        self._places.pop(algo, None)
        self._ties.pop(algo, None)
        self._used.pop(algo, None)
        self._checked = {(name, other) for name, other in self._checked if other is not algo}
        self._forget_stacks()  # of groups with this agent, and of others, which are made again

    def _forget_stacks(self) -> None:
        self._stacks.clear()
        self._steps.clear()
        self._owners.clear()

    def places(self, algo: RlAlgorithm) -> list[Place]:
        """Return the places of all tensors that a loss of this algorithm may read."""
        if algo not in self._places:
            self._places[algo], self._ties[algo] = places_of(algo)
        return self._places[algo]

    def signature(self, algo: RlAlgorithm) -> Hashable:
        """Return what two agents must have in common to be evaluated as one, as it is now."""
        (places, ties), before = places_of(algo), self._places.get(algo, [])
        self._ties[algo] = ties
        same = (a[0] is b[0] and a[1] == b[1] for a, b in zip(places, before))
        if len(places) != len(before) or not all(same):
            self._places[algo] = places
            self._forget_stacks()
        tensors = [(key, owner[key]) for owner, key in places]
        plain = ((k, v) for k, v in vars(algo).items() if v is None or isinstance(v, bool | str))
        cls: Any = type(algo)
        given = ((k, vars(algo).get(k)) for k in sorted(discrete_settings(cls)))
        whole = ((k, repr(v)) for k, v in given if isinstance(v, int | tuple | list | dict))
        shapes = tuple((key, x.shape, x.dtype, x.requires_grad) for key, x in tensors)
        tied = tuple((key, i) for (_, key), i in ties)
        own = tuple(state_of_custom(algo))
        # A hook is called with one agent's tensors.
        apart = id(algo) if has_hooks(algo, [x for _, x in tensors]) else 0
        settings = (*plain, *whole), numbers_of(algo)
        return cls, type(algo.agent), shapes, tied, *settings, own, apart

    def losses(self, name: str, trainees: Sequence[Trainee], inputs: Sequence[Inputs]) -> list[Any]:
        """Evaluate a method of all algorithms.

        The first results of an agent are compared with those that it computes alone.

        Args:
            name: name of the method, such as "loss".
            trainees: E agents with the same `signature`.
            inputs: arguments of the method for each agent, with leaves of the same shapes.

        Returns:
            The results of each agent; what the methods record is recorded. ``ALONE`` for agents
            that have to call the method themselves.
        """
        kind, algos = (type(trainees[0].algo), name), [t.algo for t in trainees]
        # A new stack moves parameters, which a graph of an agent's own may need for its gradient.
        moves = tuple(map(id, algos)) not in self._stacks
        moves = moves and any(None in self._used.get(algo, ()) for algo in algos)
        if kind in self._alone or len(trainees) == 1 or moves:
            return self._let_each_evaluate(algos)
        check = any((name, algo) not in self._checked for algo in algos)
        states = [t.generator.get_state() for t in trainees]
        buffers = self._copies_of_buffers(algos) if check else []
        try:
            with matmul_precision("highest" if check else None):
                results, recorded, stack = self._evaluate(name, trainees, inputs, check)
                given = (trainees, inputs, results, states, buffers, stack)
                why = self._difference(name, *given) if check else ""
        except Exception as error:
            if not check:
                for trainee, state in zip(trainees, states):
                    trainee.generator.set_state(state)
                raise
            why = summary_of(error)
        self._checked.update((name, algo) for algo in algos)
        if not why:
            for k, (algo, statistics) in enumerate(zip(algos, recorded)):
                self._used.setdefault(algo, set()).add((stack, k))
                algo.record(**statistics)
            return results
        warnings.warn(
            f"{kind[0].__name__}.{name} is evaluated for one agent after the other, which takes as "
            f"long as in runs of their own, since it cannot be evaluated for all at once: {why}"
        )
        self._alone.add(kind)
        for trainee, state in zip(trainees, states):
            trainee.generator.set_state(state)
        restore(buffers)
        return self._let_each_evaluate(algos)

    def _let_each_evaluate(self, algos: Sequence[RlAlgorithm]) -> list[Any]:
        for algo in algos:
            self._used.setdefault(algo, set()).add(None)
        return [ALONE] * len(algos)

    def _copies_of_buffers(self, algos: Sequence[RlAlgorithm]) -> list[tuple[Tensor, Tensor]]:
        """Return tensors that a loss may change in place, such as statistics, and copies."""
        own = (owner[key] for algo in algos for owner, key in self.places(algo))
        return [(x, x.clone()) for x in own if not isinstance(x, torch.nn.Parameter)]

    def _evaluate(
        self, name: str, trainees: Sequence[Trainee], inputs: Sequence[Inputs], check: bool
    ) -> tuple[list[Any], list[dict[str, Tensor]], Stack]:
        """Return results and recorded statistics of each agent, and the stack they depend on.

        If checked, also changes inside of lists, dictionaries and arrays are refused.
        """
        if any(x.requires_grad for x in inputs[0].leaves):
            raise NotImplementedError("its arguments depend on the agent's parameters")
        algos = [t.algo for t in trainees]
        template, key = algos[0], tuple(map(id, algos))
        if key not in self._stacks:
            if len(self._stacks) > len(self._places):  # of groups that existed for a moment
                self._forget_stacks()
            self._stacks[key] = Stack([self.places(algo) for algo in algos])
        stack = self._stacks[key] = self._stacks[key].updated()
        places = [*stack.places[0]]
        given = [
            x if owner[key].requires_grad else x.detach()
            for (owner, key), x in zip(places, stack.tensors)
        ]
        for place, i in self._ties[template]:
            places.append(place)
            given.append(given[i])
        for number in differing_numbers(algos):
            places.append((vars(template), number))
            given.append(torch.tensor([vars(algo)[number] for algo in algos]))
        n = len(given)
        given += [torch.stack(xs) for xs in zip(*(x.leaves for x in inputs), strict=True)]
        mode = AgentAxisMode([t.generator for t in trainees])
        outer = template.recorded.current
        structure: list[Any] = []
        attributes = [(own, {**own}) for own in attributes_of(template)]
        contents = copies_of_containers(attributes) if check else []

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
                    replaced = any(o[key] is not x for (o, key), x in zip(places, tensors))
            if replaced or (changed := undone(attributes) + undone_inside(contents)):
                what = "a tensor" if replaced else f"the attribute {', '.join(changed)}"
                raise NotImplementedError(f"it changes {what}, of which each agent has its own")
            structure[:] = [result, [*recorded]]
            return [*map(torch.as_tensor, all_leaves(result)), *recorded.values()]

        # "same", since the mode draws for each agent from its own generator.
        outputs = vmap(call, randomness="same")(*given)
        rows = [iter(row) for row in zip(*(x.unbind() for x in outputs), strict=True)]
        result, recorded = structure
        results = [filled(result, row) for row in rows]  # the rows go on with the statistics
        return results, [dict(zip(recorded, row)) for row in rows], stack

    def _difference(
        self,
        name: str,
        trainees: Sequence[Trainee],
        inputs: Sequence[Inputs],
        results: Sequence[Any],
        states: Sequence[Tensor],
        buffers: Sequence[tuple[Tensor, Tensor]],
        stack: Stack,
    ) -> str:
        """Return in words how results or their gradients differ from those of each agent alone."""
        changed = [(x, x.clone()) for x, _ in buffers]
        restore(buffers)
        trained = [i for i, (owner, key) in enumerate(stack.places[0]) if owner[key].requires_grad]
        stacked = first_gradients(results, [stack.tensors[i] for i in trained], retain_graph=True)
        for k, (trainee, x, result, state) in enumerate(zip(trainees, inputs, results, states)):
            algo, generator = trainee.algo, trainee.generator
            after = generator.get_state()
            generator.set_state(state)
            outer, algo.recorded.current = algo.recorded.current, {}
            try:
                with drawing_from(generator):
                    expected = as_tree(getattr(algo, name)(*x.arguments))
            finally:
                algo.recorded.current = outer
            if not torch.equal(generator.get_state(), after):
                return "it draws other random numbers"
            for own, right in zip(all_leaves(result), all_leaves(expected), strict=True):
                a, b = own.detach().double(), torch.as_tensor(right).detach().double()
                limit = TOLERANCE * max(1.0, float(b.abs().max())) if b.numel() else 0.0
                if a.shape != b.shape or not torch.allclose(a, b, 0, limit, equal_nan=True):
                    return f"its results differ by {float((a - b).abs().max()):.3g}"
            places = [stack.places[k][i] for i in trained]
            alone = first_gradients([expected], [owner[key] for owner, key in places])
            small = SMALL_GRADIENT * float(sum(g.square().sum() for g in alone)) ** 0.5
            for (_, key), rows, g in zip(places, stacked, alone):
                differ, norm = float((rows[k] - g).norm()), float(g.norm())
                if differ > GRADIENT_TOLERANCE * norm + small:
                    return f"its gradients differ by {differ / (norm + small):.3g} ({key})"
        restore(changed)
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
        # Some may have stopped after the loss, for example by ``target_kl``.
        if (
            first is None
            or len(used) != len(first[0].places)
            or not all(
                uses == {(first[0], k)} and is_scalar_loss(parts)
                for k, (uses, parts) in enumerate(zip(used, losses))
            )
        ):
            return [self._step_alone(*x) for x in zip(trainees, steps, losses, used, strict=True)]
        stack = first[0]
        key = tuple(map(id, steps))
        if key not in self._steps:
            self._steps[key] = StackedStep(steps, stack.places, self._owners)
        try:
            return self._steps[key].take(losses, stack.tensors)
        except Exception as error:  # nothing can be repeated: graphs are gone
            return [error] * len(steps)

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
            if used == {None}:  # a function of its own tensors, with their hooks
                return step(losses)
            places = self.places(trainee.algo)
            own = [owner[key] for owner, key in places]
            # (tensor of which the loss is a function, parameter, its row or None)
            sources: list[tuple[Tensor, Tensor, int | None]] = []
            # Terms beside the losses, such as that of SAC's temperature, are functions of its own.
            for use in used | {None}:
                tensors, row = (own, None) if use is None else (use[0].tensors, use[1])
                sources += [(x, p, row) for x, p in zip(tensors, own) if p.requires_grad]
            loss = sum(losses.values(), torch.zeros(()))
            # Other agents' losses may be functions of the same graph.
            found = gradients_of(loss, [x for x, _, _ in sources], retain_graph=True)
            # A sum with the same gradients, as a function of the agent's own parameters.
            terms = [
                (p * (g if row is None else g[row])).sum()
                for g, (_, p, row) in zip(found, sources)
                if g is not None
            ]
            parts = {name: x.detach() for name, x in losses.items()}
            if terms:
                linear = torch.stack(terms).sum()
                name = next(iter(parts))
                parts[name] = parts[name] + (linear - linear.detach())
            return step(parts)
        except Exception as error:
            return error


def places_of(algo: RlAlgorithm) -> tuple[list[Place], list[tuple[Place, int]]]:
    """Return the places of the tensors of an algorithm and its agent.

    Returns:
        A place of each tensor, and the further places of tied ones, with the index of the first.
    """
    found: list[Place] = []
    ties: list[tuple[Place, int]] = []
    seen: dict[int, int] = {}

    dicts = (
        (own, own.get("_parameters", {}), own.get("_buffers", {})) for own in attributes_of(algo)
    )
    for owner in chain.from_iterable(dicts):
        for key, x in owner.items():
            if isinstance(x, Tensor):
                i = seen.setdefault(id(x), len(found))
                if i == len(found):
                    found.append((owner, key))
                else:
                    ties.append(((owner, key), i))
    return found, ties


def attributes_of(algo: RlAlgorithm) -> list[dict[str, Any]]:
    """Return the attributes of an algorithm, its agent and their modules."""
    parts = vars(algo.agent), vars(algo)
    return [*parts, *map(vars, modules_of(algo))]


def modules_of(algo: RlAlgorithm) -> dict[torch.nn.Module, None]:
    """Return the modules of an algorithm and its agent, in order."""
    own = (*vars(algo.agent).values(), *vars(algo).values())
    outer = (x for x in own if isinstance(x, torch.nn.Module))
    return {m: None for module in outer for m in module.modules()}


def numbers_of(algo: RlAlgorithm) -> tuple[float | str, ...]:
    """Return attributes of agent, distributions and modules that are numbers or strings."""
    agent = vars(algo.agent)
    parts = (x for x in agent.values() if isinstance(x, Distribution))
    owners = [agent, *map(vars, parts), *map(vars, modules_of(algo))]
    pairs = (pair for own in owners for pair in own.items() if pair[0] not in NOT_IN_LOSSES)
    return tuple(x for _, x in pairs if isinstance(x, int | float | str))


def first_gradients(
    results: Sequence[Any], inputs: Sequence[Tensor], retain_graph: bool = False
) -> list[Tensor]:
    """Return the gradients of the sum of all results; zeros where nothing depends on an input."""
    leaves = [x for result in results for x in all_leaves(result)]
    leaves = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
    total = sum((x.sum() for x in leaves), torch.zeros(()))
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if leaves and inputs:
        found = gradients_of(total, inputs, retain_graph)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]


def has_hooks(algo: RlAlgorithm, tensors: Sequence[Tensor]) -> bool:
    """Return True if users' hooks see values or gradients of the algorithm's or agent's modules."""
    own: list[Any] = [x._backward_hooks or x._post_accumulate_grad_hooks for x in tensors]
    return any(own) or any(any(hooks_of(m)) for m in modules_of(algo))


def custom_parts(algo: RlAlgorithm) -> list[Any]:
    """Return the algorithm, its agent and their modules, as far as their classes are custom."""
    parts = algo, algo.agent, *modules_of(algo)
    return [x for x in parts if not type(x).__module__.startswith(("rlpyt.", "torch."))]


def state_of_custom(algo: RlAlgorithm) -> Iterator[Hashable]:
    """Yield what a loss may read of custom parts besides tensors and the algorithm's fractions."""
    for part in custom_parts(algo):
        kinds = (Tensor, float, np.floating) if part is algo else Tensor
        for name, value in vars(part).items():
            if not (name in OF_MODULES or name in NOT_IN_LOSSES or isinstance(value, kinds)):
                yield name, comparable(value)


def comparable(x: Any, depth: int = 6) -> Hashable:
    """Return something that is equal for equal values of data in containers and own objects."""
    kind: Any = type(x)
    if x is None or isinstance(x, bool | int | float | str | np.generic):
        return x  # type: ignore[no-any-return]
    if isinstance(x, np.ndarray):
        return x.tobytes()
    if kind in (list, tuple, set, deque, dict):
        items = [*x.items()] if kind is dict else x
        fits = depth and len(x) <= LONGEST
        return tuple(comparable(y, depth - 1) for y in items) if fits else id(x)
    ours = kind.__module__.partition(".")[0] in ("rlpyt", "torch", "builtins")
    if ours or callable(x):  # modules are callable, too
        return id(x) if isinstance(x, Tensor) else kind  # the former: of its agent alone
    return kind, comparable({**getattr(x, "__dict__", {})}, depth - 1)


def undone(attributes: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Undo changes of attributes; return the names of those that were changed.

    Args:
        attributes: attributes of each object, and a copy of them.
    """
    names: list[str] = []
    for own, before in attributes:
        changed = (k for k in {**own, **before} if own.get(k, names) is not before.get(k, names))
        names += [k for k in changed if k not in CACHES]
        own.update(before)
        for name in own.keys() - before.keys():
            del own[name]
    return names


def copies_of_containers(
    attributes: Sequence[tuple[dict[str, Any], dict[str, Any]]],
) -> list[tuple[str, Any, Any]]:
    """Return name, value and copy of attributes that can change in place, without tensors."""
    kinds = list, dict, set, deque, np.ndarray
    named = (pair for own, _ in attributes for pair in own.items() if pair[0] not in CACHES)
    return [(name, x, copy.copy(x)) for name, x in named if isinstance(x, kinds)]


def undone_inside(contents: Sequence[tuple[str, Any, Any]]) -> list[str]:
    """Undo changes in place; return the names of the attributes that were changed."""
    changed = [own for own in contents if fingerprint(own[1]) != fingerprint(own[2])]
    for _, x, before in changed:
        if isinstance(x, np.ndarray):
            x[...] = before
        else:
            x.clear()
            (x.update if isinstance(x, dict | set) else x.extend)(before)
    return [name for name, _, _ in changed]


def fingerprint(container: Any) -> Any:
    """Return the bytes of an array, or the identities of what is in another container."""
    if isinstance(container, np.ndarray):
        return container.tobytes()
    values = container.values() if isinstance(container, dict) else ()
    return [*map(id, container), *map(id, values)]


def differing_numbers(algos: Sequence[RlAlgorithm]) -> list[str]:
    """Return the names of the settings that are not the same number in all algorithms."""
    first, *others = (vars(algo) for algo in algos)
    cls: Any = type(algos[0])
    real = real_settings(cls)
    return [
        k
        for k, v in first.items()
        if (isinstance(v, float | np.floating) or (type(v) is int and k in real))
        and k != "progress"
        and any(other[k] != v for other in others)
    ]


@cache
def discrete_settings(cls: Any) -> frozenset[str]:
    """Return the names of the settings of a loss that are no fractions, such as a tuple."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    names = {item.name for item in fields if item.init} | {*inspect.signature(cls).parameters}
    return frozenset(names - real_settings(cls) - {"optim_kwargs", "initial_optim_state_dict"})


@cache
def real_settings(cls: Any) -> frozenset[str]:
    """Return the names of the settings that may be fractions, although users may give an int."""
    return frozenset(name for name, item in declared(cls).items() if "float" in str(item.type))


def restore(copies: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy values back into tensors."""
    with torch.no_grad():
        for x, copy in copies:
            x.copy_(copy)


def all_leaves(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree, also those that are data besides its fields."""
    leaves: list[Tensor] = []

    def add(leaf: Any) -> None:
        if isinstance(leaf, dict):
            buffer_func(tuple(leaf.values()), add)
        else:
            leaves.append(leaf)

    buffer_func(tree, add)
    return leaves


def filled(tree: Any, leaves: Iterator[Tensor]) -> Any:
    """Return a tree with other leaves, in order."""
    if type(tree) is tuple and all(isinstance(x, Tensor) for x in tree):  # most results
        return tuple(next(leaves) for _ in tree)

    def fill(leaf: Any) -> Any:
        if isinstance(leaf, dict):
            return type(leaf)({name: buffer_func(part, fill) for name, part in leaf.items()})
        return next(leaves)

    return buffer_func(tree, fill)


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
