"""How rows are kept: whole observations, or each frame of stacked ones once.

A storage owns the rows of the samples, of what targets add to them, and the final observations of
episodes that were cut off. It writes rows and rebuilds observations; which rows, is decided
elsewhere.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.replays.finals import Finals
from rlpyt.replays.memory import Memory, Part
from rlpyt.replays.records import Cut, Records, check_alike, describe, example_array
from rlpyt.utils.buffer import leaves_of, numpify_buffer
from rlpyt.utils.collections import namedarraytuple

Places = list[tuple[slice, slice]]
Stored = namedarraytuple("Stored", ["samples", "extra"])


class FullStorage:
    """Every row holds its whole observation: one array, or a tree of them.

    Args:
        example: tree with the fields observation, action, reward, done, and any others, without
            leading dimensions.
        extra: tree of further numbers for every row, for targets.
        T, B: rows, environments.
        memory: where from.
        final_capacity: room for final observations, where memory is shared.

    Attributes:
        samples: tree [T, B, ...] as in the example.
        extra: tree [T, B].
        fields, extra_fields: the same trees with numbers of leaves, for cuts.
        before: rows before t that the observation of row t needs.
    """

    before = 0

    def __init__(
        self, example: Any, extra: Any, T: int, B: int, memory: Memory, final_capacity: int
    ) -> None:
        check_example(example)
        self.T, self.B = T, B
        self._structure = describe(example)
        self.rows = Records(Stored(self._kept(example), extra), T, B, memory)
        self.finals = Finals(self._final_example(example), final_capacity, memory)
        self.fields, self.extra_fields = self.rows.numbers.samples, self.rows.numbers.extra
        self._flat = all(type(number) is int for number in tuple(self.fields))

    @property
    def samples(self) -> Any:
        """The rows' fields, tree [T, B, ...]."""
        return self.rows.tree.samples

    @property
    def extra(self) -> Any:
        """What targets keep with the rows, tree [T, B]."""
        return self.rows.tree.extra

    @property
    def bytes_per_row(self) -> int:
        """What one transition takes."""
        return self.rows.row_bytes

    def _kept(self, example: Any) -> Any:
        """The part of samples that goes into the rows."""
        return example

    def _final_example(self, example: Any) -> Any:
        return example.observation

    def check(self, samples: Any) -> None:
        """Compare new samples with the example; called for the first ones.

        Raises:
            TypeError, ValueError: fields, shapes or dtypes differ; the message names the leaf.
        """
        check_alike(samples, self._structure, "samples")

    def write(self, places: Places, samples: Any) -> None:
        """Write rows [T, B]; ``places`` are where they go, from ``Ring.places``."""
        kept = self._kept(samples)
        leaves = tuple(kept) if self._flat else leaves_of(kept)
        for place, part in places:
            for destination, source in zip(self.rows.leaves, leaves):
                destination[place] = source[part]

    def observations(self, cut: Cut, k: Any) -> Any:
        """Observations of plane k of a cut, tree of arrays that can be written to."""
        return cut(self.fields.observation, k)

    def pair(self, cut: Cut, now: int, after: int, adjacent: bool) -> tuple[Any, Any]:
        """Observations of two planes; ``adjacent``: of the rows right after the first's."""
        return self.observations(cut, now), self.observations(cut, after)

    def write_finals(self, keys: NDArray[Any], observation: Any) -> None:
        """Keep final observations [K, ...] under ascending keys."""
        self.finals.add(keys, observation)

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Final observations [K, ...] of the steps with these keys, which lie at idxs."""
        return self.finals.get(keys)

    def state(self, rows: int) -> dict[str, Any]:
        """The first ``rows`` rows and the final observations, without copies of the former."""
        large = {str(i): leaf[: rows * self.B] for i, leaf in self.rows.flat_leaves.items()}
        block = self.rows.flat_records[: rows * self.B]
        return {
            "leaves": [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure],
            "records": block,
            "large": large,
            "finals": self.finals.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Hold what ``state`` gave.

        Raises:
            ValueError: it is of another structure.
        """
        own = [[path, list(shape), str(dtype)] for path, shape, dtype in self._structure]
        if [list(leaf) for leaf in state["leaves"]] != own:
            raise ValueError(f"the saved replay holds {state['leaves']}, this one {own}.")
        self.rows.flat_records[: len(state["records"])] = state["records"]
        for i, leaf in state["large"].items():
            self.rows.flat_leaves[int(i)][: len(leaf)] = leaf
        self.finals.load(state["finals"])


