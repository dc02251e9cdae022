"""Named shared arrays, kept for scripts that use them; rlpyt itself shares memory without names.

An array made with ``create=True`` owns its name, and gives it back when the array is gone or its
process ends by itself. A process killed before that leaves the memory behind, which is why
`rlpyt.utils.shared` is better in everything but being found by name.
"""

import ctypes
import math
import mmap
import os
import re
import secrets
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from multiprocessing.sharedctypes import typecode_to_type  # type: ignore[attr-defined]
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

SHM_DIR = "/dev/shm"  # else the directory for temporary files


class ShmemBufferWrapper:
    """Memory of ``size`` bytes that other processes find by ``tag``."""

    def __init__(self, tag: str, size: int, create: bool = True) -> None:
        """Make the memory, zeroed, or attach to what another process made.

        Raises:
            ValueError: the tag cannot be a file name, or the memory found is smaller than ``size``.
            FileExistsError, FileNotFoundError: it is there already, or not there.
        """
        if not re.fullmatch(r"/?[\w. %-]+", tag):
            raise ValueError(f"tag={tag!r} must consist of letters, digits and any of '-_. %'.")
        directory = SHM_DIR if os.path.isdir(SHM_DIR) else tempfile.gettempdir()
        path = os.path.join(directory, tag.lstrip("/"))
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        fd = os.open(path, flags, 0o600)
        try:
            if create:
                self._unlink = weakref.finalize(self, os.unlink, path)
                os.ftruncate(fd, size)
            elif os.fstat(fd).st_size < size:
                raise ValueError(f"tag={tag!r} has {os.fstat(fd).st_size} bytes, {size} expected.")
            self.buffer = mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def get_address(self) -> int:
        """Return the address of the memory in this process."""
        return address_of_buffer(self.buffer)


def address_of_buffer(buf: Any) -> int:
    """Return the address of a writable buffer in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buf))


def ShmemRawArray(
    typecode_or_type: Any, size_or_initializer: int | Sequence[Any], tag: str, create: bool = True
) -> Any:
    """Return a ctypes array in named shared memory, as ``multiprocessing.RawArray`` without a name.

    Args:
        typecode_or_type: a ctypes type, or its one-letter code as in the ``array`` module.
        size_or_initializer: number of elements, or the elements to write.
        tag: name of the memory.
        create: make it; otherwise attach to it (an initializer is written even so).
    """
    type_ = typecode_to_type.get(typecode_or_type, typecode_or_type)
    sized = isinstance(size_or_initializer, int)
    n = size_or_initializer if isinstance(size_or_initializer, int) else len(size_or_initializer)
    wrapper = ShmemBufferWrapper(tag, n * ctypes.sizeof(type_), create)
    array = (type_ * n).from_buffer(wrapper.buffer)
    array._wrapper = wrapper  # the name lives as long as the array
    if not sized:
        array[:] = size_or_initializer
    return array


def NpShmemArray(
    shape: int | Iterable[int], dtype: DTypeLike, tag: str, create: bool = True
) -> NDArray[Any]:
    """Return a numpy array in named shared memory: zeroed if ``create``, else what is there."""
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = np.dtype(dtype)
    raw = ShmemRawArray(ctypes.c_char, math.prod(dims) * dtype.itemsize, tag, create)
    return np.frombuffer(raw, dtype).reshape(dims)


def get_random_tag() -> str:
    """Return a tag that no other array has."""
    return f"rlpyt-{secrets.token_hex(8)}"
