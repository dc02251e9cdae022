"""Pipeline of batches in asynchronous runs: threads that call sampler and replay writer."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.runners.run_state import from_plain, to_plain
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.utils.buffer import leaves_of

POLL_S = 0.5  # seconds between two checks for signals while waiting
STOP_S = 10.0  # time for a thread to abandon its task; then its processes are stopped


@dataclass
class Batch:
    """One batch on its way from sampler to optimizer.

    Attributes:
        itr: iteration of the sampler.
        slot: index of the sampler's slot with its samples; ``None`` once the slot is released.
        traj_infos: trajectories completed in the batch.
        policy_updates: number of updates of the policy that collected the batch.
        n_void: rows in which an environment waited for a reset; known once the batch is stored.
        seconds: time that the sampler took to collect it.
    """

    itr: int
    slot: int | None
    traj_infos: list[Any]
    policy_updates: int
    n_void: int = 0
    seconds: float = 0.0


class BatchPipeline:
    """Pipeline of batches: one thread makes the sampler collect them, another one stores them.

    Both threads only wait for processes. The optimizer's thread, which owns the pipeline, waits for
    batches. One condition guards all shared state.

    Args:
        sampler: asynchronous sampler, initialized.
        begin, end: first iteration of the sampler, and the last plus one.
        store: function that stores a ``Batch`` in the replay; ``None``: there is no replay, and the
            optimizer learns from the slots.
        keep_slots: True if a batch keeps its slot until ``release``.
        max_lead: number of batches that the sampler may be ahead of ``allow``; ``None``: unlimited.

    Attributes:
        learner_waited_s, sampler_waited_s: seconds that the optimizer has waited for batches, and
            the sampler for a free slot or for ``allow``.
    """

    def __init__(
        self,
        sampler: AsyncSamplerMixin,
        begin: int,
        end: int,
        store: Callable[[Batch], None] | None = None,
        keep_slots: bool = False,
        max_lead: int | None = None,
    ) -> None:
        self.sampler = sampler
        self.next_itr, self.end = begin, end
        self._store, self._keep_slots = store, keep_slots or store is None
        self._max_lead, self._n_trained = max_lead, begin
        self._changed = threading.Condition()
        self._free = deque(range(len(sampler.slots)))
        self._collected: deque[Batch] = deque()
        self._ready: deque[Batch] = deque()
        self._paused = self._halted = self._stopped = False  # halted: also stop storing
        self._busy_roles: set[str] = set()  # threads with a task
        self._evaluation_itr: int | None = None
        self._evaluation: list[Any] | None = None
        self._error: BaseException | None = None
        self._error_raised = False  # to the optimizer's thread
        self.learner_waited_s = self.sampler_waited_s = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(role,), name=f"feed, {role}", daemon=True)
            for role in ("sampling", *(() if store is None else ("storing",)))
        ]

    def start(self) -> None:
        """Start the threads."""
        self.sampler.interrupt = self._raise_if_ended  # type: ignore[method-assign]
        for thread in self._threads:
            thread.start()

    # Called by the optimizer's thread.

    def next(self) -> Batch:
        """Wait for the next batch to learn from, and return it.

        Raises:
            WorkerError: the sampler or the replay writer failed.
        """
        started = time.monotonic()
        with self._changed:
            self._raise_error()
            self._wait_for(lambda: self._ready)
            self.learner_waited_s += time.monotonic() - started
            return self._ready.popleft()

    @property
    def n_ready(self) -> int:
        """Return the number of batches that ``next`` would return without waiting.

        Raises:
            WorkerError: the sampler or the replay writer failed.
        """
        with self._changed:
            self._raise_error()
            return len(self._ready)

    def release(self, batch: Batch) -> None:
        """Release a batch's slot, so that the sampler can use it again."""
        with self._changed:
            self._release_slot(batch)

    def allow(self, n_batches: int) -> None:
        """Set the number of batches for which all due updates were made, see ``max_lead``."""
        with self._changed:
            self._n_trained = n_batches
            self._changed.notify_all()

    def request_evaluation(self, itr: int) -> None:
        """Make the sampler evaluate before it collects another batch."""
        with self._changed:
            self._evaluation_itr = itr
            self._changed.notify_all()

    def take_evaluation(self, wait: bool = False) -> list[Any] | None:
        """Return the trajectories of a finished evaluation, once; ``None`` if there is none.

        Args:
            wait: True to wait for a requested evaluation.
        """
        with self._changed:
            if wait:
                self._wait_for(lambda: self._evaluation_itr is None)
            result, self._evaluation = self._evaluation, None
            return result

    @property
    def evaluating(self) -> bool:
        """Return True if a requested evaluation has not ended."""
        return self._evaluation_itr is not None

    @property
    def evaluation_pending(self) -> bool:
        """Return True if the result of a requested evaluation has not been taken."""
        return self._evaluation_itr is not None or self._evaluation is not None

    @property
    def failed(self) -> bool:
        """Return True if the sampler or the replay writer has failed."""
        return self._error is not None

    @contextmanager
    def paused(self, after_failure: bool = False) -> Iterator[None]:
        """Store all collected batches, then pause collecting and storing inside the context.

        After a failure, batches that are not stored are dropped; a resumed run collects them again.

        Args:
            after_failure: True if another process that uses the replay has failed.

        Raises:
            WorkerError: the sampler or the replay writer failed, and the error was not raised yet.
        """
        with self._changed:
            drop_unstored = self._halted = self._error_raised or after_failure
            self._paused = True
            self._wait_for(
                lambda: not self._busy_roles and (drop_unstored or not self._collected),
                ignore_errors=drop_unstored,
            )
            if not drop_unstored:  # a thread may have failed with its last task
                self._raise_error()
        try:
            yield
        except BaseException:  # such as a process that fails while it returns its state
            self._error_raised = True
            raise
        finally:
            with self._changed:
                self._paused = self._halted = False
                self._changed.notify_all()

    def stop(self) -> None:
        """Stop both threads and interrupt the sampler; can be called again."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_S)

    def check(self) -> None:
        """Raise the error of a thread that failed, once both threads are idle."""
        if not self._busy_roles:
            self._raise_error()

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` if the run has ended; called while waiting for the replay writer."""
        if self._stopped:
            raise Stopped

    def _raise_if_ended(self) -> None:
        """Raise `Stopped` if the run has ended or failed; called while waiting for the sampler."""
        if self._stopped or self._error is not None:
            raise Stopped

    def _wait_for(self, ready: Callable[[], Any], ignore_errors: bool = False) -> None:
        while not ready():
            if not ignore_errors:
                self._raise_error()
            if self._evaluation_itr is not None and self.sampler.should_stop():
                self.sampler.stop_evaluation()
            self._changed.wait(POLL_S)

    def _raise_error(self) -> None:
        if self._error is not None:
            self._error_raised = True
            raise self._error

    # Run by the threads.

    def _run(self, role: str) -> None:
        prepare = self._prepare_sampling if role == "sampling" else self._prepare_storing
        error: BaseException | None = None
        while error is None:
            with self._changed:
                task = None
                while not self._stopped and self._error is None:
                    task = prepare()
                    if task is not None:
                        break
                    self._wait_idle(role)
                if task is None:
                    return
                self._busy_roles.add(role)
            finish = None
            try:
                finish = task()
            except BaseException as caught:  # raised again in the optimizer's thread
                error = caught
            with self._changed:
                self._busy_roles.discard(role)
                if finish is not None:
                    finish()
                elif self._error is None and not isinstance(error, Stopped):
                    self._error = error
                self._changed.notify_all()

    def _wait_idle(self, role: str) -> None:
        started = time.monotonic()
        self._changed.wait()
        if role == "sampling" and self.next_itr < self.end and not self._paused:
            self.sampler_waited_s += time.monotonic() - started

    def _prepare_sampling(self) -> Callable[[], Callable[[], None]] | None:
        """Return the next task of the sampler, or ``None``; call with the condition held."""
        if self._paused:
            return None
        if self._evaluation_itr is not None:
            itr = self._evaluation_itr
            return lambda: self._evaluate(itr)
        if self.next_itr >= self.end or not self._free:
            return None
        if self._max_lead is not None and self.next_itr > self._n_trained + self._max_lead:
            return None
        itr, slot = self.next_itr, self._free.popleft()
        return lambda: self._collect(itr, slot)

    def _collect(self, itr: int, slot: int) -> Callable[[], None]:
        started = time.perf_counter()
        traj_infos = self.sampler.obtain_samples(itr, slot)
        seconds = time.perf_counter() - started
        batch = Batch(itr, slot, traj_infos, self.sampler.policy_updates, seconds=seconds)

        def finish() -> None:
            self.next_itr = itr + 1
            (self._ready if self._store is None else self._collected).append(batch)

        return finish

    def _evaluate(self, itr: int) -> Callable[[], None]:
        traj_infos = self.sampler.evaluate_agent(max(itr, 0))

        def finish() -> None:
            self._evaluation = traj_infos
            self._evaluation_itr = None

        return finish

    def _prepare_storing(self) -> Callable[[], Callable[[], None]] | None:
        if self._halted or not self._collected:
            return None
        batch = self._collected[0]
        return lambda: self._store_batch(batch)

    def _store_batch(self, batch: Batch) -> Callable[[], None]:
        assert self._store is not None
        self._store(batch)

        def finish() -> None:
            self._collected.popleft()
            if not self._keep_slots:
                self._release_slot(batch)
            self._ready.append(batch)

        return finish

    def _release_slot(self, batch: Batch) -> None:
        if batch.slot is not None:
            self._free.append(batch.slot)
            batch.slot = None
            self._changed.notify_all()

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return the sampler's iteration and the batches that are ready; call while paused."""
        return {
            "next_itr": self._collected[0].itr if self._collected else self.next_itr,
            "ready": [
                {
                    "itr": batch.itr,
                    "policy_updates": batch.policy_updates,
                    "n_void": batch.n_void,
                    "seconds": batch.seconds,
                    "traj_infos": to_plain(batch.traj_infos),
                    "samples": None
                    if batch.slot is None
                    else [leaf.copy() for leaf in leaves_of(self.sampler.slots[batch.slot])],
                }
                for batch in self._ready
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``; call before ``start``."""
        self.next_itr = state["next_itr"]
        self._n_trained = self.next_itr - len(state["ready"])
        for saved in state["ready"]:
            slot = None
            if saved["samples"] is not None:
                slot = self._free.popleft()
                leaves = leaves_of(self.sampler.slots[slot])
                for leaf, saved_leaf in zip(leaves, saved["samples"], strict=True):
                    leaf[...] = saved_leaf
            infos = from_plain(saved["traj_infos"])
            counts = saved["policy_updates"], saved.get("n_void", 0), saved.get("seconds", 0.0)
            self._ready.append(Batch(saved["itr"], slot, infos, *counts))


class Stopped(RlpytError):
    """The pipeline was stopped; its threads abandon their tasks."""
