"""Batches of an asynchronous runner: threads that command the sampler and the replay writer."""

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

LOOK_S = 0.5  # between two checks for signals while the optimizer's thread waits


@dataclass
class Batch:
    """One batch between sampler and optimizer.

    Attributes:
        itr: iteration of the sampler.
        slot: index of the sampler's slot that holds it; ``None`` once the slot is released.
        traj_infos: trajectories that ended in it.
        policy_updates: number of updates of the policy that collected it.
        n_void: rows in which an environment waited for a reset; known once the batch is stored.
    """

    itr: int
    slot: int | None
    traj_infos: list[Any]
    policy_updates: int
    n_void: int = 0


class BatchPipeline:
    """Pipeline of batches: one thread has the sampler collect, another one stores them.

    Both threads only wait for processes. The optimizer's thread, which owns the pipeline, waits for
    batches. One condition guards all that the threads share.

    Args:
        sampler: an asynchronous one, initialized.
        begin, end: first iteration of the sampler, and the one after the last.
        store: puts a ``Batch`` into the replay; ``None``: there is no replay, and the optimizer
            learns from the slots.
        hold: whether a batch keeps its slot until ``release``.
        lead: how many batches the sampler may be ahead of ``allow``; ``None``: any number.

    Attributes:
        learner_waited_s, sampler_waited_s: how long the optimizer has waited for batches, and the
            sampler for a free slot or for its turn.
    """

    def __init__(
        self,
        sampler: AsyncSamplerMixin,
        begin: int,
        end: int,
        store: Callable[[Batch], None] | None = None,
        hold: bool = False,
        lead: int | None = None,
    ) -> None:
        self.sampler = sampler
        self.next_itr, self.end = begin, end
        self._store, self._hold = store, hold or store is None
        self._lead, self._learnt = lead, begin
        self._changed = threading.Condition()
        self._free = deque(range(len(sampler.slots)))
        self._collected: deque[Batch] = deque()
        self._ready: deque[Batch] = deque()
        self._paused = self._halted = self._stopped = False  # halted: not even what has come
        self._busy: set[str] = set()  # threads
        self._to_evaluate: int | None = None
        self._evaluation: list[Any] | None = None
        self._error: BaseException | None = None
        self._told = False  # the optimizer's thread knows of a failure
        self.learner_waited_s = self.sampler_waited_s = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=f"feed, {work}", daemon=True)
            for work in ("sampling", *(() if store is None else ("storing",)))
        ]

    def start(self) -> None:
        """Start to collect."""
        self.sampler.interrupt = self._raise_if_over  # type: ignore[method-assign]
        for thread in self._threads:
            thread.start()

    # Called by the optimizer's thread.

    def next(self) -> Batch:
        """Return the next batch to learn from, in order; wait for it.

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
        """Return the number of batches that ``next`` would return at once.

        Raises:
            WorkerError: the sampler or the replay writer failed.
        """
        with self._changed:
            self._raise_error()
            return len(self._ready)

    def release(self, batch: Batch) -> None:
        """Give a batch's slot back to the sampler."""
        with self._changed:
            self._give_back(batch)

    def allow(self, learnt: int) -> None:
        """Set the number of batches after which all due updates were made, for ``lead``."""
        with self._changed:
            self._learnt = learnt
            self._changed.notify_all()

    def request_evaluation(self, itr: int) -> None:
        """Have the sampler evaluate before it collects another batch."""
        with self._changed:
            self._to_evaluate = itr
            self._changed.notify_all()

    def take_evaluation(self, wait: bool = False) -> list[Any] | None:
        """Return the trajectories of an evaluation, once; ``None`` if none has ended.

        Args:
            wait: for the one that was requested, if any.
        """
        with self._changed:
            if wait:
                self._wait_for(lambda: self._to_evaluate is None)
            result, self._evaluation = self._evaluation, None
            return result

    @property
    def evaluating(self) -> bool:
        """Return True if an evaluation was requested that has not ended."""
        return self._to_evaluate is not None

    @property
    def owes_evaluation(self) -> bool:
        """Return True if an evaluation was requested whose result has not been taken."""
        return self._to_evaluate is not None or self._evaluation is not None

    @property
    def failed(self) -> bool:
        """Return True if the sampler or the replay writer has failed."""
        return self._error is not None

    @contextmanager
    def paused(self, after_failure: bool = False) -> Iterator[None]:
        """Stop collecting and storing while inside, after all collected batches are stored.

        After a failure, batches that are not stored are lost; a resumed run collects them again.

        Args:
            after_failure: whether another process that uses the replay has failed.

        Raises:
            WorkerError: the sampler or the replay writer failed, and this was not raised before.
        """
        with self._changed:
            lost = self._halted = self._told or after_failure
            self._paused = True
            self._wait_for(lambda: not self._busy and (lost or not self._collected), anyway=lost)
            if not lost:  # a thread may have failed with its last task
                self._raise_error()
        try:
            yield
        except BaseException:  # of a process that the optimizer's thread itself asked for its state
            self._told = True
            raise
        finally:
            with self._changed:
                self._paused = self._halted = False
                self._changed.notify_all()

    def stop(self) -> None:
        """End both threads and interrupt the sampler; can be called again."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def check(self) -> None:
        """Raise the error of a thread that failed, once both threads are idle."""
        if not self._busy:
            self._raise_error()

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` if the run has ended; called while waiting for the replay writer."""
        if self._stopped:
            raise Stopped

    def _raise_if_over(self) -> None:
        """Raise `Stopped` if the run has ended or failed; called while waiting for the sampler."""
        if self._stopped or self._error is not None:
            raise Stopped

    def _wait_for(self, ready: Callable[[], Any], anyway: bool = False) -> None:
        while not ready():
            if not anyway:
                self._raise_error()
            if self._to_evaluate is not None and self.sampler.should_stop():
                self.sampler.stop_evaluation()
            self._changed.wait(LOOK_S)

    def _raise_error(self) -> None:
        if self._error is not None:
            self._told = True
            raise self._error

    # Run by the threads.

    def _run(self, work: str) -> None:
        prepare = self._prepare_sampling if work == "sampling" else self._prepare_storing
        error: BaseException | None = None
        while error is None:
            with self._changed:
                task = None
                while not self._stopped and self._error is None:
                    task = prepare()
                    if task is not None:
                        break
                    self._wait_idle(work)
                if task is None:
                    return
                self._busy.add(work)
            finish = None
            try:
                finish = task()
            except BaseException as caught:  # whatever it is, the optimizer's thread raises it
                error = caught
            with self._changed:
                self._busy.discard(work)
                if finish is not None:
                    finish()
                elif self._error is None and not isinstance(error, Stopped):
                    self._error = error
                self._changed.notify_all()

    def _wait_idle(self, work: str) -> None:
        started = time.monotonic()
        self._changed.wait()
        if work == "sampling" and self.next_itr < self.end and not self._paused:
            self.sampler_waited_s += time.monotonic() - started

    def _prepare_sampling(self) -> Callable[[], Callable[[], None]] | None:
        """Return what the sampler should do now, None for nothing; call with the condition held."""
        if self._paused:
            return None
        if self._to_evaluate is not None:
            itr = self._to_evaluate
            return lambda: self._evaluate(itr)
        if self.next_itr >= self.end or not self._free:
            return None
        if self._lead is not None and self.next_itr > self._learnt + self._lead:
            return None
        itr, slot = self.next_itr, self._free.popleft()
        return lambda: self._collect(itr, slot)

    def _collect(self, itr: int, slot: int) -> Callable[[], None]:
        traj_infos = self.sampler.obtain_samples(itr, slot)
        batch = Batch(itr, slot, traj_infos, self.sampler.policy_updates)

        def finish() -> None:
            self.next_itr = itr + 1
            (self._ready if self._store is None else self._collected).append(batch)

        return finish

    def _evaluate(self, itr: int) -> Callable[[], None]:
        traj_infos = self.sampler.evaluate_agent(max(itr, 0))

        def finish() -> None:
            self._evaluation = traj_infos
            self._to_evaluate = None

        return finish

    def _prepare_storing(self) -> Callable[[], Callable[[], None]] | None:
        if self._halted or not self._collected:
            return None
        batch = self._collected[0]
        return lambda: self._put_away(batch)

    def _put_away(self, batch: Batch) -> Callable[[], None]:
        assert self._store is not None
        self._store(batch)

        def finish() -> None:
            self._collected.popleft()
            if not self._hold:
                self._give_back(batch)
            self._ready.append(batch)

        return finish

    def _give_back(self, batch: Batch) -> None:
        if batch.slot is not None:
            self._free.append(batch.slot)
            batch.slot = None
            self._changed.notify_all()

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return the sampler's progress and the batches not yet learnt from; call while paused."""
        return {
            "next_itr": self._collected[0].itr if self._collected else self.next_itr,
            "ready": [
                {
                    "itr": batch.itr,
                    "policy_updates": batch.policy_updates,
                    "n_void": batch.n_void,
                    "traj_infos": to_plain(batch.traj_infos),
                    "samples": None
                    if batch.slot is None
                    else [leaf.copy() for leaf in leaves_of(self.sampler.slots[batch.slot])],
                }
                for batch in self._ready
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what ``state_dict`` returned; call before ``start``."""
        self.next_itr = state["next_itr"]
        self._learnt = self.next_itr - len(state["ready"])
        for saved in state["ready"]:
            slot = None
            if saved["samples"] is not None:
                slot = self._free.popleft()
                for own, leaf in zip(
                    leaves_of(self.sampler.slots[slot]), saved["samples"], strict=True
                ):
                    own[...] = leaf
            infos = from_plain(saved["traj_infos"])
            counts = saved["policy_updates"], saved.get("n_void", 0)
            self._ready.append(Batch(saved["itr"], slot, infos, *counts))


class Stopped(RlpytError):
    """The pipeline was stopped; its threads need not finish their work."""
