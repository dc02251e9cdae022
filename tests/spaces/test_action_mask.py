import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.spaces.action_mask import (
    action_mask_of,
    checked_mask_sizes,
    has_mask,
    mask_error,
    mask_sizes,
    next_valid,
    sample_valid,
    valid_or_all,
)
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox

BOX = spaces.Box(-1, 1, (2,))
NESTED = spaces.Dict(
    force=BOX, kind=spaces.Discrete(3, start=5), rest=spaces.Tuple([spaces.MultiBinary(2), BOX])
)
SIZES = [
    (spaces.Discrete(4, start=2), (4,)),
    (spaces.MultiDiscrete([3, 2]), (3, 2)),
    (spaces.MultiBinary(2), (2, 2)),
    (BOX, ()),
    (NESTED, (3, 2, 2)),
]


@pytest.mark.parametrize("space, sizes", SIZES)
def test_a_mask_has_an_entry_for_each_choice(space, sizes):
    assert mask_sizes(GymSpaceWrapper(space)) == sizes


def test_spaces_of_rlpyt_have_choices_too():
    assert mask_sizes(IntBox(0, 4)) == (4,) and mask_sizes(FloatBox(-1, 1, shape=(2,))) == ()


def observed(mask_space):
    return GymSpaceWrapper(spaces.Dict(state=BOX, action_mask=mask_space))


def test_masks_are_found_by_their_name():
    action = GymSpaceWrapper(spaces.MultiDiscrete([3, 2]))
    assert checked_mask_sizes(observed(spaces.MultiBinary(5)), action) == (3, 2)
    assert checked_mask_sizes(observed(spaces.Box(0, 1, (5,))), action) == (3, 2)
    assert checked_mask_sizes(GymSpaceWrapper(BOX), action) is None
    assert not has_mask(GymSpaceWrapper(spaces.Dict(a=BOX)))
    assert action_mask_of(np.zeros(3)) is None
    assert action_mask_of(observed(spaces.MultiBinary(5)).sample()).shape == (5,)


@pytest.mark.parametrize(
    "mask_space, action_space, error",
    [
        (spaces.MultiBinary(4), spaces.Discrete(5), r"5 entries .*\(4,\)"),
        (spaces.MultiBinary((1, 5)), spaces.Discrete(5), r"\(1, 5\)"),
        (spaces.Tuple([spaces.MultiBinary(5)]), spaces.Discrete(5), "5 entries"),
        (spaces.MultiBinary(2), BOX, "rename the part"),
    ],
)
def test_a_part_that_is_no_mask_is_refused(mask_space, action_space, error):
    with pytest.raises(ValueError, match=error):
        checked_mask_sizes(observed(mask_space), GymSpaceWrapper(action_space))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float32])
@pytest.mark.parametrize("space, sizes", [case for case in SIZES if case[1]])
def test_random_actions_are_valid_and_uniform(space, sizes, dtype):
    own = GymSpaceWrapper(space)
    own.seed(0)
    mask = np.zeros(sum(sizes), dtype)
    ends = np.cumsum(sizes)
    mask[ends - 1] = mask[ends - sizes[-1]] = 1  # the last choice, and another of most components
    rows = []
    for _ in range(400):
        action = sample_valid(own, mask)
        assert own.contains(action)
        rows.append(choices(own, action))
    for column, part in zip(np.transpose(rows), np.split(mask, ends[:-1]), strict=True):
        valid = np.flatnonzero(part)
        counts = np.bincount(column, minlength=len(part))
        assert counts[part == 0].sum() == 0
        assert (np.abs(counts[valid] / 400 - 1 / len(valid)) < 0.12).all()


def choices(space, action):
    """The discrete choices of an action, in order."""
    if isinstance(action, tuple):
        pairs = zip(space.space.spaces, action, strict=True)
        return [x for part, value in pairs for x in choices(part, value)]
    return np.ravel(action).tolist() if mask_sizes(space) else []


def test_random_actions_without_a_valid_choice_are_refused():
    with pytest.raises(ValueError, match="component 1 "):
        sample_valid(GymSpaceWrapper(spaces.MultiDiscrete([2, 2])), np.array([1, 1, 0, 0]))
    with pytest.raises(ValueError, match="all its entries are 0"):
        sample_valid(IntBox(0, 3), np.zeros(3))


def test_invalid_choices_become_the_next_valid_ones():
    space = GymSpaceWrapper(spaces.MultiDiscrete([4, 3]))
    mask = np.array([0, 1, 1, 0, 1, 0, 0])
    assert next_valid(space, np.array([3, 2]), mask).tolist() == [1, 0]
    assert next_valid(space, np.array([2, 0]), mask).tolist() == [2, 0]
    assert next_valid(space, np.array([3, 2]), np.zeros(7)).tolist() == [3, 2]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_rows_without_a_valid_action_allow_all(kind):
    rows = valid_or_all(kind([[0, 2, 0], [0, 0, 0]]))
    assert rows.tolist() == [[False, True, False], [True, True, True]]


def test_the_first_invalid_row_is_found():
    mask = np.ones((4, 2, 5), np.int8)
    assert mask_error(mask, (2, 3)) is None
    mask[2, 1, 2:] = 0
    used = np.ones((4, 2), np.bool_)
    assert mask_error(mask, (5,), used) is None
    at, message = mask_error(mask, (2, 3), used)
    assert at == (2, 1) and "component 1" in message
    used[2, 1] = False
    assert mask_error(mask, (2, 3), used) is None
    mask[1, 0, 4] = 3
    at, message = mask_error(mask, (2, 3), used)
    assert at == (1, 0) and "0 or 1, got 3" in message
    assert mask_error(np.zeros(3), (3,))[0] == ()
