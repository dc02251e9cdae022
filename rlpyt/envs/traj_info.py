"""Statistics of trajectories."""

import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlpyt.utils.collections import AttrDict, NamedArrayTuple, namedarraytuple, namedtuple_class


class TrajInfo(AttrDict):
    """Statistics of one trajectory; every public entry is logged.

    Subclass it and extend ``step`` to log more; entries with a leading underscore are not logged.
    Samplers compute this class from complete batches, with the same results; ``step`` of a
    subclass is called after every environment step.
    """

    _discount: float = 1.0  # set by the runner through ``traj_info_kwargs``

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # In the order of the columns of progress.csv.
        self.Length, self.Return = 0, 0.0
        self.NonzeroRewards, self.DiscountedReturn = 0, 0.0

    def step(
        self,
        observation: Any,
        action: Any,
        reward: float,
        done: bool,
        agent_info: Any,
        env_info: Any,
    ) -> None:
        """Add one step to the sums; ``observation`` is the one the action was chosen for.

        If ``env_info`` has a number ``raw_reward`` (the reward before it was scaled), that is added
        instead of the reward.
        """
        t, r = self.Length, float(raw_reward(reward, env_info))
        self.DiscountedReturn += r * self._discount**t
        self.Return += r
        if r:
            self.NonzeroRewards += 1
        self.Length = t + 1

    def terminate(self, observation: Any) -> "TrajInfo":
        """Return the statistics to log for a trajectory that ended with this final observation."""
        return self


def raw_reward(reward: ArrayLike, env_info: object) -> Any:
    """Return ``env_info.raw_reward`` if it has the shape of the reward, otherwise the reward.

    Args:
        reward: a number, or rewards [T, B].
        env_info: info of the same steps.
    """
    raw = getattr(env_info, "raw_reward", None)
    return reward if raw is None or np.shape(raw) != np.shape(reward) else raw


def saved_entries(info: TrajInfo) -> dict[str, Any]:
    """Return the entries of an unfinished trajectory in a form that a checkpoint can hold.

    These are numbers, strings, arrays, and collections of them: lists, tuples, named tuples, dicts,
    sets and deques. Entries of other types are left out.
    """
    entries: dict[str, Any] = {}
    for name, value in info.items():
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            entries[name] = _plain(dict(value) if isinstance(value, dict) else value)
    return entries


def load_entries(info: TrajInfo, saved: Mapping[str, Any]) -> None:
    """Load entries from ``saved_entries`` into a new instance of the same class.

    Named tuples become those of `rlpyt.utils.collections`, with the same name and fields. Dicts are
    filled, so that a ``defaultdict`` or ``Counter`` stays one.
    """
    for name, stored in saved.items():
        value, own = _restored(stored), info.get(name)
        if isinstance(value, dict) and isinstance(own, dict):
            own.clear()
            own.update(value)
        else:
            info[name] = value


def _plain(value: Any) -> Any:
    """Return a value as lists, strings, numbers and arrays, and dicts with a key "kind".

    Raises:
        TypeError: it is of another type.
        ValueError: it is a named tuple with a reserved field name.
        RecursionError: it contains itself.
    """
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufcSUmM":
        return value
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is dict:
        return {"kind": "dict", "items": [[_plain(k), _plain(x)] for k, x in value.items()]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        make = namedarraytuple if isinstance(value, NamedArrayTuple) else namedtuple_class
        cls = make(type(value).__name__, value._fields)
        kind = {"kind": make.__name__, "name": cls.__name__, "fields": [*cls._fields]}
        return {**kind, "items": [_plain(item) for item in tuple(value)]}
    if type(value) not in (tuple, set, frozenset, deque):
        raise TypeError(f"{type(value).__name__} cannot be stored.")
    stored = {"kind": type(value).__name__, "items": [_plain(item) for item in value]}
    return {**stored, "maxlen": value.maxlen} if isinstance(value, deque) else stored


def _restored(stored: Any) -> Any:
    """Return the value from which ``_plain`` has made this one."""
    if isinstance(stored, list):
        return [_restored(item) for item in stored]
    if not isinstance(stored, dict) or "kind" not in stored:
        return stored
    items = _restored(stored["items"])
    match stored["kind"]:
        case "namedtuple_class":
            return namedtuple_class(stored["name"], stored["fields"])._make(items)
        case "namedarraytuple":
            return namedarraytuple(stored["name"], stored["fields"])._make(items)
        case "deque":
            return deque(items, stored["maxlen"])
    return {"dict": dict, "tuple": tuple, "set": set, "frozenset": frozenset}[stored["kind"]](items)
