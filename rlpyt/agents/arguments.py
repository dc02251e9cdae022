"""Arguments of an agent that are changed during a run, in all processes that act."""

import inspect
import json
from operator import is_
from typing import Any

import numpy as np

from rlpyt.utils.names import warn_if_meant

PLAIN = bool | int | float | str | np.generic | None
SIZE = 1024  # bytes for all changed arguments
NAME = "arguments"  # of the array in ``BaseAgent.settings``


class SharedArguments:
    """Plain constructor arguments of an agent, kept equal in the master and in acting processes.

    An argument counts as one if an attribute of that name holds a number, a string or ``None``. Of
    ready agents only those in ``changeable`` may change, since the others are read once; of a
    user's agent all.
    """

    def __init__(self) -> None:
        self._fixed: frozenset[str] = frozenset()
        self._names: set[str] = set()  # of all arguments
        self._known: set[str] = set()  # names of attributes
        self._initial: dict[str, Any] = {}
        self._values: list[Any] = []
        self._packed = bytes(SIZE)

    def bind(self, agent: Any) -> None:
        """Remember the present values."""
        ready, own = set[str](), set[str](agent.changeable)
        for cls in type(agent).__mro__[:-1]:
            init = vars(cls).get("__init__")
            names = inspect.signature(init).parameters if inspect.isfunction(init) else ()
            (ready if cls.__module__.startswith("rlpyt.agents.") else own).update(names)
        self._fixed, self._names = frozenset(ready - own), ready | own
        self._known = {*vars(agent)}
        # A fixed argument that is no attribute is one that somebody adds in vain.
        values = {name: vars(agent).get(name) for name in sorted(ready | own)}
        self._initial = {name: value for name, value in values.items() if isinstance(value, PLAIN)}
        self._values = self._read(agent)

    def _read(self, agent: Any) -> list[Any]:
        return list(map(vars(agent).get, self._initial))

    def changes(self, agent: Any) -> dict[str, Any]:
        """Return the arguments that differ from those of the constructor, by name."""
        pairs = zip(self._initial.items(), self._read(agent), strict=True)
        return {name: value for (name, initial), value in pairs if value is not initial}

    def write(self, agent: Any) -> None:
        """Give changes of the attributes to the other processes.

        Raises:
            AttributeError: a fixed argument was changed.
            TypeError: a new value is no number, string or ``None``.
            ValueError: the changes are too large.
        """
        values = list(map(vars(agent).get, self._initial))
        if len(self._known) < len(vars(agent)):
            for name in vars(agent).keys() - self._known:
                warn_if_meant(agent, name, self._names - {name}, "argument")
            self._known = {*vars(agent)}
        if all(map(is_, values, self._values)):
            return
        before, self._values = self._values, values
        for name, old, new in zip(self._initial, before, values, strict=True):
            if name in self._fixed and new is not old and new is not None:
                raise AttributeError(
                    f"{name} of {type(agent).__name__} cannot be changed while it runs. Give it to "
                    "the constructor."
                )
        changes = self.changes(agent)
        for name, value in changes.items():
            if not isinstance(value, PLAIN):
                raise TypeError(
                    f"{name} of {type(agent).__name__} must stay a number, a string or None while "
                    f"it runs, got {value!r:.80}. Keep arrays in agent.settings."
                )
        packed = json.dumps(changes, default=np.generic.item).encode()
        if len(packed) > SIZE:
            raise ValueError(
                f"changed arguments of {type(agent).__name__} must fit into {SIZE} bytes, got "
                f"{len(packed)} for {sorted(changes)}. Keep larger values in agent.settings."
            )
        self._packed = packed.ljust(SIZE, b"\0")
        agent.settings[NAME][:] = np.frombuffer(self._packed, np.uint8)

    def take(self, agent: Any) -> None:
        """Assign changes of the master to the attributes."""
        packed = agent.settings[NAME].tobytes()
        if packed != self._packed:
            self._packed = packed
            self.assign(agent, json.loads(packed.rstrip(b"\0")))
            self._values = self._read(agent)

    def assign(self, agent: Any, changes: dict[str, Any]) -> None:
        """Make these the only changed arguments."""
        for name in self.changes(agent) | changes:
            setattr(agent, name, changes.get(name, self._initial[name]))
