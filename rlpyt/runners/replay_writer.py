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
    """Child process that stores batches in the replay, by the algorithm's ``store``.

    Args:
        spec: spec of the process, with a ``ReplayWriterPayload``.
    """

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        payload: ReplayWriterPayload = spec.payload.value
        self.algo = payload.algo
        self.algo.replay_buffer = payload.replay
        self.slots = [torchify_buffer(slot) for slot in payload.slots]

    def start(self) -> None:
        """Report that the process is ready."""
        self.spec.progress[status.ACTIVITY] = status.IDLE

    def store(self, slot: int, itr: int, new_priority: float, changes: ByValue) -> int:
        """Store a slot's batch in the replay; return its number of void rows.

        Args:
            slot: index of the slot.
            itr: iteration of the sampler.
            new_priority: priority of samples that have none, in a prioritized replay.
            changes: dictionary of the settings changed in the runner's process.
        """
        self.spec.progress[[status.ITR, status.ACTIVITY]] = itr, status.COLLECTING
        self.algo.new_priority = new_priority
        self.algo.change(changes.value)
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
    """Start the replay writer, a single process, so that batches stay in order.

    Args:
        algo: algorithm, after ``async_initialize`` and before ``optim_initialize``.
        slots: batches of the sampler.
        timeout_s: time limit for storing one batch.
        start_method: start method of the process.
        poll: function called at short intervals while waiting for the process; may raise to stop.
    """
    bare = copy.copy(algo)
    bare.agent = bare.replay_buffer = None
    bare._followers, bare._fixed = {}, {}  # of an earlier run
    payload = ReplayWriterPayload(bare, algo.replay_buffer, slots)
    return ChildGroup(
        "replay writer",
        [ChildSpec(0, ReplayWriter, ByValue(payload))],
        replay_writer_status,
        Limits(step_s=timeout_s),
        Pipes(start_method),
        poll,
    )