class FrameStorage(FullStorage):
    """Observations are stacks of frames, oldest first, and each frame is kept once.

    An observation is [C, ...] with C frames, of which only the last is new in each step. It is
    rebuilt from the newest frames of the C - 1 rows before; frames from before an episode's
    beginning are zeros, as the environment gives them.

    Attributes:
        frames: [T + C - 1, B, ...], frame of row t at t + C - 1; the first C - 1 repeat the last,
            so that every stack is one slice.
        new_frames: [T, B, ...], the frame of row t at t.
    """

    def __init__(
        self, example: Any, extra: Any, T: int, B: int, memory: Memory, final_capacity: int
    ) -> None:
        shape = _frames_shape(example.observation)
        self.n_frames = C = shape[0]
        self.before = C - 1
        super().__init__(example, extra, T, B, memory, final_capacity)
        dtype = example_array(example.observation).dtype
        self._frames = _Frames(T, B, shape, dtype, memory)
        self._begun = False

    @property
    def frames(self) -> Any:
        """[T + C - 1, B, ...]."""
        return self._frames.frames[:-1]

    @property
    def new_frames(self) -> Any:
        """[T, B, ...]."""
        return self._frames.frames[self.n_frames - 1 : -1]

    @property
    def bytes_per_row(self) -> int:
        """What one transition takes."""
        return self.rows.row_bytes + int(self.frames[0, 0].nbytes)

    def _kept(self, example: Any) -> Any:
        return _without_observation(example)

    def _final_example(self, example: Any) -> Any:
        return example_array(example.observation)[-1]

    def write(self, places: Places, samples: Any) -> None:
        """Write rows [T, B]; of observations, the last frame."""
        observation = numpify_buffer(samples.observation)
        self._check_beginnings(places[0][0].start, observation, numpify_buffer(samples.done))
        super().write(places, samples)
        self._frames.write(places, observation[:, :, -1])

    def _check_beginnings(self, t: int, observation: Any, done: Any) -> None:
        """In rows after a done, older frames must be zeros; they will be rebuilt as such."""
        if self.n_frames == 1:
            return
        begins = np.concatenate([self.samples.done[t - 1 : t or None], done[:-1]])
        if not self._begun:  # what lies before the first row is nothing
            begins[0], self._begun = False, True
        if begins.any() and observation[begins][:, :-1].any():
            raise ValueError(
                "an episode begins with older frames that are not zero, which frame storage would "
                "not give back. Let the environment begin with zeroed frames (AtariEnv does; in "
                "gymnasium's FrameStackObservation: padding_type='zero'), or use a replay of full "
                "observations (names without 'Frame')."
            )

    def observations(self, cut: Cut, k: Any) -> Any:
        """Stacks [..., C, ...] of plane k of a cut, zeroed where episodes begin."""
        return self.stacks(cut.idxs[k], self.n_frames)

    def pair(self, cut: Cut, now: int, after: int, adjacent: bool) -> tuple[Any, Any]:
        """Stacks of two planes.

        Of adjacent rows within episodes they are views of the same C + 1 frames, which saves
        copying three in eight.
        """
        if not adjacent or np.count_nonzero(cut(self.fields.done, now)):
            return super().pair(cut, now, after, adjacent)
        frames = self.stacks(cut.idxs[now], self.n_frames + 1)
        return frames[:, :-1], frames[:, 1:]

    def stacks(self, idxs: NDArray[Any], length: int) -> NDArray[Any]:
        """Frames that the rows at ``idxs`` saw, or further: idxs.shape + [length, ...].

        Frame C - 1 is the row's own; frames of earlier episodes are zeros.
        """
        C, B, size = self.n_frames, self.B, self.T * self.B
        idxs = (idxs % size)[..., None]
        stack = self._frames.flat.take(idxs + np.arange(length) * B, 0)  # the row's begins at t
        back = np.arange(1, C)
        ended = self.samples.done.reshape(-1)[idxs - back * B]  # take() would copy all of it first
        if np.count_nonzero(ended):  # f rows ago: what is older than the next row is not seen
            for f in back:
                stack[ended[..., f - 1], : C - f] = 0
        return stack

    def write_finals(self, keys: NDArray[Any], observation: Any) -> None:
        """Keep the last frame of final observations [K, C, ...]."""
        self.finals.add(keys, np.asarray(observation)[:, -1])

    def final_observations(self, keys: NDArray[Any], idxs: NDArray[Any]) -> Any:
        """Stacks [K, C, ...]: the frames of the steps they followed, and the final ones."""
        stack = np.empty((len(keys), *self._frames.shape), self._frames.dtype)
        stack[:, :-1] = self.stacks(idxs, self.n_frames)[:, 1:]
        stack[:, -1] = self.finals.get(keys)
        return stack

    def state(self, rows: int) -> dict[str, Any]:
        """As for full storage, with the frames."""
        return {**super().state(rows), "frames": self.frames[: rows + self.n_frames - 1]}

    def load(self, state: dict[str, Any]) -> None:
        """Hold what ``state`` gave."""
        super().load(state)
        self._frames.load(state["frames"])
        self._begun = len(state["records"]) > 0


