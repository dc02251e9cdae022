"""Helpers for building and copying models."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

DDP_PREFIX = "module."


def conv2d_output_shape(
    h: int,
    w: int,
    kernel_size: int | tuple[int, int] = 1,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int = 1,
) -> tuple[int, int]:
    """Return height and width after a convolution or pooling over an ``h`` x ``w`` image.

    Args:
        h, w: of the input, in pixels.
        kernel_size, stride, padding: one number, or (height, width).
        dilation: distance between kernel elements.
    """
    kernel, step, pad = _pair(kernel_size), _pair(stride), _pair(padding)

    def after(size: int, i: int) -> int:
        return (size + 2 * pad[i] - dilation * (kernel[i] - 1) - 1) // step[i] + 1

    return after(h, 0), after(w, 1)


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


class ScaleGrad(torch.autograd.Function):
    """Identity forward, gradient times ``scale`` backward; use it as ``scale_grad(x, scale)``.

    Dueling heads use it to balance the gradients of the value and the advantage branch in the
    layers they share (Wang et al. 2016, section 4.2).
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, scale: float) -> Tensor:
        """Return ``tensor``, and remember ``scale``."""
        ctx.scale = scale
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        """Scale the gradient; the scale itself gets none."""
        return grad_output * ctx.scale, None


scale_grad = ScaleGrad.apply


@torch.no_grad()
def update_state_dict(
    model: nn.Module, state_dict: Mapping[str, Any], tau: float = 1, strip_ddp: bool = True
) -> None:
    """Move a model's parameters and buffers towards ``state_dict``, in place.

    Args:
        model: its tensors become ``tau * new + (1 - tau) * old``.
        state_dict: of a model of the same structure.
        tau: in (0, 1]; 1 copies. Integer buffers (counters) are copied with any tau.
        strip_ddp: accept keys as ``DistributedDataParallel`` writes them.

    Raises:
        ValueError: tau is outside (0, 1].
        RuntimeError: the keys differ (from ``load_state_dict`` where tau is 1).
    """
    if not 0 < tau <= 1:
        raise ValueError(f"tau must be above 0 and at most 1 (1 copies), got {tau}.")
    new = strip_ddp_state_dict(state_dict) if strip_ddp else state_dict
    if tau == 1:
        model.load_state_dict(new)
        return
    old = model.state_dict()
    if old.keys() != new.keys():
        raise RuntimeError(f"state_dict differs in keys: {sorted(set(old) ^ set(new))}.")
    slow = [name for name, tensor in old.items() if tensor.is_floating_point()]
    torch._foreach_lerp_(
        [old[name] for name in slow], [new[name].to(old[name]) for name in slow], tau
    )
    for name in old.keys() - set(slow):
        old[name].copy_(new[name])


def unwrap_ddp(network: Any) -> Any:
    """Return the network without its ``DistributedDataParallel`` wrapper, if there is one."""
    wrapped = isinstance(network, nn.parallel.DistributedDataParallel)
    return network.module if wrapped else network


def updates_obs_rms(model: nn.Module) -> bool:
    """Return True if the model keeps observation statistics, by its method ``update_obs_rms``."""
    return hasattr(model, "update_obs_rms") and getattr(model, "normalize_observation", True)


def strip_ddp_state_dict(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the "module." that ``DistributedDataParallel`` puts before every key."""
    return {key.removeprefix(DDP_PREFIX): value for key, value in state_dict.items()}
