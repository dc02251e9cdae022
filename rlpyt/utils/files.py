"""Atomic file writes: after a crash a file has its old or its new content."""

import errno
import itertools
import os
import resource
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import psutil

from rlpyt.errors import DamagedFile
from rlpyt.utils.text import digits


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add this file, and the limit that was reached if any, to the OSErrors of a block.

    For a write, the operating system reports "No space left on device" without the file's name.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        limit, name = _limit(error.errno, Path(path)), error.filename or os.fspath(path)
        message = error.strerror or os.strerror(error.errno)
        if limit and not message.endswith(limit):
            message = f"{message} {limit}"
        raise OSError(error.errno, message, name) from error


def _limit(number: int, path: Path) -> str:
    """Describe the limit or cause of an error number, or return an empty string."""
    if number == errno.ENOSPC:
        directory = next((p for p in (path, *path.parents) if p.is_dir()), Path())
        disk = shutil.disk_usage(directory)
        return f"({disk.free / 2**20:.3g} of {disk.total / 2**20:.3g} MiB are free)"
    if number == errno.EDQUOT:
        return "(the user's disk quota; see `quota`)"
    if number == errno.EBADF:
        return (
            "(other code in this process, such as the environment, has closed it; in a worker "
            "process, --sampler.kind cpu, it cannot)"
        )
    if number == errno.EMFILE:
        return f"(the limit is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}; see `ulimit -n`)"
    if number == errno.EFBIG:
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        return f"(the limit is {limit} bytes; see `ulimit -f`)"
    return ""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces ``path`` when the block ends without error.

    The content is written to a hidden temporary file in the same directory, fsynced and renamed. On
    any exception, including file system errors, the temporary file is removed and ``path`` is
    unchanged. A device or pipe is written directly.

    Raises:
        OSError: the file cannot be written (disk full, no permission, input/output error); the
            error names the file.
    """
    path = Path(path)
    with naming(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            with open(path, "wb") as device:
                yield device
            return
        temporary = temporary_of(path)
        temporary.unlink(missing_ok=True)  # of a dead process with this number, or a sent link
        try:
            with open(temporary, "xb") as file:
                yield file
                sync_file(file)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


def temporary_of(path: Path) -> Path:
    """Return the hidden path under which this process writes a file or directory."""
    return path.with_name(f".{path.name}.tmp-{os.getpid()}")


def is_running(pid: int) -> bool:
    """Return True for a process that has not ended; not for one that waits for its parent."""
    if not psutil.pid_exists(pid):
        return False
    with suppress(psutil.Error, OSError):  # unknown, if /proc is hidden
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return True


def remove_leftovers(directory: Path) -> None:
    """Delete what processes that died while writing have left in a directory.

    Call this only while no other process on another machine writes there.
    """
    for path in directory.glob(".*.tmp-*"):
        pid = digits(path.name.rpartition("-")[2])
        if pid is None or pid >= 2**31:
            continue
        if pid == os.getpid() or not is_running(pid):
            shutil.rmtree(path, ignore_errors=True)  # neither of a file nor of a link
            with suppress(OSError):
                path.unlink()


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file of limited size.

    Other files, such as pipes and devices, could block or never end.

    Args:
        path: the file.
        most: largest size in bytes.

    Raises:
        DamagedFile: it is not a regular file, or is too large.
        OSError: it cannot be read.
    """
    check_regular(path)
    with open(path, "rb") as file:
        # Compare first: a sparse file takes no space on the disk, and all of it in memory.
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""  # it may grow meanwhile
    if max(size, len(content)) > most:
        raise DamagedFile(f"{path} must be at most {most:,} bytes.")
    return content


def check_regular(path: str | os.PathLike[str], links: bool = True) -> None:
    """Check that a file is a regular one, which can be read without blocking.

    Raises:
        DamagedFile: it is a pipe, device, socket or directory, or a link without ``links``.
        OSError: it does not exist.
    """
    if not stat.S_ISREG(os.stat(path, follow_symlinks=links).st_mode):
        raise DamagedFile(f"{path} must be a regular file, not a link, directory, pipe or device.")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8 atomically (see ``atomic_write``)."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextmanager
def new_directory(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Create a directory for a block, which is removed if it is empty at the end.

    If the path exists, the next free of ``<path>-2``, ``<path>-3``, ... is created instead.
    Processes that choose the same path at the same time get different directories.

    Raises:
        OSError: the directory cannot be created.
    """
    for number in itertools.count(1):
        directory = Path(path if number == 1 else f"{os.fspath(path)}-{number}")
        try:
            directory.mkdir(parents=True)
            break
        except FileExistsError:
            if not directory.exists():  # a parent is a file
                raise
    try:
        yield directory
    finally:
        with suppress(OSError):
            directory.rmdir()


def sync_file(file: BinaryIO) -> None:
    """Flush an open file's content to disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Flush a directory's entries (creations, renames) to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
