"""Path in rlpyt (2019) of names in `rlpyt.compat.shmemarray`."""

from rlpyt.compat.shmemarray import (
    NpShmemArray,
    ShmemBufferWrapper,
    ShmemRawArray,
    address_of_buffer,
    get_random_tag,
)

__all__ = [
    "NpShmemArray",
    "ShmemBufferWrapper",
    "ShmemRawArray",
    "address_of_buffer",
    "get_random_tag",
]
