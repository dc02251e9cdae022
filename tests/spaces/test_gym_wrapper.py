import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces as G

from rlpyt.spaces.composite import Composite
from rlpyt.spaces.gym_wrapper import (
    GymSpaceWrapper,
    dict_to_nt,
    from_gym,
    nt_to_dict,
    to_gym,
)
from rlpyt.spaces.gym_wrapper_schema import GymSpaceWrapper as SchemaWrapper
from rlpyt.spaces.gym_wrapper_schema import dict_to_nt as schema_dict_to_nt
from rlpyt.utils.buffer import buffer_from_example, buffer_func
from rlpyt.utils.collections import namedarraytuple


def nested():
    return G.Dict(
        {
            "arm": G.Dict(
                {"pose": G.Box(-1, 1, (3,), np.float64), "grip": G.Discrete(3, start=-1)}
            ),
            "image": G.Box(0, 255, (4, 5, 1), np.uint8),
            "pair": G.Tuple((G.MultiBinary(4), G.MultiDiscrete([2, 5], start=[1, 0]))),
        }
    )


EVERY_SPACE = [
    lambda: G.Box(-1, 1, (3,)),
    lambda: G.Box(np.array([-1, -np.inf]), np.array([0.1, np.inf]), dtype=np.float64),
    lambda: G.Box(0, 255, (4, 5), np.uint8),
    lambda: G.Discrete(4),
    lambda: G.Discrete(4, start=-2),
    lambda: G.MultiDiscrete([2, 5]),
    lambda: G.MultiDiscrete([[2, 5], [3, 3]], start=[[1, 0], [0, 7]]),
    lambda: G.MultiBinary(3),
    lambda: G.MultiBinary([2, 3]),
    lambda: G.Tuple((G.Discrete(2), G.Box(0, 1, (2,)))),
    nested,
]


def test_the_keys_of_a_dict_are_those_of_gymnasium():
    assert GymSpaceWrapper(G.Dict({"my-key": G.Discrete(2), "b": nested()})).keys == ["b", "my-key"]
    assert GymSpaceWrapper(G.Tuple((G.Discrete(2), G.Discrete(3)))).keys == [0, 1]
    assert GymSpaceWrapper(G.Discrete(2)).keys == []


def flatten(tree):
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in flatten(part)]
    return [leaf for part in tree for leaf in flatten(part)] if isinstance(tree, tuple) else [tree]


