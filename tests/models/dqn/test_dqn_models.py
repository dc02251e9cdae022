import math

import numpy as np
import pytest
import torch
from torch import nn

from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel, DistributionalHeadModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel, AtariQrDqnModel
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.dqn.implicit_quantile import ImplicitQuantileHeadModel, midpoints
from rlpyt.models.dqn.vector import (
    CatDqnMlpModel,
    DqnMlpModel,
    IqnMlpModel,
    QrDqnMlpModel,
    R2d1LstmModel,
)
from rlpyt.utils.collections import namedarraytuple

T, B, A, P = 3, 5, 4, 7
IMAGE = (2, 10, 9)
SMALL = dict(channels=[4], kernel_sizes=[3], strides=[2], paddings=[0])
Shape = namedarraytuple("Shape", ["position", "button"])

IMAGE_MODELS = {
    "dqn": (lambda **kw: AtariDqnModel(IMAGE, A, fc_sizes=8, **SMALL, **kw), (A,)),
    "cat": (lambda **kw: AtariCatDqnModel(IMAGE, A, P, fc_sizes=8, **SMALL, **kw), (A, P)),
    "qr": (lambda **kw: AtariQrDqnModel(IMAGE, A, P, fc_sizes=8, **SMALL, **kw), (A, P)),
}
VECTOR_MODELS = {
    "dqn": (lambda **kw: DqnMlpModel((3,), A, [8, 6], **kw), (A,)),
    "cat": (lambda **kw: CatDqnMlpModel((3,), A, P, hidden_sizes=[8, 6], **kw), (A, P)),
    "qr": (lambda **kw: QrDqnMlpModel((3,), A, P, hidden_sizes=[8, 6], **kw), (A, P)),
}


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("kind", IMAGE_MODELS)
def test_images_of_any_leading_dimensions(kind, dueling, lead):
    make, shape = IMAGE_MODELS[kind]
    model = make(dueling=dueling)
    image = torch.randint(0, 256, (*lead, *IMAGE), dtype=torch.uint8)
    out = model(image, None, None)
    assert out.shape == (*lead, *shape) and out.dtype == torch.float32
    if lead:
        last = model(image[-1:], None, None)
        assert torch.allclose(out[-1:], last, atol=1e-6)
    if kind == "cat":
        assert torch.allclose(out.sum(-1), torch.ones(*lead, A))


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("kind", VECTOR_MODELS)
def test_vectors_of_any_leading_dimensions(kind, dueling, lead):
    make, shape = VECTOR_MODELS[kind]
    model = make(dueling=dueling)
    out = model(torch.randn(*lead, 3), None, None)
    assert out.shape == (*lead, *shape) and out.dtype == torch.float32
    if kind == "cat":
        assert torch.allclose(out.sum(-1), torch.ones(*lead, A))


def test_original_sizes_of_the_atari_model():
    model = AtariDqnModel((4, 104, 80), 6)
    convolutions = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [32, 64, 64]
    assert [c.kernel_size[0] for c in convolutions] == [8, 4, 3]
    assert [c.stride[0] for c in convolutions] == [4, 2, 1]
    assert model.conv.output_size == 64 * 12 * 9


def test_pixels_are_scaled_to_one():
    model = AtariDqnModel(IMAGE, A, fc_sizes=8, **SMALL)
    image = torch.randint(0, 256, (B, *IMAGE), dtype=torch.uint8)
    assert torch.allclose(model(image), model(image.float()), atol=1e-6)
    assert not torch.allclose(model(image), model(image * 0), atol=1e-3)


def by_hand(model, x):
    for layer in model.model:
        x = layer(x)
    return x


def test_dueling_head_by_hand():
    head = DuelingHeadModel(3, [6], A)
    x = torch.randn(B, 3)
    advantage = head.advantage(x)
    bias = float(head.advantage_bias.data.fill_(0.7))
    assert torch.allclose(head.advantage(x), advantage + bias)
    value = by_hand(head.value, x)
    expected = value + advantage - advantage.sum(1, keepdim=True) / A
    assert torch.allclose(head(x), expected, atol=1e-6)
    assert torch.allclose(head(x).mean(1), value[:, 0], atol=1e-6)


