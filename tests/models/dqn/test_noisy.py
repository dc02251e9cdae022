import copy

import pytest
import torch
from torch import nn

from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.noisy import NoisyLinear, make_noisy, noisy_layers, set_row_noise, signed_sqrt
from rlpyt.models.dqn.vector import CatDqnMlpModel, DqnMlpModel, IqnMlpModel

B = 6


def noisy_output(layer, x, e_in, e_out):
    """y = (M + S * f f^T) x + m + s * f, with the matrices laid out."""
    f_in, f_out = signed_sqrt(e_in), signed_sqrt(e_out)
    weight = layer.weight + layer.weight_sigma * torch.outer(f_out, f_in)
    bias = layer.bias + layer.bias_sigma * f_out
    return weight @ x + bias


def test_signed_sqrt():
    assert signed_sqrt(torch.tensor([-4.0, 0.0, 9.0])).tolist() == [-2.0, 0.0, 3.0]


def test_training_draws_one_noise_for_the_batch():
    layer = NoisyLinear(4, 3)
    x = torch.randn(B, 4)
    torch.manual_seed(2)
    out = layer(x)
    torch.manual_seed(2)
    e_in, e_out = torch.randn(4), torch.randn(3)
    for b in range(B):
        assert torch.allclose(out[b], noisy_output(layer, x[b], e_in, e_out), atol=1e-6)
    assert not torch.allclose(layer(x), out)
    layer.eval()
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_initial_values_are_those_of_the_paper():
    torch.manual_seed(0)
    layer = NoisyLinear(100, 50)
    assert layer.weight.abs().max() <= 0.1 and layer.weight.abs().max() > 0.099
    assert torch.allclose(layer.weight_sigma, torch.full((50, 100), 0.05))
    assert torch.allclose(layer.bias_sigma, torch.full((50,), 0.05))


@pytest.mark.parametrize("bias", [True, False])
def test_rows_have_their_own_noise_whatever_other_rows_there_are(bias):
    layer = NoisyLinear(4, 3, bias=bias).eval()
    x, u = torch.randn(1, 4).expand(B, 4), torch.rand(B)
    u[3] = u[0]
    set_row_noise([layer], u)
    out = layer(x)
    assert torch.equal(out[3], out[0])
    assert len({tuple(row) for row in out.tolist()}) == B - 1
    set_row_noise([layer], u[2:4])
    assert torch.allclose(layer(x[2:4]), out[2:4], atol=1e-6)
    set_row_noise([layer], None)
    assert torch.allclose(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_row_noise_is_standard_normal_before_the_square_root():
    layer = NoisyLinear(200, 100).eval()
    set_row_noise([layer], torch.rand(50))
    f = torch.cat(layer.row_noise, 1)
    assert abs(float(f.mean())) < 0.03
    assert abs(float((f.abs() ** 4).mean()) - 1) < 0.1  # E e^2


def test_one_row_may_lack_its_dimension():
    layer, x = NoisyLinear(3, 4).eval(), torch.randn(3)
    set_row_noise([layer], torch.rand(1))
    assert layer(x).shape == (4,) and torch.equal(layer(x), layer(x[None])[0])


def test_linear_layers_are_replaced_where_asked():
    model = make_noisy(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)))
    assert [type(m) for m in model] == [NoisyLinear, nn.ReLU, NoisyLinear]
    assert model[0].bias is not None and model[2].bias is None
    assert noisy_layers(model) == [model[0], model[2]] and noisy_layers(None) == []


@pytest.mark.parametrize("dueling", [False, True])
def test_noisy_models_explore_and_learn_their_noise(dueling):
    image = torch.randint(0, 256, (B, 2, 10, 9), dtype=torch.uint8)
    small = dict(channels=[4], kernel_sizes=[3], strides=[2], paddings=[0], fc_sizes=8)
    kwargs = dict(noisy=True, dueling=dueling)
    cases = [
        (DqnMlpModel((3,), 4, **kwargs), (torch.randn(B, 3),)),
        (CatDqnMlpModel((3,), 4, 5, **kwargs), (torch.randn(B, 3),)),
        (AtariCatDqnModel((2, 10, 9), 4, 5, **small, **kwargs), (image,)),
        (IqnMlpModel((3,), 4, **kwargs), (torch.randn(B, 3), None, None, torch.rand(B, 7))),
    ]
    for model, inputs in cases:
        layers = noisy_layers(model)
        assert len(layers) == (4 if dueling else 2)
        assert not torch.allclose(model(*inputs), model(*inputs))
        model(*inputs).square().sum().backward()
        assert all(layer.weight_sigma.grad.abs().sum() > 0 for layer in layers)
        model.eval()
        mean = model(*inputs)
        assert torch.equal(mean, model(*inputs))
        set_row_noise(layers, torch.linspace(0, 0.9, B))
        noisy = model(*inputs)
        assert not torch.allclose(noisy, mean) and torch.equal(noisy, model(*inputs))


def test_noisy_layers_travel_like_others():
    model = DqnMlpModel((3,), 4, noisy=True)
    other = copy.deepcopy(model)
    other.load_state_dict(model.state_dict())
    x = torch.randn(B, 3)
    assert torch.equal(model.eval()(x), other.eval()(x))
