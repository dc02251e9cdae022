"""What the logger does on a terminal: colours, lines that survive a broken pipe, live tables."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from rlpyt.utils.logging.tabulate import tabulate

color2num = {
    "gray": 30,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "white": 37,
    "crimson": 38,
}


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Wrap a text in the escape codes that colour it; ``highlight`` colours the background.

    Raises:
        ValueError: the colour is not a key of ``color2num``.
    """
    if color not in color2num:
        raise ValueError(f"color={color!r} is unknown; use one of {sorted(color2num)}.")
    codes = [str(color2num[color] + 10 * highlight)] + ["1"] * bold
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


def mkdir_p(path: str | os.PathLike[str]) -> None:
    """Create a directory and its parents; one that exists already is fine."""
    os.makedirs(path or ".", exist_ok=True)


def log(s: Any) -> None:
    """Print one line at once."""
    print(s, flush=True)


class Terminal:
    """Standard output as a place to write lines to.

    ``sys.stdout`` is looked up for every line, so redirections are honoured. When the reader has
    gone (``rlpyt train | head``), the error is raised once and later output goes nowhere, which
    also keeps the interpreter from failing in its last flush.
    """

    def write(self, line: str) -> None:
        """Print a line.

        Raises:
            OSError, ValueError: the terminal or pipe is gone.
        """
        try:
            _print(line, sys.stdout)
        except OSError:
            silence(sys.stdout)
            raise

    def close(self) -> None:
        """Leave standard output as it is; it was not opened here."""


def say(line: Any, stream: Any = None) -> None:
    """Print a line for people; a stream that cannot be written to is no reason to fail.

    After its first error (a closed pipe, a full disk, a terminal that was closed) a stream is
    silenced.

    Args:
        line: what to print.
        stream: a text stream; standard output by default.
    """
    stream = stream or sys.stdout
    try:
        _print(str(line), stream)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: within a handler of a signal
        silence(stream)


def _print(line: str, stream: Any) -> None:
    try:
        print(line, file=stream, flush=True)
    except UnicodeEncodeError:
        plain = line.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
        print(plain, file=stream, flush=True)


def silence(stream: Any) -> None:
    """Point a broken stream's descriptor at the null device."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass  # not backed by a descriptor: nothing will be flushed at exit either


class TerminalTablePrinter:
    """A table of all rows so far, redrawn on a cleared screen and cut to the screen's height."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.tabulars: list[list[Any]] = []

    def print_tabular(self, new_tabular: Sequence[tuple[str, Any]]) -> None:
        """Add a row of (name, value) pairs and redraw; names of the first row become titles."""
        values = dict(new_tabular)
        self.headers += [name for name in values if name not in self.headers]
        self.tabulars.append([values.get(name) for name in self.headers])
        self.refresh()

    def refresh(self) -> None:
        """Draw the newest rows that fit on the screen."""
        height = max(shutil.get_terminal_size().lines - 3, 1)
        Terminal().write("\x1b[2J\x1b[H" + tabulate(self.tabulars[-height:], self.headers))


class SimpleMessage(ContextDecorator):
    """Print a message when a block is entered and how long it took when it is left.

    As a decorator, ``@Message("training")``, it does so at each call of a function.
    """

    def __init__(self, msg: str, logger: Callable[[str], None] = log) -> None:
        self.msg = msg
        self.logger = logger

    def __enter__(self) -> SimpleMessage:
        self.logger(self.msg)
        self.start_s = time.monotonic()
        return self

    def __exit__(
        self,
        etype: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        outcome = "done" if etype is None else "failed"
        self.logger(f"{self.msg}: {outcome} in {time.monotonic() - self.start_s:.3f} s")


class Message(SimpleMessage):
    """A ``SimpleMessage`` on standard output."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


def prefix_log(prefix: str, logger: Callable[[str], None] = log) -> Callable[[str], None]:
    """A logging function that puts ``prefix`` before every line."""
    return lambda s: logger(prefix + s)


def tee_log(file_name: str) -> Callable[[str], None]:
    """A logging function that prints its lines and appends them to a file."""

    def write(s: str) -> None:
        log(s)
        with open(file_name, "a", encoding="utf-8") as file:
            file.write(f"{s}\n")

    return write
