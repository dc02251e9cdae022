"""Layers, heads, mixtures, parameters as vectors: against torch, scipy-free formulas and loops."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from rlpyt.agents.weights import SharedWeights
from rlpyt.models.blocks import (
    CategoricalHead,
    DiagGaussianHead,
    MDNHead,
    count_parameters,
    from_vec,
    load,
    make_cnn,
    make_fc,
    make_transposed_cnn,
    ortho_init,
    save,
    to_vec,
)


def test_layers_are_as_listed():
    assert [(x.in_features, x.out_features) for x in make_fc(3, [4, 5, 6])] == [
        (3, 4),
        (4, 5),
        (5, 6),
    ]
    cnn = make_cnn(3, [16, 32], [4, 3], [2, 1], [1, 0])
    assert repr(cnn[0]) == "Conv2d(3, 16, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1))"
    assert repr(cnn[1]) == "Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1))"
    back = make_transposed_cnn(3, [16, 32], [4, 3], [2, 1], [1, 0], [1, 0])
    assert repr(back[0]) == (
        "ConvTranspose2d(3, 16, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1), "
        "output_padding=(1, 1))"
    )
    x = torch.randn(2, 3, 5, 5)
    for layer in back:
        x = layer(x)
    assert x.shape == (2, 32, 13, 13)  # (5 - 1) * 2 - 2 * 1 + 4 + 1 = 11, then 11 - 1 + 3
    for wrong in (
        lambda: make_fc(3, []),
        lambda: make_cnn(3, [16], [4, 3], [2, 1], [1, 0]),
        lambda: make_transposed_cnn(3, [16], [4], [2], [1], []),
    ):
        with pytest.raises(ValueError, match="for each layer"):
            wrong()


@pytest.mark.parametrize(
    "layer", [nn.Linear(6, 4), nn.Conv2d(2, 4, 3), nn.LSTM(4, 4, num_layers=2)]
)
def test_weights_are_orthogonal_and_biases_constant(layer):
    ortho_init(layer, nonlinearity="relu", weight_scale=100.0, constant_bias=0.5)
    for name, parameter in layer.named_parameters():
        if "bias" in name:
            assert (parameter == 0.5).all()
            continue
        weight = parameter.detach().flatten(1)
        rows, columns = weight.shape
        product = weight @ weight.t() if rows <= columns else weight.t() @ weight
        torch.testing.assert_close(product, 2 * torch.eye(min(rows, columns)))  # gain sqrt(2)
    ortho_init(layer, weight_scale=0.1)
    weight = next(layer.parameters()).detach().flatten(1)
    assert math.isclose(torch.linalg.matrix_norm(weight, 2).item(), 0.1, rel_tol=1e-4)


def test_a_module_without_weights_of_its_own_is_refused():
    with pytest.raises(ValueError, match="ortho_init"):
        ortho_init(nn.Sequential(nn.Linear(2, 2)))


def test_categorical_head_gives_probabilities():
    head = CategoricalHead(30, 4, "cpu")
    x = torch.randn(5, 3, 30)
    pi = head(x)
    assert pi.shape == (5, 3, 4) and pi.dtype == torch.float32
    torch.testing.assert_close(pi.sum(-1), torch.ones(5, 3))
    assert (pi - 0.25).abs().max() < 0.05  # undecided at first
    torch.testing.assert_close(head.distribution(x).probs, pi)


def test_gaussian_head_starts_with_the_deviation_asked_for():
    head = DiagGaussianHead(10, 4, "cpu", 0.45)
    mean, log_std = head(torch.randn(2, 10))
    assert mean.shape == log_std.shape == (2, 4)
    torch.testing.assert_close(log_std.exp(), torch.full((2, 4), 0.45))
    distribution = head.distribution(torch.randn(2, 10))
    torch.testing.assert_close(distribution.base_dist.stddev, torch.full((2, 4), 0.45))
    distribution.log_prob(torch.zeros(2, 4)).sum().backward()
    assert head.log_std.grad is not None
    with pytest.raises(ValueError, match="std0"):
        DiagGaussianHead(10, 4, std0=0.0)


def mixture(N=5, K=3, D=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logit_pi, mean, raw = (torch.randn(N, K, D, generator=generator) for _ in range(3))
    return logit_pi, mean, raw.exp(), torch.randn(N, D, generator=generator)


def test_mixture_loss_is_its_formula():
    logit_pi, mean, std, target = (x.double() for x in mixture())
    pi = logit_pi.softmax(1)
    total = 0.0
    for n in range(5):
        likelihood = 0.0
        for k in range(3):
            product = 1.0
            for d in range(2):
                z = (target[n, d] - mean[n, k, d]) / std[n, k, d]
                density = math.exp(-(z**2) / 2) / (std[n, k, d] * math.sqrt(2 * math.pi))
                product *= pi[n, k, d] * density
            likelihood += product
        total += math.log(likelihood)
    assert math.isclose(MDNHead.loss(logit_pi, mean, std, target).item(), -total / 5, rel_tol=1e-9)


def test_with_one_component_the_loss_is_the_likelihood_of_torchs_mixture():
    logit_pi, mean, std, target = mixture(D=1)
    component = torch.distributions.Normal(mean[..., 0], std[..., 0])
    weights = torch.distributions.Categorical(logits=logit_pi[..., 0])
    expected = torch.distributions.MixtureSameFamily(weights, component).log_prob(target[:, 0])
    torch.testing.assert_close(MDNHead.loss(logit_pi, mean, std, target), -expected.mean())


def test_mixture_loss_stays_finite_far_away():
    logit_pi, mean, std, _ = mixture()
    logit_pi.requires_grad_()
    loss = MDNHead.loss(logit_pi, mean, std, torch.full((5, 2), 1e4))
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(logit_pi.grad).all()
    with pytest.raises(ValueError, match="target"):
        MDNHead.loss(logit_pi, mean, std, torch.zeros(5, 3))


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_mixture_samples_have_its_moments(tau):
    torch.manual_seed(0)
    logit_pi = torch.tensor([[[0.0, 1.0], [1.0, -1.0]]])  # [1, K=2, D=2]
    mean = torch.tensor([[[-2.0, 0.0], [3.0, 5.0]]])
    std = torch.tensor([[[0.5, 1.0], [1.0, 2.0]]])
    many = [x.expand(200_000, 2, 2) for x in (logit_pi, mean, std)]
    x = MDNHead.sample(*many, tau=tau).double()
    pi = (logit_pi / tau).softmax(1)
    expected = (pi * mean).sum(1)[0]
    second = (pi * (mean**2 + std**2 * tau)).sum(1)[0]
    torch.testing.assert_close(x.mean(0), expected.double(), atol=0.02, rtol=0)
    torch.testing.assert_close(x.var(0), (second - expected**2).double(), rtol=0.02, atol=0)
    with pytest.raises(ValueError, match="tau"):
        MDNHead.sample(*many, tau=0.0)


def test_mixture_learns_two_branches():
    """y is +1 or -1 whatever x: one Gaussian has density 0.24 there, two narrow ones much more."""
    torch.manual_seed(0)
    head = MDNHead(1, 1, num_density=2)
    y = torch.randint(2, (256, 1)).float() * 2 - 1
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = head.loss(*head(torch.ones(256, 1)), y)
        loss.backward()
        optimizer.step()
    assert loss < 0.0  # one Gaussian: 1.42
    x = head.sample(*head(torch.ones(1000, 1)))
    assert ((x.abs() - 1).abs() < 0.4).float().mean() > 0.95
    assert 0.35 < (x > 0).float().mean() < 0.65


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_parameters_go_into_a_vector_and_back():
    one, other = model(), model()
    vector = to_vec(one)
    assert vector.shape == (3 * 4 + 4 + 4 + 4 + 4 * 2 + 2,) and not vector.requires_grad
    torch.testing.assert_close(vector[:12], one[0].weight.detach().flatten())
    from_vec(other, vector.double())
    x = torch.randn(6, 3)
    torch.testing.assert_close(other(x), one(x))
    vector.zero_()
    assert one[0].weight.abs().sum() > 0  # it was a copy
    with pytest.raises(ValueError, match="34 parameters"):
        from_vec(one, torch.zeros(33))


def test_parameters_in_shared_memory_stay_there():
    master, worker = model(), model()
    weights = SharedWeights(master)
    weights.bind(master)
    weights.bind(worker)
    from_vec(master, torch.arange(34.0))
    torch.testing.assert_close(to_vec(worker), torch.arange(34.0))


def test_parameters_are_counted():
    net = model()
    net[0].weight.requires_grad_(False)
    assert count_parameters(net) == 34
    assert count_parameters(net, trainable=True) == 22
    assert count_parameters(net, trainable=False) == 12


def test_models_are_saved_and_loaded(tmp_path):
    one, other = model(), model()
    one(torch.randn(8, 3))  # moves the statistics, which are buffers
    one[2].weight = one[2].weight
    save(one, tmp_path / "model.safetensors")
    load(other, tmp_path / "model.safetensors")
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], tensor)
    with pytest.raises(RuntimeError):
        load(nn.Linear(3, 3), tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError):
        load(other, tmp_path / "nowhere.safetensors")


def test_numbers_in_place_of_lists_are_refused():
    with pytest.raises(TypeError, match="hidden_sizes=64"):
        make_fc(3, 64)
    with pytest.raises(TypeError, match="strides=2"):
        make_cnn(3, [8], [3], 2, [0])
    with pytest.raises(ValueError, match="input_dim"):
        make_fc(0, [64])


def test_vectors_of_numpy_become_parameters():
    model = nn.Linear(2, 1)
    from_vec(model, np.array([1.0, 2.0, 3.0]))
    assert to_vec(model).tolist() == [1.0, 2.0, 3.0]


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "model").write_text("no tensors")
    with pytest.raises(ValueError, match="model .*safetensors"):
        load(nn.Linear(2, 1), tmp_path / "model")
