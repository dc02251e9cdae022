"""Anonymous shared memory: arrays shared by processes, released when the last process ends.

A ``SharedBlock`` is an anonymous memory mapping with a file descriptor (``memfd`` on Linux, an
unlinked temporary file elsewhere). It can be sent to a child process while that process starts.
The memory is released when the last process that holds it ends, for whatever reason. A
``SharedArray`` is a numpy array in a block; it and its views are pickled as (block, offset, shape,
strides), so structures of arrays can be passed to workers directly.
"""

import errno
import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from rlpyt.utils.memory import available_memory

ALIGNMENT = 64  # bytes: one cache line, and enough for every vector instruction
SMALLEST_BLOCK = 1 << 20  # bytes


class SharedMemoryError(MemoryError):
    """Failure to reserve the requested amount of shared memory."""


class SharedBlock:
    """Anonymous shared mapping of ``size`` bytes, reserved on construction to prevent a SIGBUS.

    Args:
        size: size in bytes.
        onward: allow children that receive its arrays to pass them to their own children.
    """

    def __init__(self, size: int, onward: bool = False) -> None:
        self.size, self.onward = size, onward
        have = available_memory()
        if size > have:  # reserving it would trigger the kernel's out-of-memory killer
            raise SharedMemoryError(
                f"{_mib(size)} of shared memory are needed and {_mib(have)} are free. "
                "Use a smaller batch or buffer, or give the machine or container more memory."
            )
        try:
            self._fd = anonymous_file()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, 0, size)
            else:  # macOS
                os.ftruncate(self._fd, size)
            self._map = mmap.mmap(self._fd, size)
        except OSError as error:
            raise SharedMemoryError(
                f"cannot reserve {_mib(size)} of shared memory ({error.strerror}; {_mib(have)} are "
                f"free); {_remedy(error.errno)}."
            ) from error

    @property
    def address(self) -> int:
        """Return the address of the block in this process."""
        return int(np.frombuffer(self._map, np.uint8).__array_interface__["data"][0])

    def array(self, offset: int, shape: tuple[int, ...], dtype: DTypeLike) -> "SharedArray":
        """Return a view of the block's memory that starts at ``offset``."""
        flat = np.frombuffer(self._map, dtype, int(np.prod(shape)), offset)
        view = flat.reshape(shape).view(SharedArray)
        view.block = self
        return view

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (reduction.DupFd(self._fd), self.size, self.onward)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


def anonymous_file() -> int:
    """Open a file without a name and return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlpyt", os.MFD_CLOEXEC)
    fd, path = tempfile.mkstemp(prefix="rlpyt-")
    os.unlink(path)
    return fd


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def _remedy(number: int | None) -> str:
    if number in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files (ulimit -n)"
    if number == errno.EFBIG:
        return "raise the limit of file sizes (ulimit -f), which applies to shared memory"
    return "use a smaller batch or buffer, or give the container more memory"


def _attach(dup: Any, size: int, onward: bool) -> SharedBlock:
    block = SharedBlock.__new__(SharedBlock)
    block.size, block.onward = size, onward
    block._fd = dup.detach()
    block._map = mmap.mmap(block._fd, size)
    return block


class SharedArray(np.ndarray[Any, Any]):
    """Numpy array in a ``SharedBlock``; it and its views can be sent to child processes."""

    block: SharedBlock | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.block = getattr(source, "block", None)

    def __reduce__(self) -> Any:
        if self.block is None:  # a computed array, no longer in the block
            return np.asarray(self).__reduce__()
        offset = self.__array_interface__["data"][0] - self.block.address
        if not 0 <= offset <= self.block.size:  # a result of arithmetic inherited the attribute
            return np.asarray(self).__reduce__()
        return _view, (self.block, offset, self.shape, self.dtype.str, self.strides)


def _view(
    block: SharedBlock, offset: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Rebuild a view in a child, as a plain (faster) array unless it can be passed onward."""
    array = np.ndarray(shape, np.dtype(dtype), block._map, offset, strides)
    if not block.onward:
        return array
    shared = array.view(SharedArray)
    shared.block = block
    return shared


class Arena:
    """Allocator of shared arrays from few blocks, aligned to cache lines. Owned by one sampler.

    Args:
        onward: see ``SharedBlock``.
    """

    def __init__(self, onward: bool = False) -> None:
        self._onward = onward
        self._block: SharedBlock | None = None
        self._used = 0

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> SharedArray:
        """Return a zeroed shared array.

        Raises:
            SharedMemoryError: the memory cannot be reserved.
        """
        size = max(1, int(np.prod(shape))) * np.dtype(dtype).itemsize
        if self._block is None or self._used + size > self._block.size:
            self._block, self._used = SharedBlock(max(size, SMALLEST_BLOCK), self._onward), 0
        array = self._block.array(self._used, shape, dtype)
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return array
