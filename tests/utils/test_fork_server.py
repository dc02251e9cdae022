"""The fork server ends with the process that started it; a script may have one of its own."""

import os
import subprocess
import sys
import time

import psutil

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
