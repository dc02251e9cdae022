"""Files are written whole or stay as they were; devices and pipes are written to."""

import errno
import os
import resource
import stat
import subprocess
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from rlpyt.errors import DamagedFile
from rlpyt.experiments.options import CONFIG, RunOptions
from rlpyt.utils.files import (
    atomic_write,
    is_running,
    new_directory,
    read_regular,
    remove_leftovers,
    temporary_of,
    write_text,
)
from rlpyt.utils.logging.sinks import CsvSink, TextFile


def write(path, content=b"new"):
    with atomic_write(path) as file:
        file.write(content)


def test_a_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "a"
    write(path, b"old")
    with pytest.raises(KeyError), atomic_write(path) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_bytes() == b"old"
    write(path)
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]


def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(tmp_path):
    other, path = tmp_path / "other", tmp_path / "sent" / "a"
    path.parent.mkdir()
    write(other, b"private")
    temporary_of(path).symlink_to(other)
    write(path)
    assert (other.read_bytes(), path.read_bytes()) == (b"private", b"new")
    assert not path.is_symlink() and os.listdir(path.parent) == ["a"]


def test_a_pipe_or_device_is_written_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write(path)
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    link = tmp_path / "device"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError) as full:
        write(link)
    assert full.value.errno == errno.ENOSPC
    assert link.is_symlink() and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_directory_is_not_replaced(tmp_path):
    with pytest.raises(OSError):
        write(tmp_path)
    assert tmp_path.is_dir()


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "progress.csv"
    with open(path, "wb") as file:
        file.truncate(2**36)  # sparse
    tracemalloc.start()
    with pytest.raises(DamagedFile, match=r"must be at most 67,108,864 bytes"):
        read_regular(path, 2**26)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_file_of_the_largest_size_is_read_and_one_that_grows_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write(path, b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(DamagedFile, match="at most 4 bytes"):
        read_regular(path, 4)
    stat_before = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*stat_before(fd)[:6], 0, 0, 0, 0)))
    with pytest.raises(DamagedFile, match="at most 4 bytes"):
        read_regular(path, 4)


@contextmanager
def files_of_at_most(n_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def add_a_column(path):
    sink = CsvSink(path, append=True)
    sink.write({"a": 1, "a_new_column": 2})


@pytest.mark.parametrize(
    "name, write_again",
    [
        (CONFIG, lambda path: RunOptions(algo_name="ppo", env="CartPole-v1").write(path.parent)),
        ("evaluation.json", lambda path: write_text(path, "{}" * 50)),
        ("progress.csv", add_a_column),
        ("debug.log", lambda path: TextFile(path).write("a line")),
    ],
)
def test_a_limit_is_named_with_the_file_and_the_old_content_stays(name, write_again, tmp_path):
    path = tmp_path / name
    path.write_text("a\n0\n")
    match = rf"limit is 4 bytes.*'.*{name}'"
    with files_of_at_most(4), pytest.raises(OSError, match=match):
        write_again(path)
    assert path.read_text() == "a\n0\n" and os.listdir(tmp_path) == [name]


def test_a_full_disk_is_named_with_what_is_free(tmp_path):
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(OSError, match="MiB are free.*'.*file'"):
        write(tmp_path / "file")


def test_each_of_several_gets_a_new_directory(tmp_path):
    path, at_once = tmp_path / "a" / "run", threading.Barrier(8)

    def create(number):
        at_once.wait()
        with new_directory(path) as directory:
            (directory / f"{number}").touch()
        return directory

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(create, range(8)))
    assert {d.name for d in found} == {"run", *(f"run-{n}" for n in range(2, 9))}
    assert [len([*d.iterdir()]) for d in found] == [1] * 8


def test_a_new_directory_without_content_is_removed(tmp_path):
    with pytest.raises(KeyError), new_directory(tmp_path / "run"):
        raise KeyError
    (tmp_path / "file").touch()
    with pytest.raises(OSError), new_directory(tmp_path / "file" / "run"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_process_that_has_ended_does_not_run(tmp_path):
    """Also if nobody waits for it, as in a container without an init process."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # ended, and still a zombie
    assert is_running(os.getpid()) and not is_running(ended.pid)
    left = tmp_path / f".params.pkl.tmp-{ended.pid}"
    left.write_bytes(b"half")
    remove_leftovers(tmp_path)
    assert not left.exists()
    ended.wait()
    assert not is_running(ended.pid)
