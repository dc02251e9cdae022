"""Terminal output: colors, lines that survive a broken pipe, live tables."""

import contextlib
import io
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import Any

from rlpyt.utils.logging.tabulate import tabulate

# Control characters except tab and line feed, and those that reverse the order of letters. Colors
# are among them: some hide the text that follows.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

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
    """Wrap a string in color escape codes; ``highlight`` colors the background.

    Raises:
        ValueError: `color` is not a key of ``color2num``.
    """
    if color not in color2num:
        raise ValueError(f"color={color!r} is unknown; use one of {sorted(color2num)}.")
    codes = [str(color2num[color] + 10 * highlight)] + ["1"] * bold
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


def log(s: Any) -> None:
    """Print one line and flush it."""
    print(s, flush=True)


class Terminal:
    """Standard output as a destination for lines.

    ``sys.stdout`` is looked up for every line, so redirections are honored. When the reader has
    ended (``rlpyt train | head``), the error is raised once and later output is discarded, which
    also keeps the interpreter from failing in its final flush.
    """

    def write(self, line: str) -> None:
        """Print a line.

        Raises:
            OSError, ValueError: the terminal or pipe is closed.
        """
        try:
            _print(line, sys.stdout)
        except OSError:
            silence(sys.stdout)
            raise

    def close(self) -> None:
        """Do nothing: standard output was not opened here."""


def say(line: Any, stream: Any = None) -> None:
    """Print a line with control characters escaped, and ignore errors of the stream.

    After its first error (a closed pipe or terminal, a full disk) a stream is silenced.

    Args:
        line: what to print.
        stream: a text stream; standard output by default.
    """
    stream = stream or sys.stdout
    try:
        _print(printable(str(line)), stream)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: in a signal handler
        silence(stream)


def printable(text: str) -> str:
    """Escape control characters, which a terminal would execute, for example in names of files."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _print(line: str, stream: Any) -> None:
    try:
        print(line, file=stream, flush=True)
    except UnicodeEncodeError:
        plain = line.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
        print(plain, file=stream, flush=True)


def silence(stream: Any) -> None:
    """Redirect a broken stream's descriptor to the null device."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass  # not backed by a descriptor: nothing will be flushed at exit either


def silence_blocked() -> None:
    """Silence standard output and error where a write would wait, since nobody reads a full pipe.

    A write that waits already ends when the signal is handled in which this is called.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or no descriptor
            if not select.select([], [stream.fileno()], [], 0)[1]:
                silence(stream)


def silenced_unread(stream: Any) -> bool:
    """Silence a stream if it is a pipe whose reader has ended; return True if it is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or no descriptor
        poll = select.poll()
        poll.register(stream.fileno(), 0)  # errors are always reported
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            silence(stream)
            return True
    return False


class _LosingFile(io.FileIO):
    """File that discards output after a failed write."""

    def write(self, content: Any, /) -> Any:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def lose_unwritable_output() -> None:
    """Discard output that cannot be written to standard output or error.

    Otherwise training would end when an environment prints after the reader of a pipe has ended.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            is_standard = isinstance(stream, io.TextIOWrapper) and stream.fileno() in (1, 2)
        except (OSError, ValueError):
            is_standard = False
        if not is_standard:  # closed or replaced by other code
            continue
        with contextlib.suppress(OSError):
            stream.flush()
        file: Any = _LosingFile(stream.fileno(), "w", closefd=False)
        losing = io.TextIOWrapper(
            # PYTHONUNBUFFERED leaves out the buffer, which ``write_through`` does not flush.
            file if stream.write_through else io.BufferedWriter(file),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, losing)


MOST_LINES = 1000  # of a screen


class TerminalTablePrinter:
    """Table of the newest rows, redrawn on a cleared screen and cut to the screen's height."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.tabulars: list[list[Any]] = []

    def print_tabular(self, new_tabular: Sequence[tuple[str, Any]]) -> None:
        """Add a row of (name, value) pairs and redraw; new names become column titles."""
        values = dict(new_tabular)
        self.headers += [name for name in values if name not in self.headers]
        self.tabulars.append([values.get(name) for name in self.headers])
        del self.tabulars[:-MOST_LINES]
        self.refresh()

    def refresh(self) -> None:
        """Draw the newest rows that fit on the screen."""
        height = max(shutil.get_terminal_size().lines - 3, 1)
        Terminal().write("\x1b[2J\x1b[H" + tabulate(self.tabulars[-height:], self.headers))


class SimpleMessage(ContextDecorator):
    """Context manager that prints a message on entry and the elapsed time on exit.

    As a decorator, ``@Message("training")``, it does so at each call of the function.
    """

    def __init__(self, msg: str, logger: Callable[[str], None] = log) -> None:
        self.msg = msg
        self.logger = logger

    def __enter__(self) -> "SimpleMessage":
        self.logger(self.msg)
        self.start_s = time.monotonic()
        return self

    def __exit__(self, etype: type[BaseException] | None, *error: object) -> None:
        outcome = "done" if etype is None else "failed"
        self.logger(f"{self.msg}: {outcome} in {time.monotonic() - self.start_s:.3f} s")


MESSAGE_DEPTH = 0  # number of open ``Message`` blocks


class Message(SimpleMessage):
    """``SimpleMessage`` on standard output, indented by its nesting depth."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, lambda s: log("  " * MESSAGE_DEPTH + s))

    def __enter__(self) -> "Message":
        global MESSAGE_DEPTH
        super().__enter__()
        MESSAGE_DEPTH += 1
        return self

    def __exit__(self, etype: type[BaseException] | None, *error: object) -> None:
        global MESSAGE_DEPTH
        MESSAGE_DEPTH -= 1
        super().__exit__(etype, *error)
