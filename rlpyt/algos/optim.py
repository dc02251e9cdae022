"""One gradient step: the only place that calls backward and an optimizer."""

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from rlpyt.algos.untrained import warn_without_gradient
from rlpyt.errors import NonFiniteError

CLIP_EPS = 1e-6  # as in torch.nn.utils
FEW_NUMBERS = 100_000  # in a model; below, an operation costs more to call than to compute


class GradientStep:
    """Backward, clip, check, step. Owned by an algorithm, one per optimizer.

    The first step warns of parameters that the loss does not depend on.

    Args:
        parameters: what is trained.
        OptimCls: a ``torch.optim`` class.
        learning_rate: its ``lr``.
        optim_kwargs: its further arguments. Unless they say otherwise, the fused
            implementation is taken where the class has one.
        clip_grad_norm: the gradient's norm is scaled down to this; ``None`` for no limit.
        names: parameter names, for messages.
        n_members: E networks in one, every parameter with a dimension of E first: each has a
            gradient norm, and a limit, of its own.

    Raises:
        TypeError: see ``checked_arguments``.
        ValueError: no parameter requires a gradient, or the optimizer refuses an argument.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        OptimCls: Any,
        learning_rate: float,
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = None,
        names: dict[torch.nn.Parameter, str] | None = None,
        n_members: int | None = None,
    ) -> None:
        self.n_members = n_members
        self.parameters = [p for p in parameters if p.requires_grad]
        if not self.parameters:
            raise ValueError("there is nothing to train: no parameter requires a gradient.")
        self.clip_grad_norm = clip_grad_norm
        self._base_learning_rate = learning_rate
        self._names = names or {}
        kwargs = checked_arguments(OptimCls, optim_kwargs)
        try:
            self.optimizer = OptimCls(self.parameters, lr=learning_rate, **kwargs)
        except (TypeError, ValueError) as error:
            given = dict(optim_kwargs or {}, lr=learning_rate)
            raise ValueError(f"{OptimCls.__name__} refuses {given}: {error}") from error
        self._begun = False

    def scale_learning_rate(self, factor: float) -> None:
        """Set the learning rate to ``factor`` times the one given at construction."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._base_learning_rate * factor

    def __call__(self, loss: torch.Tensor) -> torch.Tensor:
        """Take one step down the gradient of ``loss``; returns the gradient's norm before clipping.

        Returns:
            a scalar; [E] of ``n_members``.

        Raises:
            NonFiniteError: loss or gradient is NaN or infinite; parameters are left untouched.
            ValueError: the loss depends on no parameter at all.
        """
        if not loss.requires_grad:
            raise ValueError(
                "the loss depends on no parameter: look in the model's forward for detach(), "
                "torch.no_grad() or a way through numpy."
            )
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        if not self._begun:
            self._begun = True
            warn_without_gradient(self._name(p) for p in self.parameters if p.grad is None)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = total_norm(gradients) if self.n_members is None else member_norms(gradients)
        # Both: where errors are clipped, an infinite loss has a finite gradient.
        known = torch.cat((norm.reshape(-1), loss.detach().to(norm).reshape(1))).tolist()
        if not math.isfinite(sum(known)):
            raise NonFiniteError(self._diagnose(loss))
        if self.clip_grad_norm is not None and max(known[:-1]) > self.clip_grad_norm:
            self._clip(gradients, norm)
        self.optimizer.step()
        return norm

    def _clip(self, gradients: list[torch.Tensor], norm: torch.Tensor) -> None:
        assert self.clip_grad_norm is not None
        if self.n_members is None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_grad_norm, norm)
            return
        scale = (self.clip_grad_norm / (norm + CLIP_EPS)).clamp(max=1)
        for gradient in gradients:
            gradient.mul_(scale.reshape(-1, *[1] * (gradient.dim() - 1)))

    def _diagnose(self, loss: torch.Tensor) -> str:
        if not torch.isfinite(loss):
            return f"the loss is {loss.item()}"
        bad = [
            self._name(p)
            for p in self.parameters
            if p.grad is not None and not torch.isfinite(p.grad).all()
        ]
        return (
            f"the loss is {loss.item():g}, but the gradient is not finite in {', '.join(bad[:5])}"
        )

    def _name(self, parameter: torch.nn.Parameter) -> str:
        return self._names.get(parameter, f"a parameter of shape {tuple(parameter.shape)}")


def total_norm(gradients: list[torch.Tensor]) -> torch.Tensor:
    """The norm of all gradients together; of few numbers, by one operation on a copy of all."""
    few = 0 < sum(g.numel() for g in gradients) <= FEW_NUMBERS
    if not few or gradients[0].device.type != "cpu":
        return torch.nn.utils.get_total_norm(gradients)
    return torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in gradients]))  # type: ignore[no-any-return]


def member_norms(gradients: list[torch.Tensor]) -> torch.Tensor:
    """[E]: the norms of gradients [E, ...], for each of the E members."""
    norms = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
    return torch.linalg.vector_norm(torch.stack(norms), dim=0)  # type: ignore[no-any-return]


def checked_arguments(OptimCls: Any, optim_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of an optimizer beside parameters and learning rate.

    The fused implementation is added where the class has one and nothing else was asked for.

    Raises:
        TypeError: the optimizer does not take an argument; the message names both.
    """
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


def split_members(state: dict[str, Any], n_members: int) -> list[dict[str, Any]]:
    """The optimizer state of E networks in one, as that of an optimizer for each.

    Args:
        state: of an optimizer of parameters [E, ...].
        n_members: E.
    """

    def of(i: int, entry: Any) -> Any:
        return entry[i] if isinstance(entry, torch.Tensor) and entry.dim() else entry

    return [
        {
            **state,
            "state": {k: {n: of(i, x) for n, x in s.items()} for k, s in state["state"].items()},
        }
        for i in range(n_members)
    ]


def join_members(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The state that ``split_members`` split."""

    def joined(name: str, entries: list[Any]) -> Any:
        tensors = isinstance(entries[0], torch.Tensor) and name != "step"  # counted for all alike
        return torch.stack(entries) if tensors else entries[0]

    first = states[0]
    parts = {
        k: {n: joined(n, [s["state"][k][n] for s in states]) for n in entry}
        for k, entry in first["state"].items()
    }
    return {**first, "state": parts}
