"""Allocation of a replay's arrays, in this process or in shared memory.

Parts request arrays while they are constructed; ``Memory.commit`` checks that their sum fits into
memory and allocates all of them.
"""

import math
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlpyt.errors import RlpytError
from rlpyt.utils.memory import available_memory
from rlpyt.utils.shared import SharedBlock

FORCE = "RLPYT_FORCE_REPLAY"  # environment variable with the effect of force=True
ALIGNMENT = 64  # bytes, a cache line


class ReplayTooLarge(RlpytError, MemoryError):
    """Raised if the replay does not fit into the available memory."""


class Part:
    """Base of objects that own arrays, which may be in shared memory.

    Arrays requested with ``memory.request(self, name, ...)`` become attributes when the memory is
    committed. They are pickled as references into shared memory, or as copies; what ``_derive``
    makes of them (views, mostly) is derived again after unpickling.
    """

    _owned: dict[str, NDArray[Any]]

    def _derive(self) -> None:
        """Set attributes that follow from the arrays; called once these are allocated."""

    def _take(self, name: str, array: NDArray[Any]) -> None:
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
        self._settle()

    def _settle(self) -> None:
        before = set(self.__dict__)
        self._derive()
        self._derived = tuple(set(self.__dict__) - before - {"_derived"})


class Memory:
    """Collects the requests of all parts, then allocates them together.

    Args:
        shared: allocate memory that child processes inherit when they are started.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared
        self._requests: list[tuple[Part, str, tuple[int, ...], np.dtype[Any], Any]] = []

    def request(
        self, part: Part, name: str, shape: tuple[int, ...], dtype: DTypeLike, fill: Any = 0
    ) -> None:
        """Request an array, which becomes ``part.<name>``, filled with ``fill``."""
        self._requests.append((part, name, shape, np.dtype(dtype), fill))

    @property
    def nbytes(self) -> int:
        """Return the number of bytes requested."""
        return sum(_aligned(shape, dtype) for _, _, shape, dtype, _ in self._requests)

    def commit(self, force: bool = False, size: int = 0) -> int:
        """Allocate all requested arrays, set them on their parts, and return their bytes.

        Args:
            force: skip the comparison with available memory (as RLPYT_FORCE_REPLAY does). Memory of
                one process is taken from the machine only as rows are written; shared memory is
                always reserved at once.
            size: transitions, for the error message, which says how many would fit.

        Raises:
            ReplayTooLarge: the arrays exceed the available memory.
            SharedMemoryError: shared memory cannot be reserved.
        """
        need = self.nbytes
        have = available_memory()
        if need > have and not force and not os.environ.get(FORCE):
            raise ReplayTooLarge(
                f"the replay needs {need / 1e6:,.0f} MB for {size:,} transitions, and "
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
            part._take(name, array)
        for part in dict.fromkeys(part for part, *_ in self._requests):
            part._settle()
        self._requests = []
        return need


def _fitting(size: int, share: float) -> int:
    """Return a size, rounded to two digits, that takes nearly this share of ``size``."""
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
