"""The gradient step: the only place that calls backward and an optimizer."""

import copy
import inspect
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import torch

from rlpyt.algos.eager_optimizer import exclude_compiler, step_eagerly
from rlpyt.algos.optim_state import merge_states, state_of
from rlpyt.algos.untrained import warn_without_gradient
from rlpyt.errors import NonFiniteError, NonFiniteGradient
from rlpyt.models.unit_norm import Vectors, project
from rlpyt.utils.processes import keep_freed_memory

RATE = "learning_rate"  # name of the learning rate, if there is one
# Numbers of torch's optimizers for each element of a parameter.
OF_PARAMETERS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "sum")
CLIP_EPS = 1e-6  # as in torch.nn.utils
# Optimizers that `GradientStep` cannot use, with the reason.
UNUSABLE = {
    torch.optim.LBFGS: "evaluates the loss several times per step",
    torch.optim.SparseAdam: "wants sparse gradients, but those of networks are dense",
}
FINITE_REMEDY = (
    "Look for a learning rate that is too large, or rewards or observations that are not finite or "
    "badly scaled."
)
FEW_NUMBERS = 100_000  # parameters below which the overhead of operations dominates


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters of one network, with their own gradient norm and limit.

    Args:
        name: name of the network.
        parameters: parameters to train.
        n_members: E, if the network joins E networks in parameters [E, ...]; each member then has
            its own norm and limit.
        names: parameter names, for messages.
        rate: name of the learning rate, a setting.
        vectors: parameters to project to a constant length after each step.
        decays: False for parameters that are no weights, so that weight decay spares them.
    """

    name: str
    parameters: list[torch.nn.Parameter]
    n_members: int | None = None
    names: dict[torch.nn.Parameter, str] = field(default_factory=dict)
    rate: str = RATE
    vectors: list[Vectors] = field(default_factory=list)
    decays: bool = True

    def norms(self) -> torch.Tensor | None:
        """Return the gradient norms, [1] or [E], or ``None`` without gradients."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if not gradients:
            return None
        if self.n_members is None:
            return total_norm(gradients).reshape(1)
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
        return torch.linalg.vector_norm(torch.stack(norms), dim=0)  # type: ignore[no-any-return]

    def no_norms(self, like: torch.Tensor) -> torch.Tensor:
        """Return the norms without gradients: zeros if there is no parameter, otherwise [0]."""
        return like.new_empty(0) if self.parameters else like.new_zeros(self.n_members or 1)

    def clip(self, norms: torch.Tensor, limit: float) -> None:
        """Scale down gradients whose norm exceeds the limit."""
        if self.n_members is None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, limit, norms[0])
            return
        scale = (limit / (norms + CLIP_EPS)).clamp(max=1)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(scale.reshape(-1, *[1] * (parameter.dim() - 1)))


