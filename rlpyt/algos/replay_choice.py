"""Choice of the replay class by the algorithm's settings and the observations."""

from typing import Any

import numpy as np

from rlpyt.models.observation import IMAGE_DIM, channels_are_last
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.frame_storage import stack_part
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
from rlpyt.replays.sequence.frame import (
    AsyncPrioritizedSequenceReplayFrameBuffer,
    AsyncUniformSequenceReplayFrameBuffer,
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.prioritized import (
    AsyncPrioritizedSequenceReplayBuffer,
    PrioritizedSequenceReplayBuffer,
)
from rlpyt.replays.sequence.uniform import (
    AsyncUniformSequenceReplayBuffer,
    UniformSequenceReplayBuffer,
)
from rlpyt.utils.buffer import Tensors, leaves_of

COLORS = 3  # channels of an RGB image

# (prioritized, in shared memory) -> (for stacks of frames, for other observations)
Replays = dict[tuple[bool, bool], tuple[Any, Any]]
TRANSITIONS: Replays = {
    (False, False): (UniformReplayFrameBuffer, UniformReplayBuffer),
    (True, False): (PrioritizedReplayFrameBuffer, PrioritizedReplayBuffer),
    (False, True): (AsyncUniformReplayFrameBuffer, AsyncUniformReplayBuffer),
    (True, True): (AsyncPrioritizedReplayFrameBuffer, AsyncPrioritizedReplayBuffer),
}
SEQUENCES: Replays = {
    (False, False): (UniformSequenceReplayFrameBuffer, UniformSequenceReplayBuffer),
    (True, False): (PrioritizedSequenceReplayFrameBuffer, PrioritizedSequenceReplayBuffer),
    (False, True): (AsyncUniformSequenceReplayFrameBuffer, AsyncUniformSequenceReplayBuffer),
    (True, True): (
        AsyncPrioritizedSequenceReplayFrameBuffer,
        AsyncPrioritizedSequenceReplayBuffer,
    ),
}


def check_replay_class(algo: str, custom: Any, default: Any, observation: Tensors) -> None:
    """Raise ValueError if a replay class contradicts the algorithm's settings.

    Args:
        algo: name of the algorithm.
        custom: replay class of the user.
        default: replay class that matches the settings.
        observation: example observation.
    """

    def kind(cls: Any) -> tuple[bool, bool, bool]:
        prioritized = issubclass(cls.Selection, PrioritizedSelection)
        return cls.Window.sequences, prioritized, cls.async_

    (sequences, prioritized, shared), expected = kind(custom), kind(default)
    wrong = ""
    if sequences != expected[0]:
        wrong = f"returns {'sequences' if sequences else 'single transitions'}"
    elif prioritized != expected[1] and not (expected[1] and _has_own_priorities(custom)):
        wrong = f"has {'' if prioritized else 'no '}priorities (prioritized_replay={expected[1]})"
    elif expected[2] and not shared:
        wrong = "is not in shared memory, which this runner needs"
    elif issubclass(custom, FrameBufferMixin) and max(map(np.ndim, leaves_of(observation))) < 2:
        wrong = f"stores stacks of frames, but observations are {list(np.shape(observation))}"
    if wrong:
        raise ValueError(
            f"{algo}: ReplayBufferCls={custom.__name__} {wrong}. Use a class like "
            f"{default.__name__}, or change the setting."
        )


def _has_own_priorities(custom: Any) -> bool:
    own = getattr(custom, "update_batch_priorities", None)
    return own not in (None, ReplayBuffer.update_batch_priorities)


def is_frame_stack(observation: Tensors) -> bool:
    """Return True if an observation looks like a stack of C frames, uint8 [C, H, W].

    It may have a mask of actions beside it. Images [H, W, C] are not stacks, see
    `rlpyt.models.observation.channels_are_last`; neither is a single channel. Three channels, or a
    multiple of three, are assumed to be RGB
    images, of which a step adds more than the last channel. For stacks of 3, 6, ... gray frames
    choose a ``ReplayBufferCls`` for frames; otherwise they are stored whole, which is correct but
    takes C times the memory.
    """
    part = stack_part(observation)
    stack: Any = observation if part is None else getattr(observation, part)
    array = np.asarray(stack) if not isinstance(stack, tuple) else None
    if array is None or array.ndim != IMAGE_DIM or array.dtype != np.uint8:
        return False
    if channels_are_last(array.shape):
        return False
    C = array.shape[0]
    return bool(C > 1 and C % COLORS)
