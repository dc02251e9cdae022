"""The fork server ends with the process that started it; a script may have one of its own."""

import os
import subprocess
import sys
import time

import psutil
import pytest

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
PROGRAM = "from rlpyt.processes.call import run_in_child; run_in_child(len, 'abc')"


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


OWN_SERVER = """
import multiprocessing as mp
import os

from rlpyt.processes.call import run_in_child

if __name__ == "__main__":
    process = mp.get_context("forkserver").Process(target=os.getpid)
    process.start()
    process.join()
    print(process.exitcode, run_in_child(len, "abc"))
"""


def test_children_also_start_from_a_fork_server_of_the_script(tmp_path):
    """It has imported the script, and rlpyt with it, before rlpyt's first child starts."""
    script = tmp_path / "script.py"
    script.write_text(OWN_SERVER)
    command = [sys.executable, str(script)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.split() == ["0", "3"], found.stderr


ENDS_THREAD_BY_THREAD = """
import ctypes, platform, subprocess, threading, time

def start():
    print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
    time.sleep(1000)

threading.Thread(target=start, daemon=True).start()
time.sleep(0.2)
# The first thread alone ends.
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


ENDS_ORPHANS = """
import os, subprocess, sys, time
import psutil
from rlpyt.utils.fork_server import end_orphans

command = [sys.executable, "-c", sys.argv[1]]
child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
started = child.stdout.readline()
while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
    time.sleep(0.02)
end_orphans(os.getpid())
print(started)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="status of threads on Linux")
def test_what_a_child_started_ends_while_its_threads_still_end():
    command = [sys.executable, "-c", ENDS_ORPHANS, ENDS_THREAD_BY_THREAD]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    started = [p for p in psutil.process_iter() if p.pid == int(done.stdout)]
    _, alive = psutil.wait_procs(started, timeout=20)
    for process in alive:
        process.kill()
    assert not alive
