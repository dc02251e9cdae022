"""Child processes: start, setup, descriptions of failures, and end."""

import contextlib
import ctypes
import errno
import functools
import multiprocessing as mp
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import psutil

from rlpyt.errors import WorkerError
from rlpyt.utils import fork_server
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import lose_unwritable_output
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
from rlpyt.utils.synchronize import SEMAPHORES

LONGEST_TRACEBACK = 20_000  # characters
FILES_PER_CHILD, FILES_OF_ALL = 6, 12  # maximum open files of a parent, per child and in common
# Sent by terminals and schedulers to whole process groups: they stop a run, and children ignore
# them.
GROUP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # linux/prctl.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

is_child = False  # True in processes that rlpyt has started
PRELOAD: list[str] = []  # imported by a fork server after what `fork_server` imports


def _flags_without_working_directory() -> list[str]:
    """Return the flags for children and helpers of multiprocessing, with "-P".

    They are started by ``python -c``, which would import modules such as ``socket`` from the
    working directory, which may be a run directory of somebody else. Children get the search path
    of their parent later. rlpyt itself may be there, in a clone that is not installed.
    """
    flags: list[str] = _interpreter_flags()
    with contextlib.suppress(OSError):  # the directory was deleted
        if os.path.samefile(os.getcwd(), _ROOT):
            return flags
    return flags if {"-P", "-I"} & {*flags} else [*flags, "-P"]


_ROOT = Path(fork_server.__file__).parents[2]
_interpreter_flags = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]
util._args_from_interpreter_flags = _flags_without_working_directory  # type: ignore[attr-defined]


def start_context(method: str | None = None) -> Any:
    """Return the multiprocessing context to start workers with.

    Args:
        method: "forkserver", "spawn" or "fork"; by default ``RLPYT_START_METHOD`` from the
            environment, else the argument of ``multiprocessing.set_start_method`` if it is not the
            platform's default, else forkserver on Linux and spawn elsewhere.

    Raises:
        ValueError: the platform does not support the method.
        RuntimeError: "fork" is requested after this process has started to use a GPU.
    """
    asked = method or os.environ.get("RLPYT_START_METHOD")
    method = asked or mp.get_start_method(allow_none=True)
    if method == mp.get_all_start_methods()[0] and not asked:
        # Any use of multiprocessing, such as a queue, sets the platform's default, which is fork on
        # Linux before Python 3.14. A process with threads, such as torch's, should not fork.
        if method == "fork" and not is_child:
            _warn_of_fork()
        method = None
    if method is None or (method == "fork" and not asked and _uses_cuda()):
        method = "forkserver" if sys.platform.startswith("linux") else "spawn"
    if method not in mp.get_all_start_methods():
        raise ValueError(
            f"start method must be one of {mp.get_all_start_methods()}, got '{method}'."
        )
    context = mp.get_context(method)
    if method == "fork" and _uses_cuda():
        raise RuntimeError(
            "this process already uses CUDA, which does not survive a fork. Start workers by "
            "'forkserver' or 'spawn' (RLPYT_START_METHOD), or before using the GPU."
        )
    if method == "forkserver":
        context.set_forkserver_preload([fork_server.__name__, *PRELOAD])
    return context


@functools.cache  # once
def _warn_of_fork() -> None:
    warnings.warn(
        "the start method of multiprocessing is 'fork', the platform's default, which any use of "
        "multiprocessing sets. rlpyt starts processes by 'forkserver'. If you need 'fork', set "
        "RLPYT_START_METHOD=fork or pass start_method='fork' to the sampler.",
        stacklevel=3,
    )


def _uses_cuda() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


_main_module_lock = threading.Lock()
_waits_at_exit = False


