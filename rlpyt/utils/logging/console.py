"""Terminal output: colors, lines that survive a broken pipe, live tables.

Also questions to the user, and script values that the command line can override (``tweak``).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from rlpyt.utils.logging.tabulate import tabulate

# Control characters except tab, line feed and those of colors.
CONTROL = re.compile(r"(?!\x1b\[[\d;]*m)[\x00-\x08\x0b-\x1f\x7f-\x9f]")

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


def mkdir_p(path: str | os.PathLike[str]) -> None:
    """Create a directory and its parents if they do not exist."""
    os.makedirs(path or ".", exist_ok=True)


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
        losing = io.TextIOWrapper(
            io.BufferedWriter(_LosingFile(stream.fileno(), "w", closefd=False)),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, losing)


class TerminalTablePrinter:
    """Table of all rows so far, redrawn on a cleared screen and cut to the screen's height."""

    def __init__(self) -> None:
        self.headers: list[str] = []
        self.tabulars: list[list[Any]] = []

    def print_tabular(self, new_tabular: Sequence[tuple[str, Any]]) -> None:
        """Add a row of (name, value) pairs and redraw; new names become column titles."""
        values = dict(new_tabular)
        self.headers += [name for name in values if name not in self.headers]
        self.tabulars.append([values.get(name) for name in self.headers])
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


MESSAGE_DEPTH = 0  # number of open ``Message`` blocks


class Message(SimpleMessage):
    """``SimpleMessage`` on standard output, indented by its nesting depth."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, lambda s: log("  " * MESSAGE_DEPTH + s))

    def __enter__(self) -> Message:
        global MESSAGE_DEPTH
        super().__enter__()
        MESSAGE_DEPTH += 1
        return self

    def __exit__(self, *error: Any) -> None:
        global MESSAGE_DEPTH
        MESSAGE_DEPTH -= 1
        super().__exit__(*error)


def prefix_log(prefix: str, logger: Callable[[str], None] = log) -> Callable[[str], None]:
    """Return a logging function that puts ``prefix`` before every line."""
    return lambda s: logger(prefix + s)


def tee_log(file_name: str) -> Callable[[str], None]:
    """Return a logging function that prints lines and appends them to a file."""

    def write(s: str) -> None:
        log(s)
        with open(file_name, "a", encoding="utf-8") as file:
            file.write(f"{s}\n")

    return write


def query_yes_no(question: str, default: str | None = "yes") -> bool:
    """Ask on the terminal until the answer is yes or no.

    Args:
        question: printed before the choices.
        default: "yes" or "no", the meaning of an empty answer; ``None``: ask again.

    Raises:
        ValueError: `default` is not "yes", "no" or ``None``.
        EOFError: standard input has ended and `default` is ``None``.
    """
    choices = {"yes": "[Y/n]", "no": "[y/N]", None: "[y/n]"}
    if default not in choices:
        raise ValueError(f"default must be 'yes', 'no' or None, got {default!r}.")
    while True:
        try:
            answer = input(f"{question} {choices[default]} ").strip().lower()
        except EOFError:
            if default is None:
                raise
            answer = ""
        answer = answer or default or ""
        if answer and "yes".startswith(answer):
            return True
        if answer and "no".startswith(answer):
            return False
        log("Please answer yes or no.")


def collect_args() -> dict[str, str]:
    """Return the command line's ``--name value`` and ``--name=value`` as ``{name: value}``.

    Hyphens in names become underscores; a name without a value has the value "True".
    """
    found: dict[str, str] = {}
    name = ""
    for word in sys.argv[1:]:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("-", "_")
            found[name] = value or "True"
        elif name:
            found[name] = word
            name = ""
    return found


def type_hint(arg_name: str, arg_type: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a decorator that sets the type to which ``tweakfun`` converts an argument."""

    def decorate(fun: Any) -> Any:
        fun.type_hints = {**getattr(fun, "type_hints", {}), arg_name: arg_type}
        return fun

    return decorate


def tweak(fun_or_val: Any, identifier: str | None = None) -> Any:
    """Override a value, or a function's arguments, from the command line.

    See ``tweakval`` and, for functions and classes, ``tweakfun``.
    """
    if callable(fun_or_val):
        return tweakfun(fun_or_val, identifier)
    if identifier is None:
        raise ValueError("tweak needs the name of the value. Call tweak(value, 'name').")
    return tweakval(fun_or_val, identifier)


def tweakval(val: Any, identifier: str) -> Any:
    """Return the value of ``--identifier`` on the command line, or ``val`` if it is not given.

    Raises:
        ValueError: the given string cannot be converted to the type of ``val``.
    """
    text = collect_args().get(identifier.replace("-", "_"))
    return val if text is None else _converted(text, type(val), identifier)


def tweakfun(fun: Callable[..., Any], alt: str | None = None) -> Callable[..., Any]:
    """Wrap ``fun`` so that ``--name-argument value`` on the command line overrides its arguments.

    Values are converted to the type of a ``type_hint``, else of the overridden value or default.

    Args:
        fun: a function or class.
        alt: the name on the command line; ``None``: that of ``fun``.
    """
    prefix = (alt or fun.__name__).replace("-", "_").lower() + "_"
    signature = inspect.signature(fun)

    @functools.wraps(fun)
    def tweaked(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind_partial(*args, **kwargs)
        given = collect_args()
        for name, parameter in signature.parameters.items():
            text = given.get((prefix + name).lower())
            if text is not None:
                example = bound.arguments.get(name, parameter.default)
                hint = getattr(fun, "type_hints", {}).get(name, type(example))
                bound.arguments[name] = _converted(text, hint, prefix + name)
        return fun(*bound.args, **bound.kwargs)

    return tweaked


def _converted(text: str, kind: Any, name: str) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "1", "false", "0"):
            raise ValueError(f"--{name} must be True or False, got {text!r}.")
        return text.lower() in ("true", "1")
    if kind in (type(None), type):  # type unknown: keep the string
        return text
    try:
        return kind(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--{name} must be of type {kind.__name__}, got {text!r}.") from error
