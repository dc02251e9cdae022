"""Scripts that tests run as programs, without the seconds that a new interpreter takes."""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from rlpyt.utils import processes


class Program:
    """A script that runs in a child of the fork server, which has imported torch already.

    The child is not daemonic, so that it may start workers.

    Args:
        path: of the script.
        arguments: its command line.
        environ: variables of its environment, beside those of this process.
        directory: to run it in; ``None``: that of this process.
        own_server: start a fork server for its workers, as programs do. It imports torch. Else they
            come from the one of the tests, with the variables of that one's environment.
    """

    def __init__(self, path, *arguments, environ=None, directory=None, own_server=True):
        self.args = [str(path), *map(str, arguments)]
        self._directory = tempfile.TemporaryDirectory()
        self._said = [Path(self._directory.name, name) for name in ("stdout", "stderr")]
        context = processes.start_context("forkserver")
        args = (self.args, self._said, environ or {}, directory, own_server)
        with processes.starting_children():
            self._process = context.Process(target=_run, args=args, daemon=False)
            self._process.start()

    def wait(self, timeout_s=100):
        """Wait for the script's end.

        Returns:
            subprocess.CompletedProcess, with the output as text.

        Raises:
            subprocess.TimeoutExpired: the script takes longer; it is killed.
        """
        self._process.join(timeout_s)
        ended = self._process.exitcode is not None
        self.kill()
        out, err = (file.read_text() if file.exists() else "" for file in self._said)
        self._directory.cleanup()
        if not ended:
            raise subprocess.TimeoutExpired(self.args, timeout_s, out, err)
        return subprocess.CompletedProcess(self.args, self._process.exitcode, out, err)

    def wait_for(self, file, timeout_s=100):
        """Wait until the script has made a file."""
        deadline = time.monotonic() + timeout_s
        while not file.exists():
            assert time.monotonic() < deadline, "the script did not get going"
            assert self._process.exitcode is None, self.wait()
            time.sleep(0.02)

    def send(self, number):
        """Send it a signal, if it still runs."""
        if self._process.exitcode is None:
            os.kill(self._process.pid, number)

    def send_to_group(self, number):
        """Send a signal to the process group of a script that leads one, as a terminal does."""
        assert os.getpgid(self._process.pid) == self._process.pid
        os.killpg(self._process.pid, number)

    def kill(self):
        """End it at once, if it still runs."""
        self._process.kill()
        self._process.join()


def run_script(path, *arguments, timeout_s=100, **kwargs):
    """Run a script to its end, with workers of the tests' fork server; see ``Program``."""
    return Program(path, *arguments, own_server=False, **kwargs).wait(timeout_s)


def _run(args, said, environ, directory, own_server):
    if not own_server:  # multiprocessing would start one, although it inherits what it needs
        forkserver._forkserver.ensure_running = resource_tracker.ensure_running
    signal.pthread_sigmask(signal.SIG_UNBLOCK, processes.GROUP_SIGNALS)
    for stream, path in zip((1, 2), said, strict=True):
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    os.environ.update(environ)
    if directory is not None:
        os.chdir(directory)
    sys.argv = args
    sys.path.insert(0, str(Path(args[0]).parent))
    runpy.run_path(args[0], run_name="__main__")
