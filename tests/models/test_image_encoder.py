"""Default convolutions of encoders of images, by the size of the image."""

import pytest
import torch
from torch import nn

from rlpyt.models.image_encoder import ImageEncoder
from rlpyt.models.observation import ImageShape
from rlpyt.models.pg.atari_ff_model import AtariFfModel


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
