"""Shared memory without names: arrays that several processes see, and that nobody can leave behind.

A ``SharedBlock`` is an anonymous memory mapping with a file descriptor (``memfd`` on Linux, an
unlinked temporary file elsewhere). It travels to a child process while that process is being
started; when the last process that holds it ends, however it ends, the memory is gone. A
``SharedArray`` is a numpy array inside a block; it, and any view of it, pickles as (block,
offset, shape, strides), so structures of arrays can be handed to workers as they are.
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
    """The machine cannot give as much shared memory as was asked for."""


class SharedBlock:
    """One anonymous shared mapping of ``size`` bytes. Reserved when made, so never a SIGBUS.

    Args:
        size: in bytes.
        onward: children that get its arrays can hand them to children of their own.
    """

    def __init__(self, size: int, onward: bool = False) -> None:
        self.size, self.onward = size, onward
        have = available_memory()
        if size > have:  # reserving it anyway would call the kernel's killer
            raise SharedMemoryError(
                f"{_mib(size)} of shared memory are needed and {_mib(have)} are free; "
                "take a smaller batch or buffer, or give the machine or container more memory."
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
        """A view of the block's memory from ``offset`` on."""
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
    """Open a file that nobody else can find; returns its descriptor."""
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
        return "raise the limit of file sizes (ulimit -f), which counts here"
    return "take a smaller batch or buffer, or give the container more memory"


def _attach(dup: Any, size: int, onward: bool) -> SharedBlock:
    block = SharedBlock.__new__(SharedBlock)
    block.size, block.onward = size, onward
    block._fd = dup.detach()
    block._map = mmap.mmap(block._fd, size)
    return block


class SharedArray(np.ndarray[Any, Any]):
    """A numpy array in a ``SharedBlock``; it and its views travel to child processes."""

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
    """Rebuild a view in a child; as a plain array, the fast kind for loops, unless it goes on."""
    array = np.ndarray(shape, np.dtype(dtype), block._map, offset, strides)
    if not block.onward:
        return array
    shared = array.view(SharedArray)
    shared.block = block
    return shared


class Arena:
    """Hands out shared arrays from few blocks, aligned to cache lines. Owned by one sampler.

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
