"""Standard output that may be closed, as the command line prepares it."""

import shlex
import subprocess
import sys

import pytest

PROGRAM = """
import sys, time
from rlpyt.utils.logging.console import lose_unwritable_output
lose_unwritable_output()
print("first")
print("second", file=sys.stderr)
sys.stdin.read()
"""


@pytest.mark.parametrize("unbuffered", [False, True])
def test_lines_of_standard_error_come_at_once(unbuffered):
    command = [sys.executable, *(["-u"] if unbuffered else []), "-c", PROGRAM]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stderr.readline() == "second\n"
        if unbuffered:
            assert process.stdout.readline() == "first\n"
        assert process.poll() is None  # it waits
        process.stdin.close()


LONG = (
    f"{PROGRAM}\nfor stream in filter(None, (sys.stdout, sys.stderr)): stream.write(99_999 * 'x')"
)


@pytest.mark.parametrize("redirected", [">&- 2> /dev/full", "2>&- | true", "> /dev/full 2>&-"])
def test_output_that_cannot_be_written_ends_no_program(redirected):
    command = f"set -o pipefail; {shlex.join([sys.executable, '-c', LONG])} {redirected}"
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
