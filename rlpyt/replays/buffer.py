"""The replay: one class, composed of a ring, a storage, targets, a selection and a window.

The names of rlpyt's buffers (``replays.non_sequence``, ``replays.sequence``) say which parts; the
work is done here.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.batch import with_is_weights
from rlpyt.replays.finals import default_capacity
from rlpyt.replays.interruption import interrupt
from rlpyt.replays.memory import Memory
from rlpyt.replays.ring import Ring
from rlpyt.replays.rnn_states import RnnStates
from rlpyt.replays.selection import PrioritySettings, UniformSelection
from rlpyt.replays.state import load_state, state_of
from rlpyt.replays.storage import FullStorage, check_example
from rlpyt.replays.targets import NStep
from rlpyt.replays.window import TransitionWindow, null_leaves
from rlpyt.utils.buffer import numpify_buffer
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.seed import get_seed, stream

Array = NDArray[Any]


class ReplayBuffer(BaseReplayBuffer):
    """Keeps the newest ``size`` transitions of B environments and gives out batches of them.

    One process writes (``append_samples``, ``update_batch_priorities``); in the asynchronous forms
    others read, under ``rw_lock``. Samples are taken at rows whose neighbours are still held; see
    ``replays.ring``. Where environments wait for a reset until a batch ends, samples mark these
    rows as void; they are never drawn.

    Args:
        example: named tuple of one step without leading dimensions: observation, action, reward,
            done, and what else is to be stored: ``timeout``, ``prev_rnn_state``.
        size: transitions; rounded up to full rows of B.
        B: environments, the second dimension of all samples.
        discount: gamma, of n-step returns and ``discount_n``.
        n_step_return: n.
        rnn_state_interval: (sequences) steps between stored recurrent states, at which sequences
            begin; below 1, none is stored.
        batch_T: (sequences) steps of a sequence, unless ``sample_batch`` says otherwise.
        priorities: settings, for prioritised selection.
        seed: of the random stream; None takes the process's (``utils.seed``).
        force: allocate although it does not seem to fit.
        final_capacity: episodes cut off by a limit whose final observations fit into shared
            memory; None: enough for episodes of 40 steps and more. Beyond it they count as
            terminated, with a warning. Memory of one process grows.
        null_action: what the agent got as previous action where an episode began, one value or a
            tree like the action; usually ``env_spaces.action.null_value()``.

    Attributes:
        time_limits: (of the class) the example and samples must have ``timeout``, which is
            ``env_info.timeout``.
        every: rows at which a sample can begin are multiples of it.

    Raises:
        TypeError, ValueError: an argument or the example cannot be used; there are too few rows
            for anything to be sampled.
        ReplayTooLarge: it would not fit into memory; with the numbers.
    """

    Storage: Any = FullStorage
    Selection: Any = UniformSelection
    Window: Any = TransitionWindow
    time_limits = False

    def __init__(
        self,
        example: Any,
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
        self.rnn_states = RnnStates(example, rnn_state_interval, T, B, memory)
        example = self.rnn_states.without(example)
        if final_capacity is None:
            final_capacity = default_capacity(self.size, B)
        extra = self.targets.extra(example.reward)
        self.storage = self.Storage(example, extra, T, B, memory, final_capacity)
        self.storage.ring = self.ring
        self.off_backward = self.n_step_return
        self.off_forward = max(1, self.storage.before)
        nulls = null_leaves(example.action, null_action)
        self.window = self.Window(self.n_step_return, self.discount, B, nulls)
        self._check_room(batch_T)
        self.priorities = priorities
        self.init_selection(every, memory)
        self.nbytes = memory.commit(force, self.size)
        self.set_seed(get_seed() if seed is None else seed)
        self._checked = False
        self._ticket: Any = None
        self._own_observations = _overrides(self, "extract_observation")
        self._own_extraction = _overrides(self, "extract_batch")
        self._own_choice = _overrides(self, "sample_idxs")

    def init_selection(self, every: int, memory: Memory) -> None:
        """Make the part that chooses rows, of which every ``every``-th may be chosen."""
        self.selection = self.Selection(self.ring, every, self.priorities, memory)

    def set_seed(self, seed: int | None, rank: int = 0) -> None:
        """Begin a random stream of its own; None: from the operating system's entropy.

        Processes that sample from the same replay call it with different ranks.
        """
        self.rng = np.random.default_rng() if seed is None else stream(seed, "replay", rank)

    # Writing

    def append_samples(self, samples: Any, final: Any = None) -> tuple[int, Any]:
        """Add samples, in place of the oldest rows once all are taken.

        Args:
            samples: named tuple [T, B] like the example, numpy or torch; or
                ``PrioritiesSamplesToBuffer(priorities, samples)`` with priorities [T, B] or [B].
            final: ``FinalObservations`` of those steps that ended an episode without a terminal
                state; their windows are then bootstrapped from these. It may also be a field
                ``final`` of samples. Without it, every done counts as terminal. A field ``void``
                of samples, [T, B] bool, marks rows to ignore: those between an environment's done
                and the end of the batch, if it waits for a reset until then. All are done.

        Returns:
            (T, the rows written: a slice or an array of indexes).

        Raises:
            TypeError, ValueError: samples do not look like the example, have more rows than the
                replay, or a final observation belongs to no step of theirs or to one that is not
                done. Nothing has been written then.
        """
        if not hasattr(samples, "_fields"):
            raise TypeError(
                f"samples are a {type(samples).__name__}; give a named tuple with the fields of "
                "the example (rlpyt.utils.collections.namedarraytuple)."
            )
        priorities = None
        if "priorities" in samples._fields:
            priorities, samples = samples.priorities, samples.samples
        void = None
        if "final" in samples._fields or "void" in samples._fields:
            final = getattr(samples, "final", None) if final is None else final
            void = numpify_buffer(getattr(samples, "void", None))
            fields = tuple(name for name in samples._fields if name not in ("final", "void"))
            cls = namedarraytuple(type(samples).__name__, fields)
            samples = cls(*(getattr(samples, name) for name in fields))
        n = self._check(samples, final)
        if void is not None:
            self._check_void(void, np.asarray(numpify_buffer(samples.done)).astype(bool))
        ring, storage = self.ring, self.storage
        start = ring.written
        priorities = self.selection.prepare(n, numpify_buffer(priorities))
        prepared = storage.prepare(start, self.rnn_states.without(samples), void)
        places = ring.places(start, n)
        storage.finals.forget((start + n - self.T) * self.B)
        if self.rnn_states.given:
            self.rnn_states.write(start, samples, n)
            samples = self.rnn_states.without(samples)
        storage.write(places, samples, prepared)
        storage.write_truncations(start, places, final)
        self.compute_returns(n)
        ring.write_void(start, n, void)
        ring.move(start + n)
        self.selection.advance(self.valid, n, priorities)
        return n, places[0][0] if len(places) == 1 else np.arange(start, start + n) % self.T

    def _check(self, samples: Any, final: Any) -> int:
        """Number of rows; everything about the first samples, the shape of later ones."""
        shape = tuple(samples.reward.shape[:2])
        if len(shape) != 2 or shape[1] != self.B or not 0 < shape[0] <= self.T:
            raise ValueError(
                f"samples are {list(shape)}; expected [T, B={self.B}] with at most {self.T} rows, "
                "which is what the replay holds."
            )
        if not self._checked:
            self.storage.check(self.rnn_states.without(samples))
            self.rnn_states.check(samples)
            self._checked = True
        if final is not None:
            self.storage.check_final(final, np.asarray(samples.done))
        return int(shape[0])

    def _check_void(self, void: Array, done: Array) -> None:
        """Check that every void row and the row before it are done, which ends all windows."""
        before = np.zeros_like(done)
        before[1:] = done[:-1]
        if self.ring.written:
            before[0] = self.storage.samples.done[(self.ring.written - 1) % self.T]
        if void.shape != done.shape or (void & ~(done & before)).any():
            raise ValueError(
                f"void of shape {list(void.shape)} must be {list(done.shape)}, and done in each "
                "void row and the row before it. Mark only rows that follow an environment's done."
            )

    def interrupt(self) -> int:
        """Say that what is written next does not follow what was written last.

        Call it where environments begin anew without a done in the rows: after resuming with other
        environments than those that the rows came from, say. Episodes then end as if cut off by a
        limit, exactly, which takes the newest row (with recurrent states: those behind the last
        state). Nothing happens if all episodes have ended.

        Returns:
            Rows of B environments that are gone.
        """
        return interrupt(self)

    def compute_returns(self, T: int) -> None:
        """Update n-step returns with ``T`` new rows, written but not yet counted by the cursor."""
        self.targets.update(self.ring, self.storage.samples, self.storage.extra, T)

    # Reading

    def _check_room(self, batch_T: int | None) -> None:
        """Refuse a ring in which, wherever its cursor stands, samples might find no place.

        Raises:
            ValueError: it has too few rows; the message says how many it takes.
        """
        before, after = self.off_forward, self.window.rows_after(self, batch_T or 1)
        need = before + after + self.every
        if need > self.T:
            T = math.ceil(need / self.every) * self.every
            begins = f", and begins at every {self.every}th row" if self.every > 1 else ""
            raise ValueError(
                f"size={self.size:,} is {self.T} rows of {self.B} environments, too few for any "
                f"sample: one needs {before} rows before its first and {after} after it{begins}. "
                f"Take a size of at least {T * self.B:,}, which is {T} rows."
            )

    def valid(self, T: int | None = None) -> tuple[int, int]:
        """Absolute rows [low, high) at which windows (of ``T`` steps, if sequences) can begin."""
        before = self.off_forward
        if self.ring.oldest:  # before the first row there is nothing that a row could need
            before = max(before, self.storage.reach)
        return self.ring.valid(before, self.window.rows_after(self, T))

    def sample_batch(self, batch_B: int, batch_T: int | None = None) -> Any:
        """Choose rows and return what there is to learn at them, as torch tensors.

        Args:
            batch_B: how many.
            batch_T: (sequences) steps of each; None: as constructed.

        Returns:
            A ``ReplayBatch`` with leading dimension [B], or [T, B] for sequences.

        Raises:
            ReplayNotReady: too little has been written.
            TypeError, ValueError: ``batch_B`` is no number of rows.
        """
        batch_B = whole_number("batch_B", batch_B, 1)
        if self._own_choice:
            chosen = self.sample_idxs(*self._args(batch_B, batch_T))
            return self._extract(self._place(*chosen), batch_T)
        pick = self.selection.pick(batch_B, self.valid(batch_T), self.rng)
        batch = self._extract(pick.idxs, batch_T)
        if pick.is_weights is None:
            return batch
        self._ticket = pick.ticket
        return with_is_weights(batch, torch.from_numpy(pick.is_weights), pick.ticket)

    def sample_idxs(self, batch_B: int, batch_T: int | None = None) -> tuple[Array, Array]:
        """Choose rows; returns (T_idxs, B_idxs), [batch_B] each.

        A subclass's own is what ``sample_batch`` asks.
        """
        return self.unplace(self.selection.pick(batch_B, self.valid(batch_T), self.rng).idxs)

    def extract_batch(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """What there is to learn at these rows (in sequences of ``T`` steps), as torch tensors.

        A subclass's own is what ``sample_batch`` asks.
        """
        return self.window.cut(self, self._place(T_idxs, B_idxs), T)

    def extract_observation(self, T_idxs: Array, B_idxs: Array, T: int | None = None) -> Any:
        """Observations [B, ...] at these rows, or of the ``T`` rows from each on: [T, B, ...].

        A subclass's own is what ``sample_batch`` asks; it will want one of
        ``extract_final_observation`` as well.
        """
        idxs = self._place(T_idxs, B_idxs)
        rows = idxs[None] if T is None else idxs + np.arange(T)[:, None] * self.B
        cut = self.storage.rows.cut(rows)
        return self.storage.observations(cut, 0 if T is None else slice(None))

    def extract_final_observation(self, T_idxs: Array, B_idxs: Array) -> Any:
        """True final observations [K, ...] of episodes that were cut off with these steps."""
        T_idxs, B_idxs = np.asarray(T_idxs), np.asarray(B_idxs)
        keys = self.ring.absolute(T_idxs) * self.B + B_idxs
        return self.storage.final_observations(keys, self._place(T_idxs, B_idxs))

    def observe(self, cut: Any, k: Any) -> Any:
        """Observations of plane k of a cut, or of planes in a row."""
        if not self._own_observations:
            return self.storage.observations(cut, k)
        idxs = cut.idxs[k]
        if isinstance(k, int):
            return numpify_buffer(self.extract_observation(*self.unplace(idxs)))
        return numpify_buffer(self.extract_observation(*self.unplace(idxs[0]), len(idxs)))

    def observe_pair(self, cut: Any, now: int, after: int) -> tuple[Any, Any]:
        """Observations of two planes, ``n_step_return`` rows apart."""
        if self._own_observations:
            return self.observe(cut, now), self.observe(cut, after)
        return self.storage.pair(cut, now, after, self.n_step_return == 1)  # type: ignore[no-any-return]

    def _extract(self, idxs: Array, batch_T: int | None) -> Any:
        if self._own_extraction:
            return self.extract_batch(*self.unplace(idxs), *self._args(batch_T))
        return self.window.cut(self, idxs, batch_T)

    def _args(self, *args: Any) -> tuple[Any, ...]:
        """Arguments of documented methods, which take a length for sequences only."""
        *others, batch_T = args
        if not self.window.sequences:
            return tuple(others)
        return (*others, self.batch_T if batch_T is None else batch_T)

    def _place(self, T_idxs: Any, B_idxs: Any) -> Array:
        """t * B + b."""
        place: Array = np.asarray(T_idxs) * self.B + np.asarray(B_idxs)
        return place

    def unplace(self, idxs: Array) -> tuple[Array, Array]:
        """(T_idxs, B_idxs), within the ring."""
        T_idxs, B_idxs = np.divmod(idxs, self.B)
        return T_idxs % self.T, B_idxs

    # Priorities

    def update_batch_priorities(self, priorities: Any, ticket: Any = None) -> None:
        """Set the priorities [B] of the rows of a batch.

        Args:
            priorities: absolute TD errors, for example; numpy or torch.
            ticket: ``batch.ticket`` of the batch they belong to; None: the latest one. Rows that
                have been overwritten since are passed over.

        Raises:
            ValueError: they are not finite, negative, or of another number than the rows.
            TypeError: the replay is uniform.
        """
        self.selection.update(numpify_buffer(priorities), ticket or self._ticket)

    def set_beta(self, beta: float) -> None:
        """Set the exponent of importance weights, from 0 (none) to 1 (full)."""
        check_range("beta", beta, 0.0, 1.0)
        self.selection.beta = beta

    # State

    def state_dict(self) -> dict[str, Any]:
        """Everything, as a tree of plain arrays: the rows written so far are not copied."""
        return state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly as the replay that gave ``state``, which was constructed alike.

        Raises:
            ValueError: it was made otherwise; the message says in what.
        """
        load_state(self, state)
        self._ticket = None

    # Names that subclasses know

    @property
    def t(self) -> int:
        """Where the next row goes."""
        return self.ring.t

    @property
    def bytes_per_transition(self) -> float:
        """Memory that one transition takes, final observations apart."""
        own = self.storage.bytes_per_row + self.rnn_states.bytes_per_row + self.ring.void.itemsize
        return float(own + self.selection.bytes_per_row)

    @property
    def _buffer_full(self) -> bool:
        return self.ring.full

    @property
    def samples(self) -> Any:
        """Named tuple of arrays [T, B, ...]: the rows' fields (frames and states apart)."""
        return self.storage.samples

    @property
    def samples_return_(self) -> Array:
        """[T, B] n-step returns."""
        kept = self.samples.reward if self.n_step_return == 1 else self.storage.extra.return_
        return np.asarray(kept)

    @property
    def samples_done_n(self) -> Array:
        """[T, B] whether the n-step window meets a terminal state."""
        kept = self.samples.done if self.n_step_return == 1 else self.storage.extra.done_n
        return np.asarray(kept)


def _overrides(replay: ReplayBuffer, name: str) -> bool:
    """Whether a subclass has its own method of this name."""
    return getattr(type(replay), name) is not getattr(ReplayBuffer, name)
