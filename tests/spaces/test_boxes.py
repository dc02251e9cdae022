import pickle
from collections import namedtuple

import numpy as np
import pytest

from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import NamedTupleSchema, namedarraytuple

Action = namedarraytuple("Action", ["move", "jump"])
INF = np.inf


def make_composite():
    inner = Composite([FloatBox(-1, 1, shape=2), IntBox(0, 3)], Action)
    return Composite([inner, IntBox(2, 5, shape=4)], namedarraytuple("Outer", ["inner", "other"]))


EVERY_SPACE = [
    lambda: IntBox(-2, 3, shape=(3, 2)),
    lambda: IntBox(0, 256, shape=5, dtype="uint8"),
    lambda: IntBox(4, 9),
    lambda: FloatBox(-1.0, 2.0, shape=(3, 2)),
    lambda: FloatBox([-1.0, 2.0, -INF, -INF], [0.0, INF, -3.0, INF], dtype="float64"),
    lambda: FloatBox(0.5, 0.6),
    make_composite,
]


def assert_equal_trees(a, b):
    assert type(a) is type(b)
    if isinstance(a, tuple):
        for x, y in zip(tuple(a), tuple(b), strict=True):
            assert_equal_trees(x, y)
    else:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_samples_are_contained_and_nulls_have_their_form(make):
    space = make()
    space.seed(0)
    samples = [space.sample() for _ in range(20)]
    assert all(space.contains(sample) for sample in samples)
    null = space.null_value()
    if not isinstance(space, Composite):
        for x in (samples[0], null):
            assert (x.shape, x.dtype) == (space.shape, space.dtype)


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_the_seed_decides_the_samples(make):
    spaces = [make() for _ in range(3)]
    for space, seed in zip(spaces, (5, 5, 6), strict=True):
        space.seed(seed)
    one, same, other = ([space.sample() for _ in range(8)] for space in spaces)
    assert repr(one) != repr(other)
    for a, b in zip(one, same, strict=True):
        assert_equal_trees(a, b)


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_without_a_seed_numpys_global_one_decides(make):
    drawn = []
    for seed in (3, 3, 4):
        np.random.seed(seed)
        space = make()
        drawn.append(repr([space.sample() for _ in range(8)]))
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("make", EVERY_SPACE)
def test_pickling_keeps_space_and_position_in_its_samples(make):
    space = make()
    space.seed(1)
    space.sample()
    copy = pickle.loads(pickle.dumps(space))
    assert copy == space
    assert_equal_trees(copy.sample(), space.sample())


def test_spaces_are_equal_by_what_they_describe():
    spaces = [make() for make in EVERY_SPACE]
    for i, space in enumerate(spaces):
        assert [space == other for other in [make() for make in EVERY_SPACE]].count(True) == 1
        assert space == EVERY_SPACE[i]()
    assert FloatBox(-1, 1, shape=2) != FloatBox(-1, 2, shape=2)
    assert IntBox(0, 4) != IntBox(0, 4, dtype="int64")
    assert IntBox(0, 4) != "IntBox"


def test_int_box_reaches_all_its_values_and_not_the_upper_bound():
    box = IntBox(2, 5, shape=100)
    box.seed(0)
    assert set(box.sample()) == {2, 3, 4}
    assert box.n == 3
    assert box.bounds == (2, 5)
    assert not box.contains(np.full(100, 5))
    assert not box.contains(np.full(100, 2.0))
    assert not box.contains(np.full(99, 2))


def test_scalar_samples_can_look_things_up():
    assert {0: "left", 1: "right"}[IntBox(0, 2).sample()] in ("left", "right")
    assert hash(FloatBox(0.0, 1.0).sample()) is not None


def test_null_values():
    assert IntBox(3, 6, shape=2).null_value().tolist() == [0, 0]
    assert IntBox(3, 6, shape=2, null_value=4).null_value().tolist() == [4, 4]
    assert IntBox(0, 9, shape=2, null_value=[1, 2]).null_value().tolist() == [1, 2]
    assert FloatBox(-1, 1, shape=2, null_value=0.5).null_value().tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "args, error, words",
    [
        ((0.5, 2), TypeError, "low=0.5"),
        ((0, 2.5), TypeError, "high=2.5"),
        (("0", 2), TypeError, "low='0'"),
        ((2, 2), ValueError, "below high"),
        ((0, 2, (2, -1)), ValueError, "shape="),
        ((0, 257, 2, "uint8"), ValueError, "uint8 cannot hold"),
        ((-1, 2, 2, "uint8"), ValueError, "uint8 cannot hold"),
        ((0, 2, 2, "float32"), TypeError, "dtype=float32"),
    ],
)
def test_int_box_refuses(args, error, words):
    with pytest.raises(error, match=words):
        IntBox(*args)