@contextlib.contextmanager
def starting_children() -> Iterator[None]:
    """Start children that do not import the user's script, with group signals blocked.

    Definitions in the script are pickled by value (``utils.serialize``), so a child does not need
    the script, and scripts without an ``if __name__ == "__main__"`` guard work. Ctrl-C, SIGHUP and
    a job scheduler's SIGTERM are sent to the complete process group. The parent then still needs
    its workers (and their fork server) for a checkpoint, and stops them itself. The signals are
    blocked until a child has its handlers (``be_a_child``); the parent receives them when all
    children have started.
    """
    global _waits_at_exit
    if not _waits_at_exit and mp.parent_process() is None:
        _waits_at_exit = True
        wait_for_helpers_at_exit()
    main = sys.modules["__main__"]
    hidden = ("__file__", "__spec__")
    own: Any = mp.current_process()
    with _main_module_lock:
        # multiprocessing refuses children of daemonic processes, such as those of a Pool, because
        # it would not end them. These end with their parent in any case (``be_a_child``).
        daemonic, own._config["daemon"] = own.daemon, False
        kept = {name: main.__dict__[name] for name in hidden if name in main.__dict__}
        try:
            main.__dict__.pop("__file__", None)
            main.__spec__ = None
            os.environ[fork_server.ENV_STARTED_BY] = str(os.getpid())
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
            try:
                resource_tracker.ensure_running()  # its start unblocks two other signals
                signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
                yield
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            os.environ.pop(fork_server.ENV_STARTED_BY, None)
            main.__dict__.update(kept)
            own._config["daemon"] = daemonic


@contextlib.contextmanager
def keeping_start_method() -> Iterator[str | None]:
    """Give the start method that the script has set, if any; a process that is started sets it."""
    requested = mp.get_start_method(allow_none=True)
    try:
        yield requested
    finally:
        mp.set_start_method(requested, force=True)


def start_fork_server(method: str | None = None) -> bool:
    """Start the fork server, if children need one, without waiting for it.

    It imports torch, which takes a second.

    Args:
        method: start method, as for `start_context`.

    Returns:
        True if the server is starting; False if it is already running or not needed.
    """
    if start_context(method).get_start_method() != "forkserver":
        return False
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    before = server._forkserver_pid
    with contextlib.suppress(OSError), starting_children(), keeping_start_method():
        server.ensure_running()  # `start_child` explains an error
    return bool(server._forkserver_pid != before)


