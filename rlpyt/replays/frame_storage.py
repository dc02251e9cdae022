"""Storage of stacked observations that stores each frame once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.ring import Ring
from rlpyt.replays.rows import RowBatch, example_array
from rlpyt.replays.storage import FullStorage, Slices
from rlpyt.spaces.action_mask import FIELD, action_mask_of
from rlpyt.utils.buffer import Arrays, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple, with_fields, without_fields

# Source of the older frames of a row: the previous row, zeros, copies of the row's newest frame, or
# the previous row that is not void.
PREVIOUS, ZEROS, COPIES, PREVIOUS_VALID = 0, 1, 2, 3
STEPS_TO_CHECK = 100  # number of steps in which observations are checked to be stacks of frames


class FrameStorage(FullStorage):
    """Storage of observations that are stacks of frames, oldest first; each frame is stored once.

    An observation [C, ...] has C frames, of which only the last is new in each step. It is rebuilt
    from the newest frames of the C - 1 rows before. At the beginning of an episode, the older
    frames are zeros, copies of the first frame, or those of the previous rows without void ones
    (for example after a lost life), as the environment returned them.

    An observation may also have two parts, such a stack and a mask of actions, which is stored with
    the rows.
    """

    _internal = np.uint8(PREVIOUS)

    def __init__(
        self, example: NamedArrayTuple, extra: Any, ring: Ring, memory: Memory, final_capacity: int
    ) -> None:
        self._part = stack_part(example.observation)
        shape = _frames_shape(self._stack(example.observation))
        self.n_frames = C = shape[0]
        self.rows_before = C - 1
        self._steps_checked = 0  # steps with differing frames checked so far
        super().__init__(example, extra, ring, memory, final_capacity)
        dtype = example_array(self._stack(example.observation)).dtype
        self._frames = _Frames(ring.T, ring.B, shape, dtype, memory)

    @property
    def frames(self) -> Any:
        """Return the frames [T + C - 1, B, ...]; the frame of row t is at t + C - 1.

        The first C - 1 frames repeat the last ones, so that every stack is one slice.
        """
        return self._frames.frames[:-1]

    @property
    def new_frames(self) -> Any:
        """Return the newest frame of every row, [T, B, ...]."""
        return self._frames.frames[self.n_frames - 1 : -1]

    @property
    def reach(self) -> int:  # type: ignore[override]
        """Return the number of rows before t that row t may need, including void rows."""
        return int(self._frames.reach[0])

    @property
    def bytes_per_row(self) -> int:
        """Return the bytes per transition."""
        return self.rows.row_bytes + int(self.frames[0, 0].nbytes)

    def _stack(self, observation: Any) -> Any:
        """Return the stack of frames in an observation."""
        return observation if self._part is None else getattr(observation, self._part)

    def _with_stack(self, observation: Any, stack: Any) -> Any:
        """Return an observation with another stack of frames."""
        return stack if self._part is None else observation._replace(**{self._part: stack})

    def _row_fields(self, example: NamedArrayTuple) -> Any:
        if self._part is None:
            return without_fields(example, "observation", typename="SamplesToBuffer")
        return with_fields(example, observation=self._with_stack(example.observation, None))

    def _final_example(self, example: NamedArrayTuple) -> Any:
        observation = example.observation
        return self._with_stack(observation, example_array(self._stack(observation))[-1])

    def _final_part(self, observation: Arrays) -> Any:
        return self._with_stack(observation, self._stack(observation)[:, -1])

    def prepare(
        self, start: int, samples: NamedArrayTuple, void: NDArray[Any] | None
    ) -> NDArray[np.uint8]:
        """Return the sources of older frames of every row, [T, B] of PREVIOUS, ZEROS, ...

        Rows are compared with the previous rows: always at the beginning of an episode, and inside
        episodes until ``STEPS_TO_CHECK`` steps have been checked.

        Raises:
            ValueError: older frames have none of these sources.
        """
        stacks, done = numpify_buffer((self._stack(samples.observation), samples.done))
        source = np.full(done.shape, PREVIOUS, np.uint8)
        if self.n_frames == 1:
            return source
        t = start % self.T
        begins = np.concatenate([self.samples.done[t - 1 : t or None], done[:-1]]).astype(bool)
        if start == 0:
            begins[0] = True
        void = np.zeros_like(begins) if void is None else void
        self._check_steps(start, stacks, ~begins & ~void)
        begins &= ~void
        if begins.any():
            where = begins.nonzero()
            source[where] = self._sources_at_starts(start, stacks, void, *where)
        return source

    def _check_steps(self, start: int, stacks: Any, inside: Any) -> None:
        """Check that inside episodes [T, B] all frames except the last equal the previous row's.

        Only steps with differing frames count, since a constant image always passes.
        """
        for t, now in enumerate(stacks):
            if self._steps_checked >= STEPS_TO_CHECK:
                return
            before = self._stacks_before(start, stacks, t, np.arange(self.B))
            if before is None:
                continue
            axes = tuple(range(1, now.ndim))
            if (inside[t] & (before[:, 1:] != now[:, :-1]).any(axis=axes)).any():
                raise ValueError(
                    "observations must be stacks of frames, oldest first, but inside an episode "
                    "older frames differ from those of the step before. Use a replay that stores "
                    "whole observations (a name without 'Frame')."
                )
            differ = inside[t] & (now[:, 1:] != now[:, :-1]).any(axis=axes)
            self._steps_checked += int(np.count_nonzero(differ))

    def _sources_at_starts(
        self,
        start: int,
        stacks: Any,
        void: NDArray[Any],
        T_idxs: NDArray[Any],
        B_idxs: NDArray[Any],
    ) -> NDArray[np.uint8]:
        """Return the sources [K] of older frames in rows that begin episodes."""
        new = stacks[T_idxs, B_idxs]  # [K, C, ...]
        older, axes = new[:, :-1], tuple(range(1, new.ndim))
        zeros, copies = ~older.any(axis=axes), (older == new[:, -1:]).all(axis=axes)
        source = np.where(zeros, ZEROS, np.where(copies, COPIES, PREVIOUS)).astype(np.uint8)
        for k in (source == PREVIOUS).nonzero()[0]:
            t, b = int(T_idxs[k]), B_idxs[k : k + 1]
            gap = self._n_void_before(start, void, t, int(b[0]))
            before = self._stacks_before(start, stacks, t - gap, b)
            if before is not None and not np.array_equal(before[0, 1:], older[k]):
                raise ValueError(
                    "the older frames of an episode's first observation are neither zeros, nor "
                    "copies of its newest frame, nor the previous frames. Use a replay that stores "
                    "whole observations (a name without 'Frame')."
                )
            if gap:
                source[k] = PREVIOUS_VALID
                self._frames.reach[0] = max(self.reach, self.rows_before * (1 + gap))
        return source

    def _n_void_before(self, start: int, void: NDArray[Any], t: int, b: int) -> int:
        """Return the number of void rows directly before row t of a batch in environment b."""
        gap, oldest = 0, self.ring.oldest - start
        while t - gap > oldest and (
            void[t - gap - 1, b] if t > gap else self.ring.void[(start + t - gap - 1) % self.T, b]
        ):
            gap += 1
        return gap

    def _stacks_before(self, start: int, stacks: Any, t: int, B_idxs: NDArray[Any]) -> Any:
        """Return the stacks [K, C, ...] of row t - 1; None if too few rows were written."""
        if t > 0:
            return stacks[t - 1, B_idxs]
        if start + t < self.rows_before:
            return None
        return self.stacks((start + t - 1) * self.B + B_idxs, self.n_frames)

    def write(self, slices: Slices, samples: NamedArrayTuple, prepared: Any) -> None:
        """Write rows [T, B], with the last frame of each observation."""
        super().write(slices, samples, prepared)
        self._frames.write(slices, numpify_buffer(self._stack(samples.observation))[:, :, -1])
        for stored, given in slices:
            self.rows.tree.internal[stored] = prepared[given]

    def observations(self, batch: RowBatch, k: Any) -> Any:
        """Return the observations [..., C, ...] of plane k of a batch."""
        if k not in batch.adjacent:
            stack = self.stacks(batch.idxs[k], self.n_frames)
        else:
            if batch.stacks is None:
                batch.stacks = self._adjacent_stacks(batch)
            stack = batch.stacks[batch.adjacent.index(k)]
        if self._part is None:
            return stack
        return self._with_stack(batch(self.fields.observation, k), stack)

    def _adjacent_stacks(self, batch: RowBatch) -> tuple[Any, Any]:
        """Return the stacks of two adjacent planes.

        Inside episodes they are views of the same C + 1 frames, which saves 3/8 of the copying.
        """
        now, after = batch.adjacent
        if np.count_nonzero(batch(self.rows.keys.internal, after)):
            idxs, C = batch.idxs, self.n_frames
            return self.stacks(idxs[now], C), self.stacks(idxs[after], C)
        frames = self.stacks(batch.idxs[now], self.n_frames + 1)
        return frames[:, :-1], frames[:, 1:]

    def stacks(self, idxs: NDArray[Any], length: int, newest: int | None = None) -> NDArray[Any]:
        """Return successive frames, oldest first: idxs.shape + [length, ...].

        Args:
            idxs: indices of rows; the newest frame of each is at C - 1.
            length: number of frames; those from C on belong to the following rows.
            newest: number of frames, up to C - 1, that must be valid; None: all of the first C.
        """
        C, B, size = self.n_frames, self.B, self.T * self.B
        newest = C if newest is None else newest
        at = idxs % size
        idxs = at[..., None]
        stack = self._frames.flat.take(
            idxs + np.arange(length) * B, 0
        )  # the stack of row t begins at frame t
        # Indexing, because take() would copy the whole column first.
        source = self.rows.tree.internal.reshape(-1)[idxs - np.arange(C - 1) * B]
        if np.count_nonzero(source):
            for f in reversed(range(newest - 1)):  # f rows ago; later rows overwrite earlier ones
                first = C - 1 - f  # index of that row's newest frame
                stack[source[..., f] == ZEROS, :first] = 0
                copies = source[..., f] == COPIES
                stack[copies, :first] = stack[copies, first : first + 1]
                valid = source[..., f] == PREVIOUS_VALID
                if valid.any():
                    previous = self._last_valid(at[valid] - f * B)
                    older = self.stacks(previous, C, newest - 1 - f)
                    stack[valid, :first] = older[:, C - first :]
        return stack

    def _last_valid(self, idxs: NDArray[Any]) -> NDArray[Any]:
        """Return the last row before each of the rows ``idxs`` [K] that is not void."""
        void, size = self.ring.void.reshape(-1), self.T * self.B
        idxs = idxs - self.B
        for _ in range(self.T):
            skip = void[idxs % size]
            if not skip.any():
                break
            idxs = idxs - self.B * skip
        return idxs

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Return stacks [K, C, ...]: the last C - 1 frames of rows ``idxs`` and the final frame."""
        final = self.finals.get(keys)
        stack = np.empty((len(keys), *self._frames.shape), self._frames.dtype)
        stack[:, :-1] = self.stacks(idxs, self.n_frames)[:, 1:]
        stack[:, -1] = self._stack(final)
        return self._with_stack(final, stack)

    def state(self, rows: int) -> dict[str, Any]:
        """Return rows, final observations and frames."""
        frames = self.frames[: rows + self.n_frames - 1]
        return {**super().state(rows), "frames": frames, "reach": self.reach}

    def load(self, state: dict[str, Any]) -> None:
        """Load rows saved by ``state``."""
        super().load(state)
        self._frames.load(state["frames"])
        self._frames.reach[0] = state.get("reach", self.rows_before)


