"""Named shared arrays, for compatibility; rlpyt itself uses anonymous shared memory.

An array created with ``create=True`` owns its name, and releases it when the array is deleted or
its process ends normally. A process that is killed before leaves the memory behind; prefer
`rlpyt.utils.shared` unless other processes must find the memory by name.
"""

import ctypes
import math
import mmap
import operator
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
    """Shared memory of ``size`` bytes that other processes find by ``tag``."""

    def __init__(self, tag: str, size: int, create: bool = True) -> None:
        """Create zeroed memory, or attach to memory created by another process.

        Raises:
            ValueError: the tag is not a valid file name, or the memory is smaller than ``size``.
            FileExistsError: `create` is set and the tag is in use.
            FileNotFoundError: `create` is not set and the tag is not found.
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
                raise ValueError(
                    f"memory of tag={tag!r} must have at least {size} bytes, got "
                    f"{os.fstat(fd).st_size}."
                )
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
    """Return a ctypes array in named shared memory, like ``multiprocessing.RawArray``.

    Args:
        typecode_or_type: a ctypes type, or its one-letter code as in the ``array`` module.
        size_or_initializer: number of elements, or the elements to write.
        tag: name of the memory.
        create: create the memory; otherwise attach to it (an initializer is written in both cases).
    """
    type_ = typecode_to_type.get(typecode_or_type, typecode_or_type)
    sized = isinstance(size_or_initializer, int)
    n = size_or_initializer if isinstance(size_or_initializer, int) else len(size_or_initializer)
    wrapper = ShmemBufferWrapper(tag, n * ctypes.sizeof(type_), create)
    array = (type_ * n).from_buffer(wrapper.buffer)
    array._wrapper = wrapper  # keep the name as long as the array
    if not sized:
        array[:] = size_or_initializer
    return array


def NpShmemArray(
    shape: int | Iterable[int], dtype: DTypeLike, tag: str, create: bool = True
) -> NDArray[Any]:
    """Return a numpy array in named shared memory: zeroed if ``create``, else existing content."""
    dims = tuple(shape) if isinstance(shape, Iterable) else (operator.index(shape),)
    dtype, n = np.dtype(dtype), math.prod(dims)
    raw = ShmemRawArray(ctypes.c_char, max(1, n * dtype.itemsize), tag, create)
    return np.frombuffer(raw, dtype, n).reshape(dims)


def get_random_tag() -> str:
    """Return a unique tag."""
    return f"rlpyt-{secrets.token_hex(8)}"
