"""Batch renormalization is the definition of its authors, for one network and for several."""

import pytest
import torch
from torch import nn

from rlpyt.models.ensemble import EnsembleMlp, join_members, split_members
from rlpyt.models.mlp import MlpModel
from rlpyt.models.normalization import (
    BatchNorm1d,
    BatchRenorm1d,
    batch_norms,
    make_normalization,
    running_statistics,
)
from rlpyt.utils.names import UnknownName

E, N, F = 3, 7, 4
EPS, MOMENTUM, R_MAX, D_MAX = 0.05, 0.1, 1.5, 0.7


def layer(n_members=None, columns=False, make=BatchRenorm1d, **kwargs):
    """A layer whose parameters and statistics have no special values."""
    torch.manual_seed(1)
    own = dict(warmup=2) if make is BatchRenorm1d else {}
    made = make(F, n_members, columns, **{**dict(momentum=MOMENTUM, eps=EPS), **own, **kwargs})
    with torch.no_grad():
        for x in (made.weight, made.bias, made.running_mean):
            x.normal_()
        made.running_var.uniform_(0.2, 3)
    return made


def plain(x, weight, bias, running_mean, running_var, warm, r_max=R_MAX, d_max=D_MAX):
    """Operations of CrossQ's code for x [N, F], in float64; gradients by torch."""
    mean = x.mean(0)
    var = (x**2).mean(0) - mean**2
    custom_mean, custom_var = mean, var
    if warm:
        running_std = torch.sqrt(running_var + EPS)
        r = (torch.sqrt(var + EPS) / running_std).detach().clamp(1 / r_max, r_max)
        d = ((mean - running_mean) / running_std).detach().clamp(-d_max, d_max)
        custom_var = var / r**2
        custom_mean = mean - d * torch.sqrt(var) / r
    return (x - custom_mean) / torch.sqrt(custom_var + EPS) * weight + bias, mean, var


def tensors(made, member=None):
    own = (made.weight, made.bias, made.running_mean, made.running_var)
    own = [x.detach().double().clone() for x in own]
    return own if member is None else [x[member] for x in own]


@pytest.mark.parametrize("n_batches", [1, 2], ids=["warm-up", "corrected"])
def test_outputs_gradients_and_statistics_are_the_authors(n_batches):
    made = layer(r_max=R_MAX, d_max=D_MAX)
    made.n_batches.fill_(n_batches)
    weight, bias, mean, var = tensors(made)
    x = (torch.randn(N, F) * torch.tensor([0.3, 1.0, 2.0, 9.0])).requires_grad_()
    g = torch.randn(N, F)
    for p in (weight, bias, x64 := x.detach().double()):
        p.requires_grad_()
    expected, batch_mean, batch_var = plain(x64, weight, bias, mean, var, n_batches >= 2)
    out = made(x)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    own = torch.autograd.grad((out * g).sum(), [x, made.weight, made.bias])
    right = torch.autograd.grad((expected * g).sum(), [x64, weight, bias])
    for a, b in zip(own, right):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)
    assert made.n_batches == n_batches + 1
    for running, old, new in (
        (made.running_mean, mean, batch_mean),
        (made.running_var, var, batch_var),
    ):
        moved = old + MOMENTUM * (new.detach() - old)
        torch.testing.assert_close(running.double(), moved, rtol=1e-5, atol=1e-6)
    # Within the limits the result is that of the running statistics, in the mean of a batch.
    corrected = n_batches >= 2
    wide = plain(x64, weight, bias, mean, var, True, 1e3, 1e3)[0]
    assert not torch.allclose(expected, wide) and (
        corrected or not torch.allclose(out.double(), wide)
    )


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])
@pytest.mark.parametrize("common", [True, False], ids=["common input", "own inputs"])
@pytest.mark.parametrize("kwargs", [dict(warmup=0), dict(make=BatchNorm1d)], ids=["renorm", "norm"])
def test_members_are_layers_of_their_own(columns, common, kwargs):
    made = layer(E, columns, **kwargs)
    alone = [layer(**kwargs) for _ in range(E)]
    for i, one in enumerate(alone):
        one.load_state_dict({k: x[i] for k, x in made.state_dict().items()})
    for _ in range(2):
        x = torch.randn(*(() if common else (E,)), N, F, requires_grad=True)
        out = made(x.mT if columns else x)
        out = out.mT if columns else out
        each = torch.stack([one(x if common else x[i]) for i, one in enumerate(alone)])
        torch.testing.assert_close(out, each, rtol=1e-4, atol=1e-5)
        g = torch.randn_like(out)
        torch.testing.assert_close(
            *(torch.autograd.grad((y * g).sum(), x)[0] for y in (out, each)), rtol=1e-4, atol=1e-5
        )
    for i, one in enumerate(alone):
        for k, x in made.state_dict().items():
            torch.testing.assert_close(x[i], one.state_dict()[k])
    before = made.running_mean.clone()
    rows = torch.randn(N, F)
    torch.testing.assert_close(made(rows, member=1), alone[1](rows))
    assert [torch.equal(a, b) for a, b in zip(made.running_mean, before)] == [True, False, True]
    made.eval()
    torch.testing.assert_close(made(rows, member=1), alone[1].eval()(rows))


