"""Wrong actions are named before foreign code sees them; right ones arrive in its form."""

import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs.vector.actions import action_check, gym_action_check
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_from_example, buffer_func
from rlpyt.utils.collections import namedarraytuple
from tests.shaped_env import SHAPES, assert_form

PAIR = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(-1, 1, (2,), np.float32)})


def both(gym_space, n, own=None):
    """The two checks of one space: of the gymnasium space, and of an rlpyt one."""
    return [gym_action_check(gym_space, n), action_check(own or GymSpaceWrapper(gym_space), n)]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
@pytest.mark.parametrize("own", [None, IntBox(0, 3)])
def test_discrete(dtype, own):
    for check, space in zip(both(spaces.Discrete(3), 4, own), (spaces.Discrete(3), own)):
        good = np.array([0, 2, 1, 2], dtype)
        np.testing.assert_array_equal(check(good), good)
        np.testing.assert_array_equal(check(good.tolist()), good)
        assert check(good).dtype == (space or spaces.Discrete(3)).dtype
        with pytest.raises(ValueError, match=r"row 2 .*3, .*\[0, [23][\])]"):
            check(np.array([0, 2, 3, 2], dtype))
        with pytest.raises(ValueError, match=r"shape \(3,\), .*\(4,\)"):
            check(good[:3])
        with pytest.raises(ValueError, match="shape"):
            check(good[:, None])
        with pytest.raises(ValueError, match="shape"):
            check(2)
        with pytest.raises(TypeError, match="float64, .*integers"):
            check(good.astype(float))
        with pytest.raises(TypeError, match="integers"):
            check(["0", "1", "2", "0"])
        with pytest.raises(TypeError, match="integers"):
            check([[0], [1, 2], [0], [0]])


def test_negative_discrete_actions():
    for check in both(spaces.Discrete(3), 4):
        with pytest.raises(ValueError, match="row 1 .*is -1"):
            check(np.array([0, -1, 0, -7]))


def test_discrete_that_starts_elsewhere_and_strided_arrays():
    check = gym_action_check(spaces.Discrete(3, start=-4), 3)
    np.testing.assert_array_equal(check(np.arange(6)[::2] // 2), [-4, -3, -2])
    with pytest.raises(ValueError, match="row 0 is 5"):
        check(np.arange(6)[::-2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_boxes_with_bounds_alike_and_different(dtype):
    low, high = np.array([-1.0, -2.0], dtype), np.array([1.0, 3.0], dtype)
    for space in (spaces.Box(-1.0, 1.0, (2,), dtype), spaces.Box(low, high, dtype=dtype)):
        for check in both(space, 3, FloatBox(space.low, space.high)):
            good = np.array([[0.5, -1.0], [1.0, 1.0], [-1.0, 0.0]], np.float32)
            np.testing.assert_array_equal(check(good), good)
            np.testing.assert_array_equal(check(good.astype(np.float64)), good)
            for bad in (1.5, np.nan, np.inf, -np.inf):
                wrong = good.copy()
                wrong[1, 0] = bad
                with pytest.raises(ValueError, match=rf"row 1 entry \[0\] is {bad},"):
                    check(wrong)
            with pytest.raises(ValueError, match="shape"):
                check(good[:2])
            with pytest.raises(TypeError, match="numbers"):
                check(good.astype(str))
        assert gym_action_check(space, 3)(good).dtype == dtype


def test_infinity_is_no_action_even_without_bounds():
    for check in both(spaces.Box(-np.inf, np.inf, (1,)), 2, FloatBox(-np.inf, np.inf, (1,))):
        check(np.array([[1e30], [-1e30]], np.float32))
        for bad in (np.inf, np.nan):
            with pytest.raises(ValueError, match="row 1"):
                check(np.array([[0.0], [bad]], np.float32))
        with pytest.raises(ValueError, match="row 0"):  # beyond float32
            check(np.array([[1e300], [0.0]]))


def test_bounds_of_float64_are_met_exactly():
    edge = np.float64(np.pi)  # float32(pi) lies above it
    check = gym_action_check(spaces.Box(-edge, edge, (1,), np.float64), 2)
    given = check(np.array([[np.float32(np.pi)], [0.0]], np.float32))
    assert given[0, 0] <= edge


def test_several_integers():
    for check in both(spaces.MultiDiscrete([3, 5]), 2):
        np.testing.assert_array_equal(check(np.array([[2, 4], [0, 0]])), [[2, 4], [0, 0]])
        with pytest.raises(ValueError, match=r"row 0 entry \[0\] is 3, .*\[0, 2\]"):
            check(np.array([[3, 0], [0, 0]]))
        with pytest.raises(TypeError, match="integers"):
            check(np.zeros((2, 2)))
    for check in both(spaces.MultiBinary(2), 2):
        assert check(np.array([[True, False], [False, True]])).dtype == np.int8
        with pytest.raises(ValueError, match="row 1"):
            check(np.array([[0, 1], [0, 2**32]]))  # int8 would wrap it to 0


def test_parts_are_checked_by_name_and_given_as_the_source_wants_them():
    cls = namedarraytuple("act", ["a", "b"])
    good = cls(np.array([0, 2]), np.zeros((2, 2), np.float32))
    given = gym_action_check(PAIR, 2)(good)
    assert set(given) == {"a", "b"} and given["a"].tolist() == [0, 2]
    own = Composite([IntBox(0, 3), FloatBox(-1, 1, (2,))], cls)
    for check in both(PAIR, 2, own):
        with pytest.raises(ValueError, match=r"action.b of row 1"):
            check(cls(np.array([0, 2]), np.array([[0, 0], [0, 2.0]], np.float32)))
        with pytest.raises(ValueError, match=r"action.a"):
            check(cls(np.array([0, 3]), np.zeros((2, 2), np.float32)))
        with pytest.raises(TypeError, match="named tuple of 2"):
            check(np.zeros((2, 2)))
    pair = gym_action_check(spaces.Tuple([PAIR["a"], PAIR["b"]]), 2)(tuple(good))
    assert isinstance(pair, tuple) and pair[1].shape == (2, 2)


def test_a_space_without_bounds_is_checked_for_size():
    check = action_check(object(), 2)
    assert check(["x", "y"]) == ["x", "y"]
    with pytest.raises(ValueError, match="2 rows"):
        check(["x"])


@pytest.mark.parametrize("name", SHAPES)
def test_flat_actions_arrive_in_the_shape_and_dtype_of_the_space(name):
    space = SHAPES[name]
    ours = GymSpaceWrapper(space, flat=True)
    rows = [ours.sample() for _ in range(3)]
    batch = buffer_from_example(rows[0], 3)
    for i, row in enumerate(rows):
        batch[i] = row
    wide = buffer_func(batch, lambda x: x.astype(np.float32 if x.dtype.kind == "f" else np.int64))
    native = gym_action_check(space, 3)(wide)
    for i in range(3):
        assert_form(space, part_of(native, i))


def part_of(batch, i):
    """Row i of a batch of actions in gymnasium's form."""
    if isinstance(batch, dict):
        return {key: part_of(part, i) for key, part in batch.items()}
    return tuple(part_of(x, i) for x in batch) if isinstance(batch, tuple) else batch[i, ...]
