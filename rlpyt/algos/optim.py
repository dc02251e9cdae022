"""One gradient step: the only place that calls backward and an optimizer."""

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch

from rlpyt.errors import NonFiniteError


class GradientStep:
    """Backward, clip, check, step. Owned by an algorithm, one per optimizer.

    Args:
        parameters: what is trained.
        OptimCls: a ``torch.optim`` class.
        learning_rate: its ``lr``.
        optim_kwargs: its further arguments. Unless they say otherwise, the fused
            implementation is taken where the class has one.
        clip_grad_norm: the gradient's norm is scaled down to this; ``None`` for no limit.
        names: parameter names, for error messages.

    Raises:
        TypeError: the optimizer does not take an argument; the message names both.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        OptimCls: Any,
        learning_rate: float,
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = None,
        names: dict[torch.nn.Parameter, str] | None = None,
    ) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        if not self.parameters:
            raise ValueError("there is nothing to train: no parameter requires a gradient.")
        self.clip_grad_norm = clip_grad_norm
        self._base_learning_rate = learning_rate
        self._names = names or {}
        kwargs = dict(optim_kwargs or {})
        known = inspect.signature(OptimCls.__init__).parameters
        unknown = set(kwargs) - set(known)
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise TypeError(
                f"{OptimCls.__name__} does not take {sorted(unknown)} (optim_kwargs); it takes "
                f"{sorted(set(known) - {'self', 'params'})}."
            )
        if "fused" in known and not {"fused", "foreach"} & set(kwargs):
            kwargs["fused"] = True
        self.optimizer = OptimCls(self.parameters, lr=learning_rate, **kwargs)

    def scale_learning_rate(self, factor: float) -> None:
        """Set the learning rate to ``factor`` times the one given at construction."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._base_learning_rate * factor

    def __call__(self, loss: torch.Tensor) -> torch.Tensor:
        """Take one step down the gradient of ``loss``; returns the gradient's norm before clipping.

        Raises:
            NonFiniteError: loss or gradient is NaN or infinite; parameters are left untouched.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not math.isfinite(norm.item()):
            raise NonFiniteError(self._diagnose(loss))
        if self.clip_grad_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_grad_norm, norm)
        self.optimizer.step()
        return norm

    def _diagnose(self, loss: torch.Tensor) -> str:
        if not torch.isfinite(loss):
            return f"the loss is {loss.item()}"
        bad = [
            self._names.get(p, f"parameter {i} of shape {tuple(p.shape)}")
            for i, p in enumerate(self.parameters)
            if p.grad is not None and not torch.isfinite(p.grad).all()
        ]
        return (
            f"the loss is {loss.item():g}, but the gradient is not finite in {', '.join(bad[:5])}"
        )
