"""Single child processes: their names, and how their ends are told."""

import errno
import multiprocessing as mp
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
import torch

from rlpyt.algos.optim import GradientStep
from rlpyt.processes.call import run_in_child
from rlpyt.utils.processes import (
    describe_exit,
    end_descendants,
    failure_text,
    first_line,
    keep_freed_memory,
    start_child,
    start_context,
    start_fork_server,
    starting_children,
    stop,
    title_of,
    uninterrupted,
)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("worker 3 of 8", "rlpyt-worker 3"),
        ("rank 1 of 2", "rlpyt-rank 1"),
        ("optimizer rank 1 of 2", "rlpyt-rank 1"),
    ],
)
def test_titles_give_the_role_and_number(name, title):
    assert title_of(name) == title and len(title) <= 15  # what the kernel keeps


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux'")
def test_a_child_has_its_title():
    assert run_in_child(_comm).startswith("rlpyt-process")


def _comm():
    return Path("/proc/self/comm").read_text()


@pytest.mark.parametrize(
    "code, told",
    [
        (None, "is still running"),
        (3, "exited with code 3"),
        (-signal.SIGTERM, "was killed by SIGTERM"),
        (-signal.SIGKILL, "was killed by SIGKILL (out of memory?)"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exit_codes_are_described(code, told):
    assert describe_exit(code) == told


def daemonic_child(queue):
    try:
        queue.put((mp.current_process().daemon, run_in_child(os.getppid) > 0))
    except BaseException as error:
        queue.put(f"{error!r}")


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_daemonic_processes_such_as_those_of_a_pool_start_children(method):
    start_fork_server()  # which a forked process cannot use
    context = mp.get_context(method)
    queue = context.Queue()
    process = context.Process(target=daemonic_child, args=(queue,), daemon=True)
    process.start()
    assert queue.get(timeout=100) == (True, True)
    process.join()


def loses_its_fork_server():
    process = mp.get_context("forkserver").Process(target=time.sleep, args=(20,))
    process.start()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    process.join(20)
    return describe_exit(process.exitcode)


def leave_a_thread(spec, pipe):
    threading.Thread(target=time.sleep, args=(1000,), daemon=False).start()


def test_a_child_does_not_wait_for_threads_at_its_end():
    with starting_children():
        process, pipe = start_child(start_context(), leave_a_thread, None, "child")
    process.join(120)
    code = process.exitcode
    stop([process], 0)
    pipe.close()
    assert code == 0


def test_a_lost_fork_server_is_described():
    assert "or ended because its fork server was killed" in run_in_child(
        loses_its_fork_server, timeout_s=60
    )


@pytest.mark.parametrize(
    ("message", "line"), [("", "OSError"), ("\na.\nb", "a"), ("no full stop", "no full stop")]
)
def test_the_first_line_of_a_message(message, line):
    assert first_line(OSError(message)) == line


def test_failure_text_contains_place_traceback_and_stacks():
    said = failure_text(
        "worker 1 failed with KeyError: 'a'.", "while acting", "the worker", "T", "S"
    )
    assert said == (
        "worker 1 failed with KeyError: 'a', while acting.\n\nIn the worker:\nT"
        "\n\nPython stacks of the worker:\nS"
    )
    assert failure_text("it ended", "", "the process") == "it ended."
    said = failure_text("it failed with X: a is 1. Set b.", "while acting", "the process")
    assert said == "it failed with X: a is 1. Set b. It happened while acting."


START_EARLY = """
import os
from multiprocessing import forkserver
from rlpyt.processes.call import run_in_child
from rlpyt.utils.processes import start_fork_server

print(start_fork_server("spawn"), start_fork_server(), start_fork_server())
server = forkserver._forkserver._forkserver_pid
print(run_in_child(os.getppid) == server)
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_import_no_modules_of_the_working_directory(tmp_path, method):
    there = tmp_path / "run"
    there.mkdir()
    for name in ("multiprocessing", "socket", "signal"):
        (there / f"{name}.py").write_text("open('ran', 'w')\nraise ImportError('not this one')")
    script = tmp_path / "script.py"
    script.write_text(
        "from rlpyt.processes.call import run_in_child\n"
        "if __name__ == '__main__':\n"
        "    print(run_in_child(abs, -7))\n"
    )
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "RLPYT_START_METHOD": method, "PYTHONPATH": root}
    result = subprocess.run(
        [sys.executable, script],
        check=False, cwd=there, env=env, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert result.stdout == "7\n", result.stderr
    assert not (there / "ran").exists()


def test_children_use_a_fork_server_that_was_started_early():
    command = [sys.executable, "-c", START_EARLY]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True", "False", "True"]


def test_a_fork_server_that_cannot_start_raises_no_error(monkeypatch):
    def refuse():
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(forkserver._forkserver, "ensure_running", refuse)
    assert start_fork_server() is False


on_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc"
    or any(re.match("MALLOC_|GLIBC_TUNABLES|LD_PRELOAD", name) for name in os.environ),
    reason="a setting of glibc's allocator, which the environment has not set up",
)


@on_glibc
@pytest.mark.parametrize("keep", [True, False])
def test_a_process_that_trains_keeps_freed_memory(keep):
    kept = run_in_child(_kept_mib, keep)
    assert (kept > 150) == keep, kept


def _kept_mib(keep):
    if keep:
        parameters = [torch.nn.Parameter(torch.zeros(1))]
        GradientStep(parameters, torch.optim.Adam, 1e-3)
    process = psutil.Process()
    before = process.memory_info().rss
    tensors = [torch.ones(15 << 19) for _ in range(7)]  # 30 MiB each
    del tensors
    return (process.memory_info().rss - before) / 2**20


@on_glibc
@pytest.mark.parametrize(
    "setting", [("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=1"), ("MALLOC_ARENA_MAX", "2")]
)
def test_settings_of_the_allocator_by_the_user_win(monkeypatch, setting):
    monkeypatch.setenv(*setting)
    assert not keep_freed_memory()


def test_signals_in_an_uninterrupted_block_are_handled_at_its_end(interruptible):
    seen = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
            seen.append("end")
        seen.append("not reached")
    assert seen == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_worker_without_free_files_ends_in_silence(monkeypatch):
    def used_up(*args):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(psutil, "Process", used_up)
    end_descendants()
