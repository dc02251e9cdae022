"""Messages about spaces and their elements, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.spaces.action_mask import sample_valid
from rlpyt.spaces.elements import check_first
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from tests.wording import check

IMAGE = GymSpaceWrapper(spaces.Box(0, 255, (3, 8, 8), np.uint8), name="observation")
PARTS = GymSpaceWrapper(spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)))

MESSAGES = {
    "dtype of an element": (
        ValueError,
        lambda: check_first(IMAGE, IMAGE.convert(np.full((3, 8, 8), 0.5, np.float32))),
        (
            "observation is float32, its space is uint8. Return integers (of an image in [0, "
            "1]: (255 * x).astype(np.uint8)), or declare a space of floats."
        ),
    ),
    "shape of an element": (
        ValueError,
        lambda: check_first(IMAGE, IMAGE.convert(np.zeros((8, 8, 3), np.uint8))),
        (
            "observation has shape (8, 8, 3); expected (3, 8, 8). Make observation_space agree "
            "with what reset and step return."
        ),
    ),
    "missing part": (
        ValueError,
        lambda: PARTS.convert({"a": 1}),
        (
            "an element of the space 'obs' must be a dict with the keys ['a', 'b'], got the "
            "keys ['a']. Return all parts from reset and from every step."
        ),
    ),
    "unsupported space": (
        ValueError,
        lambda: GymSpaceWrapper(spaces.Text(3), name="action"),
        (
            "space 'action': gymnasium space Text is not supported. Use Box, Discrete, "
            "MultiDiscrete, MultiBinary, Dict and Tuple of gymnasium, in any nesting, or "
            "transform it in an environment wrapper first, for example with "
            "gymnasium.wrappers.TransformObservation or TransformAction."
        ),
    ),
    "bounds in the wrong order": (
        ValueError,
        lambda: IntBox(2, 2),
        "low=2 must be below high=2, which is exclusive.",
    ),
    "dtype of a box": (
        TypeError,
        lambda: FloatBox(0, 1, dtype="int32"),
        "dtype=int32 must be a floating-point type.",
    ),
    "no valid action": (
        ValueError,
        lambda: sample_valid(IntBox(0, 3), np.zeros(3)),
        (
            "action_mask must allow an action, but all its entries are 0. End the episode in "
            "the step before, or allow an action without effect."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