class _Frames(Part):
    """Frames [T + C, B, ...]; the frame of row t is at t + C - 1.

    The first C - 1 frames repeat those of the last rows, and the last repeats that of the first
    row, so that any C + 1 successive frames are one slice.
    """

    frames: NDArray[Any]
    reach: NDArray[np.int64]  # [1]

    def __init__(
        self, T: int, B: int, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Memory
    ) -> None:
        self.T, self.shape, self.dtype = T, shape, dtype
        self.older = shape[0] - 1
        memory.request(self, "frames", (T + shape[0], B, *shape[1:]), dtype)
        memory.request(self, "reach", (1,), np.int64, fill=self.older)

    def _derive(self) -> None:
        self.flat = self.frames.reshape(-1, *self.shape[1:])

    def write(self, slices: Slices, new: NDArray[Any]) -> None:
        """Write the newest frames [T, B, ...] of rows."""
        older, T = self.older, self.T
        for stored, given in slices:
            self.frames[stored.start + older : stored.stop + older] = new[given]
            if stored.start == 0:
                self.frames[T + older] = self.frames[older]
            if older and stored.stop > T - older:
                self.frames[:older] = self.frames[T : T + older]

    def load(self, frames: NDArray[Any]) -> None:
        """Load the frames of the first rows."""
        self.frames[: len(frames)] = frames
        self.frames[self.T + self.older] = self.frames[self.older]


def stack_part(observation: Any) -> str | None:
    """Return the name of the only part other than the mask of actions, or ``None``."""
    if action_mask_of(observation) is None or len(observation._fields) != 2:
        return None
    names: tuple[str, ...] = observation._fields
    return names[0] if names[1] == FIELD else names[1]


def _frames_shape(observation: Arrays) -> tuple[int, ...]:
    if isinstance(observation, tuple) or example_array(observation).ndim < 1:
        raise TypeError(
            "observations must be one array [C, ...] of C frames, oldest first, alone or with a "
            "mask of actions, to be stored as frames. Use a replay that stores whole observations "
            "(a name without 'Frame')."
        )
    return example_array(observation).shape
