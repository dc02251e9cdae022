"""A program that used multiprocessing's helpers ends after them."""

import subprocess
import sys

import psutil

SCRIPT = """
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
wait_for_helpers_at_exit()
import multiprocessing, os, psutil
context = multiprocessing.get_context("forkserver")
semaphore = context.Semaphore()
process = context.Process(target=os.getpid)
process.start()
process.join()
print(*[child.pid for child in psutil.Process().children()])
"""


def test_helpers_end_before_the_program():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    helpers = [int(pid) for pid in done.stdout.split()]
    assert len(helpers) == 2  # the fork server and the resource tracker
    assert not [pid for pid in helpers if psutil.pid_exists(pid)]
    assert done.stderr == ""
