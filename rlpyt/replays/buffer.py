"""The replay buffer: one class, composed of a ring, a storage, targets, a selection and a window.

rlpyt's names of replays (``replays.non_sequence``, ``replays.sequence``) choose its parts by class
attributes.
"""

import math
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import get_ident
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlpyt.errors import RlpytError
from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.memory import Memory
from rlpyt.replays.ring import Ring
from rlpyt.replays.rnn_states import RnnStateStore
from rlpyt.replays.rows import RowBatch
from rlpyt.replays.selection import PrioritySettings, UniformSelection
from rlpyt.replays.storage import FullStorage, check_example, default_capacity
from rlpyt.replays.targets import NStep
from rlpyt.replays.window import TransitionWindow, null_leaves
from rlpyt.utils.buffer import Arrays, buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import NamedArrayTuple, without_fields
from rlpyt.utils.seed import get_seed, stream
from rlpyt.utils.synchronize import RWLock, forget_names

Array = NDArray[Any]

UNLOCKED: AbstractContextManager[None] = nullcontext()


class BaseReplayBuffer:
    """Interface of replays: store samples, and return batches of them."""

    async_ = False  # in shared memory, with other processes appending

    def append_samples(self, samples: NamedArrayTuple) -> Any:
        """Add samples [T, B], which may replace the oldest ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement append_samples.")

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Return a batch to train on."""
        raise NotImplementedError(f"{type(self).__name__} must implement sample_batch.")

    def set_seed(self, seed: int | None, rank: int = 0) -> None:
        """Hook: start the random stream of one of several processes that sample."""

    def set_default_priority(self, priority: float) -> None:
        """Hook: set the priority of samples that are added without one."""

    def interrupt(self) -> int:
        """Hook: the next samples do not continue the last ones. Return the rows removed."""
        return 0


