"""Serialization for child processes, by value for definitions in scripts and notebooks."""

import functools
import io
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle

from rlpyt.utils import collections

_CACHED = type(functools.lru_cache(lambda: None))  # also functions under functools.cache


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        """Reduce memoized tuple types to their structure, other objects as cloudpickle does.

        Shared values and the like are reduced as multiprocessing does while a child starts.
        """
        if type(obj).__module__.partition(".")[0] in ("multiprocessing", "ctypes"):
            reducers: Any = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
            if type(obj) in reducers:
                return reducers[type(obj)](obj)
        if isinstance(obj, _CACHED) and obj.__module__ == "__main__":
            # Else it would be looked up in the child's main program.
            return _cached, (obj.__wrapped__, obj.cache_parameters())
        if isinstance(obj, collections._StructuralType):
            reduced = collections.reduce_structural_class(obj)
            if isinstance(reduced, tuple):
                return reduced
        return super().reducer_override(obj)


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def dumps(obj: Any) -> bytes:
    """Serialize; classes and functions of ``__main__``, lambdas and closures by value.

    Raises:
        TypeError: a part of the object cannot be pickled; the message names it.
    """
    file = io.BytesIO()
    try:
        _Pickler(file).dump(obj)
    except Exception as error:
        raise TypeError(
            f"cannot send {obj!r:.200} to a worker process: {error}. Create open files, locks, "
            "windows and similar objects where they are used instead: those of an environment in "
            "its constructor, those of an agent in `initialize`."
        ) from error
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Deserialize the output of ``dumps`` from the parent or a child of this process."""
    return pickle.loads(data)


class ByValue:
    """Wrapper that pickles an object by value, for classes defined in the user's script.

    The object is deserialized on first access, where an error can be reported.

    Args:
        value: the object; it may contain parts that can be pickled only while a child starts.
    """

    def __init__(self, value: Any) -> None:
        self._value, self._dumped = value, b""

    @property
    def value(self) -> Any:
        """Return the object, or its copy in a child."""
        if self._dumped:
            self._value, self._dumped = loads(self._dumped), b""
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (dumps(self.value),)


def _received(dumped: bytes) -> ByValue:
    received = ByValue(None)
    received._dumped = dumped
    return received
