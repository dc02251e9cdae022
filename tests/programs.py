"""Scripts that tests run as programs, without the seconds that a new interpreter takes."""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from rlpyt.utils import processes


def run_script(path, *arguments, timeout_s=100, **environ):
    """Run a script in a child of the fork server, which has imported torch already.

    The child is not daemonic, so that it may start workers; they come from the same fork server.

    Returns:
        subprocess.CompletedProcess, with the output as text.

    Raises:
        subprocess.TimeoutExpired: the script takes longer than ``timeout_s``; it is killed.
    """
    context = processes.start_context("forkserver")
    with tempfile.TemporaryDirectory() as directory:
        said = [Path(directory, name) for name in ("stdout", "stderr")]
        args = [str(path), *map(str, arguments)]
        with processes.starting_children():
            process = context.Process(target=_run, args=(args, said, environ), daemon=False)
            process.start()
        process.join(timeout_s)
        ended = process.exitcode is not None
        if not ended:
            process.kill()
            process.join()
        out, err = (file.read_text() if file.exists() else "" for file in said)
    if not ended:
        raise subprocess.TimeoutExpired(args, timeout_s, out, err)
    return subprocess.CompletedProcess(args, process.exitcode, out, err)


def _run(args, said, environ):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, processes.DEAF_TO)
    for stream, path in zip((1, 2), said, strict=True):
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    os.environ.update(environ)
    sys.argv = args
    sys.path.insert(0, str(Path(args[0]).parent))
    runpy.run_path(args[0], run_name="__main__")
