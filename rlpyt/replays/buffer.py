"""The replay buffer: one class, composed of a ring, a storage, targets, a selection and a window.

The replays in ``replays.non_sequence`` and ``replays.sequence`` choose its parts by class
attributes.
"""

import math
from abc import ABCMeta
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.hindsight import Hindsight
from rlpyt.replays.memory import Memory
from rlpyt.replays.ring import Ring
from rlpyt.replays.rnn_states import RnnStateStore
from rlpyt.replays.rows import RowBatch
from rlpyt.replays.selection import (
    PrioritizedSelection,
    PrioritySettings,
    UniformSelection,
    multiples,
    not_ready_error,
)
from rlpyt.replays.storage import FullStorage, check_example, default_capacity
from rlpyt.replays.targets import NStep
from rlpyt.replays.window import TransitionWindow, null_leaves
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import NamedArrayTuple, with_fields, without_fields
from rlpyt.utils.logging import logger
from rlpyt.utils.old_names import AssignableProperty
from rlpyt.utils.seed import get_seed, stream
from rlpyt.utils.synchronize import RWLock, forget_names

Array = NDArray[Any]

UNLOCKED: AbstractContextManager[None] = nullcontext()


class BaseReplayBuffer:
    """Interface of replays: store samples, and return batches of them."""

    async_ = False  # in shared memory, with other processes appending
    device = torch.device("cpu")  # of samples and batches
    min_rows = 1  # rows needed before the replay can be sampled, if that is known
    rw_lock: RWLock | None = None  # lock of replays in shared memory
    while_waiting: Callable[[], None] | None = None

    def append_samples(self, samples: NamedArrayTuple) -> Any:
        """Add samples [T, B], replacing the oldest ones if the replay is full."""
        raise NotImplementedError(f"{type(self).__name__} must implement append_samples.")

    def with_finals(self, samples: NamedArrayTuple, batch: Any) -> Any:
        """Hook: add the final observations of a sampler's batch to what is stored of it."""
        return samples

    def append_batch(self, samples: NamedArrayTuple, void: Any = None) -> int:
        """Add the samples of a sampler's batch; return the number of rows marked as void.

        Args:
            samples: what is stored of the batch, [T, B] like the example.
            void: [T, B] bool, rows recorded while an environment waited for its reset; ``None``:
                none. This class stores them as others, so that the number is 0.
        """
        self.append_samples(samples)
        return 0

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Return a batch to train on."""
        raise NotImplementedError(f"{type(self).__name__} must implement sample_batch.")

    def set_seed(self, seed: int | None, rank: int = 0) -> None:
        """Hook: seed the random stream of this process, one of several that sample."""

    def set_default_priority(self, priority: float) -> None:
        """Hook: set the priority of samples that are added without priorities."""

    def interrupt(self) -> int:
        """Hook: end open episodes, as in ``ReplayBuffer``; return the number of rows removed."""
        return 0

    # Locking of replays in shared memory

    def forget_names(self) -> None:
        """Unlink the lock's semaphores; call after all processes have received the replay."""
        if self.rw_lock is not None:
            forget_names(self.rw_lock.parts)

    def abort_waiters(self) -> None:
        """Make all processes that wait for the lock raise, after its holder has died."""
        if self.rw_lock is not None:
            self.rw_lock.abort_waiters()

    def recover_after_crash(self) -> bool:
        """Release the lock after processes that used the replay have died.

        No running process may use the replay meanwhile.

        Returns:
            True if a process died while writing; the rows are then unreliable.
        """
        return self.rw_lock is not None and self.rw_lock.recover_after_crash()

    # Cursor ``t`` and ``_buffer_full`` of ``AsyncReplayBufferMixin`` without rlpyt's replays

    async_t: Any
    _async_buffer_full: Any

    def _async_pull(self) -> None:
        """Take the cursor that the last writer has pushed."""
        self.t, self._buffer_full = self.async_t.value, bool(self._async_buffer_full.value)

    def _async_push(self) -> None:
        """Let the other processes see this one's cursor."""
        self.async_t.value, self._async_buffer_full.value = self.t, int(self._buffer_full)

    def _reading(self) -> AbstractContextManager[None]:
        """Return a context in which no other process writes."""
        lock = self.rw_lock
        return UNLOCKED if lock is None else lock.held(False, self.while_waiting)

    def _writing(self) -> AbstractContextManager[None]:
        """Return a context in which no other process reads or writes."""
        lock = self.rw_lock
        return UNLOCKED if lock is None else lock.held(True, self.while_waiting)


