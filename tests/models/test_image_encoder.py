"""Encoders of images: default convolutions, by the size of the image, and those of users."""

import copy
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.image_encoder import ImageEncoder, build_encoder
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import EncodedShape, ImageShape, marked_shape, shape_of_group
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper


def convolutions(model):
    """Return (channels, kernel size, stride) of each convolution."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    return [(layer.out_channels, layer.kernel_size[0], layer.stride[0]) for layer in layers]


@pytest.mark.parametrize(
    "side, layers, n_inputs",
    [
        (10, [(16, 3, 1), (32, 3, 2)], 800),
        (15, [(16, 3, 1), (32, 3, 2)], 2048),
        (16, [(16, 3, 2), (32, 3, 2), (64, 3, 2)], 256),
        (32, [(16, 3, 2), (32, 3, 2), (64, 3, 2)], 1024),
        (35, [(16, 3, 2), (32, 3, 2), (64, 3, 2)], 1600),
        (36, [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 64),
    ],
)
def test_larger_images_have_strided_convolutions(side, layers, n_inputs):
    encoder = ImageEncoder(ImageShape((3, side, side)))
    assert convolutions(encoder) == layers
    linear = next(layer for layer in encoder.modules() if isinstance(layer, nn.Linear))
    assert (linear.in_features, linear.out_features) == (n_inputs, 256)
    assert encoder(torch.zeros(2, 3, side, side)).shape == (2, 256)


def test_models_for_atari_have_them_only_where_their_own_do_not_fit():
    assert convolutions(AtariFfModel((3, 32, 32), 2)) == [(16, 8, 4), (32, 4, 2)]
    assert convolutions(AtariFfModel((3, 10, 10), 2)) == [(16, 3, 1), (32, 3, 2)]


class Weighted(nn.Module):
    """Three weighted sums of all numbers of an observation."""

    def __init__(self, shape):
        super().__init__()
        self.shape, self.output_size = shape, 3
        self.weight = nn.Parameter(torch.ones(int(np.prod(shape)), 3))

    def forward(self, x):
        return x.flatten(-len(self.shape)).float() @ self.weight


@pytest.mark.parametrize("Model", [AtariFfModel, AtariLstmModel, AtariDqnModel])
@pytest.mark.parametrize("encoder", [Weighted, {"kind": Weighted}])
def test_models_of_images_alone_take_a_custom_encoder(Model, encoder):
    """It reads pixels as the environment gives them, and keeps its initial weights."""
    model = Model(ImageShape((6, 5, 3), channels_last=True), 4, encoder=encoder)
    images = torch.randint(256, (2, 7, 6, 5, 3), dtype=torch.uint8)
    expected = images.reshape(14, -1).sum(1, dtype=torch.float32)
    features, _ = model.encode(images)
    torch.testing.assert_close(features, expected[:, None].expand(14, 3))
    assert model.conv.shape.channels_last


def test_an_observation_of_one_vector_is_read_by_a_custom_encoder():
    shape = marked_shape(GymSpaceWrapper(spaces.Box(-1, 1, (2,), np.float32)))
    model = VectorModel(shape, encoder=Weighted)
    torch.testing.assert_close(model.read(torch.tensor([[1.0, 2.0]])), torch.full((1, 3), 3.0))


class Lazy(nn.Sequential):
    """Layers that do not say how many inputs they have."""

    def __init__(self, shape):
        layers = [nn.Flatten(), nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU()]
        super().__init__(*layers)
        self.output_size = 4


def test_lazy_layers_get_their_sizes_before_a_network_is_copied():
    shape = ImageShape((6, 5, 3), channels_last=True)
    encoder = build_encoder(EncodedShape(shape, Lazy), {})
    assert encoder[1].weight.shape == (4, 90) and encoder.training
    assert encoder[2].num_batches_tracked == 0 and encoder[2].running_mean.tolist() == [0] * 4
    assert copy.deepcopy(encoder)(torch.zeros(2, 6, 5, 3)).shape == (2, 4)


def test_a_module_given_as_encoder_is_refused():
    with pytest.raises(TypeError, match="encoder.*Lazy.*copy"):
        build_encoder(EncodedShape(ImageShape((6, 5, 3), channels_last=True), Lazy(None)), {})


def test_an_encoder_without_effect_is_named():
    """Unless another network reads the images, as with groups of parts."""
    parts = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(-1, 1, (3,)))
    with pytest.warns(UserWarning, match="encoder='impala' has no effect.*encoders="):
        VectorModel(marked_shape(GymSpaceWrapper(parts)), encoder="impala")
    image = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(0, 255, (3, 6, 6), np.uint8))
    of_critic = shape_of_group(marked_shape(GymSpaceWrapper(image)), ["a"], "critic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VectorModel(of_critic, encoder="impala")
