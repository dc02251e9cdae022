"""Control of the number of threads of numpy's matrix products."""

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

_SETTERS = [
    f"{prefix}openblas_set_num_threads{suffix}"
    for prefix in ("scipy_", "")
    for suffix in ("64_", "_64", "")
]


def use_one_blas_thread() -> bool:
    """Limit numpy's matrix products to one thread in this process.

    With several threads OpenBLAS divides a product into different blocks, which changes rounding.

    Returns:
        False if the number of threads of numpy's BLAS library cannot be set, and the environment
        variable ``OPENBLAS_NUM_THREADS`` is not 1.
    """
    setter = _setter()
    if setter is not None:
        setter(1)
    return setter is not None or os.environ.get("OPENBLAS_NUM_THREADS") == "1"


@functools.cache
def _setter() -> Any:
    """Return the function of numpy's OpenBLAS that sets the number of threads, if any."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return None
    mapped = {line.split(maxsplit=5)[-1].strip() for line in maps.read_text().splitlines()}
    paths = [path for path in mapped if "openblas" in Path(path).name]
    for path in sorted(paths, key=lambda path: "numpy" not in path):  # scipy may have its own
        library = ctypes.CDLL(path)
        for name in _SETTERS:
            if hasattr(library, name):
                setter = getattr(library, name)
                setter.argtypes, setter.restype = [ctypes.c_int], None
                return setter
    return None