class GradientStep:
    """Gradient step of one optimizer: backward, check, clip and step.

    The first step warns of parameters on which the loss does not depend.

    Args:
        networks: parameters to train together, or several `ParameterGroup`.
        OptimCls: ``torch.optim`` class.
        learning_rate: learning rate of the optimizer, or several by their names.
        optim_kwargs: further arguments of the optimizer. By default, the fused implementation is
            used if the class has one.
        clip_grad_norm: maximum gradient norm; ``None``: no limit.
        names: parameter names for messages, if ``networks`` are parameters.

    Raises:
        TypeError: see ``checked_arguments``.
        ValueError: no parameter requires a gradient, or the optimizer rejects the parameters or an
            argument.
    """

    def __init__(
        self,
        networks: Iterable[torch.nn.Parameter] | Sequence[ParameterGroup],
        OptimCls: Any,
        learning_rate: float | Mapping[str, float],
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = None,
        names: dict[torch.nn.Parameter, str] | None = None,
    ) -> None:
        groups: list[Any] = list(networks)
        if not groups or not isinstance(groups[0], ParameterGroup):
            parameters = [p for p in groups if p.requires_grad]
            groups = [ParameterGroup("", parameters, names=names or {})]
        self.networks: list[ParameterGroup] = groups
        self.parameters = [p for network in self.networks for p in network.parameters]
        if not self.parameters:
            raise ValueError("there is nothing to train: no parameter requires a gradient.")
        if self.parameters[0].device.type == "cpu":
            keep_freed_memory()
        self.clip_grad_norm = clip_grad_norm
        one = not isinstance(learning_rate, Mapping)
        self._rates: dict[str, Any] = {RATE: learning_rate} if one else dict(learning_rate)  # type: ignore[arg-type]
        self._warned_of_rate = False
        self._names = {p: name for network in self.networks for p, name in network.names.items()}
        kwargs = checked_arguments(OptimCls, optim_kwargs)
        joined = [n.name for n in self.networks if n.n_members is not None]
        if joined and is_optimizer(OptimCls, torch.optim.Adafactor):
            raise ValueError(
                f"{OptimCls.__name__} keeps statistics of rows and columns, which would mix the "
                f"networks that share one model here ({', '.join(joined)}). Use another OptimCls."
            )
        # Consecutive networks with the same rate and decay are a parameter group of the optimizer.
        # A rate of 0, as at the start of a schedule, is set below: it would hide shares of groups.
        starts = {rate: value or 1.0 for rate, value in self._rates.items()}
        trained = [network for network in groups if network.parameters]
        decay = _weight_decay(OptimCls, kwargs)

        def kind(network: ParameterGroup) -> tuple[str, bool]:
            return network.rate, network.decays or not decay

        kinds = [(key, list(members)) for key, members in groupby(trained, kind)]
        first_rate = kinds[0][0][0]
        first = starts[first_rate]
        exclude_compiler()
        try:
            parts: Any = self.parameters
            if len(kinds) > 1:
                parts = [
                    {"params": [p for n in members for p in n.parameters], "lr": starts[rate]}
                    | ({} if decays else {"weight_decay": 0.0})
                    for (rate, decays), members in kinds
                ]
            self.optimizer = OptimCls(parts, lr=first, **kwargs)
        except (TypeError, ValueError) as error:
            settings = dict(optim_kwargs or {}, lr=first)
            name = getattr(OptimCls, "__name__", OptimCls)
            raise ValueError(f"{name} rejects {settings}: {error}") from error
        # A class may divide its parameters into groups, with rates in proportion to the one given.
        rate_of = {p: network.rate for network in trained for p in network.parameters}
        built = self.optimizer.param_groups
        self._group_rates = [
            next((rate_of[p] for p in group["params"] if p in rate_of), first_rate)
            for group in built
        ]
        self._shares = [group["lr"] / starts[n] for n, group in zip(self._group_rates, built)]
        self._set_rates = [group["lr"] for group in built]
        for name, value in self._rates.items():
            if not value:
                self.set_learning_rate(name, value)
        numbers = {p: i for i, p in enumerate(p for group in built for p in group["params"])}
        self._numbers = {
            n.name: [numbers[p] for p in n.parameters if p in numbers] for n in self.networks
        }
        step_eagerly(self.optimizer)
        self.vectors = [vectors for network in groups for vectors in network.vectors]
        if self.vectors:
            self.optimizer.register_step_post_hook(lambda *_: project(self.vectors))
        # Names of networks that had a gradient, or have nothing to train.
        self._with_gradient = {network.name for network in groups if not network.parameters}

    @property
    def has_step_hooks(self) -> bool:
        """Return True if others have registered hooks with steps of the torch optimizer."""
        before = self.optimizer._optimizer_step_pre_hooks
        return bool(before) or len(self.optimizer._optimizer_step_post_hooks) > bool(self.vectors)

    def set_learning_rate(self, name: str, value: float) -> None:
        """Set a learning rate, by its name; warn if other code has changed the optimizer's."""
        for i, group in enumerate(self.optimizer.param_groups):
            if self._group_rates[i] != name:
                continue
            own = value * self._shares[i]
            changed = group["lr"] != self._set_rates[i] and not math.isclose(group["lr"], own)
            if changed and not self._warned_of_rate:
                self._warned_of_rate = True
                warnings.warn(
                    f"lr={group['lr']:g} in optimizer.param_groups has no effect any more: the "
                    f"setting {name}, which has a schedule or was assigned, sets it to {own:g}. "
                    f"Assign the setting instead: algo.{name} = {group['lr']:g}.",
                    stacklevel=2,
                )
            group["lr"] = self._set_rates[i] = own
        self._rates[name] = value

    @property
    def learning_rates(self) -> dict[str, float]:
        """Return the optimizer's current learning rates, by name."""
        groups = self.optimizer.param_groups
        pairs = [(name, group["lr"]) for name, group in zip(self._group_rates, groups)]
        return dict(reversed(pairs))  # the first group of each

    def __call__(self, losses: torch.Tensor | Mapping[str, torch.Tensor]) -> Any:
        """Take one step to minimize a loss or the sum of several.

        Parameters without a gradient are not changed; nothing is in ``torch.inference_mode``.

        Args:
            losses: scalar, or scalars by name; names appear in the message if one is not finite.

        Returns:
            Gradient norm before clipping, [] or, of a network with members, [E]. Of several
            networks, a dictionary by name: [1], [E] for a network with members (0 if no parameter
            is trained), or [0] for a network without gradient.

        Raises:
            NonFiniteError: loss or gradient is NaN or infinite; parameters are unchanged.
            ValueError: the loss does not depend on any parameter, or is not a scalar.
            TypeError: a loss is not a tensor.
        """
        parts = losses if isinstance(losses, Mapping) else {"": losses}
        loss, *others = parts.values()
        try:
            for other in others:
                loss = loss + other
            if torch.is_inference_mode_enabled():  # see ``RlAlgorithm.explained``
                return self.by_network(
                    [loss.new_zeros(n.n_members or 1) for n in self.networks], loss
                )
            for parameter in self.parameters:
                parameter.grad = None
            loss.backward()  # type: ignore[no-untyped-call]
        except (AttributeError, TypeError, RuntimeError):
            check_losses(parts)
            raise
        norms = [network.norms() for network in self.networks]
        found = [n for n in norms if n is not None]
        if not found:
            raise ValueError("the loss depends on no parameter of this optimizer.")
        if len(self._with_gradient) < len(self.networks):
            self.warn_without_gradient(norms)
        # Check both: with clipped errors an infinite loss can have a finite gradient.
        if loss.device.type == "cpu":
            numbers = [x for n in found for x in n.tolist()] + [loss.item()]
        else:  # one transfer
            numbers = torch.cat((*found, loss.detach().to(found[0]).reshape(1))).tolist()
        if not math.isfinite(sum(numbers)):
            raise self.diagnose(loss, parts)
        if self.clip_grad_norm is not None and max(numbers[:-1]) > self.clip_grad_norm:
            for network, own in zip(self.networks, norms):
                if own is not None:
                    network.clip(own, self.clip_grad_norm)
        self.optimizer.step()
        return self.by_network(norms, loss)

    def by_network(self, norms: Sequence[torch.Tensor | None], loss: torch.Tensor) -> Any:
        """Return norms in the form in which a step returns them."""
        if len(norms) == 1 and norms[0] is not None:
            return norms[0] if self.networks[0].n_members is not None else norms[0][0]
        pairs = zip(self.networks, norms, strict=True)
        return {n.name: n.no_norms(loss) if own is None else own for n, own in pairs}

    def warn_without_gradient(self, norms: Sequence[torch.Tensor | None]) -> None:
        """Warn of parameters without gradient when a network gets its first gradient."""
        for network, own in zip(self.networks, norms):
            if own is not None and network.name not in self._with_gradient:
                self._with_gradient.add(network.name)
                forgotten = (self._name(p) for p in network.parameters if p.grad is None)
                warn_without_gradient(forgotten, n_ranks())

    def state_dicts(self) -> dict[str, Any]:
        """Return the optimizer's state, split by name of the network."""
        state = self.optimizer.state_dict()
        if len(self.networks) == 1:
            return {self.networks[0].name: state}
        return {n.name: state_of(state, self._numbers[n.name]) for n in self.networks}

    def load_state_dicts(self, states: dict[str, Any]) -> None:
        """Load states from ``state_dicts``; entries of other networks are ignored."""
        parts = [states[network.name] for network in self.networks]
        if len(parts) > 1:
            groups = self.optimizer.state_dict()["param_groups"]
            numbers = [self._numbers[network.name] for network in self.networks]
            parts = [merge_states(parts, numbers, groups)]
        self.load_state_dict(parts[0])

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the optimizer's state.

        Arguments of the optimizer, such as learning rates and weight decay, are not loaded, so that
        a run can be resumed with others.

        Raises:
            ValueError: another optimizer saved it.
        """
        own = [{**group} for group in self.optimizer.param_groups]
        # Copied because torch keeps the tensors and would update the caller's in place.
        self.optimizer.load_state_dict(copy.deepcopy(state))
        missing = [x for x in own[0] if x not in self.optimizer.param_groups[0]]
        if missing:
            raise ValueError(
                f"the saved state must be of {type(self.optimizer).__name__}, but it is of another "
                f"optimizer: it lacks {', '.join(missing)}. Use the OptimCls that saved it, or "
                "start a new run from the agent alone (--init-from)."
            )
        for p, values in self.optimizer.state.items():
            # Fused steps read and write beyond tensors of other shapes.
            for name, value in values.items():
                whole = name in OF_PARAMETERS
                shape = tuple(p.shape) if whole else ()
                known = whole or name == "step"
                if known and value is not None and np.shape(value) != shape:
                    raise TypeError(f"the optimizer's {name} must have shape {shape}")
                if whole and not isinstance(value, torch.Tensor | None):
                    raise TypeError(f"the optimizer's {name} must be a tensor, got {value!r}")
        arguments = inspect.signature(type(self.optimizer)).parameters.keys() - {"params"}
        for rate, group, given in zip(self._set_rates, self.optimizer.param_groups, own):
            group.update({k: given[k] for k in arguments & given.keys()}, lr=rate)

    def diagnose(self, loss: torch.Tensor, parts: Mapping[str, torch.Tensor]) -> NonFiniteError:
        """Return the error of a loss or gradient that is not finite."""
        if not torch.isfinite(loss):
            bad = [name for name, part in parts.items() if name and not torch.isfinite(part)]
            text = f"the loss is {loss.item()}" + (f" ({' and '.join(bad)})" if bad else "")
            return NonFiniteError(f"{text}. {FINITE_REMEDY}")
        bad = [
            self._name(p)
            for p in self.parameters
            if p.grad is not None and not torch.isfinite(p.grad).all()
        ]
        where = f"in {', '.join(bad[:5])}" if bad else "in its norm, which overflows"
        text = f"the loss is {loss.item():g}, but the gradient is not finite {where}"
        return NonFiniteGradient(f"{text}. {FINITE_REMEDY}")

    def _name(self, parameter: torch.nn.Parameter) -> str:
        return self._names.get(parameter, f"a parameter of shape {tuple(parameter.shape)}")


def check_losses(losses: Mapping[str, Any]) -> None:
    """Check that losses, by name, are scalar tensors with a gradient.

    Raises:
        TypeError: one is not a tensor.
        ValueError: one has several elements, or none depends on a parameter.
    """
    for name, loss in losses.items():
        what = f"the loss {name!r}" if name else "the loss"
        if not isinstance(loss, torch.Tensor):
            raise TypeError(
                f"{what} must be a scalar tensor, got a {type(loss).__name__}. Let loss return the "
                "loss, a tensor with gradient, as its first result."
            )
        if loss.numel() != 1:
            raise ValueError(
                f"{what} must be a scalar, got a tensor of shape {tuple(loss.shape)}. Take its "
                "mean(), or valid_mean over valid samples."
            )
    if not any(loss.requires_grad for loss in losses.values()):
        raise ValueError(
            "the loss depends on no parameter. Look in loss and in the model's forward for "
            "detach(), torch.no_grad() or numpy operations."
        )


def n_ranks() -> int:
    """Return the number of processes that average their gradients."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if together else 1


