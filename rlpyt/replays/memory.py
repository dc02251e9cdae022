"""Allocation of a replay's arrays, in this process or in shared memory.

Parts request arrays in their constructors; ``Memory.commit`` checks that all of them fit into
memory, and allocates them.
"""

import math
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlpyt.errors import RlpytError
from rlpyt.utils.memory import available_memory
from rlpyt.utils.shared import SharedBlock

FORCE = "RLPYT_FORCE_REPLAY"  # environment variable that acts like force=True
ALIGNMENT = 64  # bytes, a cache line


class ReplayTooLarge(RlpytError, MemoryError):
    """Raised if the replay does not fit into the available memory."""


class Part:
    """Base class of objects that own arrays, which may be in shared memory.

    Arrays requested with ``memory.request(self, name, ...)`` become attributes when the memory is
    committed. They are pickled as references into shared memory, or as copies. Attributes that
    ``_derive`` sets (mostly views) are not pickled, but derived again.
    """

    _owned: dict[str, NDArray[Any]]

    def _derive(self) -> None:
        """Set attributes derived from the arrays; called after allocation and unpickling."""

    def _set_array(self, name: str, array: NDArray[Any]) -> None:
        self.__dict__.setdefault("_owned", {})[name] = array
        setattr(self, name, array.view(np.ndarray))  # plain arrays are faster than subclasses

    def __getstate__(self) -> dict[str, Any]:
        owned = self.__dict__.get("_owned", {})
        derived = self.__dict__.get("_derived", ())
        return {k: v for k, v in self.__dict__.items() if k not in owned and k not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name, array in self.__dict__.get("_owned", {}).items():
            setattr(self, name, array.view(np.ndarray))
        self._derive_views()

    def _derive_views(self) -> None:
        before = set(self.__dict__)
        self._derive()
        self._derived = tuple(set(self.__dict__) - before - {"_derived"})


class Memory:
    """Allocator that collects the requests of all parts and allocates them together.

    Args:
        shared: True to allocate shared memory, which child processes inherit.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared
        self._requests: list[tuple[Part, str, tuple[int, ...], np.dtype[Any], Any]] = []

    def request(
        self, part: Part, name: str, shape: tuple[int, ...], dtype: DTypeLike, fill: Any = 0
    ) -> None:
        """Request an array, which becomes ``part.<name>``, filled with ``fill``."""
        self._requests.append((part, name, shape, np.dtype(dtype), fill))

    def commit(self, force: bool = False, size: int = 0) -> int:
        """Allocate all requested arrays, assign them to their parts, and return the bytes.

        Args:
            force: True to skip the comparison with available memory (like RLPYT_FORCE_REPLAY).
                Private memory is only used as rows are written; shared memory is reserved at once.
            size: number of transitions, for the error message.

        Raises:
            ReplayTooLarge: the arrays exceed the available memory.
            SharedMemoryError: shared memory cannot be reserved.
        """
        need = sum(_aligned(shape, dtype) for _, _, shape, dtype, _ in self._requests)
        have = available_memory()
        if need > have and not force and not os.environ.get(FORCE):
            raise ReplayTooLarge(
                f"the replay needs {need / 1e6:,.0f} MB for {size:,} transitions, and only "
                f"{have / 1e6:,.0f} MB are free; a size of {_fitting(size, have / need):,} fits "
                f"({FORCE}=1 in the environment, or force=True, skips this check)."
            )
        block = SharedBlock(need) if self.shared else None
        used = 0
        for part, name, shape, dtype, fill in self._requests:
            array = _zeros(shape, dtype) if block is None else block.array(used, shape, dtype)
            used += _aligned(shape, dtype)
            if fill != 0:
                array[...] = fill
            part._set_array(name, array)
        for part in dict.fromkeys(part for part, *_ in self._requests):
            part._derive_views()
        self._requests = []
        return need


def _fitting(size: int, share: float) -> int:
    """Return nearly ``share`` of ``size``, rounded down to two digits."""
    fitting = int(size * share * 0.95)
    digits = 10 ** max(0, len(str(fitting)) - 2)
    return int(fitting // digits * digits)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array, rounded up to the alignment."""
    return -(-math.prod(map(int, shape)) * dtype.itemsize // ALIGNMENT) * ALIGNMENT


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return zeros aligned to cache lines."""
    raw = np.zeros(_aligned(shape, dtype) + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, raw, start)