class ReplayBuffer(BaseReplayBuffer, metaclass=ABCMeta):
    """Replay of the newest ``size`` transitions of B environments.

    A row can be sampled while the rows that its sample needs are stored; see ``replays.ring``. If
    the sampler delays resets until the end of a batch, samples mark void rows, which are never
    sampled.

    With ``async_`` the replay is in shared memory and has a lock: several processes may sample at
    the same time, or one may write. Pass it to processes as an argument when they are started; they
    share rows, cursor and priorities. Each has its own random stream, see ``set_seed``.

    Subclasses may override ``sample_idxs``, ``extract_batch``, ``extract_observation`` and
    ``extract_final_observation``, which ``sample_batch`` calls, and ``compute_returns``.

    Args:
        example: named tuple of one step without leading dimensions: observation, action, reward,
            done, and further fields to store: ``timeout``, ``prev_rnn_state``.
        size: number of transitions; rounded up to full rows of B.
        B: number of environments, the second dimension of all samples.
        discount: gamma of n-step returns and ``discount_n``.
        n_step_return: n, the number of rewards in a return.
        rnn_state_interval: (sequences) steps between stored recurrent states, at which sequences
            start; below 1: store none.
        batch_T: (sequences) steps of a sequence; can be overridden in ``sample_batch``.
        priorities: settings of prioritized selection.
        seed: seed of the random stream; None: the seed of the process (``utils.seed``).
        force: True to allocate even if the available memory seems insufficient.
        final_capacity: capacity for final observations of truncated episodes in shared memory;
            None: sufficient if episodes have at least 40 steps. Truncations beyond it count as
            terminations, with a warning. Ignored without ``async_``, where the capacity grows.
        null_action: previous action at the beginning of an episode, one value or a tree like the
            action; usually ``env_spaces.action.null_value()``.
        hindsight: part that gives new goals to drawn transitions; ``None``: they keep theirs.

    Attributes:
        Storage, Selection, Window: classes of the parts.
        part_names: names of part attributes; a replay with the same parts passes ``issubclass`` for
            this class (compatibility with rlpyt's mixins).
        time_limits: (class attribute) True if samples have the field ``timeout``, which is
            ``env_info.timeout``; batches then have ``timeout`` and ``timeout_n``.
        row_stride: samples start at rows that are multiples of it.
        rw_lock: (with ``async_``) readers-writer lock.
        while_waiting: (with ``async_``) function called every second while another process holds
            the lock; may raise to stop waiting.

    Raises:
        TypeError: an argument or the example has the wrong type.
        ValueError: an argument is out of range, or the replay has too few rows for any sample.
        ReplayTooLarge: the replay would not fit into memory.
    """

    Storage: Any = FullStorage
    Selection: Any = UniformSelection
    Window: Any = TransitionWindow
    time_limits = False
    part_names: ClassVar[str]
    _warned_missing_finals = False
    _beside: tuple[Any, Any] = None, None  # finals and void rows of the batch that is appended

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        others = cls.__mro__[cls.__mro__.index(ReplayBuffer) + 1 :]
        own = {"append_samples", "sample_batch", "extract_batch"}
        hidden = [c.__name__ for c in others if c is not BaseReplayBuffer and own & {*vars(c)}]
        if hidden:
            raise TypeError(
                f"{cls.__name__}: the methods of {hidden[0]} would not be used, since a base class "
                f"before it is a ReplayBuffer. Derive {hidden[0]} from ReplayBuffer or one of its "
                "subclasses, or copy the base before it, too."
            )

    def __init__(
        self,
        example: NamedArrayTuple,
        size: int,
        B: int,
        discount: float = 1,
        n_step_return: int = 1,
        *,
        rnn_state_interval: int = 0,
        batch_T: int | None = None,
        priorities: PrioritySettings | None = None,
        seed: int | None = None,
        force: bool = False,
        final_capacity: int | None = None,
        null_action: Any = 0,
        hindsight: Hindsight | None = None,
    ) -> None:
        check_example(example, *(["timeout"] if self.time_limits else []))
        self.B = B = whole_number("B", B, 1)
        self.row_stride = row_stride = max(1, rnn_state_interval)
        self.T = T = (
            math.ceil(math.ceil(whole_number("size", size, 1) / B) / row_stride) * row_stride
        )
        self.size = T * B
        self.rnn_state_interval, self.batch_T = rnn_state_interval, batch_T
        self.targets = NStep(n_step_return, discount, self.time_limits)
        self.n_step_return, self.discount = self.targets.n, self.targets.discount
        memory = Memory(shared=self.async_)
        self.ring = Ring(T, B, memory)
        self.rnn_states = RnnStateStore(example, rnn_state_interval, T, B, memory)
        example = self.rnn_states.without(example)
        if final_capacity is None:
            final_capacity = default_capacity(self.size, B)
        extra = self.targets.extra(example.reward)
        self.storage = self.Storage(example, extra, self.ring, memory, final_capacity)
        self.off_backward = self.n_step_return
        self.off_forward = max(1, self.storage.rows_before)
        nulls = null_leaves(example.action, null_action)
        self.window = self.Window(self.n_step_return, self.discount, B, nulls)
        self._check_n_rows(batch_T)
        self.priorities = priorities
        self.selection = self.Selection(self.ring, row_stride, priorities, memory)
        self.nbytes = memory.commit(force, self.size)
        self.set_seed(get_seed() if seed is None else seed)
        self.hindsight = hindsight
        if hindsight is not None:
            hindsight.check(example, self.window.sequences)
        self._checked = False  # True once samples have been compared with the example
        self._bind()
        if self.async_:
            self.rw_lock = RWLock()

    def _bind(self) -> None:
        """Choose the shortest way of sampling that calls what subclasses override."""

        def kept(part: Any, base: Any, *names: str) -> bool:
            return all(getattr(type(part), name) is getattr(base, name) for name in names)

        # Leaves drawn by an override may exceed the ring, which `to_T_B_idxs` wraps.
        weighed = kept(self.selection, UniformSelection, "weigh") or kept(
            self.selection, PrioritizedSelection, "weigh", "draw"
        )
        hooks = "sample_idxs", "extract_batch", "to_T_B_idxs"
        plain = self.hindsight is None and weighed and kept(self, ReplayBuffer, *hooks)
        self._sample: Any = self._sample_rows if plain else self._sample_by_hooks
        read = kept(self, ReplayBuffer, "extract_observation")
        self.observations = self.storage.observations if read else self._extracted

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """Treat a replay with the same parts as a subclass (see ``part_names``)."""
        parts = cls.__dict__.get("part_names")
        if parts is None or ReplayBuffer not in other.__mro__:
            return NotImplemented
        for name in parts.split():
            part, expected = getattr(other, name), getattr(cls, name)
            if part is not expected and not (isinstance(part, type) and issubclass(part, expected)):
                return NotImplemented
        return True

    def set_seed(self, seed: int | None, rank: int = 0) -> None:
        """Start a new random stream; None: seed it from the operating system.

        Processes that sample from the same replay call it with different ranks.
        """
        self.rng = np.random.default_rng() if seed is None else stream(seed, "replay", rank)

    def set_batch_T(self, batch_T: int) -> None:
        """Set the number of steps of a sequence.

        Raises:
            TypeError: the replay has no sequences, or is prioritized.
            ValueError: the replay has too few rows for sequences of this length.
        """
        if not self.window.sequences or self.priorities is not None:
            raise TypeError(
                "batch_T can only be changed in a uniform sequence replay, got "
                f"{type(self).__name__}. Pass batch_T to the constructor."
            )
        batch_T = whole_number("batch_T", batch_T, 1)
        self._check_n_rows(batch_T)
        self.batch_T = batch_T

    # Writing

    def append_samples(
        self, samples: NamedArrayTuple, final: NamedArrayTuple | None = None
    ) -> tuple[int, Any]:
        """Add samples, replacing the oldest ones if the replay is full.

        Args:
            samples: named tuple [T, B] like the example, numpy or torch; or
                ``PrioritiesSamplesToBuffer(priorities, samples)`` with priorities [T, B] or [B].
                Optional field ``void``, [T, B] bool: rows recorded while an environment waited for
                its reset, or in a broken episode (all done). If the first row is void and the
                newest stored one is not done, the stored rows of that episode become void, too.
            final: ``FinalObservations`` of truncated episodes, from which their windows bootstrap;
                or a field ``final`` of ``samples``. Without it, every done counts as terminal.

        Returns:
            (T, rows written as a slice or an array of indices).

        Raises:
            TypeError, ValueError: the structure of ``samples`` differs from the example,
                ``samples`` has more rows than the replay, or a final observation is not at a done
                step of ``samples``. The replay is unchanged.
        """
        with self._writing():
            return self._append(samples, final)

    def append_batch(self, samples: NamedArrayTuple, void: Any = None) -> int:
        """Add the samples of a sampler's batch; return the number of rows marked as void.

        Args:
            samples, void: see ``BaseReplayBuffer``; void rows are never drawn.
        """
        n_void = 0 if void is None else int(void.sum())
        parts = samples.samples if "priorities" in samples._fields else samples
        self._beside = getattr(parts, "final", None), numpify_buffer(void)
        if self._beside[0] is not None:  # overrides see the fields of the example
            parts = without_fields(parts, "final")
            samples = samples._replace(samples=parts) if "priorities" in samples._fields else parts
        try:
            self.append_samples(samples)
        finally:
            self._beside = None, None
        return n_void

    def with_finals(self, samples: NamedArrayTuple, batch: Any) -> Any:
        """Add a field ``final`` with the final observations of truncated episodes, if any.

        Args:
            samples: what is stored of the batch, [T, B] like the example.
            batch: batch [T, B] of a sampler.
        """
        timeout = getattr(batch.env.env_info, "timeout", None)
        if timeout is None:
            return samples
        recorded = getattr(batch.env, "final_observation", None)
        if recorded is None:
            if not self._warned_missing_finals:
                self._warned_missing_finals = True
                logger.log(
                    f"{type(self).__name__}: the collector does not record final observations "
                    "(records_final_observations), so truncated episodes count as terminated."
                )
            return samples
        where = np.logical_and(timeout.numpy(), batch.env.done.numpy()).nonzero()
        if not len(where[0]):
            return samples
        return with_fields(samples, final=FinalObservations(*where, recorded[where]))

    def _append(self, samples: NamedArrayTuple, final: NamedArrayTuple | None) -> tuple[int, Any]:
        fields = getattr(samples, "_fields", None)
        if fields is None:
            raise TypeError(
                "samples must be a named tuple with the fields of the example, got "
                f"{type(samples).__name__}. Use rlpyt.utils.collections.namedarraytuple."
            )
        priorities, (beside, void) = None, self._beside
        final = beside if final is None else final
        if "priorities" in fields:
            priorities, samples = samples.priorities, samples.samples
            fields = samples._fields
        if "final" in fields or "void" in fields:
            final = getattr(samples, "final", None) if final is None else final
            void = numpify_buffer(getattr(samples, "void", void))
            samples = without_fields(samples, "final", "void")
        with_states, samples = samples, self.rnn_states.without(samples)
        n = self._check(with_states, samples, final)
        if void is not None:
            broken = self._check_void(void, np.asarray(numpify_buffer(samples.done)).astype(bool))
            self._void_open_episodes(broken)
        ring, storage = self.ring, self.storage
        start = ring.written
        if priorities is not None:
            priorities = numpify_buffer(priorities)
        priorities = self.selection.prepare(n, priorities)
        prepared = storage.prepare(start, samples, void)
        slices = ring.slices(start, n)
        storage.finals.forget((start + n - self.T) * self.B)
        self.rnn_states.write(start, with_states, n)
        storage.write(slices, samples, prepared)
        storage.write_truncations(start, slices, final)
        self.compute_returns(n)
        ring.write_void(start, n, void)
        ring.set_written(start + n)
        self.selection.advance(self.valid, n, priorities)
        return n, slices[0][0] if len(slices) == 1 else np.arange(start, start + n) % self.T

    def _check(
        self, with_states: Any, samples: NamedArrayTuple, final: NamedArrayTuple | None
    ) -> int:
        """Check samples: the shape always, the structure the first time. Return the rows.

        Args:
            with_states: samples with recurrent states.
            samples: samples without recurrent states.
            final: ``FinalObservations``, or None.
        """
        shape = samples.reward.shape[:2]
        if len(shape) != 2 or shape[1] != self.B or not 0 < shape[0] <= self.T:
            raise ValueError(
                f"samples must be [T, B={self.B}] with at most {self.T} rows, the rows of the "
                f"replay, got {list(shape)}."
            )
        if not self._checked:
            self.storage.check(samples)
            self.rnn_states.check(with_states)
            self._checked = True
        if final is not None:
            self.storage.check_final(final, np.asarray(samples.done))
        return int(shape[0])

    def _check_void(self, void: Array, done: Array) -> Array:
        """Check that every void row and the row before it are done, which ends all windows.

        Returns:
            Environments whose first row is void although their episode has not ended: it is broken.
        """
        before = np.ones_like(done)
        before[1:] = done[:-1]
        if void.shape != done.shape or (void & ~(done & before)).any():
            raise ValueError(
                f"void of shape {list(void.shape)} must be {list(done.shape)}, and done in each "
                "void row and the row before it. Mark only rows that follow an environment's done, "
                "or all of an episode from its first row in these samples."
            )
        if not self.ring.written:
            return np.zeros(0, np.int64)
        newest = self.storage.samples.done[(self.ring.written - 1) % self.T]
        return np.flatnonzero(void[0] & (newest == 0))

    def _void_open_episodes(self, columns: Array) -> None:
        """Mark the stored rows of the newest episodes of these environments as void and done."""
        ring, done = self.ring, self.storage.samples.done
        for b in columns:
            row = ring.written - 1
            while row >= ring.oldest and not done[row % self.T, b]:
                row -= 1
            rows = np.arange(row + 1, ring.written)
            done[rows % self.T, b] = True
            ring.void[rows % self.T, b] = ring._any_void[0] = True
            self.selection.drop(rows, int(b))

    def compute_returns(self, T: int) -> None:
        """Update n-step returns after ``T`` rows were written, before the cursor moves."""
        self.targets.update(self.ring, self.storage.samples, self.storage.extra, T)

    def interrupt(self) -> int:
        """Mark a discontinuity: end all open episodes as truncated.

        Call it if environments are reset without a done in the rows, for example after resuming
        with other environments. The next observation of the newest row is unknown, so the row is
        dropped, and its observation becomes the final observation of the row before, which is
        marked as truncated. With recurrent states, all rows since the last stored state are
        dropped, to keep states aligned with batches. Nothing changes if all episodes have ended.

        Returns:
            Number of rows dropped.
        """
        with self._writing():
            ring, storage, B = self.ring, self.storage, self.B
            written = ring.written
            if not written or storage.samples.done[(written - 1) % self.T].all():
                return 0
            stop = (written - 1) // self.row_stride * self.row_stride
            if stop > ring.oldest:
                idxs = stop % self.T * B + np.arange(B)
                observation = storage.observations(storage.rows.read(idxs[None]), 0)
                storage.finals.forget_from(stop * B)
                self._truncate(stop - 1, observation)
                ring.set_written(stop - 1)
                self.compute_returns(1)
            else:
                storage.finals.forget_from(stop * B)
            ring.set_written(stop)
            self.selection.retreat(self.valid)
            return int(written - stop)

    def _truncate(self, row: int, observation: Any) -> None:
        """Truncate all episodes at absolute row ``row``, with final observations [B, ...]."""
        storage, B, t = self.storage, self.B, row % self.T
        samples, truncated = storage.samples, storage.extra.truncated[t]
        is_open, B_idxs = ~samples.done[t].astype(bool), truncated.nonzero()[0]
        if len(B_idxs):  # already truncated: keep their final observations
            finals = storage.final_observations(row * B + B_idxs, t * B + B_idxs)
            for leaf, final_leaf in zip(leaves_of(observation), leaves_of(finals)):
                leaf[B_idxs] = final_leaf
        samples.done[t] = True
        if self.time_limits:
            samples.timeout[t, is_open] = True
        if self.hindsight is not None:
            samples.final_goal[t, is_open] = observation.achieved_goal[is_open]
        ends = (truncated | is_open).nonzero()[0]
        final = FinalObservations(0 * ends, ends, buffer_func(observation, lambda leaf: leaf[ends]))
        storage.finals.forget_from(row * B)
        storage.write_truncations(row, self.ring.slices(row, 1), final)

    # Sampling

    def _check_n_rows(self, batch_T: int | None) -> None:
        """Check that the ring has valid rows at every position of the cursor.

        Raises:
            ValueError: the ring has too few rows; the message says how many are needed.
        """
        before, after = self.off_forward, self.window.rows_after(self, batch_T or 1)
        need = before + after + self.row_stride
        if need > self.T:
            T = math.ceil(need / self.row_stride) * self.row_stride
            starts = f", and samples start at multiples of {self.row_stride}"
            raise ValueError(
                f"size must be at least {T * self.B:,} ({T} rows of {self.B} environments), got "
                f"{self.size:,} ({self.T} rows): a sample needs {before} rows before and {after} "
                f"after its first row{starts if self.row_stride > 1 else ''}."
            )

    @property
    def min_rows(self) -> int:  # type: ignore[override]
        """Return the number of rows needed before the replay can be sampled."""
        stride = self.row_stride
        first = -(-self.off_forward // stride) * stride  # first row at which a window can start
        return int(first + 1 + self.window.rows_after(self, None))

    def valid(self, T: int | None = None) -> tuple[int, int]:
        """Return the range [low, high) of absolute rows at which a window can start.

        Args:
            T: (sequences) steps of the window.
        """
        before = self.off_forward
        oldest, written = self.ring.bounds
        if oldest:  # the first row ever written needs no earlier rows
            before = max(before, self.storage.reach)
        low = oldest + before
        return low, max(low, written - self.window.rows_after(self, T))

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw rows and return a batch of their windows, as torch tensors.

        Args:
            batch_B: number of rows.
            batch_T: (sequences) steps of each; None: as in the constructor.

        Returns:
            A ``ReplayBatch`` with leading dimension [B], or [T, B] for sequences.

        Raises:
            ReplayNotReady: too few rows have been written.
            TypeError, ValueError: ``batch_B`` is not a positive integer.
        """
        if type(batch_B) is not int or batch_B < 1:
            batch_B = whole_number("batch_B", batch_B, 1)
        # `sample_idxs` and `extract_batch` get a length only for sequences, as in rlpyt.
        length = (self.batch_T if batch_T is None else batch_T,) if self.window.sequences else ()
        with self._reading():
            return self._sample(batch_B, *length)

    def _sample_rows(self, n: int, T: int | None = None) -> Any:
        """Return a batch of ``n`` rows."""
        idxs = self.selection.draw(n, self.valid(T), self.rng)
        batch = self.window.extract(self, self.window.read(self, idxs, T))
        return self.selection.weigh_rows(batch, idxs)

    def _sample_by_hooks(self, n: int, *length: int | None) -> Any:
        """Return a batch of ``n`` rows by the methods that subclasses may override."""
        T_idxs, B_idxs = self.sample_idxs(n, *length)
        batch = self.extract_batch(T_idxs, B_idxs, *length)
        if self.hindsight is not None:
            self.hindsight.relabel(self, batch, T_idxs, B_idxs)
        return self.selection.weigh(batch, T_idxs, B_idxs)

    def newest(self, n: int) -> Any:
        """Return the batch of the windows of the newest rows, the last being the newest.

        It draws nothing, so that looking at a run does not change it, and goals are those of the
        environment. Void rows are left out.

        Args:
            n: number of rows of every environment.

        Returns:
            As ``sample_batch``, without importance weights: [n * B], or fewer if there are fewer.

        Raises:
            ReplayNotReady: no row can be sampled yet.
            TypeError, ValueError: ``n`` is not a positive integer.
        """
        length = (self.batch_T,) if self.window.sequences else ()
        with self._reading():
            low, high = multiples(self.valid(*length), self.row_stride)
            rows = np.arange(max(low, high - whole_number("n", n, 1)), high) * self.row_stride
            T_idxs, B_idxs = np.repeat(rows % self.T, self.B), np.tile(np.arange(self.B), len(rows))
            drawable = ~self.ring.void[T_idxs, B_idxs]
            if not drawable.any():
                raise not_ready_error(self.ring)
            return self.extract_batch(T_idxs[drawable], B_idxs[drawable], *length)

    def sample_idxs(self, batch_B: int, batch_T: int | None = None) -> tuple[Array, Array]:
        """Draw rows; return (T_idxs, B_idxs), [batch_B] each."""
        return self.to_T_B_idxs(self.selection.draw(batch_B, self.valid(batch_T), self.rng))

    def extract_batch(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """Return the batch of windows (or sequences of ``T`` steps) that start at these rows."""
        idxs = np.asarray(T_idxs) * self.B + np.asarray(B_idxs)
        return self.window.extract(self, self.window.read(self, idxs, T))

    def extract_observation(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """Return observations [B, ...] of these rows, or [T, B, ...] of ``T`` rows from each.

        Subclasses that override it usually override ``extract_final_observation`` too.
        """
        idxs = np.asarray(T_idxs) * self.B + np.asarray(B_idxs)
        steps = np.arange(1 if T is None else T)[:, None]
        rows = self.storage.rows.read(idxs + steps * self.B)
        return self.storage.observations(rows, 0 if T is None else slice(None))

    def _extracted(self, rows: RowBatch, k: Any) -> Any:
        """Return the observations of plane k, or a slice of planes, by ``extract_observation``."""
        if isinstance(k, int):
            return self.extract_observation(*self.to_T_B_idxs(rows.idxs[k]))
        idxs = rows.idxs[k]
        return self.extract_observation(*self.to_T_B_idxs(idxs[0]), len(idxs))

    def extract_final_observation(self, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the true final observations [K, ...] of episodes truncated at these steps."""
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        keys = self.ring.absolute(T_idxs) * self.B + B_idxs
        return self.storage.final_observations(keys, T_idxs * self.B + B_idxs)

    def to_T_B_idxs(self, idxs: Array) -> tuple[Array, Array]:
        """Convert indices t * B + b to (T_idxs, B_idxs), wrapped at the end of the ring."""
        T_idxs, B_idxs = np.divmod(idxs, self.B)
        T_idxs %= self.T
        return T_idxs, B_idxs

    # Priorities

    def update_batch_priorities(self, priorities: Arrays | None, ticket: Any = None) -> None:
        """Set the priorities [B] of the rows of a batch.

        Args:
            priorities: for example absolute TD errors; numpy or torch.
            ticket: ``batch.ticket`` of their batch; None: the latest one. Rows that have been
                overwritten since are skipped.

        Raises:
            ValueError: priorities are negative, not finite, or not one per row.
            TypeError: the replay is uniform.
        """
        with self._writing():
            self.selection.update(numpify_buffer(priorities), ticket)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of importance weights, from 0 (none) to 1 (full).

        Raises:
            TypeError: the replay is uniform.
        """
        check_range("beta", beta, 0.0, 1.0)
        if not hasattr(self.selection, "beta"):
            raise TypeError("a uniform replay has no importance weights. Use a prioritized one.")
        self.selection.beta = beta

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state as a tree of arrays; rows are views, not copies."""
        with self._reading():
            rows = min(self.ring.written, self.T)
            void = {"void": self.ring.void[:rows]} if self.ring.has_void else {}
            return {
                **void,
                "made": self._settings(),
                "written": self.ring.written,
                "oldest": self.ring.oldest,
                "storage": self.storage.state(rows),
                "rnn_states": self.rnn_states.state(rows),
                "selection": self.selection.state(),
                "rng": self.rng.bit_generator.state,
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``, to continue exactly.

        Raises:
            ValueError: the saved replay has different settings; the message lists them.
        """
        settings, saved = self._settings(), {**state["made"]}
        if self.n_step_return == 1:  # then no stored number depends on the discount
            saved["discount"] = self.discount
        if saved != settings:
            names = [k for k in {**saved, **settings} if saved.get(k) != settings.get(k)]
            expected, given = ({k: values.get(k) for k in names} for values in (saved, settings))
            raise ValueError(
                f"the settings must be those of the saved replay, {expected}, got {given}. "
                "Construct the replay with the saved settings."
            )
        with self._writing():
            self.ring.load_void(state.get("void"))
            self.storage.load(state["storage"])
            self.rnn_states.load(state["rnn_states"])
            self.selection.load(state["selection"])
            self.rng.bit_generator.state = state["rng"]
            self.ring.load(state["written"], state["oldest"])

    def _settings(self) -> dict[str, Any]:
        """Return the settings that the saved state depends on."""
        settings = {
            "parts": [part.__name__ for part in (self.Storage, self.Selection, self.Window)],
            "rows": f"{self.T} rows of {self.B}",
            "n_step_return": self.n_step_return,
            "discount": self.discount,
            "rnn_state_interval": self.rnn_state_interval,
            "batch_T": self.batch_T,
        }
        if self.priorities is not None:  # the tree stores priority ** alpha
            settings["alpha"] = self.priorities.alpha
            settings["input_priorities"] = self.priorities.input_priorities
        return settings

    # Attributes that subclasses read and assign

    @property
    def t(self) -> int:
        """Index of the next row to write; set it after writing rows into ``samples``."""
        return self.ring.t

    @t.setter
    def t(self, t: int) -> None:
        self.ring.set_written(self.ring.written + (t - self.ring.t) % self.T)

    def _async_pull(self) -> None:
        """Do nothing: all processes read and write one cursor, in shared memory."""

    _async_push = _async_pull

    @AssignableProperty
    def async_t(self) -> Ring:
        """Return the cursor; ``async_t.value`` is the index of the next row to write."""
        return self.ring

    @property
    def bytes_per_transition(self) -> float:
        """Return the memory per transition, without final observations."""
        rows = self.storage.bytes_per_row + self.rnn_states.bytes_per_row + self.ring.void.itemsize
        return float(rows + self.selection.bytes_per_row)

    @property
    def _buffer_full(self) -> bool:
        return self.ring.full

    @_buffer_full.setter
    def _buffer_full(self, full: bool) -> None:
        if not full and self.ring.full:
            self.ring.load(0, 0)
        elif full and not self.ring.full:
            self.ring.set_written(self.ring.written + self.T)

    @AssignableProperty
    def samples(self) -> Any:
        """Return the stored fields, a named tuple [T, B, ...], without frames and states."""
        return self.storage.samples

    @AssignableProperty
    def samples_return_(self) -> Array:
        """Return the n-step returns [T, B]."""
        n_step = self.n_step_return > 1
        return np.asarray(self.storage.extra.return_ if n_step else self.samples.reward)

    @AssignableProperty
    def samples_done_n(self) -> Array:
        """Return [T, B] bool, True if the n-step window contains a terminal state."""
        n_step = self.n_step_return > 1
        return np.asarray(self.storage.extra.done_n if n_step else self.samples.done)

    @AssignableProperty
    def samples_prev_rnn_state(self) -> Any:
        """Return the stored states [T / rnn_state_interval, B, ...], or None."""
        return self.rnn_states.samples

    @AssignableProperty
    def n_frames(self) -> int:
        """Return C, the number of frames of an observation (frame replays only)."""
        return int(self.storage.n_frames)

    @AssignableProperty
    def samples_frames(self) -> Any:
        """Return the frames [T + C - 1, B, ...] (frame replays only)."""
        return self.storage.frames

    @AssignableProperty
    def samples_new_frames(self) -> Any:
        """Return the newest frame of every row, [T, B, ...] (frame replays only)."""
        return self.storage.new_frames