@pytest.mark.parametrize("shape", [(F,), (N, F), (5, 2, F)])
def test_evaluation_takes_the_running_statistics_and_keeps_them(shape):
    made = layer().eval()
    before = {k: x.clone() for k, x in made.state_dict().items()}
    x = torch.randn(shape)
    weight, bias, mean, var = tensors(made)
    expected = (x.double() - mean) / torch.sqrt(var + EPS) * weight + bias
    torch.testing.assert_close(made(x).double(), expected, rtol=1e-5, atol=1e-5)
    made.train()
    with running_statistics(batch_norms(made)):
        torch.testing.assert_close(made(x).double(), expected, rtol=1e-5, atol=1e-5)
    assert made.training
    assert all(torch.equal(x, before[k]) for k, x in made.state_dict().items())
    made(x)
    assert not torch.equal(made.running_mean, before["running_mean"])


@pytest.mark.parametrize("make", [BatchNorm1d, BatchRenorm1d])
def test_any_leading_dimensions_are_one_batch(make):
    x, made, other = torch.randn(5, 2, F), layer(make=make), layer(make=make)
    torch.testing.assert_close(made(x).reshape(10, F), other(x.reshape(10, F)))
    torch.testing.assert_close(made.running_var, other.running_var)


def test_batch_normalization_is_renormalization_in_its_warm_up():
    """Outputs, gradients and statistics, also of one sample and of constant features."""
    for x in (torch.randn(N, F), torch.randn(1, F), torch.ones(N, F)):
        made, other = layer(make=BatchNorm1d), layer(warmup=9)
        x.requires_grad_()
        g, found = torch.randn(x.shape), []
        for one in (made, other):
            out = one(x)
            inputs = (x, one.weight, one.bias)
            found.append([out, *torch.autograd.grad((out * g).sum(), inputs), *one.buffers()])
        for own, right in zip(*found, strict=True):
            torch.testing.assert_close(own, right, rtol=1e-4, atol=1e-5)


def test_plain_batch_normalization_is_that_of_torch():
    made, torchs = make_normalization("batch", F), nn.BatchNorm1d(F, eps=1e-3, momentum=0.01)
    for _ in range(3):
        x = 3 + 2 * torch.randn(N, F)
        torch.testing.assert_close(made(x), torchs(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made.running_mean, torchs.running_mean)
    excess = N / (N - 1)  # torch's variance is that of samples
    moved = 1 + (made.running_var - 0.99**3) * excess - (1 - 0.99**3)
    torch.testing.assert_close(moved, torchs.running_var, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("warmup", [0, 9])
def test_features_that_are_constant_have_a_gradient_of_zero(warmup):
    x = torch.ones(N, F, requires_grad=True)
    out = layer(warmup=warmup)(x)
    (gradient,) = torch.autograd.grad((out * torch.randn(N, F)).sum(), x)
    assert torch.isfinite(out).all() and torch.isfinite(gradient).all()


@pytest.mark.parametrize("kind", ["batch", "batch_renorm"])
def test_statistics_are_float32_with_autocast(kind):
    mlp, x = EnsembleMlp(F, [16], 1, E, normalization=kind), torch.randn(N, F)
    with torch.autocast("cpu", torch.bfloat16):
        mlp(x).sum().backward()
    assert all(m.running_mean.dtype == torch.float32 for m in batch_norms(mlp))
    torch.testing.assert_close(batch_norms(mlp)[0].running_mean[0], 0.01 * x.mean(0))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_networks_in_one_are_separate_networks_in_training_too(layer_norm):
    torch.manual_seed(3)
    kwargs = dict(hidden_sizes=[6, 5], n_out=2, layer_norm=layer_norm, normalization="batch")
    joined = EnsembleMlp(F, n_members=E, **kwargs)
    other = EnsembleMlp(F, n_members=E, **kwargs)
    joined(torch.randn(N, F))
    alone = [EnsembleMlp(F, **kwargs) for _ in range(E)]
    states = split_members(joined, E)
    for member, state in zip(alone, states, strict=True):
        member.load_state_dict(state)
    join_members(other, states)
    x = torch.randn(N, F)
    out = joined(x)
    torch.testing.assert_close(out, torch.stack([m(x) for m in alone]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other(x), out, rtol=1e-4, atol=1e-5)
    for member, state in zip(alone, split_members(joined, E), strict=True):
        for k, own in member.state_dict().items():
            torch.testing.assert_close(own, state[k])
    kinds = [type(m).__name__ for m in joined.model]
    assert kinds[0] == kinds[-2] == "BatchNorm1d" and kinds[-3] == "ReLU"


@pytest.mark.parametrize("given", ["layer", dict(momentum=0.1), dict(kind=None)])
def test_unknown_kinds_are_named(given):
    with pytest.raises(UnknownName, match="batch_renorm"):
        make_normalization(given, F)


@pytest.mark.parametrize("setting", [dict(unit_weights="none"), dict(before="no")])
def test_other_placements_are_refused(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name} .*{value!r}"):
        EnsembleMlp(F, [6], 2, normalization=dict(kind="batch", **setting))
    with pytest.raises(ValueError, match=r"orthogonal_gain .*before.*1\.0"):
        MlpModel(F, [6], 2, orthogonal_gain=1.0, normalization=dict(kind="batch", before=True))


def test_settings_follow_the_kind():
    made = make_normalization(dict(kind="batch_renorm", warmup=7, momentum=0.5), F)
    assert (made.warmup, made.momentum, made.r_max, made.d_max) == (7, 0.5, 3, 5)
    assert "4, momentum=0.5" in repr(made)
