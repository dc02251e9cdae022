"""Serialization for child processes, by value for what scripts and notebooks define."""

import io
import pickle
from typing import Any

import cloudpickle

from rlpyt.utils import collections


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        """Reduce memoized tuple types to their structure, all else as cloudpickle does."""
        if isinstance(obj, collections._StructuralType):
            reduced = collections.reduce_structural_class(obj)
            if isinstance(reduced, tuple):
                return reduced
        return super().reducer_override(obj)


def dumps(obj: Any) -> bytes:
    """Serialize; classes and functions of ``__main__``, lambdas and closures travel by value.

    Raises:
        TypeError: something inside cannot be pickled; the message says what.
    """
    file = io.BytesIO()
    try:
        _Pickler(file).dump(obj)
    except Exception as error:
        raise TypeError(
            f"cannot send {obj!r:.200} to a worker process: {error}. Build open files, locks, "
            "windows and the like inside the environment's constructor instead."
        ) from error
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Rebuild what ``dumps`` wrote in the parent or a child of this process."""
    return pickle.loads(data)


class ByValue:
    """Carries an object to a child that may be of a class of the user's script.

    It is rebuilt when it is first asked for, where an error in doing so can be reported.

    Args:
        value: the object; it may hold what travels only while the child is being started.
    """

    def __init__(self, value: Any) -> None:
        self._value, self._dumped = value, b""

    @property
    def value(self) -> Any:
        """Return the object, in a child its copy."""
        if self._dumped:
            self._value, self._dumped = loads(self._dumped), b""
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (dumps(self.value),)


def _received(dumped: bytes) -> ByValue:
    received = ByValue(None)
    received._dumped = dumped
    return received
