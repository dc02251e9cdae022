"""The gradient step: the only place that calls backward and an optimizer."""

import copy
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rlpyt.algos.optim_state import merge_states, state_of
from rlpyt.algos.untrained import warn_without_gradient
from rlpyt.errors import NonFiniteError

CLIP_EPS = 1e-6  # as in torch.nn.utils
# Optimizers that no step here can take, and why.
UNUSABLE = {
    torch.optim.LBFGS: "evaluates the loss several times a step",
    torch.optim.SparseAdam: "wants sparse gradients, and those of networks are dense",
}
FINITE_REMEDY = (
    "Look for a learning rate that is too large, and for rewards or observations that are not "
    "finite or badly scaled."
)
FEW_NUMBERS = 100_000  # in a model; below, an operation costs more to call than to compute


@dataclass(frozen=True)
class Network:
    """Parameters with a gradient norm and limit of their own, among those of one step.

    Args:
        name: of the network.
        parameters: what is trained.
        n_members: E networks in one, every parameter with a dimension of E first: each has its own
            norm and limit.
        names: parameter names, for messages.
    """

    name: str
    parameters: list[torch.nn.Parameter]
    n_members: int | None = None
    names: dict[torch.nn.Parameter, str] = field(default_factory=dict)

    def norms(self) -> torch.Tensor | None:
        """Return norms of the gradients, [1] or [E], or ``None`` if there are none."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if not gradients:
            return None if self.parameters else torch.zeros(self.n_members or 1)
        if self.n_members is None:
            return total_norm(gradients).reshape(1)
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
        return torch.linalg.vector_norm(torch.stack(norms), dim=0)  # type: ignore[no-any-return]

    def clip(self, norms: torch.Tensor, limit: float) -> None:
        """Scale gradients whose norms are above the limit down to it."""
        if self.n_members is None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, limit, norms[0])
            return
        scale = (limit / (norms + CLIP_EPS)).clamp(max=1)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(scale.reshape(-1, *[1] * (parameter.dim() - 1)))


class GradientStep:
    """Backward, clip, check, step. Owned by an algorithm, one per optimizer.

    The first step warns of parameters that the loss does not depend on.

    Args:
        networks: what is trained together: parameters, or several `Network`.
        OptimCls: a ``torch.optim`` class.
        learning_rate: its ``lr``.
        optim_kwargs: its further arguments. Unless they say otherwise, the fused
            implementation is taken where the class has one.
        clip_grad_norm: the gradient's norm is scaled down to this; ``None`` for no limit.
        names: parameter names, for messages, where parameters were given.

    Raises:
        TypeError: see ``checked_arguments``.
        ValueError: no parameter requires a gradient, or the optimizer cannot train these, or
            refuses an argument.
    """

    def __init__(
        self,
        networks: Iterable[torch.nn.Parameter] | Sequence[Network],
        OptimCls: Any,
        learning_rate: float,
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = None,
        names: dict[torch.nn.Parameter, str] | None = None,
    ) -> None:
        given: list[Any] = list(networks)
        if not given or not isinstance(given[0], Network):
            given = [Network("", [p for p in given if p.requires_grad], names=names or {})]
        self.networks: list[Network] = given
        self.parameters = [p for network in self.networks for p in network.parameters]
        if not self.parameters:
            raise ValueError("there is nothing to train: no parameter requires a gradient.")
        self.clip_grad_norm = clip_grad_norm
        self._base_learning_rate = learning_rate
        self._names = {p: name for network in self.networks for p, name in network.names.items()}
        kwargs = checked_arguments(OptimCls, optim_kwargs)
        self._check_members(OptimCls)
        try:
            self.optimizer = OptimCls(self.parameters, lr=learning_rate, **kwargs)
        except (TypeError, ValueError) as error:
            settings = dict(optim_kwargs or {}, lr=learning_rate)
            name = getattr(OptimCls, "__name__", OptimCls)
            raise ValueError(f"{name} refuses {settings}: {error}") from error
        self._begun: set[str] = set()  # networks that had a gradient

    def _check_members(self, OptimCls: type[Any]) -> None:
        joined = [n.name for n in self.networks if n.n_members is not None]
        if joined and is_optimizer(OptimCls, torch.optim.Adafactor):
            raise ValueError(
                f"{OptimCls.__name__} keeps statistics of whole rows and columns, which would mix "
                f"the networks that are one model here ({', '.join(joined)}); use another OptimCls."
            )

    def scale_learning_rate(self, factor: float) -> None:
        """Set the learning rate to ``factor`` times the one given at construction."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._base_learning_rate * factor

    def __call__(self, loss: torch.Tensor) -> torch.Tensor:
        """Take one step down the gradient of ``loss``; return the gradient's norm before clipping.

        Raises:
            NonFiniteError: loss or gradient is NaN or infinite; parameters are left untouched.
            ValueError: the loss depends on no parameter at all.
        """
        (norms,) = self.descend(loss).values()
        return norms[0] if self.networks[0].n_members is None else norms

    def descend(self, losses: torch.Tensor | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Take one step down the gradient of a loss, or of the sum of several.

        Parameters without gradient are left as they are.

        Args:
            losses: a scalar, or scalars by names, for the message if one is not finite.

        Returns:
            gradient norms before clipping by names of networks: [1], [E] of a network with
            members, or [0] of a network without gradient.

        Raises:
            NonFiniteError, ValueError: as for a call.
        """
        parts = losses if isinstance(losses, Mapping) else {"": losses}
        loss, *others = parts.values()
        for other in others:
            loss = loss + other
        if not loss.requires_grad:
            raise ValueError(
                "the loss depends on no parameter: look in the model's forward for detach(), "
                "torch.no_grad() or a way through numpy."
            )
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        norms = [network.norms() for network in self.networks]
        found = [n for n in norms if n is not None]
        if not found:
            raise ValueError("the loss depends on no parameter that is trained here.")
        if len(self._begun) < len(self.networks):
            self._warn_without_gradient(norms)
        # Both: where errors are clipped, an infinite loss has a finite gradient.
        known = torch.cat((*found, loss.detach().to(found[0]).reshape(1))).tolist()
        if not math.isfinite(sum(known)):
            raise NonFiniteError(f"{self._diagnose(loss, parts)}. {FINITE_REMEDY}")
        if self.clip_grad_norm is not None and max(known[:-1]) > self.clip_grad_norm:
            for network, own in zip(self.networks, norms):
                if own is not None:
                    network.clip(own, self.clip_grad_norm)
        self.optimizer.step()
        names = [network.name for network in self.networks]
        return {k: loss.new_empty(0) if n is None else n for k, n in zip(names, norms, strict=True)}

    def _warn_without_gradient(self, norms: list[torch.Tensor | None]) -> None:
        """Warn of parameters without gradient in networks that got one for the first time."""
        for network, own in zip(self.networks, norms):
            if own is not None and network.name not in self._begun:
                self._begun.add(network.name)
                forgotten = (self._name(p) for p in network.parameters if p.grad is None)
                warn_without_gradient(forgotten, n_ranks())

    def state_dicts(self) -> dict[str, Any]:
        """Return the optimizer's state by names of networks."""
        state = self.optimizer.state_dict()
        if len(self.networks) == 1:
            return {self.networks[0].name: state}
        states, first = {}, 0
        for network in self.networks:
            states[network.name] = state_of(state, first, len(network.parameters))
            first += len(network.parameters)
        return states

    def load_state_dicts(self, states: dict[str, Any]) -> None:
        """Load what ``state_dicts`` returned, of these networks and possibly of others."""
        own = [states[network.name] for network in self.networks]
        self.load_state_dict(own[0] if len(own) == 1 else merge_states(own))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the optimizer's state.

        The learning rate stays the one given at construction: a run may continue with another.
        """
        # Torch keeps the given tensors and would update the caller's in place.
        self.optimizer.load_state_dict(copy.deepcopy(state))
        self.scale_learning_rate(1.0)  # schedules set theirs before the next step

    def _diagnose(self, loss: torch.Tensor, parts: Mapping[str, torch.Tensor]) -> str:
        if not torch.isfinite(loss):
            bad = [name for name, part in parts.items() if name and not torch.isfinite(part)]
            return f"the loss is {loss.item()}" + (f" ({' and '.join(bad)})" if bad else "")
        bad = [
            self._name(p)
            for p in self.parameters
            if p.grad is not None and not torch.isfinite(p.grad).all()
        ]
        where = f"in {', '.join(bad[:5])}" if bad else "in its norm, which overflows"
        return f"the loss is {loss.item():g}, but the gradient is not finite {where}"

    def _name(self, parameter: torch.nn.Parameter) -> str:
        return self._names.get(parameter, f"a parameter of shape {tuple(parameter.shape)}")


def n_ranks() -> int:
    """Return the number of processes that average their gradients."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1


def mean_over_ranks(number: torch.Tensor, world_size: int) -> torch.Tensor:
    """Return the mean of a number without gradient over the processes that train together."""
    if world_size > 1:
        torch.distributed.all_reduce(number)
        number = number / world_size
    return number


def total_norm(gradients: list[torch.Tensor]) -> torch.Tensor:
    """Return the norm of all gradients together; of few numbers, by one operation on a copy."""
    few = 0 < sum(g.numel() for g in gradients) <= FEW_NUMBERS
    if not few or gradients[0].device.type != "cpu":
        return torch.nn.utils.get_total_norm(gradients)
    return torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in gradients]))  # type: ignore[no-any-return]


