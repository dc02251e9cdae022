"""``rlpyt COMMAND``: dispatch to a command, and report errors as one line and an exit code.

Exit codes: 0 done; 1 the run failed; 2 invalid request; 130 Ctrl-C; 141 the program that reads the
output has ended (``| head``); 143 terminated. Errors raised by a user's environment in training
keep their traceback. ``--debug`` anywhere on the command line shows the traceback of any error, and
lets ``rlpyt train`` do everything in one process.
"""

import atexit
import contextlib
import importlib
import os
import re
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from textwrap import indent
from typing import Any

import rlpyt
from rlpyt.errors import NonFiniteError, RlpytError, UntrustedFile, WorkerError, itr_of
from rlpyt.experiments.presets.families import FAMILIES
from rlpyt.utils.logging.console import (
    lose_unwritable_output,
    printable,
    say,
    silence_blocked,
    silenced_unread,
)
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
from rlpyt.utils.names import UnknownName
from rlpyt.utils.processes import start_fork_server

COMMANDS = {
    "train": "train an agent: rlpyt train ppo CartPole-v1",
    "sweep": "train many runs from a grid or a search, on this machine or a cluster",
    "status": "show the status of a sweep or run: rlpyt status data/my-sweep",
    "resume": "resume a run from its latest checkpoint",
    "replay": "repeat the update in which a run ended in NaN: rlpyt replay RUN",
    "eval": "play episodes with a trained agent and report the returns",
    "record": "record a video of a trained agent",
    "export": "export the policy of a run: rlpyt export RUN --to onnx|torch",
    "push": "upload a trained agent to the Hugging Face Hub: rlpyt push RUN user/name",
    "plot": "plot learning curves of one or more runs",
    "compare": "compare runs with published results: rlpyt compare RUNS --against XQC",
    "verify": "repeat the first part of a published result: rlpyt verify dqn-CartPole",
    "report": "write a report of a sweep or of runs as one HTML file",
    "upload": "send what experiment trackers have not received: rlpyt upload RUN",
    "affinity": "show which run gets which cores and GPUs: rlpyt affinity 8cpu_2gpu",
    "check": "check an environment for errors: rlpyt check my_module:MyEnv",
}
EXIT_CODES: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((KeyboardInterrupt,), 130),
    ((WorkerError, NonFiniteError), 1),
    ((RlpytError, ValueError, TypeError, ImportError), 2),
    ((FileNotFoundError, FileExistsError, PermissionError), 2),
    ((NotADirectoryError, IsADirectoryError), 2),
    ((OSError, MemoryError), 1),  # a retry may succeed, for example after a full disk
)
THREADS_S = 5.0  # time for threads, processes and exit handlers to end by themselves
# It may do something useful, such as an upload, so it is not ended.
HANDLER = (
    "rlpyt: warning: the command has ended, and waits for an exit handler (atexit) of the "
    "environment or of another package. Ctrl-C ends the wait."
)
GYMNASIUM = re.compile(r"\x1b\[\d+m((?:WARN|ERROR): .*)\x1b\[0m", re.DOTALL)  # its warnings
MODULES = {"eval": "evaluate"}  # commands whose module has another name


def main(argv: Sequence[str] | None = None) -> None:
    """Run the ``rlpyt`` command; always raises ``SystemExit``."""
    if argv is None:
        wait_for_helpers_at_exit()
        open_standard_streams()
        os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")  # or pygame would ignore SIGTERM
    args = list(sys.argv[1:] if argv is None else argv)
    if argv is None and args[:1] in (["train"], ["resume"]):
        lose_unwritable_output()
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    if debug and args[:1] == ["train"]:
        args.append("--debug")
    warnings.formatwarning = shown_warning
    try:
        code = run(args)
        print(end="", flush=True)
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and silenced_unread(sys.stdout):
            sys.exit(141)
        known = [exit_code for kinds, exit_code in EXIT_CODES if isinstance(error, kinds)]
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):
            known.append(1)  # out of memory in torch
        stopped = isinstance(error, KeyboardInterrupt)
        if stopped:
            silence_blocked()
        in_training = itr_of(error) >= 0
        foreign = in_training and not isinstance(error, RlpytError)  # raised by a user's part
        if debug or not known or foreign:
            raise
        message = "interrupted" if stopped else str(error) or type(error).__name__
        code = 1 if in_training else known[0]
        if isinstance(error, UntrustedFile):
            message = f"{message} The command: rlpyt {shlex.join([*args, '--trust'])}"
        notes = getattr(error, "__notes__", [])
        if code != 1:  # one line, with the environment and the step, if it has failed
            shown = [x for x in notes if stopped or x.startswith("(while ")]
            message = " ".join([f"{message}." if stopped and shown else message, *shown])
            notes = []
        say("\n".join([f"rlpyt: error: {message}", *notes]), sys.stderr)
    if argv is None:
        end_in_spite_of_others(code)
    sys.exit(code)


