"""Writing files so that a crash leaves the old content or the new, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of ``path`` when the block ends without error.

    The content goes to a hidden sibling, is fsynced and renamed. On any exception, errors of the
    file system included, the sibling is removed and ``path`` is as it was. A device or pipe is
    written to as it is.

    Raises:
        OSError: the file system refused (disk full, no permission, input/output error).
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        with open(path, "wb") as device:
            yield device
        return
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            yield file
            sync_file(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_file(file: BinaryIO) -> None:
    """Push an open file's content through to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Push a directory's entries (creations, renames) through to the disk, where the system can."""
    if os.name == "nt":  # Windows cannot open directories; its renames are journalled
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
