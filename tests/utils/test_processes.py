"""Single child processes: their names, and how their ends are told."""

import multiprocessing as mp
import os
import signal
import sys
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from rlpyt.processes.call import run_in_child
from rlpyt.utils.processes import describe_exit, failure_text, title_of


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("worker 3 of 8", "rlpyt-worker 3"),
        ("rank 1 of 2", "rlpyt-rank 1"),
        ("optimizer rank 1 of 2", "rlpyt-rank 1"),
    ],
)
def test_titles_say_what_and_which(name, title):
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
def test_ends_are_told_in_words(code, told):
    assert describe_exit(code) == told


def loses_its_fork_server():
    process = mp.get_context("forkserver").Process(target=time.sleep, args=(20,))
    process.start()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
    process.join(20)
    return describe_exit(process.exitcode)


def test_a_lost_fork_server_is_thought_of():
    assert "or its fork server was killed" in run_in_child(
        loses_its_fork_server, timeout_s=60, starts_others=True
    )


def test_a_failure_is_told_with_place_traceback_and_stacks():
    said = failure_text(
        "worker 1 failed with KeyError: 'a'.", "while acting", "the worker", "T", "S"
    )
    assert said == (
        "worker 1 failed with KeyError: 'a', while acting.\n\nIn the worker:\nT"
        "\n\nPython stacks of the worker:\nS"
    )
    assert failure_text("it ended", "", "the process") == "it ended."
