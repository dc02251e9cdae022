"""Choice of the replay class, by the algorithm's settings and the observations."""

from typing import Any

import numpy as np

from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.non_sequence.frame import (
    AsyncPrioritizedReplayFrameBuffer,
    AsyncUniformReplayFrameBuffer,
    PrioritizedReplayFrameBuffer,
    UniformReplayFrameBuffer,
)
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.replays.selection import PrioritizedSelection
from rlpyt.utils.buffer import Tensors, leaves_of

IMAGE_DIMS = 3
COLOURS = 3  # channels of an RGB image

# (prioritised, in shared memory) -> (for stacks of frames, for anything else)
Replays = dict[tuple[bool, bool], tuple[Any, Any]]
TRANSITIONS: Replays = {
    (False, False): (UniformReplayFrameBuffer, UniformReplayBuffer),
    (True, False): (PrioritizedReplayFrameBuffer, PrioritizedReplayBuffer),
    (False, True): (AsyncUniformReplayFrameBuffer, AsyncUniformReplayBuffer),
    (True, True): (AsyncPrioritizedReplayFrameBuffer, AsyncPrioritizedReplayBuffer),
}


def check_replay_class(algo: str, own: Any, usual: Any, observation: Tensors) -> None:
    """Raise ValueError if a replay class contradicts the algorithm's settings.

    Args:
        algo: the algorithm's name.
        own: the user's class.
        usual: one that does what is asked for.
        observation: an example.
    """

    def kind(cls: Any) -> tuple[bool, bool, bool]:
        prioritized = issubclass(cls.Selection, PrioritizedSelection)
        return cls.Window.sequences, prioritized, cls.async_

    (sequences, prioritized, shared), asked = kind(own), kind(usual)
    wrong = ""
    if sequences != asked[0]:
        wrong = f"gives {'sequences' if sequences else 'single transitions'}"
    elif prioritized != asked[1]:
        wrong = f"has {'' if prioritized else 'no '}priorities (prioritized_replay={asked[1]})"
    elif asked[2] and not shared:
        wrong = "is not in shared memory, which this runner needs"
    elif issubclass(own, FrameBufferMixin) and np.ndim(leaves_of(observation)[0]) < 2:
        wrong = f"keeps stacks of frames, and observations are {list(np.shape(observation))}"
    if wrong:
        raise ValueError(
            f"{algo}: ReplayBufferCls={own.__name__} {wrong}; use one like {usual.__name__}, or "
            "change what it contradicts."
        )


def is_frame_stack(observation: Tensors) -> bool:
    """Return True if an observation looks like a stack of C frames, uint8 [C, H, W].

    Three channels are taken for one RGB image, and a multiple of three for several; then a step
    adds more than the last channel. A single channel has no older frames to leave out. For stacks
    of 3, 6, ... gray frames choose a ``ReplayBufferCls`` for frames; without it they are stored in
    full, which is correct but takes C times the memory.
    """
    array = np.asarray(observation) if not isinstance(observation, tuple) else None
    if array is None or array.ndim != IMAGE_DIMS or array.dtype != np.uint8:
        return False
    C = array.shape[0]
    return bool(C > 1 and C % COLOURS)


def rows_to_begin(replay: Any) -> int:
    """Return the rows of B environments that a replay must hold before it can be sampled.

    For a custom replay this is unknown: one.
    """
    if not isinstance(replay, ReplayBuffer):
        return 1
    every = max(1, replay.rnn_state_interval)
    first = -(-replay.off_forward // every) * every  # where the first window can begin
    return int(first + 1 + replay.window.rows_after(replay, None))