class _Frames(Part):
    """[T + C, B, ...] frames, row t's at t + C - 1.

    The first C - 1 equal the last rows', and the last equals the first row's, so that C + 1 frames
    in a row are one slice wherever they begin.
    """

    frames: NDArray[Any]

    def __init__(
        self, T: int, B: int, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Memory
    ) -> None:
        self.T, self.shape, self.dtype = T, shape, dtype
        self.older = shape[0] - 1
        memory.request(self, "frames", (T + shape[0], B, *shape[1:]), dtype)

    def _derive(self) -> None:
        self.flat = self.frames.reshape(-1, *self.shape[1:])

    def write(self, places: Places, new: NDArray[Any]) -> None:
        """Write the frames [T, B, ...] of rows."""
        older, T = self.older, self.T
        for place, part in places:
            self.frames[place.start + older : place.stop + older] = new[part]
            if place.start == 0:
                self.frames[T + older] = self.frames[older]
            if older and place.stop > T - older:
                self.frames[:older] = self.frames[T : T + older]

    def load(self, frames: NDArray[Any]) -> None:
        """Take the frames of the first rows."""
        self.frames[: len(frames)] = frames
        self.frames[self.T + self.older] = self.frames[self.older]


def check_example(example: Any) -> None:
    """Raise TypeError unless the example has what every replay needs."""
    fields = getattr(example, "_fields", ())
    missing = [name for name in ("observation", "action", "reward", "done") if name not in fields]
    if missing:
        raise TypeError(
            f"the example must be a named tuple with observation, action, reward and done; "
            f"{type(example).__name__} has no {', '.join(missing)}."
        )


def _without_observation(samples: Any) -> Any:
    fields = tuple(name for name in samples._fields if name != "observation")
    cls = namedarraytuple("SamplesToBuffer", fields)
    return cls(*(getattr(samples, name) for name in fields))


def _frames_shape(observation: Any) -> tuple[int, ...]:
    if isinstance(observation, tuple) or example_array(observation).ndim < 1:
        raise TypeError(
            "frame storage needs observations that are one array [C, ...] of C frames, oldest "
            "first; use a replay of full observations (names without 'Frame')."
        )
    return example_array(observation).shape
