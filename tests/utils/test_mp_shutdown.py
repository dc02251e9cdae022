"""A program that used multiprocessing's helpers ends after them."""

import subprocess
import sys

import psutil
import pytest

SCRIPT = """
{first}
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


@pytest.mark.parametrize("first", ["", "import multiprocessing.util"])
def test_helpers_end_before_the_program(first):
    script = SCRIPT.format(first=first)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    helpers = [int(pid) for pid in done.stdout.split()]
    assert len(helpers) == 2  # the fork server and the resource tracker
    assert not [pid for pid in helpers if psutil.pid_exists(pid)]
    assert done.stderr == ""


INTERRUPTED = """
import os
from rlpyt.utils import mp_shutdown
import multiprocessing
context = multiprocessing.get_context("forkserver")
process = context.Process(target=os.getpid)
process.start()
process.join()
def interrupt(_):
    raise KeyboardInterrupt
sleep, mp_shutdown.time.sleep = mp_shutdown.time.sleep, interrupt
for _ in range(2):
    mp_shutdown.wait_for_helpers()
mp_shutdown.time.sleep = sleep
mp_shutdown.wait_for_helpers()
"""


def test_ctrl_c_ends_the_wait_for_helpers():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""


DAEMON = """
import os, sys, time
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
if sys.argv[1] == "command":
    wait_for_helpers_at_exit()
from rlpyt.processes.call import run_in_child
if sys.argv[1] == "script":
    run_in_child(os.getpid)
import multiprocessing
semaphore = multiprocessing.get_context("forkserver").Semaphore()
pid = os.fork()  # the child inherits the pipes of the helpers
if pid == 0:
    for stream in (0, 1, 2):
        os.close(stream)
    time.sleep(1000)
    os._exit(0)
print(pid)
"""


@pytest.mark.parametrize("who", ["command", "script"])
def test_a_daemon_with_the_pipes_of_helpers_does_not_keep_the_program_from_ending(who):
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, who], capture_output=True, text=True, timeout=60, check=True
    )
    daemon = psutil.Process(int(done.stdout))
    assert daemon.is_running()
    daemon.kill()
