"""Storage of stacked observations that stores each frame once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.ring import Ring
from rlpyt.replays.rows import RowBatch, example_array
from rlpyt.replays.storage import FullStorage, Slices
from rlpyt.utils.buffer import Arrays, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple, without_fields

# Where the older frames of a row come from: the row before, zeros, copies of the row's own frame,
# or the last row before it that is not void.
GOES_ON, ZEROS, COPIES, SKIPS = 0, 1, 2, 3
STEPS_TO_CHECK = 100  # after so many steps, observations are accepted as stacks of frames


class FrameStorage(FullStorage):
    """Storage of observations that are stacks of frames, oldest first; each frame is stored once.

    An observation is [C, ...] with C frames, of which only the last is new in each step. It is
    rebuilt from the newest frames of the C - 1 rows before. Where an episode begins, older frames
    are what the environment returned: zeros, copies of the first frame, or (after a lost life, for
    example) still those of the rows before, leaving out void ones.
    """

    _own = np.uint8(GOES_ON)

    def __init__(
        self, example: NamedArrayTuple, extra: Any, ring: Ring, memory: Memory, final_capacity: int
    ) -> None:
        shape = _frames_shape(example.observation)
        self.n_frames = C = shape[0]
        self.before = C - 1
        self._steps_checked = 0  # steps with differing frames that were stacks
        super().__init__(example, extra, ring, memory, final_capacity)
        dtype = example_array(example.observation).dtype
        self._frames = _Frames(ring.T, ring.B, shape, dtype, memory)

    @property
    def frames(self) -> Any:
        """Return the frames [T + C - 1, B, ...]; the frame of row t is at t + C - 1.

        The first C - 1 repeat the last ones, so that every stack is one slice.
        """
        return self._frames.frames[:-1]

    @property
    def new_frames(self) -> Any:
        """Return the newest frame of every row, [T, B, ...]."""
        return self._frames.frames[self.n_frames - 1 : -1]

    @property
    def reach(self) -> int:  # type: ignore[override]
        """Return how many rows before t its observation may need, counting void rows in between."""
        return int(self._frames.reach[0])

    @property
    def bytes_per_row(self) -> int:
        """Return the bytes per transition."""
        return self.rows.row_bytes + int(self.frames[0, 0].nbytes)

    def _kept(self, example: NamedArrayTuple) -> Any:
        return _without_observation(example)

    def _final_example(self, example: NamedArrayTuple) -> Any:
        return example_array(example.observation)[-1]

    def _final(self, observation: Arrays) -> Any:
        return observation[:, -1]

    def prepare(
        self, start: int, samples: NamedArrayTuple, void: NDArray[Any] | None
    ) -> NDArray[np.uint8]:
        """Return where the older frames of every row come from, [T, B] of GOES_ON, ZEROS, ...

        Rows are compared with those before them: always where an episode begins, and inside
        episodes until ``STEPS_TO_CHECK`` steps have shown that observations are stacks.

        Raises:
            ValueError: older frames come from none of these.
        """
        stacks, done = numpify_buffer(samples.observation), numpify_buffer(samples.done)
        how = np.full(done.shape, GOES_ON, np.uint8)
        if self.n_frames == 1:
            return how
        t = start % self.T
        begins = np.concatenate([self.samples.done[t - 1 : t or None], done[:-1]]).astype(bool)
        if start == 0:
            begins[0] = True
        void = np.zeros_like(begins) if void is None else void
        self._check_steps(start, stacks, ~begins & ~void)
        begins &= ~void
        if begins.any():
            where = begins.nonzero()
            how[where] = self._beginnings(start, stacks, void, *where)
        return how

    def _check_steps(self, start: int, stacks: Any, inside: Any) -> None:
        """Check that inside episodes [T, B] all frames but the last are those of the row before.

        Only steps in which frames differ count, since a still image passes for a stack.
        """
        for t, now in enumerate(stacks):
            if self._steps_checked >= STEPS_TO_CHECK:
                return
            before = self._before(start, stacks, t, np.arange(self.B))
            if before is None:
                continue
            axes = tuple(range(1, now.ndim))
            if (inside[t] & (before[:, 1:] != now[:, :-1]).any(axis=axes)).any():
                raise ValueError(
                    "observations must be stacks of frames, oldest first: inside an episode, all "
                    "frames but the last are those of the step before, and here they are not. Use "
                    "a replay that stores whole observations (a name without 'Frame')."
                )
            differ = inside[t] & (now[:, 1:] != now[:, :-1]).any(axis=axes)
            self._steps_checked += int(np.count_nonzero(differ))

    def _beginnings(
        self,
        start: int,
        stacks: Any,
        void: NDArray[Any],
        T_idxs: NDArray[Any],
        B_idxs: NDArray[Any],
    ) -> NDArray[np.uint8]:
        """Return where older frames come from, [K], in rows that begin episodes."""
        new = stacks[T_idxs, B_idxs]  # [K, C, ...]
        older, axes = new[:, :-1], tuple(range(1, new.ndim))
        zeros, copies = ~older.any(axis=axes), (older == new[:, -1:]).all(axis=axes)
        how = np.where(zeros, ZEROS, np.where(copies, COPIES, GOES_ON)).astype(np.uint8)
        for k in (how == GOES_ON).nonzero()[0]:
            t, b = int(T_idxs[k]), B_idxs[k : k + 1]
            gap = self._gap(start, void, t, int(b[0]))
            before = self._before(start, stacks, t - gap, b)
            if before is not None and not np.array_equal(before[0, 1:], older[k]):
                raise ValueError(
                    "an episode begins with older frames that are neither zeros, nor copies of its "
                    "first frame, nor the frames before it. Use a replay that stores whole "
                    "observations (a name without 'Frame')."
                )
            if gap:
                how[k] = SKIPS
                self._frames.reach[0] = max(self.reach, self.before * (1 + gap))
        return how

    def _gap(self, start: int, void: NDArray[Any], t: int, b: int) -> int:
        """Return the number of void rows right before row t of a batch, of environment b."""
        gap, oldest = 0, self.ring.oldest - start
        while t - gap > oldest and (
            void[t - gap - 1, b] if t > gap else self.ring.void[(start + t - gap - 1) % self.T, b]
        ):
            gap += 1
        return gap

    def _before(self, start: int, stacks: Any, t: int, B_idxs: NDArray[Any]) -> Any:
        """Return stacks [K, C, ...] of the row before row t; None if too few rows were written."""
        if t > 0:
            return stacks[t - 1, B_idxs]
        if start + t < self.before:
            return None
        return self.stacks((start + t - 1) * self.B + B_idxs, self.n_frames)

    def write(self, slices: Slices, samples: NamedArrayTuple, prepared: Any) -> None:
        """Write rows [T, B]; of each observation, its last frame."""
        super().write(slices, samples, prepared)
        self._frames.write(slices, numpify_buffer(samples.observation)[:, :, -1])
        for stored, given in slices:
            self.rows.tree.own[stored] = prepared[given]

    def observations(self, batch: RowBatch, k: Any) -> Any:
        """Return the stacks [..., C, ...] of plane k of a batch."""
        if k not in batch.adjacent:
            return self.stacks(batch.idxs[k], self.n_frames)
        if batch.stacks is None:
            batch.stacks = self._adjacent_stacks(batch)
        return batch.stacks[batch.adjacent.index(k)]

    def _adjacent_stacks(self, batch: RowBatch) -> tuple[Any, Any]:
        """Return the stacks of two adjacent planes.

        Inside episodes they are views of the same C + 1 frames, which saves copying three in eight.
        """
        now, after = batch.adjacent
        if np.count_nonzero(batch(self.rows.numbers.own, after)):
            idxs, C = batch.idxs, self.n_frames
            return self.stacks(idxs[now], C), self.stacks(idxs[after], C)
        frames = self.stacks(batch.idxs[now], self.n_frames + 1)
        return frames[:, :-1], frames[:, 1:]

    def stacks(self, idxs: NDArray[Any], length: int, newest: int | None = None) -> NDArray[Any]:
        """Return successive frames, oldest first: idxs.shape + [length, ...].

        Args:
            idxs: rows, whose own frame is at C - 1.
            length: number of frames; those from C on are of the rows that follow.
            newest: how many of the first C frames, up to C - 1, have to be right; None: all.
        """
        C, B, size = self.n_frames, self.B, self.T * self.B
        newest = C if newest is None else newest
        at = idxs % size
        idxs = at[..., None]
        stack = self._frames.flat.take(idxs + np.arange(length) * B, 0)  # the row's begins at t
        # Indexed, since take() would first copy the whole column.
        how = self.rows.tree.own.reshape(-1)[idxs - np.arange(C - 1) * B]
        if np.count_nonzero(how):
            for f in reversed(range(newest - 1)):  # f rows ago; later rows overwrite earlier ones
                first = C - 1 - f  # where that row's own frame is
                stack[how[..., f] == ZEROS, :first] = 0
                copies = how[..., f] == COPIES
                stack[copies, :first] = stack[copies, first : first + 1]
                skips = how[..., f] == SKIPS
                if skips.any():
                    behind = self._last_valid(at[skips] - f * B)
                    older = self.stacks(behind, C, newest - 1 - f)
                    stack[skips, :first] = older[:, C - first :]
        return stack

    def _last_valid(self, idxs: NDArray[Any]) -> NDArray[Any]:
        """Return the last rows before those at ``idxs`` [K] that are not void."""
        void, size = self.ring.void.reshape(-1), self.T * self.B
        idxs = idxs - self.B
        for _ in range(self.T):
            skip = void[idxs % size]
            if not skip.any():
                break
            idxs = idxs - self.B * skip
        return idxs

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Return stacks [K, C, ...]: newer frames of the steps at ``idxs``, then the final ones."""
        stack = np.empty((len(keys), *self._frames.shape), self._frames.dtype)
        stack[:, :-1] = self.stacks(idxs, self.n_frames)[:, 1:]
        stack[:, -1] = self.finals.get(keys)
        return stack

    def state(self, rows: int) -> dict[str, Any]:
        """Return rows, final observations and frames."""
        frames = self.frames[: rows + self.n_frames - 1]
        return {**super().state(rows), "frames": frames, "reach": self.reach}

    def load(self, state: dict[str, Any]) -> None:
        """Load rows saved by ``state``."""
        super().load(state)
        self._frames.load(state["frames"])
        self._frames.reach[0] = state.get("reach", self.before)


class _Frames(Part):
    """Frames [T + C, B, ...], that of row t at t + C - 1.

    The first C - 1 repeat those of the last rows, and the last repeats that of the first row, so
    that any C + 1 successive frames are one slice.
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
        """Write the frames [T, B, ...] of rows."""
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


def _without_observation(samples: NamedArrayTuple) -> Any:
    return without_fields(samples, "observation", typename="SamplesToBuffer")


def _frames_shape(observation: Arrays) -> tuple[int, ...]:
    if isinstance(observation, tuple) or example_array(observation).ndim < 1:
        raise TypeError(
            "observations must be one array [C, ...] of C frames, oldest first, to be stored frame "
            "by frame. Use a replay that stores whole observations (a name without 'Frame')."
        )
    return example_array(observation).shape
