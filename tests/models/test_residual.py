"""MLPs of residual blocks are those of SimBa and BRO, for one network and for several."""

import pytest
import torch
from torch import nn

from rlpyt.models.ensemble import EnsembleMlp, split_members
from rlpyt.models.mlp import MlpModel
from rlpyt.models.qpg.mlp import PiMlpModel
from rlpyt.models.unit_norm import project, unit_vectors
from rlpyt.utils.names import UnknownName

E, N, F, H = 3, 5, 4, 6


def norm(x, weight, bias):
    """flax's LayerNorm."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-6) * weight + bias


def simba(p, x):
    """Two blocks, by the order of parameters in SimBa's code."""
    x = x @ p().T + p()
    for _ in range(2):
        y = norm(x, p(), p())
        y = (y @ p().T + p()).clamp(min=0)
        x = x + y @ p().T + p()
    x = norm(x, p(), p())
    return x @ p().T + p()


def bro(p, x):
    x = norm(x @ p().T + p(), p(), p()).clamp(min=0)
    for _ in range(2):
        y = norm(x @ p().T + p(), p(), p()).clamp(min=0)
        x = x + norm(y @ p().T + p(), p(), p())
    return x @ p().T + p()


def flashsac(p, x):
    """Two blocks, in training mode, by the order of parameters in FlashSAC's code."""

    def batch_norm(x, weight, bias):
        return (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt() * weight + bias

    x = batch_norm(x, p(), p()) @ p().T
    for _ in range(2):
        y = batch_norm(x @ p().T, p(), p()).clamp(min=0)
        x = x + batch_norm(y @ p().T, p(), p()).clamp(min=0)
    x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * p()
    return x @ p().T + p()


def xqc(p, x):
    """Two layers of XQC's critic, in training mode, by the order of parameters in its code."""

    def batch_norm(x, weight, bias):
        return (x - x.mean(0)) / (x.var(0, correction=0) + 1e-3).sqrt() * weight + bias

    x = batch_norm(x, p(), p())
    for _ in range(2):
        x = batch_norm(x @ p().T, p(), p()).clamp(min=0)
    return x @ p().T + p()


XQC = dict(normalization=dict(kind="batch", before=True, unit_weights="all"))
KINDS = [(dict(residual=plain.__name__), plain) for plain in (simba, bro, flashsac)] + [(XQC, xqc)]


def shaken(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model


@pytest.mark.parametrize("kwargs, plain", KINDS)
@pytest.mark.parametrize("make", [MlpModel, EnsembleMlp])
def test_outputs_and_gradients_are_their_definition(make, kwargs, plain):
    model, x = shaken(make(F, [H, H], 2, **kwargs)), torch.randn(N, F)
    own = [p.detach().double().requires_grad_() for p in model.parameters()]
    expected, out = plain(iter(own).__next__, x.double()), model(x)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    (out**2).sum().backward()
    for p, right in zip(
        model.parameters(), torch.autograd.grad((expected**2).sum(), own), strict=True
    ):
        torch.testing.assert_close(p.grad.double(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kwargs", [kwargs for kwargs, _ in KINDS])
def test_networks_in_one_are_separate_networks(kwargs):
    joined, x = shaken(EnsembleMlp(F, [H, H], 2, E, **kwargs)), torch.randn(N, F)
    out = joined(x)
    for i, state in enumerate(split_members(joined, E)):
        alone = EnsembleMlp(F, [H, H], 2, **kwargs)
        alone.load_state_dict(state)
        torch.testing.assert_close(out[i], alone(x), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(joined(x, member=i), alone(x), rtol=1e-4, atol=1e-5)


def test_initial_weights_are_those_of_the_paper():
    torch.manual_seed(0)
    model = EnsembleMlp(8, [64], 64, 2, residual="simba")
    first, block, _, last = model.model
    up, down = block.model[1], block.model[3]
    for layer in (first, last):
        for weight in layer.weight:
            rows = weight.T @ weight if layer is first else weight @ weight.T
            torch.testing.assert_close(rows, torch.eye(len(rows)), rtol=0, atol=1e-5)
    for layer, fan_in in ((up, 64), (down, 256)):
        std = (2 / fan_in) ** 0.5
        assert layer.weight.std().item() == pytest.approx(std, rel=0.03)
        assert layer.weight.abs().max() <= 2 * std / 0.8796
        assert not torch.equal(*layer.weight)
    assert not any(x.bias.any() for x in (first, up, down, last))


@pytest.mark.parametrize("residual", ["simba", "flashsac"])
def test_policies_of_blocks_act_in_torch(residual):
    model = PiMlpModel((F,), [H], 2, residual=residual)
    assert model.numpy_forward() is None
    assert model(torch.randn(N, F))[0].shape == (N, 2)


@pytest.mark.parametrize(
    "kwargs, error, message",
    [
        (dict(residual="resnet"), UnknownName, "simba"),
        (dict(residual=True), UnknownName, "unknown residual True.* simba"),
        (dict(hidden_sizes=[H, H + 1]), ValueError, "one width"),
        (dict(hidden_sizes=[], n_out=2), ValueError, "one width"),
        (dict(layer_norm=True), ValueError, "layer_norm"),
        (dict(normalization="batch"), ValueError, "normalization"),
        (dict(dropout=0.1), ValueError, "dropout"),
    ],
)
def test_what_does_not_fit_is_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        EnsembleMlp(F, **{**dict(hidden_sizes=[H], n_out=2, residual="simba"), **kwargs})


def lengths(model):
    return torch.cat([
        torch.stack([x.square().sum(-1) for x in v.tensors]).sum(0).sqrt().flatten() / v.length
        for v in unit_vectors(model)
    ])  # fmt: skip


def test_weights_and_scales_of_flashsac_have_constant_lengths():
    model = EnsembleMlp(F, [H, H], 2, E, residual="flashsac")
    kept = [id(x) for v in unit_vectors(model) for x in v.tensors]
    others = [name for name, p in model.named_parameters() if id(p) not in kept]
    assert others == ["model.5.bias"]
    assert len(lengths(model)) == E * (1 + H + 2 * (4 * H + 1 + H + 1) + 1 + 2)
    assert (lengths(model) - 1).abs().max() < 1e-5
    shaken(model)
    up, scale = (model.model[2].model[i].weight.detach().clone() for i in (0, 1))
    assert (lengths(model) - 1).abs().max() > 0.1
    bias = model.model[2].model[1].bias.detach().clone()
    project(unit_vectors(model))
    up_now, scale_now = (model.model[2].model[i].weight for i in (0, 1))
    torch.testing.assert_close(up_now, up / up.norm(dim=-1, keepdim=True))
    both = torch.cat([scale, bias], 1).norm(dim=-1, keepdim=True)
    torch.testing.assert_close(scale_now, scale / both * (4 * H) ** 0.5)


@pytest.mark.parametrize("make", [MlpModel, EnsembleMlp])
def test_weights_before_a_normalization_and_of_the_output_can_have_length_1(make):
    shapes = [(H, F), (H, H), (2, H)]
    for unit_weights, expected in ((True, shapes[:2]), ("all", shapes)):
        normalization = dict(kind="batch", unit_weights=unit_weights)
        found = unit_vectors(make(F, [H, H], 2, normalization=normalization))
        assert [(tuple(v.tensors[0].shape), v.length) for v in found] == [
            (shape, 1.0) for shape in expected
        ]
    assert not unit_vectors(make(F, [H, H], 2, normalization="batch"))


def test_without_an_output_layer_the_last_block_is_the_output():
    model = MlpModel(F, [H], nonlinearity=nn.Tanh, residual="simba")
    assert model.output_size == H and model(torch.randn(2, 3, F)).shape == (2, 3, H)
