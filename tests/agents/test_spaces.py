"""Between a box of actions and units of [-1, 1]."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.spaces import ActionScale, action_parts, box_size, choice_counts
from rlpyt.spaces.action_mask import mask_sizes
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox

LOW, HIGH = np.array([-2, 0, 10], "f"), np.array([2, 1, 20], "f")


@pytest.mark.parametrize(
    "space",
    [
        FloatBox(LOW, HIGH),
        GymSpaceWrapper(spaces.Box(LOW, HIGH)),
        GymSpaceWrapper(spaces.Box(LOW.astype("d"), HIGH.astype("d"), dtype="d")),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_corners_and_middle(space, kind):
    scale = ActionScale(space, bounded=True)
    assert scale.size == 3
    for level, corner in [(-1, LOW), (1, HIGH), (0, [0, 0.5, 15]), (0.5, [1, 0.75, 17.5])]:
        unit = kind(np.full((4, 2, 3), level, "f"))
        action = kind(np.broadcast_to(np.asarray(corner, "f"), (4, 2, 3)).copy())
        found = scale.to_space(unit)
        assert type(found) is type(unit) and found.dtype == unit.dtype
        np.testing.assert_allclose(found, action, rtol=1e-6)
        np.testing.assert_allclose(scale.to_unit(action), unit, rtol=1e-6, atol=1e-6)


def test_finite_bounds_that_count_as_missing_are_named():
    with pytest.warns(UserWarning, match=r"component 1 .* \[0, 3e\+06\]"):
        ActionScale(FloatBox(np.array([-1.0, 0.0]), np.array([1.0, 3e6])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ActionScale(FloatBox(np.array([-np.inf, -3e38]), np.array([np.inf, 3e38])))


def test_there_and_back():
    scale = ActionScale(FloatBox(LOW, HIGH))
    unit = torch.rand(50, 3) * 2 - 1
    torch.testing.assert_close(scale.to_unit(scale.to_space(unit)), unit, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scale.log_half, np.log([2, 0.5, 5]), rtol=1e-6)


def test_gradients_pass_through():
    unit = torch.zeros(3, requires_grad=True)
    ActionScale(FloatBox(LOW, HIGH)).to_space(unit).sum().backward()
    assert unit.grad.tolist() == [2, 0.5, 5]


def test_gradients_pass_through_after_acting_in_inference_mode():
    scale = ActionScale(FloatBox(-2, 3, (2,)))
    with torch.inference_mode():
        scale.to_space(torch.zeros(2))
    unit = torch.zeros(2, requires_grad=True)
    scale.to_space(unit).sum().backward()
    assert unit.grad.tolist() == [2.5, 2.5]


def test_the_unit_box_passes_as_it_is():
    scale, x = ActionScale(FloatBox(-1, 1, shape=2)), torch.rand(4, 2)
    assert scale.is_identity and scale.to_space(x) is x and scale.to_unit(x) is x


def test_components_without_bounds_pass_where_they_may():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scale = ActionScale(FloatBox([-np.inf, -1], [np.inf, 3]))
    assert scale.to_space(np.array([7.0, 1.0], "f")).tolist() == [7, 3]


@pytest.mark.parametrize(
    "low, high, component",
    [
        ([-1, -np.inf], [1, np.inf], 1),
        ([0, -1], [np.inf, 1], 0),
        ([-1, -1], [1, np.finfo("f").max], 1),
    ],
)
def test_missing_bounds_name_the_component_and_what_helps(low, high, component):
    message = f"component {component} .*RescaleAction.*ppo or a2c"
    with pytest.raises(ValueError, match=message):
        ActionScale(FloatBox(low, high), bounded=True)


@pytest.mark.parametrize(
    "space",
    [
        IntBox(0, 4),
        GymSpaceWrapper(spaces.Discrete(4)),
        GymSpaceWrapper(spaces.MultiDiscrete([3, 2])),
        GymSpaceWrapper(spaces.MultiBinary(3)),
        GymSpaceWrapper(spaces.Dict(a=spaces.Box(-1, 1), b=spaces.Discrete(2))),
        GymSpaceWrapper(spaces.Dict(a=spaces.Box(-1, 1))),
    ],
)
def test_other_spaces_are_refused_with_algorithms_that_take_them(space):
    with pytest.raises(TypeError, match="Box.*ppo or a2c.*dqn"):
        box_size(space)
    with pytest.raises(TypeError, match="continuous Box"):
        ActionScale(space, bounded=True)


def test_a_box_of_integers_is_to_be_multi_discrete():
    with pytest.raises(TypeError, match=r"got Box\(0, 5, .*MultiDiscrete"):
        box_size(GymSpaceWrapper(spaces.Box(0, 5, (2,), "int32")))


@pytest.mark.parametrize("shape", [(2, 2), (), (0,)])
def test_boxes_of_other_shapes_are_to_be_vectors(shape):
    with pytest.raises(TypeError, match="declare a vector"):
        box_size(FloatBox(-1, 1, shape=shape))


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([[3, 2]]), spaces.MultiBinary((2, 2))])
def test_choices_of_several_dimensions_are_refused_by_agents_and_flattened_by_adapters(space):
    with pytest.raises(TypeError, match="of one dimension"):
        choice_counts(GymSpaceWrapper(space))
    with pytest.raises(TypeError, match="declare a vector") as info:
        action_parts(GymSpaceWrapper(space))
    assert "use sac" not in str(info.value)
    flat = GymSpaceWrapper(space, flat=True)
    assert tuple(choice_counts(flat)) == action_parts(flat)[0] == mask_sizes(flat)


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="empty range"):
        ActionScale(FloatBox([-1, 0.5], [1, 0.5]))


def test_units_within_bounds_give_actions_within_bounds_up_to_rounding():
    """The collector clips what the environment gets."""
    rng = np.random.default_rng(0)
    low = rng.normal(size=200).astype("f")
    high = low + rng.uniform(0.01, 3, 200).astype("f")
    scale = ActionScale(FloatBox(low, high), bounded=True)
    for unit in (-1, 1):
        action = scale.to_space(np.full(200, unit, "f"))
        rounding = 2 * np.spacing(np.maximum(abs(low), abs(high)))
        assert (action >= low - rounding).all() and (action <= high + rounding).all()
