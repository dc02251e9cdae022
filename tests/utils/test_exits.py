"""How the end of a process is told."""

import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver

import psutil
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


SLOW_IMPORT = """
import sys, time

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "rlpyt.processes.child":
            open({marker!r}, "w").close()
            time.sleep(60)

if any("forkserver" in argument for argument in sys.orig_argv):
    sys.meta_path.insert(0, Slow)
"""
PROGRAM = "from rlpyt.utils.in_child import run_in_child; run_in_child(len, 'abc')"


def test_a_fork_server_that_still_imports_ends_with_its_parent(tmp_path):
    marker = tmp_path / "importing"
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT.format(marker=str(marker)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=env) as process:
        while not marker.exists():
            assert process.poll() is None
            time.sleep(0.02)
        children = psutil.Process(process.pid).children()
        process.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