def check_files_for(n_children: int) -> None:
    """Check that this number of children can be started.

    Raises:
        WorkerError: the limit on open files is too low.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken, needed = psutil.Process().num_fds(), FILES_OF_ALL + FILES_PER_CHILD * n_children
    if taken + needed > limit:
        raise WorkerError(
            f"{n_children} child processes need up to {needed} open files, {taken} are open here, "
            f"and the limit is {limit}. Raise it (ulimit -n), or use fewer workers."
        )


def start_child(context: Any, target: Any, spec: Any, who: str) -> tuple[Any, Any]:
    """Start a child that runs ``target(spec, pipe)``; call it within ``starting_children``.

    The child may start processes by multiprocessing itself, so it is not daemonic; its group stops
    it before multiprocessing joins its children at exit.

    Args:
        context: multiprocessing context.
        target: function at the top level of a module.
        spec: argument that the context can pickle.
        who: name of the child in messages.

    Returns:
        The process and the parent's end of the pipe.

    Raises:
        WorkerError: the process cannot be started because of a limit, named in the message.
    """
    with explained_start_errors(who), keeping_start_method() as requested:
        parent_pipe, child_pipe = context.Pipe()
        try:
            args = (requested, starter_lasts(context), target, spec, child_pipe)
            process = context.Process(target=_run_child, args=args, name=who, daemon=False)
            process.start()
        except BaseException:
            parent_pipe.close()
            raise
        finally:
            child_pipe.close()
    return process, parent_pipe


def _run_child(requested: str | None, lasts: bool, target: Any, spec: Any, pipe: Any) -> None:
    """Run a child's target with the start method set by the parent's script, if any."""
    mp.set_start_method(requested, force=True)
    be_a_child(lasts)
    target(spec, pipe)
    if any(not t.daemon for t in threading.enumerate() if t is not threading.main_thread()):
        # Python waits for such threads, which environments may have started, without a limit.
        util._exit_function()  # type: ignore[attr-defined]
        util._flush_std_streams()  # type: ignore[attr-defined]
        os._exit(0)


@contextlib.contextmanager
def explained_start_errors(who: str) -> Iterator[None]:
    """Name the limit if the operating system cannot start a process.

    Raises:
        WorkerError: a process cannot be started.
    """
    try:
        yield
    except (OSError, EOFError) as error:
        number = getattr(error, "errno", None)
        remedy = "Check the limits on processes (ulimit -u) and open files (ulimit -n) and the "
        remedy += "free memory, or use fewer workers"
        if number in (errno.EMFILE, errno.ENFILE):
            remedy = "Raise the limit on open files (ulimit -n) or use fewer workers"
        elif number == errno.ENOSPC:
            remedy = "Free space in /dev/shm (for docker: --shm-size)"
        elif getattr(error, "filename", None) == SEMAPHORES:
            remedy = f"Mount {SEMAPHORES}, and let this user write to it"
        elif "AF_UNIX" in str(error):  # the path of the fork server's socket
            remedy = "Set TMPDIR to a directory with a shorter name"
        elif number == errno.ENOENT and getattr(error, "filename", None) is None:  # the same
            remedy = f"Files below {tempfile.gettempdir()} were deleted while this program ran, "
            remedy += "with the socket by which it starts processes. Start it again, or resume "
            remedy += "the run, with TMPDIR set to a directory that nothing empties"
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise WorkerError(f"cannot start {who} ({reason}). {remedy}.") from error


def starter_lasts(context: Any) -> bool:
    """Return True if the thread that starts children outlives them.

    Linux ends a child when the *thread* that started it ends, see ``be_a_child``.
    """
    by_server = context.get_start_method() == "forkserver"
    return by_server or threading.current_thread() is threading.main_thread()


def be_a_child(starter_lasts: bool = True) -> None:
    """Set up this process as a child: name it, ignore group signals, end it with its parent.

    Call this first in the child. The child leads a process group, so that ``stop`` also ends
    programs started by its environments. Such programs do not inherit the ignored signals.

    Args:
        starter_lasts: result of `starter_lasts`. If False, only a thread watches the parent, and it
            cannot run while native code holds the GIL.
    """
    global _main_module_lock, is_child
    is_child = True
    _main_module_lock = threading.Lock()  # a forked copy of the parent's lock is locked
    os.environ.pop(fork_server.ENV_STARTED_BY, None)
    for number in GROUP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # set by nohup
            signal.signal(number, ignore_signal)  # SIG_IGN would be inherited by programs
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    if sys.platform.startswith("linux"):
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_NAME, title_of(mp.current_process().name).encode())
        if starter_lasts:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    lose_unwritable_output()
    logger.forget_parent()
    _release_fork_server()
    parent = mp.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


def _let_sigterm_end() -> None:
    """Let SIGTERM end a forked process, such as one of an environment, which inherits our handler.

    ``Process.terminate`` of its parent would otherwise wait forever.
    """
    if str(getattr(signal.getsignal(signal.SIGTERM), "__module__", "")).startswith("rlpyt."):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_let_sigterm_end)


def _forget_fork_server() -> None:
    """Forget the fork server of the parent of a forked process, which cannot use it."""
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    if server._forkserver_pid is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None


os.register_at_fork(after_in_child=_forget_fork_server)


def _release_fork_server() -> None:
    """Close the handle that keeps the parent's fork server alive.

    The server and its children end when no process holds that handle. Children inherit it although
    they start their own server, and a stopped child would hold it forever.
    """
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    if server._forkserver_pid is None and server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def title_of(name: str) -> str:
    """Return the title of a process of this name in ``ps -o comm`` and ``top``."""
    who = name.partition(" of ")[0].removeprefix("a ").removeprefix("optimizer ")
    return f"{fork_server.TITLE}{who}"


def ignore_signal(number: int, frame: Any) -> None:
    """Ignore a group signal, which the parent handles."""


def _die_with(parent: Any) -> None:
    wait([parent.sentinel])
    os._exit(1)


def pin(cpus: Sequence[int]) -> bool:
    """Pin this process to these CPUs; return False with a warning if that fails."""
    try:
        psutil.Process().cpu_affinity(list(cpus))
    except (OSError, ValueError, AttributeError, psutil.Error) as error:
        allowed = available_cpus()
        warnings.warn(f"cannot pin to cpus {list(cpus)} ({error}); this process may use {allowed}.")
        return False
    return True


def keep_freed_memory() -> bool:
    """Let this process keep freed memory instead of returning it to the system.

    Each update of a network allocates and frees the same large tensors. With glibc's defaults, how
    the heap happens to lie decides whether their pages are returned and faulted in again each time:
    in half of the starts 3,500 page faults per update of DQN on Pong, 14 % of its time.

    Returns:
        False if the C library is not glibc, or if environment variables (``GLIBC_TUNABLES``,
        ``MALLOC_..._``) set up its allocator.
    """
    set_by_user = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in os.environ
    )
    if set_by_user or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    # In bytes; glibc accepts at most 32 MiB for the first.
    thresholds = {_M_MMAP_THRESHOLD: 32 << 20, _M_TRIM_THRESHOLD: 1 << 30}
    return all(mallopt(name, value) for name, value in thresholds.items())


def available_cpus() -> list[int]:
    """Return the CPUs that this process may use (respects cgroups and containers)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


