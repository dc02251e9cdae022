"""The ranks that rank 0 starts on its own machine: processes that each run a runner."""

import contextlib
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any

from rlpyt.utils import processes, serialize
from rlpyt.utils.stacks import StackFile

KILL_S = 2.0  # for a killed process to be gone


@dataclass(frozen=True)
class RankSpec:
    """All that a rank is started with; travels by pickle."""

    runner: bytes  # as constructed, by value
    stacks: StackFile


class RankProcesses:
    """Starts a process for each runner, and ends them.

    Each leads a process group, so nothing that a rank has started outlives it; all of them end
    with this process.

    Args:
        runners: of ranks 1, 2, ...; they know how to meet.

    Raises:
        WorkerError: the operating system refuses to start one.
    """

    def __init__(self, runners: Sequence[Any]) -> None:
        context = processes.start_context()
        processes.check_files_for(len(runners))
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._stacks = [StackFile() for _ in runners]
        # Before multiprocessing joins its children at exit, whatever was imported first.
        self._at_exit = Finalize(None, self.stop, exitpriority=10)
        try:
            with processes.starting_children():
                for i, (runner, stacks) in enumerate(zip(runners, self._stacks, strict=True)):
                    spec = RankSpec(serialize.dumps(runner), stacks)
                    who = f"rank {i + 1} of {len(runners) + 1}"
                    process, pipe = processes.start_child(
                        context, rank_main, spec, who, daemon=False
                    )
                    self._processes.append(process)
                    self._pipes.append(pipe)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """Of ranks 1, 2, ..."""
        return [process.pid for process in self._processes]

    def died(self) -> list[tuple[int, str]]:
        """(rank, how) of those that have ended."""
        return [
            (rank, processes.describe_exit(process.exitcode))
            for rank, process in enumerate(self._processes, 1)
            if process.exitcode is not None
        ]

    def stacks_of(self, rank: int) -> str:
        """The Python stacks of a rank; empty for rank 0."""
        if not 1 <= rank <= len(self._processes):
            return ""
        process, stacks = self._processes[rank - 1], self._stacks[rank - 1]
        return stacks.ask(process.pid) if process.exitcode is None else stacks.text()

    def kill(self) -> None:
        """End the processes at once; ``stop`` ends what they have started."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.kill()

    def stop(self, patience_s: float = 0.0) -> None:
        """Wait a little for all to end, then end them. Can be called again."""
        self._at_exit.cancel()
        try:
            if not patience_s:
                self.kill()
            processes.stop(self._processes, patience_s or KILL_S)
        finally:
            for pipe in self._pipes:
                pipe.close()
            self._pipes = []


def rank_main(spec: RankSpec, pipe: Connection) -> None:
    """Run a rank's runner. Rank 0 reads of its failure in the store; its settings are rank 0's.

    So what its settings deserve to be warned of, rank 0 says.
    """
    spec.stacks.listen()
    warnings.simplefilter("ignore", UserWarning)
    try:
        serialize.loads(spec.runner).train()
    except BaseException:  # whatever it is, it was reported
        sys.exit(1)
