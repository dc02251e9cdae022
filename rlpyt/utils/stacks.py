"""Python stacks of a process that died or stands still, as text."""

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
ASK = getattr(signal, "SIGUSR1", None)  # the signal by which a parent asks


class StackFile:
    """A nameless file into which a child writes its stacks, and which its parent can read.

    Travels to a child process while that is being started. Python's ``faulthandler`` writes it:
    after a fatal signal by itself, and when asked for. It needs no help from the interpreter, so
    it works while foreign code hangs or holds the interpreter lock.
    """

    def __init__(self) -> None:
        self._fd = anonymous_file()

    def listen(self) -> None:
        """Write stacks here from now on, after fatal signals and on request; for the child."""
        faulthandler.enable(self._fd, all_threads=True)
        if ASK is not None:
            faulthandler.register(ASK, self._fd, all_threads=True)

    def ask(self, pid: int, patience_s: float = 1.0) -> str:
        """Have a live child write its stacks, and return them; empty if it does not.

        A child that does not ``listen`` yet is ended by being asked.
        """
        before = self._size()
        if ASK is None:
            return ""
        try:
            os.kill(pid, ASK)
        except ProcessLookupError:
            return ""
        deadline = time.monotonic() + patience_s
        size = before
        while time.monotonic() < deadline:
            time.sleep(0.02)
            last, size = size, self._size()
            if before < size == last:  # it has written, and has ended writing
                break
        return self.text()

    def text(self) -> str:
        """Return what has been written so far, without what is the same in every child."""
        written = os.pread(self._fd, self._size(), 0).decode(errors="replace")
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
    stacks._fd = dup.detach()
    return stacks