def test_distributional_dueling_head_by_hand():
    head = DistributionalDuelingHeadModel(3, 6, A, P)
    x = torch.randn(T, B, 3)
    advantage = head.advantage(x)
    assert advantage.shape == (T, B, A, P)
    value = by_hand(head.value, x)
    for a in range(A):
        expected = value + advantage[..., a, :] - advantage.sum(2) / A
        assert torch.allclose(head(x)[..., a, :], expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_dueling_heads_scale_the_gradient_that_goes_on(scale):
    for head in (
        DuelingHeadModel(3, 6, A, grad_scale=scale),
        DistributionalDuelingHeadModel(3, 6, A, P, grad_scale=scale),
    ):
        x = torch.randn(B, 3, requires_grad=True)
        (own,) = torch.autograd.grad(head(x).square().sum(), x)
        head._grad_scale = 1
        (plain,) = torch.autograd.grad(head(x).square().sum(), x)
        assert torch.allclose(own, scale * plain, atol=1e-6)
    assert DuelingHeadModel(3, 6, A)._grad_scale == pytest.approx(0.5**0.5)


def test_distributional_head_keeps_an_actions_atoms_together():
    head = DistributionalHeadModel(3, [6], A, P)
    x = torch.randn(B, 3)
    assert torch.equal(head(x)[:, 2], head.mlp(x)[:, 2 * P : 3 * P])


def test_composite_observations_are_read_as_one_vector():
    torch.manual_seed(0)
    model = DqnMlpModel(Shape((2, 2), ()), A, dueling=True)
    observation = Shape(torch.randn(B, 2, 2), torch.randn(B))
    plain = torch.cat([observation.position.reshape(B, 4), observation.button[:, None]], 1)
    assert torch.equal(model(observation), model.head(model.trunk(plain)))


def test_implicit_quantiles_by_hand():
    head = ImplicitQuantileHeadModel(3, [6], A, n_cosines=5)
    features, tau = torch.randn(B, 3), torch.rand(B, 2)
    out = head(features, tau)
    assert out.shape == (B, A, 2)
    cosines = torch.tensor([math.cos(math.pi * i * float(tau[1, 0])) for i in range(5)])
    phi = torch.relu(head.embedding.weight @ cosines + head.embedding.bias)
    assert torch.allclose(out[1, :, 0], by_hand(head.head, features[1] * phi), atol=1e-6)
    same = head(features, tau[0])
    assert torch.allclose(same[0], out[0], atol=1e-6) and same.shape == (B, A, 2)


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
@pytest.mark.parametrize("dueling", [False, True])
def test_implicit_quantile_models(dueling, lead):
    image = torch.randint(0, 256, (*lead, *IMAGE), dtype=torch.uint8)
    models = [
        (AtariIqnModel(IMAGE, A, fc_sizes=8, dueling=dueling, **SMALL), image),
        (IqnMlpModel((3,), A, hidden_sizes=8, dueling=dueling), torch.randn(*lead, 3)),
    ]
    for model, observation in models:
        own = model(observation, None, None, torch.rand(*lead, 6))
        shared = model(observation, None, None, midpoints(6))
        assert own.shape == shared.shape == (*lead, A, 6)
    assert midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


@pytest.mark.parametrize("kwargs", [{}, dict(dueling=True, head_size=5)], ids=str)
def test_distributional_models_with_memory_go_on_from_their_state(kwargs):
    action = nn.functional.one_hot(torch.randint(A, (T, B)), A).float()
    reward, tau = torch.randn(T, B), torch.rand(T, B, P)
    image = torch.randint(0, 256, (T, B, *IMAGE), dtype=torch.uint8)
    kwargs = dict(memory="gru", lstm_size=6, **kwargs)
    models = [
        (CatDqnMlpModel((3,), A, hidden_sizes=8, n_atoms=P, **kwargs), torch.randn(T, B, 3)),
        (AtariQrDqnModel(IMAGE, A, n_quantiles=P, fc_sizes=8, **SMALL, **kwargs), image),
        (IqnMlpModel((3,), A, hidden_sizes=8, **kwargs), torch.randn(T, B, 3)),
        (AtariIqnModel(IMAGE, A, fc_sizes=8, **SMALL, **kwargs), image),
    ]
    for model, observation in models:
        implicit = isinstance(model, IqnMlpModel | AtariIqnModel)
        args = (tau,) if implicit else ()
        out, last = model(observation, action, reward, *args, None)
        assert out.shape == (T, B, A, P) and last.shape == (1, B, 6)
        state = None
        for t in range(T):
            args = (tau[t],) if implicit else ()
            own, state = model(observation[t], action[t], reward[t], *args, state)
            assert torch.allclose(own, out[t], atol=1e-6)
        assert torch.allclose(state, last, atol=1e-6)
        shared = (tau[0, 0],) if implicit else ()
        single, _ = model(observation[0, 0], action[0, 0], reward[0, 0], *shared, None)
        assert torch.allclose(single, out[0, 0], atol=1e-6)


@pytest.mark.parametrize("dueling", [False, True])
def test_recurrent_models_go_on_from_their_state(dueling):
    action = nn.functional.one_hot(torch.randint(A, (T, B)), A).float()
    reward = torch.randn(T, B)
    image = torch.randint(0, 256, (T, B, *IMAGE), dtype=torch.uint8)
    sizes = dict(fc_size=8, lstm_size=6, head_size=5, dueling=dueling)
    models = [
        (AtariR2d1Model(IMAGE, A, **sizes, **SMALL), image),
        (R2d1LstmModel((3,), A, 8, 6, 5, dueling=dueling), torch.randn(T, B, 3)),
        (R2d1LstmModel((3,), A, 8, 6, dueling=dueling), torch.randn(T, B, 3)),
    ]
    for model, observation in models:
        q, last = model(observation, action, reward)
        assert q.shape == (T, B, A) and last.h.shape == (1, B, 6)
        state = None
        for t in range(T):
            own, state = model(observation[t], action[t], reward[t], state)
            assert torch.allclose(own, q[t], atol=1e-6)
        assert torch.allclose(state.c, last.c, atol=1e-6)
        other, _ = model(observation, action, reward + 1)
        assert not torch.allclose(other, q)
        single, state = model(observation[0, 0], action[0, 0], reward[0, 0])
        assert torch.allclose(single, q[0, 0], atol=1e-6) and state.h.shape == (1, 1, 6)


@pytest.mark.parametrize("hidden", [[8, 6], [6], []])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("Model", [DqnMlpModel, CatDqnMlpModel, QrDqnMlpModel])
def test_acting_in_numpy_is_acting_in_torch(Model, dueling, hidden):
    torch.manual_seed(1)
    kwargs = {} if Model is DqnMlpModel else dict(n_atoms=P)
    if Model is QrDqnMlpModel:
        kwargs = dict(n_quantiles=P)
    model = Model((3,), A, hidden_sizes=hidden, dueling=dueling, **kwargs)
    function = model.numpy_forward()
    for B_ in (1, 5):
        x = torch.randn(B_, 3)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
            expected = model(x)
        (own,) = function(x.numpy())
        assert own.shape == expected.shape
        assert np.allclose(own, expected.numpy(), atol=1e-6)


def test_models_of_the_users_own_or_with_noise_are_left_to_torch():
    class Own(DqnMlpModel):
        def forward(self, *args):
            return super().forward(*args) + 1

    assert Own((3,), A).numpy_forward() is None
    assert DqnMlpModel((3,), A, noisy=True).numpy_forward() is None
    assert DqnMlpModel((3,), A, memory="gru").numpy_forward() is None
