"""Optimizers that work without torch's compiler.

The optimizers of ``torch.optim`` import the compiler, ``torch._dynamo``, to exclude their methods
from it and to end its graph at each step. The import takes about as long as that of torch.
"""

from types import MethodType
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

Optimizer = torch_optimizer.Optimizer
METHODS = ("add_param_group", "state_dict", "load_state_dict")  # called in every run
# Decorator of the steps of torch's optimizers, which stay as they are in a torch without it.
_decorator: Any = getattr(torch_optimizer, "_use_grad_for_differentiable", None)
_WRAPPER = _decorator and _decorator(lambda optimizer: None).__code__


def exclude_compiler() -> None:
    """Let the methods that every run calls not import the compiler, in this process.

    They look up their uncompiled form in an attribute, and import the compiler only if it is
    missing. The compiler would trace them like any function, so do not call them in compiled code.
    """
    for name in METHODS:
        function = getattr(getattr(Optimizer, name), "__wrapped__", None)
        if function is not None:
            vars(function).setdefault("__dynamo_disable", function)


def step_eagerly(instance: Any) -> None:
    """Let the steps of an optimizer not import the compiler; hooks are called as before.

    Differentiable optimizers, and those with other steps than ``torch.optim``, are unchanged.
    """
    step: Any = getattr(type(instance).step, "__wrapped__", None)
    known = step is not None and getattr(step, "__code__", None) is _WRAPPER
    if known and not instance.defaults["differentiable"]:
        eager = Optimizer.profile_hook_step(torch.no_grad()(step.__wrapped__))
        instance.step = MethodType(eager, instance)