def is_optimizer(OptimCls: Any, *classes: type[Any]) -> bool:
    """Return True if OptimCls, or the class in a ``functools.partial``, is one of these classes."""
    OptimCls = getattr(OptimCls, "func", OptimCls)
    return isinstance(OptimCls, type) and issubclass(OptimCls, classes)


def checked_arguments(OptimCls: Any, optim_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of an optimizer, but for parameters and learning rate.

    The fused implementation is added where the class has one and nothing else was asked for.

    Raises:
        TypeError: `OptimCls` is not callable, or does not accept an argument.
        ValueError: `OptimCls` is a class in ``UNUSABLE``.
    """
    if not callable(OptimCls):
        raise TypeError(
            f"OptimCls={OptimCls!r:.80} must be a class such as torch.optim.Adam; its arguments "
            "are optim_kwargs."
        )
    if not isinstance(OptimCls, type):  # custom functions check their own arguments
        return dict(optim_kwargs or {})
    for unusable, why in UNUSABLE.items():
        if issubclass(OptimCls, unusable):
            raise ValueError(f"OptimCls={OptimCls.__name__} cannot be used here: it {why}.")
    kwargs = dict(optim_kwargs or {})
    known = inspect.signature(OptimCls.__init__).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
    free = sorted(set(known) - {"self", "params", "lr"})
    unknown = [name for name in kwargs if not anything and name not in free]
    if "lr" in unknown:
        raise TypeError("optim_kwargs must not hold lr: it is the algorithm's learning_rate.")
    if unknown:
        raise TypeError(
            f"{OptimCls.__name__} does not take {unknown} (optim_kwargs); it takes {free}."
        )
    if "fused" in known and not {"fused", "foreach"} & set(kwargs):
        kwargs["fused"] = True
    return kwargs
