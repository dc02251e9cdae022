"""Helpers for building and copying models."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.names import UnknownName

Nonlinearity = str | Callable[[], nn.Module]  # name or class of an activation function

DDP_PREFIX = "module."
_BUILT: WeakSet[nn.Module] = WeakSet()  # what functions returned so far, see `own_module`
# Modules of torch.nn.modules.activation that are no elementwise functions without arguments.
NO_NONLINEARITIES = (
    *("GLU", "MultiheadAttention", "Threshold", "Softmax", "Softmax2d", "Softmin", "LogSoftmax"),
)


def module_not_finite(networks: Mapping[str, nn.Module], call: Callable[[], object]) -> str:
    """Find the module where the first NaN or infinite number arises, after an error.

    Args:
        networks: networks by the prefix of their modules' names.
        call: repeats what failed; interrupted at the first such output of a module.

    Returns:
        Class and name of the module, and whether its input was finite, or an empty string.
    """
    named = (network.named_modules(prefix=prefix) for prefix, network in networks.items())
    names = {module: name for modules in named for name, module in modules}
    origin = ""

    def finite(tree: object) -> bool:
        tensors = [x for x in leaves_of(tree) if isinstance(x, Tensor) and x.is_floating_point()]
        return all(bool(torch.isfinite(x).all()) for x in tensors)

    def check(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        nonlocal origin
        if not finite(output):
            origin = f"{type(module).__name__}, module {names[module]!r}"
            # Others are states, which may come from this module.
            origin += "" if finite(inputs[:1]) else ", whose input is not finite already"
            raise ArithmeticError

    hooks = [module.register_forward_hook(check) for module in names]
    with contextlib.suppress(Exception):
        call()
    for hook in hooks:
        hook.remove()
    return origin


def own_module(module: Any, function: Any) -> Any:
    """Return a module that no other network has: a copy, if it was returned before.

    Targets are frozen and agents train on their own, so networks must not share it, unless it has
    neither parameters nor buffers.
    """
    if not isinstance(module, nn.Module) or not [*module.parameters(), *module.buffers()]:
        return module
    if module in _BUILT:
        warnings.warn(
            f"{getattr(function, '__name__', function)} returned a {type(module).__name__} that it "
            "had returned before; this network gets a copy. Return a new one at each call, for "
            "example copy.deepcopy(net)."
        )
        module = copy.deepcopy(module)
    _BUILT.add(module)
    return module


def nonlinearity_class(nonlinearity: Nonlinearity) -> Callable[[], nn.Module]:
    """Return the class of a nonlinearity, which may be given by its name in ``torch.nn``.

    Raises:
        UnknownName: torch has no such activation function.
        TypeError: the argument is neither a name nor a class or function.
    """
    if isinstance(nonlinearity, str):
        activation = nn.modules.activation
        known = {"Identity", *activation.__all__} - {*NO_NONLINEARITIES}
        if nonlinearity not in known:
            raise UnknownName("nonlinearity", nonlinearity, known)
        return getattr(nn, nonlinearity)  # type: ignore[no-any-return]
    if not callable(nonlinearity) or isinstance(nonlinearity, nn.Module):
        raise TypeError(
            f"nonlinearity must be a class such as torch.nn.ReLU, or its name, got "
            f"{nonlinearity!r}. Give the class, not an object of it."
        )
    if isinstance(nonlinearity, type):
        return nonlinearity
    return lambda: own_module(nonlinearity(), nonlinearity)


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
        h, w: height and width of the input, in pixels.
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
    """Identity whose gradient is multiplied by ``scale``; call it as ``scale_grad(x, scale)``.

    Dueling heads use it to balance the gradients of the value and the advantage branch in the
    layers they share (Wang et al. 2016, section 4.2).
    """

    generate_vmap_rule = True  # for agents that are evaluated as one

    @staticmethod
    def forward(tensor: Tensor, scale: float) -> Tensor:  # type: ignore[override]
        """Return ``tensor``."""
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Store ``scale``."""
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        """Scale the gradient; ``scale`` itself has none."""
        return grad_output * ctx.scale, None


scale_grad = ScaleGrad.apply


@contextlib.contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """Set torch's precision of products of float32 matrices in a block; ``None``: leave it."""
    if precision is None:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def update_state_dict(
    model: nn.Module, state_dict: Mapping[str, Any], tau: float = 1, strip_ddp: bool = True
) -> None:
    """Move a model's parameters and buffers towards ``state_dict``, in place.

    Args:
        model: model whose tensors become ``tau * new + (1 - tau) * old``.
        state_dict: new state, of a model of the same structure.
        tau: weight of the new state in (0, 1]; 1 copies. Integer buffers are always copied.
        strip_ddp: accept keys with the prefix of ``DistributedDataParallel``.

    Raises:
        ValueError: tau is outside (0, 1].
        RuntimeError: the keys differ.
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
    floats = [name for name, tensor in old.items() if tensor.is_floating_point()]
    torch._foreach_lerp_(
        [old[name] for name in floats], [new[name].to(old[name]) for name in floats], tau
    )
    for name in old.keys() - set(floats):
        old[name].copy_(new[name])


def unwrap_ddp(network: Any) -> Any:
    """Return the network without its ``DistributedDataParallel`` wrapper, if there is one."""
    wrapped = isinstance(network, nn.parallel.DistributedDataParallel)
    return network.module if wrapped else network


def updates_obs_rms(model: nn.Module) -> bool:
    """Return True if the model has observation statistics, updated by ``update_obs_rms``."""
    return hasattr(model, "update_obs_rms") and getattr(model, "normalize_observation", True)


def strip_ddp_state_dict(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the prefix "module." of ``DistributedDataParallel`` from every key."""
    return {key.removeprefix(DDP_PREFIX): value for key, value in state_dict.items()}


def hooks_of(module: nn.Module) -> tuple[Any, ...]:
    """Return the hooks of a module that see its values or gradients, as the module keeps them."""
    forward = module._forward_hooks, module._forward_pre_hooks
    return *forward, module._backward_hooks, module._backward_pre_hooks
