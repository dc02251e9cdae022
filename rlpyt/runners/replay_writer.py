"""The replay writer: a process that stores batches of an asynchronous sampler in the replay."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlpyt.algos.replay import ReplayAlgo
from rlpyt.processes import status
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.serialize import ByValue


@dataclass(frozen=True)
class ReplayWriterPayload:
    """Input of ``ReplayWriter``."""

    algo: ReplayAlgo  # without agent and replay
    replay: ReplayBuffer  # in shared memory
    slots: Sequence[Any]  # the sampler's batches, in shared memory


class ReplayWriter(Child):
    """Child process that stores batches, as the algorithm's ``samples_to_buffer`` returns them.

    Args:
        spec: of the process, with a ``ReplayWriterPayload``.
    """

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        own: ReplayWriterPayload = spec.payload.value
        self.algo = own.algo
        self.algo.replay_buffer = own.replay
        self.slots = [torchify_buffer(slot) for slot in own.slots]

    def start(self) -> None:
        """Report that the process is ready."""
        self.spec.progress[status.ACTIVITY] = status.IDLE

    def store(self, slot: int, itr: int, new_priority: float) -> int:
        """Put a slot's batch into the replay; return how many of its rows are void.

        Args:
            slot: which.
            itr: of the sampler.
            new_priority: of samples that come without one, where replay is prioritised.
        """
        self.spec.progress[[status.ITR, status.ACTIVITY]] = itr, status.COLLECTING
        self.algo.new_priority = new_priority
        self.algo.store(self.slots[slot])
        self.spec.progress[status.ACTIVITY] = status.IDLE
        return self.algo.n_void


def replay_writer_status(spec: ChildSpec) -> status.WorkerStatus:
    """Describe a replay writer from its activity numbers."""
    doing, itr = int(spec.progress[status.ACTIVITY]), int(spec.progress[status.ITR])
    replay = type(spec.payload.value.replay).__name__
    last = f"after that of iteration {itr}" if itr >= 0 else "before the first one"
    text = f"between batches for {replay}, {last}"
    if doing == status.COLLECTING:
        text = f"while storing the batch of iteration {itr} in {replay}"
    return status.WorkerStatus(doing, itr, text=text)


def start_replay_writer(
    algo: ReplayAlgo,
    slots: Sequence[Any],
    timeout_s: float,
    start_method: str | None = None,
    poll: Callable[[], None] | None = None,
) -> ChildGroup:
    """Start a replay writer: one process, since several would not keep the order of batches.

    Args:
        algo: after ``async_initialize``, before it has an optimizer.
        slots: the sampler's batches.
        timeout_s: for storing one batch.
        start_method: of the process.
        poll: called at short intervals while it is waited for; raises to give up.
    """
    bare = copy.copy(algo)
    bare.agent = bare.replay_buffer = None
    payload = ReplayWriterPayload(bare, algo.replay_buffer, slots)
    return ChildGroup(
        "memory copier",
        [ChildSpec(0, ReplayWriter, ByValue(payload))],
        replay_writer_status,
        Limits(step_s=timeout_s),
        Pipes(start_method),
        poll,
    )
