"""Model parameters in shared memory, for several processes."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from rlpyt.utils.shared import Arena


class SharedWeights:
    """The state of a model in shared memory, created by the master and sent to starting workers.

    A model on the CPU is *bound*: its parameters and buffers become views, so an optimizer step
    in the master is seen by every worker at once. A model elsewhere is *published* by copying.
    The master is the only writer, and it writes only while no worker acts.

    Args:
        model: the model; its parameters and buffers are copied.
        settings: further arrays of the agent, by name, which workers follow.

    Attributes:
        settings: those arrays in shared memory.
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
        """Make the model's parameters and buffers views of the shared memory.

        Raises:
            ValueError: the model's tensors differ from the master's.
        """
        tensors = _tensors_of(model)
        if tensors.keys() != self._arrays.keys():
            raise _other_tensors(tensors.keys() ^ self._arrays.keys())
        for name, tensor in tensors.items():
            tensor.data = torch.from_numpy(self._arrays[name])

    def publish(self, model: torch.nn.Module) -> None:
        """Copy the values of a model that is not bound (e.g. on a GPU) into shared memory."""
        with torch.no_grad():
            for name, tensor in _tensors_of(model).items():
                torch.from_numpy(self._arrays[name]).copy_(tensor)

    def give(self, model: torch.nn.Module) -> None:
        """Copy the values in shared memory to a model that is not bound."""
        with torch.no_grad():
            for name, tensor in _tensors_of(model).items():
                tensor.copy_(torch.from_numpy(self._arrays[name]))

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of all arrays and settings, by name, to send to another machine."""
        return {name: np.array(own) for name, own in self._named().items()}

    def load(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Load a result of ``values`` from another machine.

        Raises:
            ValueError: it is that of another model.
        """
        arrays = self._named()
        shapes = {name: own.shape for name, own in arrays.items()}
        given = {name: value.shape for name, value in values.items()}
        if shapes != given:
            raise _other_tensors({name for name, _ in shapes.items() ^ given.items()})
        for name, own in arrays.items():
            own[...] = values[name]

    def _named(self) -> dict[str, np.ndarray[Any, Any]]:
        return {**self._arrays, **{f"settings {name}": own for name, own in self.settings.items()}}


def share_weights(agent: Any) -> None:
    """Put the model of an agent into shared memory, unless ``initialize`` has done so."""
    if agent.shared_weights is None and isinstance(agent.model, torch.nn.Module):
        agent.bind_shared_memory(SharedWeights(agent.model, agent.settings))
        agent.shared_model = agent.model


class WeightMailbox:
    """The newest parameters of a model, for processes that load them at their own pace.

    One process writes, others read, under a lock, so that all values are of one version. The
    writer creates it and sends it to the readers when they start.

    Args:
        model: the model; its parameters and buffers are copied.
        settings: further arrays of the agent, by name.

    Attributes:
        updates: number of gradient steps of the parameters; set by the writer, returned by
            ``take``.
        while_waiting: called every second while another process holds the lock. It should raise
            when that process has died. ``None``: wait without a limit.
    """

    updates = 0
    while_waiting: Callable[[], None] | None = None

    def __init__(
        self, model: torch.nn.Module, settings: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        self._weights = SharedWeights(model, settings)
        self._numbers = Arena().allocate((2,), np.int64)  # version, updates
        self.lock = get_context("spawn").Lock()

    def put(self, model: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        """Store these parameters and settings as the newest."""
        with self._locked():
            self._weights.publish(model)
            for name, own in self._weights.settings.items():
                own[...] = settings[name]
            self._numbers[:] = self._numbers[0] + 1, self.updates

    def take(
        self, model: torch.nn.Module, settings: Mapping[str, Any], version: int = -1
    ) -> tuple[int, int]:
        """Load the newest parameters and settings, unless they are of this version.

        Returns:
            version and updates of the newest parameters.
        """
        with self._locked():
            newest, updates = self._numbers.tolist()
            if newest != version:
                self._weights.give(model)
                for name, own in self._weights.settings.items():
                    settings[name][...] = own
            return newest, updates

    @contextmanager
    def _locked(self) -> Iterator[None]:
        while not self.lock.acquire(timeout=None if self.while_waiting is None else 1.0):
            if self.while_waiting is not None:
                self.while_waiting()
        try:
            yield
        finally:
            self.lock.release()


def _other_tensors(names: Collection[str]) -> ValueError:
    return ValueError(
        f"the model built in this process has other tensors than the master's: {sorted(names)}. "
        "ModelCls must build the same model from the same arguments every time."
    )


def _tensors_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