KILL_S = 5.0  # time for killed processes to end
LOST = 255  # exit code from multiprocessing if the fork server cannot be reached


def describe_exit(exitcode: int | None) -> str:
    """Describe how a process ended."""
    if exitcode is None:
        return "is still running"
    if exitcode == LOST:
        return f"exited with code {LOST}, or ended because its fork server was killed"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without a full stop, or the error's type."""
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0].rstrip(".")


def summary_of(error: BaseException, longest: int = 1000) -> str:
    """Return the type and shortened message, even if the exception's methods raise."""
    try:
        message = str(error)
    except BaseException as second:
        message = f"(its message cannot be printed: {type(second).__name__})"
    if len(message) > longest:
        message = f"{message[:longest]}... ({len(message)} characters)"
    return f"{type(error).__name__}: {message}"


def traceback_text(error: BaseException) -> str:
    """Return the traceback as a string, even if the exception's methods raise."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException as second:
        text = f"{type(error).__name__} (its traceback cannot be printed: {type(second).__name__})"
    if len(text) > LONGEST_TRACEBACK:
        half = LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n... ({len(text)} characters) ...\n{text[-half:]}"
    return text


def failure_text(
    event: str, where: str = "", whose: str = "", traceback: str = "", stacks: str = ""
) -> str:
    """Return the message of an error about another process.

    Args:
        event: name of the process and what happened to it.
        where: what the process was doing; may be empty.
        whose: name of the process in headings.
        traceback, stacks: traceback and stacks of the process; may be empty.
    """
    event = event.rstrip(".")
    # A place after an event of several sentences would seem to belong to the last one.
    joint = ". It happened " if ". " in event and where.startswith("while ") else ", "
    message = event + (f"{joint}{where}." if where else ".")
    if traceback:
        message += f"\n\nIn {whose}:\n{traceback}"
    if stacks:
        message += f"\n\nPython stacks of {whose}:\n{stacks}"
    return message


def bound_waits(connection: Any, timeout_s: float) -> None:
    """Limit the duration of each read and write on a duplex pipe; then it raises ``OSError``.

    Only a peer that is stopped in the middle of a message causes such a wait.
    """
    interval = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)
        end.setblocking(True)  # independent of the program's default for sockets


def raised_by_signal(error: BaseException) -> bool:
    """Return True if a signal handler raised this error, not the code that it interrupted."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    in_main_thread = threading.current_thread() is threading.main_thread()
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return in_main_thread  # Python's own handler leaves no frame
    codes = {getattr(getattr(h, "__func__", h), "__code__", None) for h in handlers} - {None}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code in codes for frame, _ in frames)


