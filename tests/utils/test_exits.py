"""How the end of a process is told."""

import multiprocessing as mp
import os
import signal
import time
from multiprocessing import forkserver

import pytest

from rlpyt.utils.in_child import run_in_child
from rlpyt.utils.processes import describe_exit


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
