"""Differences between observations and their space, and which of them end a run."""

import numpy as np
import pytest
from gymnasium import spaces as G

from rlpyt.spaces.elements import check_first, find_difference
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox

IMAGE = G.Box(0, 255, (3, 8, 8), np.uint8)
FLOATS = np.full((3, 8, 8), 0.5, np.float32)

REFUSED = [
    (IMAGE, FLOATS, r".*float32, .* uint8\."),
    (IMAGE, FLOATS.tolist(), r".*float64, .* uint8\."),
    (IMAGE, np.full((3, 8, 8), 300), r".*bounds \[0, 255\]"),
    (IMAGE, np.full((3, 8, 8), -1), r".*bounds \[0, 255\]"),
    (IMAGE, np.zeros((8, 8, 3), np.uint8), r".*\(8, 8, 3\); .*\(3, 8, 8\)"),
    (G.Discrete(4), 1.5, ".*float64, .*int64"),
    (G.Discrete(4), np.float32(2), ".*float32, .*int64"),
    (G.MultiDiscrete([4, 4], start=[1, 1]), np.array([1.5, 2]), ".*float64, .*int64"),
    (G.Discrete(4), 9, r".*bounds \[0, 3\]"),
    (G.Discrete(4, start=2), 1, r".*bounds \[2, 5\]"),
    (G.MultiDiscrete([4, 4]), np.array([-1, 2]), r".*bounds \[0, 3\]"),
    (G.Box(0, 1, (2,)), np.zeros(3, np.float32), r".*\(3,\); .*\(2,\)"),
]
TAKEN = [
    (IMAGE, np.full((3, 8, 8), 30)),
    (IMAGE, np.full((3, 8, 8), 255, np.uint8)),
    (G.Discrete(4), 3),
    (G.Discrete(4), np.int32(3)),
    (G.Box(0, 1, (2,)), np.zeros(2)),
    (G.Box(0, 1, (2,)), np.zeros(2, np.int64)),
    (G.Box(0, 1, (2,)), [0.0, 1.0]),
    (G.Box(0, 1, (2,)), np.array([np.nan, 7], np.float32)),  # checked at every step
]


def every_place(space, value):
    """The value as an observation, as a part, and as a part of a part."""
    yield space, value
    yield G.Dict(a=G.Box(-1, 1, (1,)), x=space), dict(a=np.zeros(1, np.float32), x=value)
    yield G.Tuple([G.Dict(x=space)]), (dict(x=value),)


@pytest.mark.parametrize("space, value, message", REFUSED)
def test_what_a_network_would_misread_is_refused_in_every_part(space, value, message):
    for whole, element in every_place(space, value):
        ours = GymSpaceWrapper(whole)
        with pytest.raises(ValueError, match=f"^observation[.x_fieldrvton0]* {message}"):
            check_first(ours, ours.convert(element))


@pytest.mark.parametrize("space, value", TAKEN)
def test_what_is_recorded_without_loss_is_taken(space, value):
    for whole, element in every_place(space, value):
        ours = GymSpaceWrapper(whole)
        assert check_first(ours, ours.convert(element)) is None


def test_vectors_of_integers_that_are_floats_give_a_warning():
    space = GymSpaceWrapper(G.Box(0, 10, (2,), np.int64))
    assert "observation is float64, its space is int64" in check_first(space, np.array([0.5, 1]))
    assert "outside the bounds [0, 10]" in check_first(space, np.array([0, 11]))
    assert check_first(space, np.array([0, 10], np.int32)) is None


def test_batches_and_spaces_of_rlpyt_are_checked():
    space = IntBox(0, 4, (3, 8, 8), "uint8")
    for value in (3, 4):  # environments of rlpyt declare IntBox(0, 255) for images
        assert check_first(space, np.full((2, 3, 8, 8), value, np.uint8), (2,)) is None
    with pytest.raises(ValueError, match="bounds"):
        check_first(space, np.full((2, 3, 8, 8), 5, np.int64), (2,))
    with pytest.raises(ValueError, match=r"float32, .* uint8\."):
        check_first(space, np.stack([FLOATS, FLOATS]), (2,))


def test_objects_are_named_with_their_part():
    ours = GymSpaceWrapper(G.Dict(x=G.Box(0, 1, (2,))))
    with pytest.raises(TypeError, match="observation.x .*object"):
        check_first(ours, ours.convert(dict(x=np.array([0, None], object))))
    found = find_difference("observation", GymSpaceWrapper(IMAGE), "text")
    assert found is not None and found.kind == "structure"


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32, np.uint32])
def test_numbers_that_networks_cannot_tell_apart_are_said(dtype):
    space = GymSpaceWrapper(G.Box(0, 4e9, (2,), dtype))
    said = check_first(space, space.convert(np.array([0, 1.7e9], dtype)))
    assert "1.7e+09" in said and "128 apart" in said
    assert check_first(space, space.convert(np.array([0, 2**24], dtype))) is None
    if dtype in (np.float64, np.float32):
        assert check_first(space, space.convert(np.array([np.inf, np.nan], dtype))) is None