@contextlib.contextmanager
def without_exit(what: str) -> Iterator[None]:
    """Turn `SystemExit`, with which the program would end like a success, into an error.

    Raises:
        WorkerError: a block has raised it, not a signal.
    """
    try:
        yield
    except SystemExit as error:
        if raised_by_signal(error):
            raise
        raise WorkerError(f"{what} raised {summary_of(error).rstrip('.')}.") from error


def signal_handlers(numbers: Iterable[int] = GROUP_SIGNALS) -> dict[int, Any]:
    """Return this process's handlers of these signals, ``None`` for those not set by Python."""
    return {number: signal.getsignal(number) for number in numbers}


def set_signal_handlers(handlers: Mapping[int, Any]) -> None:
    """Set handlers that `signal_handlers` has returned; only the main thread can."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of a block, which must take a limited time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: dict[int, None] = {}
    before = signal_handlers((signal.SIGINT, signal.SIGTERM))
    for number in (number for number, handler in before.items() if handler is not None):
        signal.signal(number, lambda number, frame: received.setdefault(number))
    try:
        yield
    finally:
        set_signal_handlers(before)
        for again in received:
            signal.raise_signal(again)


def stop(processes: Sequence[Any], patience_s: float = 2.0) -> None:
    """End these processes and those they started: wait for ``patience_s``, then kill.

    Return when all have ended. If the wait is interrupted, they are killed. Programs that they
    started in separate sessions become children of the fork server, and are ended together
    with the last child of this process.
    """
    try:
        _wait_for_end(processes, patience_s)
    finally:
        with uninterrupted():
            _kill(processes)


def _kill(processes: Sequence[Any]) -> None:
    """Kill these processes and the groups that they lead, and wait for the end of all."""
    for process in processes:
        _kill_group(process.pid)
        if process.is_alive():
            process.kill()
    _wait_for_end(processes, KILL_S)
    for process in processes:
        process.join(KILL_S)
        _wait_for_group(process.pid)
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if server is not None and not mp.active_children():
        fork_server.end_orphans(server)


@contextlib.contextmanager
def ended_after_error(release: Callable[[], object]) -> Iterator[None]:
    """If an error is raised in the block, end the processes that were started in it.

    Args:
        release: function that ends some of them properly; called first if it is rlpyt's own. That
            of a user's class may wait for processes that have not been started.
    """
    before = mp.active_children()
    try:
        yield
    except BaseException:
        if release.__module__.startswith("rlpyt."):
            with contextlib.suppress(Exception):
                release()
        stop([child for child in mp.active_children() if child not in before], 1.0)
        raise


def end_descendants() -> None:
    """Kill all processes started by this worker, except multiprocessing's helpers themselves."""
    helpers = (
        forkserver._forkserver._forkserver_pid,  # type: ignore[attr-defined]
        resource_tracker._resource_tracker._pid,  # type: ignore[attr-defined]
    )
    with contextlib.suppress(psutil.Error, OSError):  # an environment may have used up all files
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                for process in child.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            if child.pid not in helpers:
                with contextlib.suppress(psutil.Error):
                    child.kill()


def _wait_for_end(processes: Sequence[Any], patience_s: float) -> None:
    ready: list[Any] = [p.sentinel for p in processes if p.is_alive()]
    deadline = time.monotonic() + patience_s
    while ready:
        done = wait(ready, timeout=max(0.0, deadline - time.monotonic()))
        if not done:
            return
        ready = [s for s in ready if s not in done]


def _wait_for_group(pid: int, patience_s: float = 1.0) -> None:
    """Wait until a killed process group is gone."""
    deadline = time.monotonic() + patience_s
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(pid, 0)
            time.sleep(0.002)


def _kill_group(pid: int) -> None:
    """Kill the processes left in a child's group, which outlives the child."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