def mean_over_ranks(number: torch.Tensor, world_size: int) -> torch.Tensor:
    """Return the mean of a number over all ranks, without gradient."""
    if world_size > 1:
        torch.distributed.all_reduce(number)
        number = number / world_size
    return number


def total_norm(gradients: list[torch.Tensor]) -> torch.Tensor:
    """Return the total norm of gradients; for few numbers, by one operation on a copy."""
    few = 0 < sum([g.numel() for g in gradients]) <= FEW_NUMBERS
    if not few or gradients[0].device.type != "cpu":
        return torch.nn.utils.get_total_norm(gradients)
    return torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in gradients]))  # type: ignore[no-any-return]


def is_optimizer(OptimCls: Any, *classes: type[Any]) -> bool:
    """Return True if OptimCls, or the class of a partial, is a subclass of one of ``classes``."""
    OptimCls = getattr(OptimCls, "func", OptimCls)
    return isinstance(OptimCls, type) and issubclass(OptimCls, classes)


def _weight_decay(OptimCls: Any, kwargs: Mapping[str, Any]) -> Any:
    """Return the weight decay of an optimizer with these arguments; 0 if it is not known."""
    known = inspect.signature(OptimCls).parameters if isinstance(OptimCls, type) else {}
    default = known["weight_decay"].default if "weight_decay" in known else 0
    return kwargs.get("weight_decay", default)


