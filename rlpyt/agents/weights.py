"""Model parameters in shared memory."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from rlpyt.utils.files import naming
from rlpyt.utils.shared import Arena
from rlpyt.utils.synchronize import SEMAPHORES


class SharedWeights:
    """The state of a model in shared memory, created by the master and sent to starting workers.

    A model on the CPU is *bound*: its parameters and buffers become views, so workers see an
    optimizer step of the master at once. A model on a GPU is *published* by copying. Only the
    master writes, and only while no worker acts.

    Args:
        model: the model; its parameters and buffers are copied.
        settings: further arrays of the agent, by name, see ``BaseAgent.settings``.

    Attributes:
        settings: the same arrays in shared memory.
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
            raise _mismatch(tensors.keys() ^ self._arrays.keys())
        for name, tensor in tensors.items():
            tensor.data = torch.from_numpy(self._arrays[name])

    def publish(self, model: torch.nn.Module) -> None:
        """Copy the values of a model that is not bound into shared memory.

        Raises:
            ValueError: the model's tensors differ from the master's.
        """
        tensors = _tensors_of(model)
        _check_shapes(self._arrays, tensors)
        with torch.no_grad():
            for name, tensor in tensors.items():
                torch.from_numpy(self._arrays[name]).copy_(tensor)

    def copy_to(self, model: torch.nn.Module) -> None:
        """Copy the values in shared memory to a model that is not bound."""
        with torch.no_grad():
            for name, tensor in _tensors_of(model).items():
                tensor.copy_(torch.from_numpy(self._arrays[name]))

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of all arrays and settings, by name, to send to another machine."""
        return {name: np.array(array) for name, array in self._named().items()}

    def load(self, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Load arrays from ``values``, possibly of another machine.

        Raises:
            ValueError: names or shapes differ, since the model differs.
        """
        arrays = self._named()
        _check_shapes(arrays, values)
        for name, array in arrays.items():
            array[...] = values[name]

    def _named(self) -> dict[str, np.ndarray[Any, Any]]:
        return {**self._arrays, **{f"settings {name}": x for name, x in self.settings.items()}}


class ModelWatch:
    """Parts of a model, to notice those that are replaced while other processes have copies.

    It is compared before every batch, so that is fast. It belongs to one process.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        modules = dict(model.named_modules())
        self._tensors = [t for m in modules.values() for t in (m._parameters, m._buffers)]
        self._children = [m._modules for m in modules.values()]
        self._hooks = [
            x for m in modules.values() for x in (m._forward_hooks, m._forward_pre_hooks)
        ]
        # (attributes of a module, name of one that is a number or string, name in messages)
        self._plain = [
            (vars(m), key, f"{name}.{key}".lstrip("."))
            for name, m in modules.items()
            for key, value in vars(m).items()
            if isinstance(value, bool | int | float | str) and key != "training" and key[0] != "_"
        ]
        self._parts = self._read()

    def _read(self) -> tuple[list[int], list[Any], list[int], list[Any]]:
        tensors = (x for table in self._tensors for x in table.values() if x is not None)
        return (
            [x.data_ptr() for x in tensors],
            [m for table in self._children for m in table.values()],
            [*map(len, self._hooks)],
            [table.get(key) for table, key, _ in self._plain],
        )

    def notice(self) -> bool:
        """Return True if anything was replaced; warn of what does not reach other processes."""
        parts = self._read()
        if parts == self._parts:
            return False
        (_, old_modules, old_hooks, old), (_, modules, hooks, new) = self._parts, parts
        changed = [name for (*_, name), x, y in zip(self._plain, old, new, strict=True) if x != y]
        changed += ["a module"] * (modules != old_modules)
        changed += ["a forward hook"] * (hooks != old_hooks)
        if changed:
            warnings.warn(
                f"{' and '.join(changed)} of the agent's model, {type(self.model).__name__}, "
                "changed during the run. Processes that act have models of their own, which take "
                "only parameters and buffers from it. Keep a number in a buffer (register_buffer), "
                "or let the main process act (SerialSampler, GpuSampler)."
            )
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def share_weights(agent: Any) -> None:
    """Put the model of an agent into shared memory, unless ``initialize`` has done so."""
    if agent.shared_weights is None and isinstance(agent.model, torch.nn.Module):
        agent.bind_shared_memory(SharedWeights(agent.model, agent.settings))
        agent.shared_model = agent.model


class WeightMailbox:
    """The newest parameters of a model, for processes that load them at any time.

    One process writes and others read, under a lock, so that all values are from one version. The
    writer creates the mailbox and sends it to the readers when they start.

    Args:
        model: the model; its parameters and buffers are copied.
        settings: further arrays of the agent, by name.

    Attributes:
        updates: number of gradient steps of the parameters; set by the writer, returned by
            ``take``.
        while_waiting: function called every second while another process holds the lock. It should
            raise if that process has died. ``None``: wait without a limit.
    """

    updates = 0
    while_waiting: Callable[[], None] | None = None

    def __init__(
        self, model: torch.nn.Module, settings: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        self._weights = SharedWeights(model, settings)
        self._numbers = Arena().allocate((2,), np.int64)  # (version, updates)
        with naming(SEMAPHORES):
            self.lock = get_context("spawn").Lock()

    def put(self, model: torch.nn.Module, settings: Mapping[str, Any]) -> None:
        """Store these parameters and settings as the newest."""
        with self._locked():
            self._weights.publish(model)
            for name, array in self._weights.settings.items():
                array[...] = settings[name]
            self._numbers[:] = self._numbers[0] + 1, self.updates

    def take(
        self, model: torch.nn.Module, settings: Mapping[str, Any], version: int = -1
    ) -> tuple[int, int]:
        """Load the newest parameters and settings, unless they have this version.

        Returns:
            (version, updates) of the newest parameters.
        """
        with self._locked():
            newest, updates = self._numbers.tolist()
            if newest != version:
                self._weights.copy_to(model)
                for name, array in self._weights.settings.items():
                    settings[name][...] = array
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


def _check_shapes(arrays: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    expected = {name: array.shape for name, array in arrays.items()}
    shapes = {name: tuple(other.shape) for name, other in others.items()}
    if shapes != expected:
        raise _mismatch({name for name, _ in expected.items() ^ shapes.items()})


def _mismatch(names: Collection[str]) -> ValueError:
    return ValueError(
        f"the model built in this process has other tensors than the master's: {sorted(names)}. "
        "ModelCls must build the same model from the same arguments every time."
    )


def _tensors_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