def test_whole_floats_are_integer_bounds():
    assert IntBox(-1.0, np.float64(4.0)) == IntBox(-1, 4)
    assert isinstance(IntBox(0, 4.0).n, int)


def test_float_box_takes_scalars_with_a_shape_or_arrays():
    box = FloatBox(-1, 2, shape=3)
    assert box.shape == (3,)
    assert [bound.tolist() for bound in box.bounds] == [[-1, -1, -1], [2, 2, 2]]
    assert FloatBox([-1.0, -2.0], [2.0, 4.0]).high.tolist() == [2, 4]
    assert FloatBox(-1.0, 1.0).shape == ()


def test_float_box_samples_go_all_the_way_between_finite_bounds():
    box = FloatBox([-3.0, 10.0], [1.0, 20.0])
    box.seed(0)
    x = np.stack([box.sample() for _ in range(2000)])
    np.testing.assert_allclose(x.min(axis=0), [-3, 10], atol=0.1)
    np.testing.assert_allclose(x.max(axis=0), [1, 20], atol=0.1)
    np.testing.assert_allclose(x.mean(axis=0), [-1, 15], atol=0.3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_widest_finite_float_box_does_not_overflow(dtype):
    limit = np.finfo(dtype).max
    box = FloatBox(-limit, limit, shape=50, dtype=dtype)
    box.seed(0)
    x = box.sample()
    assert np.isfinite(x).all()
    assert len(set(x)) == 50  # and not clipped to the bounds


def test_rounding_does_not_leave_the_float_box():
    box = FloatBox(1 / 3, 1 / 3, shape=1000, dtype="float64")  # here u/3 + (1-u)/3 < 1/3 at times
    assert box.contains(box.sample())


def test_unbounded_sides_have_no_bound():
    box = FloatBox([2.0, -INF, -INF], [INF, -3.0, INF])
    box.seed(0)
    x = np.stack([box.sample() for _ in range(2000)])
    np.testing.assert_allclose(x.mean(axis=0), [3, -4, 0], atol=0.15)
    assert x[:, 0].min() >= 2.0
    assert x[:, 1].max() <= -3.0
    assert np.isfinite(x).all()


def test_float_box_contains():
    box = FloatBox(-1, 1, shape=2)
    assert box.contains([1, -1])
    for outside in ([0, 1.5], [0, np.nan], [0.0], [[0, 0]]):
        assert not box.contains(np.asarray(outside, np.float32))


@pytest.mark.parametrize(
    "args, kwargs, error, words",
    [
        ((-1, [1, 1]), {}, ValueError, r"shape, got \(\) and \(2,\)"),
        (([-1, -1], [1, 1]), {"shape": 3}, ValueError, "do not match shape=3"),
        ((1, -1), {"shape": 3}, ValueError, "must not exceed"),
        ((np.nan, 1), {"shape": 3}, ValueError, "NaN"),
        ((0, 1), {"dtype": "int32"}, TypeError, "dtype=int32"),
    ],
)
def test_float_box_refuses(args, kwargs, error, words):
    with pytest.raises(error, match=words):
        FloatBox(*args, **kwargs)


def test_composite_gives_named_tuples_of_everything():
    space = make_composite()
    assert space.names == ("inner", "other")
    assert space.spaces[1] == IntBox(2, 5, shape=4)
    assert space.shape.inner.move == (2,)
    assert space.dtype.other == np.int32
    sample = space.sample()
    assert sample.inner.move.shape == (2,)
    assert not space.contains(sample.inner)
    assert not space.contains(sample._replace(other=np.zeros(4, int)))
    assert space.null_value().other.tolist() == [0, 0, 0, 0]


def test_equal_parts_of_a_composite_sample_differently():
    space = Composite([FloatBox(0, 1, shape=3), FloatBox(0, 1, shape=3)], Action)
    space.seed(0)
    sample = space.sample()
    assert (sample.move != sample.jump).all()


@pytest.mark.parametrize(
    "cls", [namedtuple("Plain", "move jump"), NamedTupleSchema("Schema", ["move", "jump"])]
)
def test_composite_takes_plain_types_and_schemas(cls):
    space = Composite([IntBox(0, 2), IntBox(0, 2)], cls)
    assert space.sample()._fields == ("move", "jump")
    assert space.contains(space.null_value())


def test_composite_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="1 spaces do not match"):
        Composite([IntBox(0, 2)], Action)
    with pytest.raises(TypeError, match="NamedTupleCls"):
        Composite([IntBox(0, 2)], dict)


def test_a_custom_space_must_say_how_it_samples_and_has_zeros_as_placeholder():
    space = Space()
    with pytest.raises(NotImplementedError):
        space.sample()
    space.shape, space.dtype = (2,), np.dtype(np.float32)
    assert space.null_value().tolist() == [0.0, 0.0] and space.null_value().dtype == np.float32
