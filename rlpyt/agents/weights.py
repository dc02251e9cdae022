"""Where processes meet over a model's parameters: one shared block that models are views of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.utils.shared import Arena


class SharedWeights:
    """The state of a model in shared memory. Made by the master, sent to workers at their start.

    A model on the CPU is *bound*: its parameters and buffers become views, so an optimizer step
    in the master is seen by every worker at once. A model elsewhere is *published* by copying.
    There is one writer, the master, and it writes only while no worker acts.

    Args:
        model: whose parameters and buffers these are.
        settings: further numbers of the agent, by name, which workers see change.

    Attributes:
        settings: arrays in shared memory, with the values given.
    """

    def __init__(
        self, model: torch.nn.Module, settings: Mapping[str, np.ndarray[Any, Any]] | None = None
    ) -> None:
        arena = Arena()
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, tensor in _tensors_of(model).items():
            values = tensor.detach().cpu()
            array = arena.allocate(tuple(values.shape), values.numpy().dtype)
            array[...] = values.numpy()
            self._arrays[name] = array
        self.settings: dict[str, np.ndarray[Any, Any]] = {}
        for name, value in (settings or {}).items():
            self.settings[name] = arena.allocate(value.shape, value.dtype)
            self.settings[name][...] = value

    def bind(self, model: torch.nn.Module) -> None:
        """Make the model's parameters and buffers views of the shared block.

        Raises:
            ValueError: the model's tensors differ from those of the model this was made of.
        """
        tensors = _tensors_of(model)
        if tensors.keys() != self._arrays.keys():
            odd = sorted(tensors.keys() ^ self._arrays.keys())
            raise ValueError(
                f"the model built in this process has other tensors than the master's: {odd}; "
                "ModelCls must build the same model from the same arguments every time."
            )
        for name, tensor in tensors.items():
            tensor.data = torch.from_numpy(self._arrays[name])

    def publish(self, model: torch.nn.Module) -> None:
        """Copy the values of a model that is not bound (on a GPU, say) into the shared block."""
        with torch.no_grad():
            for name, tensor in _tensors_of(model).items():
                torch.from_numpy(self._arrays[name]).copy_(tensor)


def _tensors_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
