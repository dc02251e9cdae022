"""Files are written whole or stay as they were; devices and pipes are written to."""

import os
import stat

import pytest

from rlpyt.utils.files import atomic_write


def write(path, content=b"new"):
    with atomic_write(path) as file:
        file.write(content)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a"
    write(path, b"old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"old"
    write(path)
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]


def test_a_pipe_or_device_stays_what_it_is(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write(path)
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    link = tmp_path / "device"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write(link)
    assert link.is_symlink() and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_directory_is_not_replaced(tmp_path):
    with pytest.raises(OSError):
        write(tmp_path)
    assert tmp_path.is_dir()