def assert_equal_leaves(a, b):
    a, b = flatten(a), flatten(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_samples_cross_in_both_directions_unchanged(make):
    wrapper = GymSpaceWrapper(make())
    wrapper.seed(0)
    gym_space = make()
    for _ in range(20):
        sample = wrapper.sample()
        assert wrapper.contains(sample)
        given = wrapper.revert(sample)
        assert gym_space.contains(given), given
        assert_equal_leaves(wrapper.convert(given), sample)


def test_an_element_without_all_its_parts_is_not_reverted():
    wrapper = GymSpaceWrapper(G.Dict(a=G.Discrete(2), b=G.Discrete(2)))
    with pytest.raises(ValueError, match=r"must have 2 parts, got \(1,\)"):
        wrapper.revert((1,))


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_shape_dtype_and_bounds_describe_the_samples(make):
    wrapper = GymSpaceWrapper(make())
    sample = wrapper.sample()
    leaves = flatten(sample)
    n_dims = [leaf.shape for leaf in leaves]
    null = flatten(wrapper.null_value())
    described = flatten(tuple(wrapper.dtype)) if isinstance(sample, tuple) else [wrapper.dtype]
    assert [leaf.dtype for leaf in leaves] == described
    assert [leaf.dtype for leaf in null] == described
    assert [leaf.shape for leaf in null] == n_dims
    for leaf, low, high in zip(leaves, flatten(wrapper.low), flatten(wrapper.high), strict=True):
        assert np.shape(low) == np.shape(high) == leaf.shape
        assert (low <= leaf).all()
        assert (leaf <= high).all()
    if not isinstance(sample, tuple):
        assert wrapper.shape == sample.shape


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_samples_follow_the_seed_or_else_numpys(make):
    def drawn(seed, global_seed):
        np.random.seed(global_seed)
        wrapper = GymSpaceWrapper(make())
        if seed is not None:
            wrapper.seed(seed)
        return repr([wrapper.sample() for _ in range(10)])

    assert drawn(5, 0) == drawn(5, 1) != drawn(6, 0)
    assert drawn(None, 0) == drawn(None, 0) != drawn(None, 1)


def test_a_seed_given_to_the_gymnasium_space_stays():
    drawn = []
    for global_seed in (0, 1):
        np.random.seed(global_seed)
        space = G.Discrete(1000)
        space.seed(3)
        drawn.append(GymSpaceWrapper(space).sample())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_wrappers_pickle_and_compare(make):
    wrapper = GymSpaceWrapper(make(), name="observation")
    copy = pickle.loads(pickle.dumps(wrapper))
    assert copy == wrapper
    assert_equal_leaves(copy.null_value(), wrapper.null_value())
    assert type(copy.null_value()) is type(wrapper.null_value())
    assert [GymSpaceWrapper(other()) == wrapper for other in EVERY_SPACE].count(True) == 1


def test_discrete_begins_at_zero_for_the_agent():
    wrapper = GymSpaceWrapper(G.Discrete(4, start=-2), name="act")
    assert (wrapper.n, wrapper.start, wrapper.low, wrapper.high) == (4, -2, 0, 3)
    assert [wrapper.convert(x) for x in (-2, np.int64(1))] == [0, 3]
    assert [wrapper.revert(np.int64(a)) for a in range(4)] == [-2, -1, 0, 1]
    assert type(wrapper.revert(np.int64(3))) is int
    assert type(GymSpaceWrapper(G.Discrete(4)).revert(np.int64(3))) is int
    assert not wrapper.contains(4)
    assert not wrapper.contains(-1)
    assert not wrapper.contains(1.0)


def test_multi_discrete_begins_at_zero_for_the_agent():
    wrapper = GymSpaceWrapper(G.MultiDiscrete([2, 5], start=[1, -3]))
    assert wrapper.high.tolist() == [1, 4]
    assert wrapper.convert(np.array([2, -3])).tolist() == [1, 0]
    assert wrapper.revert(np.array([1, 0])).tolist() == [2, -3]
    assert wrapper.start.tolist() == [1, -3]
    with pytest.raises(AttributeError, match=r"high \+ 1"):
        _ = wrapper.n


def test_multi_binary_has_bits():
    wrapper = GymSpaceWrapper(G.MultiBinary(3))
    assert wrapper.n == 3
    assert wrapper.high.tolist() == [1, 1, 1]


def test_float64_becomes_float32_unless_told_otherwise():
    box = G.Box(-1, 1, (3,), np.float64)
    wrapper = GymSpaceWrapper(box)
    value = np.array([0.1, 0.2, 0.3])
    assert wrapper.dtype == wrapper.convert(value).dtype == wrapper.low.dtype == np.float32
    assert wrapper.revert(value.astype(np.float32)).dtype == np.float64
    wide = GymSpaceWrapper(box, force_float32=False)
    assert wide.dtype == np.float64
    assert wide.convert(value) is value


def test_the_bound_of_a_float64_action_survives_rounding():
    low, high = -0.3, 0.1  # rounded to float32, both lie outside of the box
    box = G.Box(low, high, (2,), np.float64)
    wrapper = GymSpaceWrapper(box)
    assert float(wrapper.high[0]) > high
    assert float(wrapper.low[0]) < low
    reverted = wrapper.revert(np.array([wrapper.low[0], wrapper.high[0]]))
    assert reverted.tolist() == [low, high]
    assert box.contains(reverted)


def test_bounds_beyond_float32_become_infinite():
    limit = np.finfo(np.float64).max
    wrapper = GymSpaceWrapper(G.Box(-limit, limit, (2,), np.float64))
    assert np.isinf(wrapper.high).all()


@pytest.mark.parametrize(
    "make, identity, revert_identity",
    [
        (lambda: G.Box(-1, 1, (3,)), True, True),
        (lambda: G.Box(-1, 1, (3,), np.float64), False, False),
        (lambda: G.Box(0, 255, (4, 5), np.uint8), True, False),
        (lambda: G.Discrete(4), True, False),
        (lambda: G.Discrete(4, start=-2), False, False),
        (lambda: G.MultiDiscrete([2, 5]), True, True),
        (lambda: G.MultiDiscrete([2, 5], start=[1, 0]), False, False),
        (lambda: G.MultiDiscrete([2, 5], dtype=np.int32), True, False),
        (lambda: G.MultiBinary(3), True, False),
        (lambda: G.Tuple((G.MultiBinary(3),)), False, False),
    ],
)
def test_identity_tells_what_a_hot_loop_may_leave_out(make, identity, revert_identity):
    wrapper = GymSpaceWrapper(make())
    assert (wrapper.identity, wrapper.revert_identity) == (identity, revert_identity)
    given = make().sample()
    assert (wrapper.convert(given) is given) == identity
    is_float = wrapper.dtype == np.float32
    action = buffer_func(
        wrapper.sample(), lambda x: np.asarray(x, np.float32 if is_float else np.int64)
    )
    assert (wrapper.revert(action) is action) == revert_identity


@pytest.mark.parametrize(
    "space, size",
    [
        (G.MultiDiscrete([[2, 5, 2], [3, 3, 4]], start=[[1, 0, 2], [0, 7, 3]]), 6),
        (G.MultiDiscrete([[2, 5], [3, 3]]), 4),
        (G.MultiDiscrete([2, 5], dtype=np.int32), 2),
        (G.MultiBinary((2, 3)), 6),
        (G.MultiBinary(3), 3),
        (G.Box(-0.3, 0.1, (2, 2), np.float64), 4),
        (G.Box(-1, 1, (2,), np.float16), 2),
        (G.Box(-1, 1, (2, 1), np.dtype(">f4")), 2),
        (G.Box(-1, 1, ()), 1),
    ],
)
def test_flat_elements_are_vectors_and_revert_to_the_dtype_and_shape_of_the_space(space, size):
    wrapper = GymSpaceWrapper(space, name="act", flat=True)
    sample = wrapper.sample()
    assert wrapper.shape == sample.shape == wrapper.null_value().shape == (size,)
    assert wrapper.low.shape == wrapper.high.shape == (size,)
    assert wrapper.contains(sample) and sample.dtype.isnative
    in_order = wrapper.low + np.arange(size) * (wrapper.high - wrapper.low) / max(size - 1, 1)
    # Agents have float32 and int64.
    action = np.asarray(in_order, np.float32 if wrapper.dtype.kind == "f" else np.int64)
    own = wrapper.revert(action)
    assert own.dtype == space.dtype and own.shape == space.shape and space.contains(own)
    start = np.ravel(np.broadcast_to(wrapper.start, size))
    np.testing.assert_allclose(np.ravel(own), action + start, rtol=1e-3)
    np.testing.assert_array_equal(wrapper.convert(own), np.asarray(action, wrapper.dtype))
    np.testing.assert_array_equal(wrapper.revert(np.reshape(action, space.shape)), own)
    batch = wrapper.revert(np.stack([action, action, action]), lead=(3,))
    np.testing.assert_array_equal(batch, np.stack([own, own, own]))
    assert pickle.loads(pickle.dumps(wrapper)) == wrapper
    assert (GymSpaceWrapper(space, name="act") == wrapper) == (space.shape == (size,))


@pytest.mark.skipif(
    "dtype" not in inspect.signature(G.Discrete).parameters, reason="Gymnasium before 1.2"
)
@pytest.mark.parametrize("dtype, start", [(np.int32, 0), (np.int8, -1), (np.uint8, 2)])
def test_a_discrete_action_has_the_dtype_of_its_space(dtype, start):
    space = G.Discrete(3, start=start, dtype=dtype)
    own = GymSpaceWrapper(space).revert(np.int64(2))
    assert own == 2 + start and own.dtype == dtype and space.contains(own)


def test_parts_of_flat_spaces_are_flat():
    space = G.Dict(a=G.Box(-1, 1, (2, 2)), b=G.Tuple([G.MultiBinary((1, 2)), G.Discrete(2)]))
    wrapper = GymSpaceWrapper(space, flat=True)
    assert wrapper.shape == ((4,), ((2,), ()))
    assert space.contains(wrapper.revert(wrapper.sample()))


def test_a_float_is_not_truncated_to_an_integer_of_any_space():
    for space in (G.Discrete(3), G.Discrete(3, start=1), G.MultiDiscrete([3], start=[1])):
        value = np.full(space.shape, 1.5)
        assert GymSpaceWrapper(space).convert(value) is value


def test_masked_observations_are_converted_by_the_names_of_their_parts():
    Obs = namedarraytuple("Obs", ["observation", "action_mask"])
    start = GymSpaceWrapper(G.Discrete(3, start=5))
    space = Composite([start, GymSpaceWrapper(G.MultiBinary(2))], Obs)
    own = dict(observation=6, action_mask=np.array([1, 0], np.int8))
    ours = from_gym(space, own)
    assert ours.observation == 1 and ours.action_mask is own["action_mask"]
    assert to_gym(space, ours)["observation"] == 6
    with pytest.raises(ValueError, match=r"\['action_mask'\]"):
        from_gym(space, dict(observation=6))


def test_dict_spaces_become_nested_named_tuples_in_the_spaces_order():
    wrapper = GymSpaceWrapper(nested(), name="observation")
    assert isinstance(wrapper.space, Composite)
    value = {
        "pair": (np.array([0, 1, 1, 0], np.int8), np.array([2, 4])),
        "image": np.full((4, 5, 1), 7, np.uint8),
        "arm": {"grip": 1, "pose": np.array([0.5, 0.0, -1.0])},
        "unknown": 3,
    }
    obs = wrapper.convert(value)
    assert obs._fields == tuple(nested().spaces)
    assert obs.arm.grip == 2
    assert obs.arm.pose.dtype == np.float32
    assert obs.image is value["image"]
    assert obs.pair.field_1.tolist() == [1, 4]
    back = wrapper.revert(obs)
    assert back["arm"] == {"grip": 1, "pose": pytest.approx([0.5, 0, -1])}
    assert isinstance(back["pair"], tuple)
    assert nested().contains(back)
    assert wrapper.shape.arm.pose == (3,)
    assert wrapper.space.spaces[0].name == "observation.arm"


def test_null_value_goes_to_every_part():
    null = GymSpaceWrapper(nested(), null_value=1).null_value()
    assert all((leaf == 1).all() for leaf in flatten(null))


def test_two_environment_types_may_share_a_name():
    one = GymSpaceWrapper(G.Dict({"a": G.Discrete(2)}))
    two = GymSpaceWrapper(G.Dict({"b": G.Discrete(2), "c": G.Discrete(2)}))
    again = GymSpaceWrapper(G.Dict({"a": G.Discrete(5)}))
    assert one.null_value()._fields == ("a",)
    assert two.null_value()._fields == ("b", "c")
    assert type(one.null_value()) is type(again.null_value())


def test_composite_samples_fit_into_buffers():
    wrapper = GymSpaceWrapper(nested())
    buffer = buffer_from_example(wrapper.null_value(), (5, 3))
    assert buffer.arm.pose.shape == (5, 3, 3)
    sample = wrapper.sample()
    buffer[2, 1] = sample
    assert_equal_leaves(tuple(buffer[2, 1]), sample)
    acted = wrapper.revert(buffer[2, 1])  # rows of a buffer are namedarraytuples
    assert nested().contains(acted)


def test_keys_that_are_no_field_names_are_made_to_fit():
    space = G.Dict({key: G.Discrete(3) for key in ("my-key", "my_key", "1", "_x", "get", "class")})
    wrapper = GymSpaceWrapper(space, name="camera.1 left")
    obs = wrapper.convert({key: i % 3 for i, key in enumerate(space.spaces)})
    assert set(obs._fields) == {"my_key", "my_key_", "field_1", "field__x", "field_get"} | {
        "field_class"
    }
    assert list(wrapper.revert(obs)) == list(space.spaces)
    assert wrapper.revert(obs) == {key: i % 3 for i, key in enumerate(space.spaces)}


@pytest.mark.parametrize(
    "bad",
    [
        G.Text(3),
        G.Sequence(G.Discrete(2)),
        G.Graph(G.Discrete(2), None),
        G.OneOf([G.Discrete(2), G.Discrete(3)]),
        "not a space",
    ],
)
def test_unsupported_spaces_are_refused_with_their_place(bad):
    with pytest.raises(ValueError, match=f"'action': .*{type(bad).__name__}"):
        GymSpaceWrapper(bad, name="action")
    if isinstance(bad, G.Space):
        inside = G.Dict({"a": G.Discrete(2), "b": G.Tuple((G.Discrete(2), bad))})
        with pytest.raises(ValueError, match=r"'obs\.b\.1'"):
            GymSpaceWrapper(inside)


@pytest.mark.parametrize(
    "space, value, error",
    [
        (
            dict(a=G.Discrete(2), b=G.Discrete(2)),
            {"a": 1},
            r"'obs' .*\['a', 'b'\], got .*a",
        ),
        (dict(a=G.Discrete(2)), np.zeros(3), "'obs' .*got ndarray"),
        (dict(a=G.Tuple([G.Discrete(2)] * 2)), {"a": (1,)}, "'obs.a' .*length 1"),
        (dict(a=G.Tuple([G.Discrete(2)] * 2)), {"a": 1}, "'obs.a' .*got int"),
    ],
)
def test_elements_without_all_parts_are_refused(space, value, error):
    with pytest.raises(ValueError, match=error):
        GymSpaceWrapper(G.Dict(space)).convert(value)


@pytest.mark.parametrize("first,later", [("ab", "abc"), ("abc", "ab"), ("abc", "abcd")])
def test_elements_keep_their_parts_also_unknown_ones(first, later):
    wrapper = GymSpaceWrapper(G.Dict(a=G.Discrete(2), b=G.Discrete(2)), name="obs")
    for keys in (first, first[::-1], "b" + first.replace("b", "")):  # in any order
        assert tuple(wrapper.convert({key: "abcd".index(key) for key in keys})) == (0, 1)
    with pytest.raises(ValueError, match=f"{len(first)} parts.*keys"):
        wrapper.convert(dict.fromkeys(later, 1))


def test_empty_spaces_are_refused():
    with pytest.raises(ValueError, match=r"'obs\.nothing'"):
        GymSpaceWrapper(G.Dict({"nothing": G.Dict({})}))


def test_named_tuples_and_dicts_are_turned_into_each_other():
    value = {"a": 1, "b": {"c": 2, "d": np.arange(3)}}
    nt = dict_to_nt(value, "info")
    assert (nt.a, nt.b.c) == (1, 2)
    assert type(nt).__name__ == "info"
    assert type(nt) is type(schema_dict_to_nt(value, "info", schemas={}))
    assert nt_to_dict(nt) == value
    assert pickle.loads(pickle.dumps(dict_to_nt({"a": 1}, "info"))).a == 1
    assert nt_to_dict(3) == dict_to_nt(3, "x") == 3


def test_schema_wrapper_is_the_same_thing():
    wrapper = SchemaWrapper(nested(), 0, "obs", True, None)
    assert isinstance(wrapper, GymSpaceWrapper)
    assert type(wrapper.null_value()) is type(GymSpaceWrapper(nested()).null_value())


def test_elements_of_run_time_types_cross_to_another_process():
    wrapper = GymSpaceWrapper(nested(), name="observation")
    wrapper.seed(3)
    data = pickle.dumps(wrapper)
    code = (
        "import pickle, sys; w = pickle.loads(sys.stdin.buffer.read()); "
        "sys.stdout.buffer.write(pickle.dumps(w.sample()))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    sample = pickle.loads(done.stdout)
    assert type(sample) is type(wrapper.null_value())
    assert_equal_leaves(sample, wrapper.sample())


def test_the_gymnasium_space_has_its_name_of_rlpyt():
    space = G.Dict({"image": G.Box(0, 1, (2, 3)), "count": G.Discrete(4)})
    assert GymSpaceWrapper(space)._gym_space is space
