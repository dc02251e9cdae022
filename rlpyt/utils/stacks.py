"""Python stacks of a process that died or hangs."""

import faulthandler
import os
import re
import signal
import time
from multiprocessing import reduction
from typing import Any

from rlpyt.utils.shared import anonymous_file

LONGEST_DUMP = 10_000  # characters
NOISE = re.compile(r"(?m)^(  File .*(/multiprocessing/|<string>).*|Extension modules.*)\n?")
# Signal by which a parent requests stacks. SIGUSR1 stops a run.
ASK = signal.SIGUSR2


class StackFile:
    """Anonymous file to which a child writes its stacks, and from which its parent reads them.

    It can be sent to a child process while that process starts. Python's ``faulthandler`` writes
    it after a fatal signal and on request, without the interpreter, so it also works while native
    code hangs or holds the GIL.
    """

    def __init__(self) -> None:
        self._fd = anonymous_file()
        self._start = 0  # offset of the output that has not been returned yet

    def listen(self) -> None:
        """Enable writing after fatal signals and on request; call this in the child."""
        faulthandler.enable(self._fd, all_threads=True)
        faulthandler.register(ASK, self._fd, all_threads=True)

    def ask(self, pid: int, patience_s: float = 1.0) -> str:
        """Request stacks from a live child and return them, or an empty string if it writes none.

        A child that has not called ``listen`` yet is killed by the request.
        """
        before = self._size()
        try:
            os.kill(pid, ASK)
        except ProcessLookupError:
            return ""
        deadline = time.monotonic() + patience_s
        size = before
        while time.monotonic() < deadline:
            time.sleep(0.02)
            last, size = size, self._size()
            if before < size == last:  # writing has finished
                break
        text = self.text(size)
        self._start = size
        return text

    def forget(self) -> None:
        """Ignore what has been written so far, for example by an earlier child."""
        self._start = self._size()

    def text(self, end: int | None = None) -> str:
        """Return the stacks since the last request, without lines that every child has.

        Args:
            end: offset of the end; ``None``: all that is written.
        """
        size = (self._size() if end is None else end) - self._start
        written = os.pread(self._fd, size, self._start).decode(errors="replace")
        written = NOISE.sub("", written)
        threads = re.split(r"\n(?=(?:Current thread|Thread) 0x)", written)
        text = "\n".join(part for part in threads if " in _die_with" not in part).strip()
        return text if len(text) <= LONGEST_DUMP else f"{text[:LONGEST_DUMP]}\n..."

    def _size(self) -> int:
        return os.fstat(self._fd).st_size

    def __reduce__(self) -> tuple[Any, ...]:
        return _attach, (reduction.DupFd(self._fd),)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


def _attach(dup: Any) -> StackFile:
    stacks = StackFile.__new__(StackFile)
    stacks._fd, stacks._start = dup.detach(), 0
    return stacks
