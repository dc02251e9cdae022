"""The memory copier: a process that moves batches of an asynchronous sampler into the replay."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlpyt.samplers import status
from rlpyt.samplers.pool import Limits, Pool
from rlpyt.samplers.status import allocate_progress
from rlpyt.samplers.workers import command_loop
from rlpyt.utils import serialize
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.processes import start_context, starter_lasts
from rlpyt.utils.stacks import StackFile


@dataclass(frozen=True)
class ReplayWriterSpec:
    """All that a copier is started with; travels by pickle."""

    rank: int
    recipe: bytes  # the algorithm without agent and replay, by value
    replay: serialize.ByValue  # in shared memory
    slots: Sequence[Any]  # the sampler's batches, in shared memory
    progress: Any  # numbers of ``samplers.status``, int64, shared with the parent
    stacks: StackFile
    starter_lasts: bool
    cpus: list[int] | None = None
    torch_threads: int = 1


def replay_writer_main(spec: ReplayWriterSpec, pipe: Connection) -> None:
    """Store what the parent says."""
    command_loop(spec, pipe, ReplayWriter)


class ReplayWriter:
    """Takes batches as the algorithm's ``samples_to_buffer`` would have them.

    Args:
        spec: what it is started with.
    """

    def __init__(self, spec: ReplayWriterSpec) -> None:
        self.spec = spec
        self.algo = serialize.loads(spec.recipe)
        self.algo.replay_buffer = spec.replay.carried
        self.slots = [torchify_buffer(slot) for slot in spec.slots]

    def start(self) -> None:
        """Ready."""
        self.spec.progress[status.DOING] = status.IDLE

    def store(self, slot: int, itr: int, new_priority: float) -> int:
        """Put a slot's batch into the replay; return how many of its rows are void.

        Args:
            slot: which.
            itr: of the sampler.
            new_priority: of samples that come without one, where replay is prioritised.
        """
        self.spec.progress[[status.ITR, status.DOING]] = itr, status.COLLECTING
        self.algo.new_priority = new_priority
        self.algo.store(self.slots[slot])
        self.spec.progress[status.DOING] = status.IDLE
        return int(getattr(self.algo, "n_void", 0))

    def where(self) -> status.WorkerStatus:
        """What the process is occupied with."""
        return replay_writer_status(self.spec)

    def close(self) -> None:
        """Nothing to release."""


class ReplayWriterStatus(status.WorkerStatus):
    """What a copier is occupied with; ``env`` is what it copies to."""

    def __str__(self) -> str:
        if self.doing == status.COLLECTING:
            return f"while storing the batch of iteration {self.itr} in {self.env}"
        last = f"after that of iteration {self.itr}" if self.itr >= 0 else "before the first one"
        return f"between batches for {self.env}, {last}"


def replay_writer_status(spec: ReplayWriterSpec) -> status.WorkerStatus:
    """What a copier is, or was, occupied with."""
    doing, itr = int(spec.progress[status.DOING]), int(spec.progress[status.ITR])
    return ReplayWriterStatus(doing, -1, False, itr, -1, type(spec.replay.carried).__name__, None)


class ReplayWriterPool(Pool):
    """The copier's parent's side.

    One process: several would need turns to keep the order of batches.

    Args:
        algo: after ``async_initialize``, before it has an optimizer.
        slots: the sampler's batches.
        timeout_s: for storing one batch.
        start_method: of processes.
        beat: called at short intervals while it is waited for; raises to give up.
    """

    target = replay_writer_main
    who = "memory copier"

    def __init__(
        self,
        algo: Any,
        slots: Sequence[Any],
        timeout_s: float,
        start_method: str | None = None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        bare = copy.copy(algo)
        bare.agent = bare.replay_buffer = None
        spec = ReplayWriterSpec(
            rank=0,
            recipe=serialize.dumps(bare),
            replay=serialize.ByValue(algo.replay_buffer),
            slots=slots,
            progress=allocate_progress(1)[0],
            stacks=StackFile(),
            starter_lasts=starter_lasts(start_context(start_method)),
        )
        super().__init__([spec], Limits(step_s=timeout_s), start_method, beat)

    def _status_of(self, rank: int, action: Any = None) -> status.WorkerStatus:
        return replay_writer_status(self._specs[rank])
