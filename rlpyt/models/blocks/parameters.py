"""Convert a model's parameters to a vector and back, count them, save and load them."""

import os
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn


def to_vec(module: nn.Module) -> Tensor:
    """Return a concatenated copy of all parameters, without gradient: [n]."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


@torch.no_grad()
def from_vec(module: nn.Module, x: Tensor | np.ndarray[Any, Any]) -> None:
    """Set all parameters from one vector, in place, so that shared parameters stay shared.

    (``torch.nn.utils.vector_to_parameters`` allocates new memory, which is not shared with sampling
    workers.)

    Args:
        module: module to change.
        x: vector [n] in the order of ``to_vec``; any device and floating dtype, or a numpy array.

    Raises:
        ValueError: n is not the number of parameters.
    """
    parameters, x = list(module.parameters()), torch.as_tensor(x)
    sizes = [parameter.numel() for parameter in parameters]
    if x.shape != (sum(sizes),):
        raise ValueError(
            f"x of shape {tuple(x.shape)} must be a vector of the module's {sum(sizes)} parameters."
        )
    for parameter, values in zip(parameters, torch.split(x, sizes)):
        parameter.copy_(values.view_as(parameter))


def count_parameters(module: nn.Module, trainable: bool | None = None) -> int:
    """Return the number of scalar parameters.

    Args:
        module: the module.
        trainable: count only parameters that require a gradient (True) or do not (False); ``None``:
            all.
    """
    counted = (p for p in module.parameters() if trainable in (None, p.requires_grad))
    return sum(parameter.numel() for parameter in counted)


def save(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Save parameters and buffers to a safetensors file."""
    safetensors.torch.save_model(module, os.fspath(path))


def load(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Load parameters and buffers from a file of ``save``, on any device.

    Raises:
        RuntimeError: names or shapes differ.
        ValueError: the file is not a valid safetensors file.
        FileNotFoundError: the file does not exist.
    """
    try:
        safetensors.torch.load_model(module, os.fspath(path))
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} cannot be read as safetensors: {error}.") from error
