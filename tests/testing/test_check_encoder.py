"""``check_encoder`` passes valid encoders and reports each fault of others."""

import functools
import threading

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlpyt.models.image_encoder import ImageEncoder
from rlpyt.spaces.float_box import FloatBox
from rlpyt.testing import ConformanceError, check_encoder
from rlpyt.testing.encoder import CHECKS

IMAGE = spaces.Box(0, 255, (9, 8, 3), np.uint8)
VECTOR = FloatBox(-1, 1, shape=4)


class Hidden(nn.Module):
    """One hidden layer for any vector."""

    def __init__(self, shape, size=5):
        super().__init__()
        self.n_dim = len(shape)
        self.layer, self.output_size = nn.Linear(int(np.prod(shape)), size), size

    def forward(self, x):
        return torch.relu(self.layer(x.float().flatten(-self.n_dim))) + 0.1 * self.layer.bias


class Embedding(nn.Module):
    """Learned vectors of categories."""

    def __init__(self, shape, size=3):
        super().__init__()
        self.low, self.output_size = shape.low, size
        self.table = nn.Embedding(shape.sizes[0], size)

    def forward(self, x):
        return self.table(x.long() - self.low)


@pytest.mark.parametrize(
    "encoder,space",
    [
        (ImageEncoder, IMAGE),
        (dict(feature_size=4, channels=[2], kernel_sizes=[3], strides=[2]), IMAGE),
        (ImageEncoder, spaces.Box(0, 1, (3, 9, 8), np.float32)),
        (ImageEncoder, spaces.Box(0, 255, (4, 9, 8, 3), np.uint8)),
        (Hidden, VECTOR),
        (functools.partial(Hidden, size=2), spaces.MultiBinary(6)),
        (dict(kind=Hidden, size=2), VECTOR),
        (Embedding, spaces.Discrete(4, start=-2)),
    ],
)
def test_encoders_pass(encoder, space):
    assert {*check_encoder(encoder, space).passed} == {*CHECKS}


class NoSize(Hidden):
    def __init__(self, shape):
        super().__init__(shape)
        del self.output_size


class WrongSize(Hidden):
    def __init__(self, shape):
        super().__init__(shape)
        self.output_size = 6


class Flat(Hidden):
    def forward(self, x):
        return super().forward(x).reshape(-1, self.output_size)


class Double(Hidden):
    def forward(self, x):
        return super().forward(x).double()


class Constant(Hidden):
    def forward(self, x):
        return super().forward(torch.zeros_like(x))


class Mixing(Hidden):
    def forward(self, x):
        y = super().forward(x)
        return y - y.mean(0)


class AddsRowsBefore(Hidden):
    def forward(self, x):
        return super().forward(x).cumsum(0)


class Unused(Hidden):
    def __init__(self, shape):
        super().__init__(shape)
        self.more = nn.Linear(2, 2)


class Infinite(Hidden):
    def forward(self, x):
        return super().forward(x) / 0


class Forgets(Hidden):
    def __init__(self, shape):
        super().__init__(shape)
        self.scale = float(torch.rand(()))

    def forward(self, x):
        return super().forward(x) * self.scale


def unpicklable(shape, lock):
    return Hidden(shape)


@pytest.mark.parametrize(
    "encoder,check,match",
    [
        (NoSize, "construction", "attribute output_size"),
        (5, "construction", "class or function"),
        (dict(feature_size=3), "construction", "class or function"),
        (WrongSize, "shapes", r"\(5, 3, 5\), .*\(5, 3, 6\)"),
        (Flat, "shapes", "keep the leading dimensions"),
        (Double, "shapes", "dtype torch.float64"),
        (Infinite, "shapes", "not finite"),
        (functools.partial(unpicklable, lock=threading.Lock()), "pickle", "top level"),
        (Constant, "content", "use the input"),
        (Mixing, "rows", "each row by itself"),
        (AddsRowsBefore, "rows", "each row by itself"),
        (Unused, "gradients", "no gradient reaches"),
        (Forgets, "state-dict", "parameters and buffers"),
    ],
)
def test_faults_are_reported(encoder, check, match):
    with pytest.raises(ConformanceError, match=match) as caught:
        check_encoder(encoder, VECTOR)
    assert [f.check for f in caught.value.report.errors] == [check]
    if check not in ("construction", "shapes"):
        assert check_encoder(encoder, VECTOR, skip=[check]).ok