def checked_arguments(OptimCls: Any, optim_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Check and return the arguments of an optimizer, except parameters and learning rate.

    Add ``fused=True`` if the class supports it and the arguments choose no implementation.

    Raises:
        TypeError: `OptimCls` is not callable, or does not accept an argument.
        ValueError: `OptimCls` is a class in ``UNUSABLE``.
    """
    if not callable(OptimCls):
        raise TypeError(
            f"OptimCls={OptimCls!r:.80} must be a class such as torch.optim.Adam. Pass its "
            "arguments as optim_kwargs."
        )
    if not isinstance(OptimCls, type):  # custom functions check their own arguments
        return dict(optim_kwargs or {})
    for unusable, why in UNUSABLE.items():
        if issubclass(OptimCls, unusable):
            raise ValueError(f"OptimCls={OptimCls.__name__} cannot be used here: it {why}.")
    kwargs = dict(optim_kwargs or {})
    parameters = inspect.signature(OptimCls.__init__).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    free = sorted(set(parameters) - {"self", "params", "lr"})
    unknown = [name for name in kwargs if not anything and name not in free]
    if "lr" in unknown:
        raise TypeError("optim_kwargs must not hold lr. Use the algorithm's learning_rate.")
    if unknown:
        raise TypeError(
            f"{OptimCls.__name__} does not take {unknown} (optim_kwargs). Use some of {free}."
        )
    if "fused" in parameters and not {"fused", "foreach"} & set(kwargs):
        kwargs["fused"] = True
    return kwargs
