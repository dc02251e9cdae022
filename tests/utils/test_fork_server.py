"""The fork server ends with the process that started it."""

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
