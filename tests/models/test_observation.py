"""Observations of any space as one vector of features."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.envs.toy import CountEnv
from rlpyt.models.dqn.vector import DqnMlpModel
from rlpyt.models.image_encoder import ImageEncoder
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import (
    MAX_CATEGORIES,
    CategoryShape,
    ImageShape,
    IntegerShape,
    check_normalized,
    flatten_numpy,
    flatten_observation,
    leaf_shapes,
    marked_shape,
    seen_parts,
    shape_of_group,
)
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.qpg.mlp import PiMlpModel
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_from_example, buffer_func
from rlpyt.utils.collections import namedarraytuple

PARTS = spaces.Dict(
    at=spaces.Box(-1, 1, (3,)),
    kind=spaces.Discrete(4, start=2),
    inner=spaces.Tuple(
        [
            spaces.Box(0, 255, (6, 5, 3), np.uint8),
            spaces.Box(-1, 1, (2, 2)),
            spaces.MultiDiscrete([2, 3]),
            spaces.MultiBinary(2),
        ]
    ),
)
SPACE = GymSpaceWrapper(PARTS)
LEADS = [(), (4,), (5, 3)]


def batch(lead, space=SPACE):
    """Random observations [*lead, ...], numpy."""
    observations = buffer_from_example(space.null_value(), lead)
    for index in np.ndindex(*lead):
        observations[index] = space.sample()
    return observations if lead else buffer_func(space.sample(), np.asarray)


def test_shapes_mark_images_and_categories_and_equal_plain_ones():
    shape = marked_shape(SPACE)
    assert shape == SPACE.shape and shape._fields == SPACE.shape._fields
    kinds = [type(leaf) for leaf in leaf_shapes(shape)]
    assert kinds == [tuple, CategoryShape, ImageShape, tuple, CategoryShape, IntegerShape]
    image = shape.inner.field_0
    assert image.channels_last and image.scale == 1 / 255
    assert shape.kind.sizes == (4,) and shape.kind.low == 0  # the wrapper subtracts the start
    assert shape.inner.field_2.sizes == (2, 3)
    again = pickle.loads(pickle.dumps(copy.deepcopy(shape.inner.field_0)))
    assert again == image and again.channels_last and again.scale == 1 / 255


@pytest.mark.parametrize(
    "space,expected",
    [
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), (False, 1 / 255)),
        (spaces.Box(0, 1, (84, 84, 3), np.float32), (True, 1.0)),
        (spaces.Box(0, 255, (3, 8, 8), np.float32), (False, 1 / 255)),
        (spaces.Box(-np.inf, np.inf, (3, 8, 8), np.float32), (False, 1.0)),
        (spaces.Box(0, 10, (3, 8, 8), np.int32), (False, 0.1)),
        (spaces.Box(0, 10, (3, 8, 8), np.uint8), (False, 0.1)),
        (spaces.Box(0, 1, (3, 8, 8), np.uint8), (False, 1.0)),
        (spaces.Box(0, np.iinfo(np.int64).max, (3, 8, 8), np.int64), (False, 1 / 255)),
        (spaces.Box(0, 65535, (3, 8, 8), np.uint16), (False, 1 / 65535)),
        (spaces.MultiBinary((3, 8, 8)), (False, 1.0)),
    ],
)
def test_images_are_scaled_by_their_bounds(space, expected):
    shape = marked_shape(GymSpaceWrapper(space))
    assert (shape.channels_last, shape.scale) == expected
    if isinstance(space, spaces.Box) and space.dtype.kind in "iu" and space.high.max() < 1e6:
        own = IntBox(0, int(space.high.max()) + 1, space.shape, dtype=str(space.dtype))
        assert marked_shape(own).scale == shape.scale
    image = torch.arange(192).reshape(3, 8, 8) % 11
    if space.dtype.kind in "iu" and space.shape == (3, 8, 8):
        seen = []
        for model in (AtariFfModel(shape, 2), ImageEncoder(shape)):
            model.conv.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
            model(image[None])
        assert torch.equal(seen[0], image[None].float() * shape.scale)
        assert torch.equal(seen[1], seen[0])


def test_spaces_of_our_own_and_long_lists_of_categories():
    Parts = namedarraytuple("Parts", ["at", "kind", "bits"])
    space = Composite([FloatBox(-1, 1, shape=2), IntBox(3, 7), IntBox(0, 2, shape=5)], Parts)
    shape = marked_shape(space)
    assert shape.kind.sizes == (4,) and shape.kind.low == 3
    assert type(shape.at) is tuple and type(shape.bits) is IntegerShape
    assert type(marked_shape(IntBox(0, MAX_CATEGORIES))) is CategoryShape
    assert type(marked_shape(IntBox(0, MAX_CATEGORIES + 1))) is IntegerShape


def by_hand(model, observation, lead):
    """Features, row by row: vectors, then categories, then images, each in order."""
    rows = []
    for index in np.ndindex(*lead):
        row = observation[index] if lead else observation
        inner = row.inner
        vectors = [row.at, np.reshape(inner.field_1, -1), inner.field_3]
        ones = np.zeros(4 + 2 + 3)
        ones[row.kind] = ones[4 + inner.field_2[0]] = ones[6 + inner.field_2[1]] = 1
        pixels = np.transpose(np.asarray(inner.field_0, np.float32) / 255, (2, 0, 1))
        with torch.no_grad():
            image = model.images[0].conv(torch.from_numpy(pixels[None]))[0].numpy()
        rows.append(np.concatenate([*vectors, ones, image]))
    return np.stack(rows).reshape(*lead, -1)


@pytest.mark.parametrize("lead", LEADS)
def test_features_are_those_by_hand(lead):
    torch.manual_seed(0)
    model = VectorModel(marked_shape(SPACE), encoder=dict(feature_size=7))
    observation = batch(lead)
    found = model.read(buffer_func(observation, torch.as_tensor))
    assert found.shape == (*lead, model.observation_size) and found.dtype == torch.float32
    assert model.observation_size == 3 + 4 + 2 + 9 + 7
    np.testing.assert_allclose(found.detach(), by_hand(model, observation, lead), atol=1e-5)


def test_vectors_of_real_numbers_alone_are_normalized():
    model = VectorModel(
        marked_shape(SPACE), normalize_observation=True, encoder=dict(feature_size=7)
    )
    assert model.obs_rms.mean.shape == (7,)
    observation = buffer_func(batch((6,)), torch.as_tensor)
    model.update_obs_rms(observation)
    before = VectorModel(marked_shape(SPACE), encoder=dict(feature_size=7))
    before.images.load_state_dict(model.images.state_dict())
    plain, found = before.read(observation), model.read(observation)
    torch.testing.assert_close(found[:, 7:], plain[:, 7:])  # bits, categories, image
    torch.testing.assert_close(found[:, :7], model.obs_rms.normalize(plain[:, :7], 10, 1e-6))
    assert model.obs_rms.normalize(plain[:, :7], 10, 1e-6).std() > 0.5
    assert model.numpy_forward() is None


def test_custom_encoders_read_normalized_numbers():
    encoders = {"at": Keep, "inner.field_0": dict(feature_size=7), "inner.field_3": Sum}
    shape = marked_shape(SPACE)
    model = VectorModel(shape, normalize_observation=True, encoders=encoders)
    plain = VectorModel(shape, normalize_observation=True, encoder=dict(feature_size=7))
    observation = buffer_func(batch((5, 6)), torch.as_tensor)
    for one in (model, plain):
        one.update_obs_rms(observation)
    assert model.obs_rms.mean.shape == (7,)  # in the order of the parts, as without encoders
    assert torch.equal(model.obs_rms.mean, plain.obs_rms.mean)
    found, expected = model.read(observation), plain.read(observation)
    torch.testing.assert_close(found[..., :4], expected[..., 3:7])  # inner.field_1
    at = 4 + 4 + 2 + 3  # the first of the encoded parts follows categories
    torch.testing.assert_close(found[..., at : at + 3], expected[..., :3])
    bits = observation.inner.field_3.float().sum(-1)
    torch.testing.assert_close(found[..., -1], bits)  # as it is
    alone = GymSpaceWrapper(PARTS["at"])
    model = VectorModel(marked_shape(alone), True, encoders={"observation": Keep})
    check_normalized([model], alone)
    model.update_obs_rms(observation.at)
    torch.testing.assert_close(model.read(observation.at), expected[..., :3])


class Keep(torch.nn.Module):
    """The numbers themselves."""

    def __init__(self, shape):
        super().__init__()
        (self.output_size,) = shape

    def forward(self, x):
        return x


def test_models_that_normalize_read_real_numbers():
    def check(space):
        space = GymSpaceWrapper(space)
        model = VectorModel(marked_shape(space), True, encoder=dict(feature_size=7))
        check_normalized([model], space)

    check(PARTS)
    check(spaces.Dict(a=PARTS["at"], k=PARTS["kind"]))
    with pytest.raises(ValueError, match="have no vectors"):
        check(PARTS["inner"][0])
    with pytest.raises(ValueError, match="entries of int8"):
        check(spaces.Dict(a=PARTS["inner"][3], k=PARTS["kind"]))


def test_numpy_reads_categories_as_torch_does():
    space = GymSpaceWrapper(
        spaces.Dict(a=PARTS["at"], b=PARTS["kind"], c=spaces.MultiDiscrete([2, 3]))
    )
    shape, observation = marked_shape(space), batch((5,), space)
    found = flatten_numpy(observation, shape)
    expected = flatten_observation(buffer_func(observation, torch.as_tensor), shape)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "size,channels", [((84, 84), [32, 64, 64]), ((36, 40), [32, 64, 64]), ((7, 7), [16, 32])]
)
def test_convolutions_fit_the_image(size, channels):
    model = VectorModel(ImageShape((3, *size)))
    convolutions = [m for m in model.images[0].modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == channels
    assert model.read(torch.zeros(2, 3, *size, dtype=torch.uint8)).shape == (2, 256)


def test_settings_of_the_convolutions_are_taken():
    sizes = dict(channels=[4], kernel_sizes=[2], strides=[2], feature_size=5)
    model = VectorModel(ImageShape((1, 6, 6)), encoder=sizes)
    (convolution,) = [m for m in model.images[0].modules() if isinstance(m, torch.nn.Conv2d)]
    assert (convolution.out_channels, convolution.stride) == (4, (2, 2))
    assert model.observation_size == 5


def test_a_model_of_vectors_has_the_parameters_it_had():
    assert list(VectorModel((3,)).state_dict()) == []
    assert not any("images" in name for name in dict(VectorModel((3,)).named_modules()))


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (2, 9, 8, 3)])
def test_a_stack_of_images_is_an_image_of_all_their_channels(shape):
    space = GymSpaceWrapper(spaces.Box(0, 255, shape, np.uint8))
    model = VectorModel(marked_shape(space), encoder=dict(feature_size=5))
    encoder = model.images[0]
    assert encoder.shape.chw == (6, 9, 8)
    stacks = torch.from_numpy(np.stack([space.sample() for _ in range(4)]))
    channels_first = stacks if shape[1] == 3 else stacks.permute(0, 1, 4, 2, 3)
    expected = encoder.conv(channels_first.reshape(4, 6, 9, 8).float() / 255)
    torch.testing.assert_close(model.read(stacks), expected)
    assert model.read(stacks.reshape(2, 2, *shape)).shape == (2, 2, 5)


class Sum(torch.nn.Module):
    """Sum of the numbers, times a factor."""

    def __init__(self, shape, factor=1.0):
        super().__init__()
        self.n_dim, self.factor, self.output_size = len(shape), factor, 1

    def forward(self, x):
        dims = tuple(range(-self.n_dim, 0))
        return (x.float().sum(dims) if dims else x.float())[..., None] * self.factor


def test_each_part_can_have_another_encoder():
    encoders = {
        "at": Sum,
        "kind": dict(kind=Sum, factor=2.0),
        "inner.field_0": dict(feature_size=4),
        "inner.field_1": Sum,
    }
    model = VectorModel(marked_shape(SPACE), encoders=encoders)
    assert model.observation_size == 2 + 5 + 1 + 1 + 4 + 1
    observation = buffer_func(batch((3,)), torch.as_tensor)
    found = model.read(observation)
    # Vectors and categories without an encoder, then the encoded parts in order.
    torch.testing.assert_close(found[:, :2], observation.inner.field_3.float())
    torch.testing.assert_close(found[:, 7], observation.at.sum(-1))
    torch.testing.assert_close(found[:, 8], 2.0 * observation.kind)
    torch.testing.assert_close(found[:, 9:13], model.images[2](observation.inner.field_0))
    torch.testing.assert_close(found[:, 13], observation.inner.field_1.sum((-2, -1)))
    alone = VectorModel(marked_shape(GymSpaceWrapper(PARTS["at"])), encoders={"observation": Sum})
    assert alone.observation_size == 1
    with pytest.raises(ValueError, match="encoders 'ta'.*at, "):
        VectorModel(marked_shape(SPACE), encoders={"ta": Sum})
    with pytest.raises(ValueError, match="encoders 'inner'"):
        VectorModel(marked_shape(SPACE), encoders={"inner": Sum})


def test_groups_mark_the_other_parts():
    shape = shape_of_group(marked_shape(SPACE), ["at", "inner.field_0"], "group")
    assert shape == SPACE.shape
    assert seen_parts(shape) == [True, False, True, False, False, False]
    model = VectorModel(shape, encoder=dict(feature_size=7))
    assert model.observation_size == 3 + 7
    other = shape_of_group(shape, ["inner"], "auxiliary")  # a part that was marked as unseen
    assert seen_parts(other) == [False, False, True, True, True, True]
    assert type(other.inner.field_2) is CategoryShape
    again = pickle.loads(pickle.dumps(copy.deepcopy(shape)))
    assert seen_parts(again) == seen_parts(shape) and again == shape
    assert type(again.kind.seen) is CategoryShape


def test_a_vector_goes_straight_to_the_heads_unless_a_subclass_encodes_it():
    class Model(VectorModel):
        def heads(self, features):
            return features * 2

    class Read(Model):
        def read(self, observation):
            return super().read(observation) + 1

    class Encode(Model):
        def encode(self, observation):
            return super().encode(observation)[0] + 1, None

    vector = torch.arange(6, dtype=torch.uint8).reshape(2, 3)
    plain = Model((3,))(vector)
    assert plain.dtype == torch.float32 and torch.equal(plain, vector.float() * 2)
    for cls in (Read, Encode):
        assert torch.equal(cls((3,))(vector), (vector.float() + 1) * 2)

    normalizing = Model((3,), normalize_observation=True)
    normalizing.update_obs_rms(vector.float())
    reference = normalizing.obs_rms.normalize(vector, 10, 1e-6) * 2
    assert torch.equal(normalizing(vector), reference)

    with_memory = Model((3,))
    with_memory.add_core(1, [4], 5, torch.nn.ReLU, "gru")
    features, _ = with_memory(vector.float(), torch.zeros(2, 1), torch.zeros(2))
    assert features.shape == (2, 5)


@pytest.mark.parametrize(
    "Model, name, value",
    [
        (partial(DqnMlpModel, output_size=2), "lstm_size", 7),
        (partial(DqnMlpModel, output_size=2), "head_size", 8),
        (partial(PiMlpModel, hidden_sizes=4, action_size=2), "lstm_size", 7),
        (partial(DqnMlpModel, output_size=2), "norm_obs_clip", 0.5),
        (partial(MujocoFfModel, action_size=2), "norm_obs_var_clip", 0.5),
    ],
)
def test_arguments_without_effect_are_named(Model, name, value, recwarn):
    shape = marked_shape(CountEnv().spaces.observation)
    condition = "normalize_observation" if "norm" in name else "memory"
    Model(shape)
    Model(shape, **{name: value, condition: True if "norm" in name else "gru"})
    assert not [w for w in recwarn if "no effect" in str(w.message)]
    with pytest.warns(UserWarning, match=f"{name}={value} .*effect without .*{condition}"):
        Model(shape, **{name: value})