def shown_warning(message: Warning | str, *_: Any, **__: Any) -> str:
    """Return a warning as one that can be printed, without the colors of Gymnasium."""
    text = str(message)
    colored = GYMNASIUM.fullmatch(text)
    return printable(f"rlpyt: warning: {colored[1] if colored else text}\n")


def end_in_spite_of_others(code: int) -> None:
    """End the program if threads or processes, as of an environment, would keep it from ending.

    At exit Python waits without a limit for threads, also for those of executors, which it asks to
    end, and for processes of multiprocessing that are not daemonic. It also waits for handlers of
    `atexit`, which are not ended: a warning says so.
    """
    ask: Any = [*getattr(threading, "_threading_atexits", ())]
    threading.Thread(target=lambda: [end() for end in reversed(ask)], daemon=True).start()
    main_thread = threading.main_thread()
    others: list[Any] = [x for x in threading.enumerate() if not x.daemon and x is not main_thread]
    module: Any = sys.modules.get("multiprocessing.process")
    children = [x for x in module.active_children() if not x.daemon] if module else []
    deadline = time.monotonic() + THREADS_S
    for one in (*others, *children):
        one.join(max(0.0, deadline - time.monotonic()))
    threads, processes = ([x for x in kind if x.is_alive()] for kind in (others, children))
    for process in processes:
        process.kill()
    for kind, left in (("threads", threads), ("processes", processes)):
        if left:
            names = ", ".join(x.name for x in left)
            say(f"rlpyt: warning: ended although {kind} were running: {names}", sys.stderr)
    waits = threading.Timer(THREADS_S, lambda: say(HANDLER, sys.stderr))
    waits.daemon = True
    waits.start()
    if threads:
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def open_standard_streams() -> None:
    """Open standard input, output and error on the null device if they are closed.

    Otherwise files opened later get their file descriptors, and ``print`` writes into those files.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            mode = "r" if name == "stdin" else "w"
            null = os.open(os.devnull, os.O_RDONLY if name == "stdin" else os.O_WRONLY)  # lowest fd
            setattr(sys, name, open(null, mode, closefd=False))  # noqa: SIM115 - stays open


def run(args: Sequence[str]) -> int:
    """Run a command line, given without the program name, and return its exit code."""
    if args[:1] == ["help"]:  # rlpyt help train
        args = [*args[1:], "--help"]
    if not args or args[0] in ("-h", "--help"):
        print(_help())
        return 0 if args else 2
    if args[0] == "--version":
        print(f"rlpyt {rlpyt.__version__}")
        return 0
    command, *rest = args
    if command not in COMMANDS:
        raise UnknownName("command", command, COMMANDS)
    if command == "train" and has_workers(rest):
        start_fork_server()  # imports torch while this process does
    module = importlib.import_module(f"rlpyt.cli.{MODULES.get(command, command)}")
    code: int = module.main(rest)
    return code


def has_workers(args: Sequence[str]) -> bool:
    """Return True if a command line of ``rlpyt train`` surely starts processes.

    It is decided without torch, so False if that depends on the environment or on a file.
    """
    words = [word for arg in args for word in arg.split("=")]
    if {"-h", "--help", "--debug", "--seeds", "--config"} & set(words):
        return False
    if "--sampler.kind" in words[:-1]:
        return words[words.index("--sampler.kind") + 1] not in ("serial", "ray")
    presets = [family[args[0]] for family in FAMILIES.values() if args and args[0] in family]
    kinds = {preset.get("sampler", {}).get("kind") for preset in presets}
    return bool(kinds) and "serial" not in kinds


def _help() -> str:
    return "\n".join(
        [
            "usage: rlpyt COMMAND ...",
            "",
            "Deep reinforcement learning with parallel sampling. Commands:",
            "",
            indent(tabulate(COMMANDS.items(), tablefmt="plain"), "  "),
            "",
            "`rlpyt COMMAND --help` shows its options. `--debug` shows the traceback of an error.",
            "`rlpyt train ... --debug` also does everything in one process, for a debugger.",
        ]
    )


if __name__ == "__main__":
    main()
