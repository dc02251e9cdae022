"""Where a replay's arrays lie: in this process, or in memory that several processes share.

Parts say what they need while they are built; ``Memory.commit`` adds it up, refuses what cannot
fit with the numbers, and hands everything out. So nothing is taken before all is known.
"""

import math
import os
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rlpyt.errors import RlpytError
from rlpyt.utils.memory import available_memory
from rlpyt.utils.shared import SharedBlock

FORCE = "RLPYT_FORCE_REPLAY"  # set, it means force=True everywhere
ALIGNMENT = 64  # bytes, a cache line


class ReplayTooLarge(RlpytError, MemoryError):
    """The replay would not fit into the memory that is free."""


class Part:
    """Owns arrays that may be shared.

    Arrays asked for with ``memory.request(self, name, ...)`` become attributes when the memory is
    committed. Pickled, they are places in the shared memory, or copies; what ``_derive`` makes of
    them (views, mostly) is made anew on the other side.
    """

    _owned: dict[str, NDArray[Any]]

    def _derive(self) -> None:
        """Set attributes that follow from the arrays; called when they are there."""

    def _take(self, name: str, array: NDArray[Any]) -> None:
        self.__dict__.setdefault("_owned", {})[name] = array
        setattr(self, name, array.view(np.ndarray))  # the plain kind is the fast one

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
    """Collects what parts need, then allocates it.

    Args:
        shared: several processes are to see it; it then travels to them while they are started.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared
        self._requests: list[tuple[Part, str, tuple[int, ...], np.dtype[Any], Any]] = []

    def request(
        self, part: Part, name: str, shape: tuple[int, ...], dtype: DTypeLike, fill: Any = 0
    ) -> None:
        """Ask for an array, to become ``part.<name>``, filled with ``fill``."""
        self._requests.append((part, name, shape, np.dtype(dtype), fill))

    @property
    def nbytes(self) -> int:
        """What has been asked for, in bytes."""
        return sum(_aligned(shape, dtype) for _, _, shape, dtype, _ in self._requests)

    def commit(self, force: bool = False, size: int = 0) -> int:
        """Allocate everything and hand it out; returns its size in bytes.

        Args:
            force: do not compare with what is free (nor with RLPYT_FORCE_REPLAY set). Memory of
                one process is taken from the machine only as rows are written; shared memory is
                always reserved at once.
            size: transitions that are asked for; the error says how many would fit.

        Raises:
            ReplayTooLarge, SharedMemoryError: it does not fit.
        """
        need = self.nbytes
        have = available_memory()
        if need > have and not force and not os.environ.get(FORCE):
            raise ReplayTooLarge(
                f"the replay needs {need / 1e6:,.0f} MB for {size:,} transitions, and "
                f"{have / 1e6:,.0f} MB are free; a size of {_fitting(size, have / need):,} fits "
                f"({FORCE}=1 in the environment, or force=True, tries anyway)."
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
    """Two leading digits of a size of which nearly a share of memory remains free."""
    fitting = int(size * share * 0.95)
    digits = 10 ** max(0, len(str(fitting)) - 2)
    return int(fitting // digits * digits)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array, rounded up to where the next one may begin."""
    return -(-math.prod(map(int, shape)) * dtype.itemsize // ALIGNMENT) * ALIGNMENT


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that begin with a cache line."""
    raw = np.zeros(_aligned(shape, dtype) + ALIGNMENT, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, raw, start)
