"""Writing files so that a crash leaves the old content or the new, never a part."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let every OSError of a block name this file, and the limit that was reached if it was one.

    The operating system says "No space left on device" of a write without saying where.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        limit, name = _limit(error.errno, Path(path)), error.filename or os.fspath(path)
        said = error.strerror or os.strerror(error.errno)
        if limit and not said.endswith(limit):
            said = f"{said} {limit}"
        raise OSError(error.errno, said, name) from error


def _limit(number: int, path: Path) -> str:
    """Describe the limit that an error of the operating system stands for; empty if it is none."""
    if number == errno.ENOSPC:
        place = next((p for p in (path, *path.parents) if p.is_dir()), Path())
        disk = shutil.disk_usage(place)
        return f"({disk.free / 2**20:.3g} of {disk.total / 2**20:.3g} MiB are free)"
    if number == errno.EDQUOT:
        return "(the user's disk quota; see `quota`)"
    if number not in (errno.EFBIG, errno.EMFILE) or os.name == "nt":
        return ""
    import resource

    if number == errno.EMFILE:
        return f"(the limit is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}; see `ulimit -n`)"
    return f"(the limit is {resource.getrlimit(resource.RLIMIT_FSIZE)[0]} bytes; see `ulimit -f`)"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of ``path`` when the block ends without error.

    The content goes to a hidden sibling, is fsynced and renamed. On any exception, errors of the
    file system included, the sibling is removed and ``path`` is as it was. A device or pipe is
    written to as it is.

    Raises:
        OSError: the file system refused (disk full, no permission, input/output error); names the
            file.
    """
    path = Path(path)
    with naming(path):
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


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8, in one atomic step (``atomic_write``)."""
    with atomic_write(path) as file:
        file.write(text.encode())


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