class ReplayBuffer(BaseReplayBuffer, metaclass=ABCMeta):
    """Replay of the newest ``size`` transitions of B environments.

    Rows can be sampled while their neighbors are still stored; see ``replays.ring``. If the sampler
    delays resets until the end of a batch, samples mark void rows, which are never sampled.

    With ``async_`` the replay is in shared memory and locked: many processes may sample at the same
    time, or one may write. Hand it to processes as an argument when they are started; all of them
    see rows, cursor and priorities. Each has its own random stream: call ``set_seed(seed, rank)``.

    Subclasses may override ``sample_idxs``, ``extract_batch``, ``extract_observation`` and
    ``extract_final_observation``, which ``sample_batch`` calls, and ``compute_returns``.

    Args:
        example: named tuple of one step without leading dimensions: observation, action, reward,
            done, and further fields to store: ``timeout``, ``prev_rnn_state``.
        size: transitions; rounded up to full rows of B.
        B: environments, the second dimension of all samples.
        discount: gamma of n-step returns and ``discount_n``.
        n_step_return: n, rewards in a return.
        rnn_state_interval: (sequences) steps between stored recurrent states, where sequences
            start; below 1, none is stored.
        batch_T: (sequences) steps of a sequence, unless ``sample_batch`` is given another number.
        priorities: settings of prioritized selection.
        seed: of the random stream; None: the seed of the process (``utils.seed``).
        force: allocate even if the memory does not seem to suffice.
        final_capacity: number of final observations of truncated episodes for which there is room
            in shared memory; None: enough for episodes of 40 steps and more. Truncations beyond it
            count as terminations, with a warning. In the memory of one process the room grows.
        null_action: previous action at the beginning of an episode, one value or a tree like the
            action; usually ``env_spaces.action.null_value()``.

    Attributes:
        Storage, Selection, Window: classes of the parts.
        stands_for: names of parts, in classes that rlpyt's users combine with others: replays with
            the same parts count as their subclasses.
        time_limits: (of the class) samples have the field ``timeout``, which is
            ``env_info.timeout``; batches have ``timeout`` and ``timeout_n``.
        every: samples start at rows that are multiples of it.
        rw_lock: (with ``async_``) the lock.
        while_waiting: (with ``async_``) called every second while another process holds the lock;
            it may raise to stop waiting.

    Raises:
        TypeError: an argument or the example has the wrong type.
        ValueError: an argument is out of range, or the replay has too few rows for any sample.
        ReplayTooLarge: the replay would not fit into memory.
    """

    Storage: Any = FullStorage
    Selection: Any = UniformSelection
    Window: Any = TransitionWindow
    time_limits = False
    stands_for: ClassVar[str]
    while_waiting: Callable[[], None] | None = None

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
    ) -> None:
        check_example(example, *(["timeout"] if self.time_limits else []))
        self.B = B = whole_number("B", B, 1)
        self.every = every = max(1, rnn_state_interval)
        self.T = T = math.ceil(math.ceil(whole_number("size", size, 1) / B) / every) * every
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
        self.off_forward = max(1, self.storage.before)
        nulls = null_leaves(example.action, null_action)
        self.window = self.Window(self.n_step_return, self.discount, B, nulls)
        self._check_room(batch_T)
        self.priorities = priorities
        self.selection = self.Selection(self.ring, every, priorities, memory)
        self.nbytes = memory.commit(force, self.size)
        self.set_seed(get_seed() if seed is None else seed)
        self._checked = False  # the first samples have been compared with the example
        self._rows: RowBatch | None = None  # of the batch that is being extracted
        if self.async_:
            self.rw_lock = RWLock()
            self._lock_holders: dict[int, bool] = {}  # threads, and whether they write

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """Count replays with the same parts as subclasses of a name that only stands for parts."""
        parts = cls.__dict__.get("stands_for")
        if parts is None or ReplayBuffer not in other.__mro__:
            return NotImplemented
        for own, part in ((getattr(other, name), getattr(cls, name)) for name in parts.split()):
            if own is not part and not (isinstance(own, type) and issubclass(own, part)):
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
            TypeError: the replay returns single transitions, or has priorities, which belong to
                sequences of one length.
            ValueError: the replay has too few rows for sequences of this length.
        """
        if not self.window.sequences or self.priorities is not None:
            raise TypeError(f"batch_T of a {type(self).__name__} cannot be changed.")
        batch_T = whole_number("batch_T", batch_T, 1)
        self._check_room(batch_T)
        self.batch_T = batch_T

    # Writing

    def append_samples(
        self, samples: NamedArrayTuple, final: NamedArrayTuple | None = None
    ) -> tuple[int, Any]:
        """Add samples; once all rows have been written, they replace the oldest ones.

        Args:
            samples: named tuple [T, B] like the example, numpy or torch; or
                ``PrioritiesSamplesToBuffer(priorities, samples)`` with priorities [T, B] or [B].
            final: ``FinalObservations`` of truncated episodes, from which their windows bootstrap.
                They may also be a field ``final`` of samples. Without them, every done counts as
                terminal. A field ``void`` of samples, [T, B] bool, marks void rows: those after an
                environment's done until the end of the batch, all of them done, if the sampler
                delays resets.

        Returns:
            (T, the rows written: a slice or an array of indices).

        Raises:
            TypeError, ValueError: samples do not look like the example, have more rows than the
                replay, or a final observation belongs to a step that is not theirs or not done.
                Nothing has been written then.
        """
        with self._writing():
            return self._append(samples, final)

    def _append(self, samples: NamedArrayTuple, final: NamedArrayTuple | None) -> tuple[int, Any]:
        fields = getattr(samples, "_fields", None)
        if fields is None:
            raise TypeError(
                "samples must be a named tuple with the fields of the example, got "
                f"{type(samples).__name__}. Use rlpyt.utils.collections.namedarraytuple."
            )
        priorities = void = None
        if "priorities" in fields:
            priorities, samples = samples.priorities, samples.samples
            fields = samples._fields
        if "final" in fields or "void" in fields:
            final = getattr(samples, "final", None) if final is None else final
            void = numpify_buffer(getattr(samples, "void", None))
            samples = without_fields(samples, "final", "void")
        given, samples = samples, self.rnn_states.without(samples)
        n = self._check(given, samples, final)
        if void is not None:
            self._check_void(void, np.asarray(numpify_buffer(samples.done)).astype(bool))
        ring, storage = self.ring, self.storage
        start = ring.written
        if priorities is not None:
            priorities = numpify_buffer(priorities)
        priorities = self.selection.prepare(n, priorities)
        prepared = storage.prepare(start, samples, void)
        slices = ring.slices(start, n)
        storage.finals.forget((start + n - self.T) * self.B)
        self.rnn_states.write(start, given, n)
        storage.write(slices, samples, prepared)
        storage.write_truncations(start, slices, final)
        self.compute_returns(n)
        ring.write_void(start, n, void)
        ring.move(start + n)
        self.selection.advance(self.valid, n, priorities)
        return n, slices[0][0] if len(slices) == 1 else np.arange(start, start + n) % self.T

    def _check(self, given: Any, samples: NamedArrayTuple, final: NamedArrayTuple | None) -> int:
        """Check the shape of samples, and the structure of the first; return their rows.

        Args:
            given: samples with recurrent states.
            samples: the same without them.
            final: ``FinalObservations``, or None.
        """
        shape = samples.reward.shape[:2]
        if len(shape) != 2 or shape[1] != self.B or not 0 < shape[0] <= self.T:
            raise ValueError(
                f"samples must be [T, B={self.B}] with at most {self.T} rows, which is what the "
                f"replay holds, got {list(shape)}."
            )
        if not self._checked:
            self.storage.check(samples)
            self.rnn_states.check(given)
            self._checked = True
        if final is not None:
            self.storage.check_final(final, np.asarray(samples.done))
        return int(shape[0])

    def _check_void(self, void: Array, done: Array) -> None:
        """Check that every void row, and the row before it, is done, which ends all windows."""
        before = np.zeros_like(done)
        before[1:] = done[:-1]
        if self.ring.written:
            before[0] = self.storage.samples.done[(self.ring.written - 1) % self.T]
        if void.shape != done.shape or (void & ~(done & before)).any():
            raise ValueError(
                f"void of shape {list(void.shape)} must be {list(done.shape)}, and done in each "
                "void row and the row before it. Mark only rows that follow an environment's done."
            )

    def compute_returns(self, T: int) -> None:
        """Update n-step returns with ``T`` new rows, written but not yet counted by the cursor."""
        self.targets.update(self.ring, self.storage.samples, self.storage.extra, T)

    def interrupt(self) -> int:
        """Declare that the next samples do not continue the episodes of the newest row.

        Call it if environments are reset without a done in the rows, for example after resuming
        with other environments. The outcome of a row is known only from the next one, so the newest
        row is dropped, and the row before ends as if by a time limit, with the observation of the
        dropped row as its final one. With recurrent states, the rows from the last stored state on
        are dropped, so that states keep their places in the sampler's batches. Nothing happens if
        all episodes have ended.

        Returns:
            Number of rows dropped.
        """
        with self._writing():
            ring, storage, B = self.ring, self.storage, self.B
            written = ring.written
            if not written or storage.samples.done[(written - 1) % self.T].all():
                return 0
            stop = (written - 1) // self.every * self.every
            if stop > ring.oldest:
                idxs = stop % self.T * B + np.arange(B)
                observation = storage.observations(storage.rows.read(idxs[None]), 0)
                storage.finals.forget_from(stop * B)
                self._truncate(stop - 1, observation)
                ring.move(stop - 1)
                self.compute_returns(1)
            else:
                storage.finals.forget_from(stop * B)
            ring.move(stop)
            self.selection.retreat(self.valid)
            return int(written - stop)

    def _truncate(self, row: int, observation: Arrays) -> None:
        """Truncate all episodes at absolute row ``row``, with final observations [B, ...]."""
        storage, B, t = self.storage, self.B, row % self.T
        samples, truncated = storage.samples, storage.extra.truncated[t]
        goes_on, B_idxs = ~samples.done[t].astype(bool), truncated.nonzero()[0]
        if len(B_idxs):  # these are truncated already
            seen = storage.final_observations(row * B + B_idxs, t * B + B_idxs)
            for leaf, own in zip(leaves_of(observation), leaves_of(seen)):
                leaf[B_idxs] = own
        samples.done[t] = True
        if self.time_limits:
            samples.timeout[t, goes_on] = True
        ends = (truncated | goes_on).nonzero()[0]
        final = FinalObservations(0 * ends, ends, buffer_func(observation, lambda leaf: leaf[ends]))
        storage.finals.forget_from(row * B)
        storage.write_truncations(row, self.ring.slices(row, 1), final)

    # Sampling

    def _check_room(self, batch_T: int | None) -> None:
        """Check that the ring has valid rows wherever its cursor is.

        Raises:
            ValueError: it has too few rows; the message says how many are needed.
        """
        before, after = self.off_forward, self.window.rows_after(self, batch_T or 1)
        need = before + after + self.every
        if need > self.T:
            T = math.ceil(need / self.every) * self.every
            starts = f", and starts at every {self.every}th row" if self.every > 1 else ""
            raise ValueError(
                f"size={self.size:,} is {self.T} rows of {self.B} environments, too few for any "
                f"sample: one needs {before} rows before its first and {after} after it{starts}. "
                f"Set size to at least {T * self.B:,}, which is {T} rows."
            )

    def valid(self, T: int | None = None) -> tuple[int, int]:
        """Return absolute rows [low, high) where windows (sequences of ``T`` steps) can start."""
        before = self.off_forward
        oldest, written = self.ring.bounds
        if oldest:  # before the first row there is nothing that a row could need
            before = max(before, self.storage.reach)
        low = oldest + before
        return low, max(low, written - self.window.rows_after(self, T))

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Draw rows, and return a batch of the windows around them, as torch tensors.

        Args:
            batch_B: number of rows.
            batch_T: (sequences) steps of each; None: as constructed.

        Returns:
            A ``ReplayBatch`` with leading dimension [B], or [T, B] for sequences.

        Raises:
            ReplayNotReady: too few rows have been written.
            TypeError, ValueError: ``batch_B`` is not a positive whole number.
        """
        if type(batch_B) is not int or batch_B < 1:
            batch_B = whole_number("batch_B", batch_B, 1)
        # Hooks take a length for sequences only, as in rlpyt.
        length = (self.batch_T if batch_T is None else batch_T,) if self.window.sequences else ()
        with self._reading():
            T_idxs, B_idxs = self.sample_idxs(batch_B, *length)
            batch = self.extract_batch(T_idxs, B_idxs, *length)
            return self.selection.weigh(batch, T_idxs, B_idxs)

    def sample_idxs(self, batch_B: int, batch_T: int | None = None) -> tuple[Array, Array]:
        """Draw rows; return (T_idxs, B_idxs), [batch_B] each."""
        return self.T_B_idxs(self.selection.draw(batch_B, self.valid(batch_T), self.rng))

    def extract_batch(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """Return the batch of windows at these rows (or of sequences of ``T`` steps from them)."""
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        self._rows = self.window.read(self, T_idxs, B_idxs, T)
        try:
            return self.window.extract(self, self._rows)
        finally:
            self._rows = None

    def extract_observation(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """Return observations [B, ...] at these rows, or [T, B, ...] of ``T`` rows from each on.

        A subclass that overrides it will usually override ``extract_final_observation`` too.
        """
        # The window has read the rows of its batch already, all fields together.
        rows = self._rows
        k = None if rows is None else rows.find(T_idxs, B_idxs, T)
        if rows is None or k is None:
            idxs = np.asarray(T_idxs) * self.B + np.asarray(B_idxs)
            steps = np.arange(1 if T is None else T)[:, None]
            rows, k = self.storage.rows.read(idxs + steps * self.B), 0 if T is None else slice(None)
        return self.storage.observations(rows, k)

    def extract_final_observation(self, T_idxs: Array, B_idxs: Array) -> Any:
        """Return the true final observations [K, ...] of episodes truncated at these steps."""
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        keys = self.ring.absolute(T_idxs) * self.B + B_idxs
        return self.storage.final_observations(keys, T_idxs * self.B + B_idxs)

    def T_B_idxs(self, idxs: Array) -> tuple[Array, Array]:
        """Return (T_idxs, B_idxs) of rows t * B + b, which may wrap beyond the end."""
        T_idxs, B_idxs = np.divmod(idxs, self.B)
        T_idxs %= self.T
        return T_idxs, B_idxs

    # Priorities

    def update_batch_priorities(self, priorities: Arrays | None, ticket: Any = None) -> None:
        """Set the priorities [B] of the rows of a batch.

        Args:
            priorities: absolute TD errors, for example; numpy or torch.
            ticket: ``batch.ticket`` of the batch they belong to; None: the latest one. Rows that
                have been overwritten since are skipped.

        Raises:
            ValueError: priorities are not finite, negative, or not one per row.
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
        """Load a state, to continue exactly as the replay that returned it.

        Raises:
            ValueError: the saved replay has different settings; the message lists them.
        """
        own, saved = self._settings(), state["made"]
        if saved != own:
            odd = [name for name in {**saved, **own} if saved.get(name) != own.get(name)]
            theirs, ours = ({name: made.get(name) for name in odd} for made in (saved, own))
            raise ValueError(f"the saved replay was made with {theirs}, this one with {ours}.")
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
        if self.priorities is not None:  # the tree stores priorities to the alpha
            settings["alpha"] = self.priorities.alpha
            settings["input_priorities"] = self.priorities.input_priorities
        return settings

    # Locking, of replays in shared memory

    def forget_names(self) -> None:
        """Unlink the lock's semaphores; call once all processes that need the lock have it."""
        forget_names(self.rw_lock.parts)

    def abort_waiters(self) -> None:
        """Make all processes that wait for the lock raise, since its holder has died."""
        self.rw_lock.abort_waiters()

    def recover_after_crash(self) -> bool:
        """Release the lock after processes that used the replay have died.

        No living process may use the replay meanwhile.

        Returns:
            True if a process died while it was writing; the rows are then unreliable.
        """
        return self.rw_lock.recover_after_crash()

    def _reading(self) -> AbstractContextManager[None]:
        """Return a context in which no other process writes."""
        return self._locked(writing=False) if self.async_ else UNLOCKED

    def _writing(self) -> AbstractContextManager[None]:
        """Return a context in which no other process reads or writes."""
        return self._locked(writing=True) if self.async_ else UNLOCKED

    @contextmanager
    def _locked(self, writing: bool) -> Iterator[None]:
        """Hold the lock, which may be nested: a method of a subclass may hold it already."""
        thread, lock = get_ident(), self.rw_lock
        if thread in self._lock_holders:
            if writing and not self._lock_holders[thread]:
                raise RlpytError("a replay cannot be written to by a method that is sampling.")
            yield
            return
        self._wait(lock.acquire_write if writing else lock.acquire_read)
        self._lock_holders[thread] = writing
        try:
            yield
        finally:
            del self._lock_holders[thread]
            if writing:
                lock.release_write()
            else:
                self._wait(lock.release_read)

    def _wait(self, acquire: Callable[[float | None], bool]) -> None:
        while not acquire(1.0):
            if self.rw_lock.aborted:
                raise RlpytError("the replay is locked by a process that has died.")
            if self.while_waiting is not None:
                self.while_waiting()

    # Properties that subclasses read

    @property
    def t(self) -> int:
        """Return where the next row is written."""
        return self.ring.t

    @property
    def async_t(self) -> Ring:
        """Return the cursor; ``async_t.value`` is where the next row is written."""
        return self.ring

    @property
    def bytes_per_transition(self) -> float:
        """Return the memory per transition, without final observations."""
        own = self.storage.bytes_per_row + self.rnn_states.bytes_per_row + self.ring.void.itemsize
        return float(own + self.selection.bytes_per_row)

    @property
    def _buffer_full(self) -> bool:
        return self.ring.full

    @property
    def samples(self) -> Any:
        """Return the stored fields, named tuple [T, B, ...], without frames and states."""
        return self.storage.samples

    @property
    def samples_return_(self) -> Array:
        """Return the n-step returns [T, B]."""
        kept = self.samples.reward if self.n_step_return == 1 else self.storage.extra.return_
        return np.asarray(kept)

    @property
    def samples_done_n(self) -> Array:
        """Return [T, B] bool, whether the n-step window meets a terminal state."""
        kept = self.samples.done if self.n_step_return == 1 else self.storage.extra.done_n
        return np.asarray(kept)

    @property
    def samples_prev_rnn_state(self) -> Any:
        """Return the stored states [T / rnn_state_interval, B, ...], or None."""
        return self.rnn_states.samples

    @property
    def n_frames(self) -> int:
        """Return C, the frames of an observation, of replays that store frames."""
        return int(self.storage.n_frames)

    @property
    def samples_frames(self) -> Any:
        """Return the frames [T + C - 1, B, ...], of replays that store frames."""
        return self.storage.frames

    @property
    def samples_new_frames(self) -> Any:
        """Return the newest frame of every row, [T, B, ...], of replays that store frames."""
        return self.storage.new_frames
