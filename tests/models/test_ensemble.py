"""An ensemble evaluated as one is its members evaluated one by one."""

import pytest
import torch
from torch import nn

from rlpyt.models.ensemble import (
    Dropout,
    Ensemble,
    EnsembleLayerNorm,
    EnsembleLinear,
    EnsembleMlp,
    join_members,
    split_members,
)

E, N = 3, 5
FORMS = {
    "plain": {},
    "linear": dict(hidden_sizes=[]),
    "normalised": dict(layer_norm=True),
    "dropout": dict(dropout=0.3, layer_norm=True),
    "tanh": dict(nonlinearity=nn.Tanh),
}


def both(form):
    """An ensemble with parameters of no special values, and its members by themselves."""
    torch.manual_seed(2)
    arguments = {**dict(n_in=4, hidden_sizes=[6, 7], n_out=2), **FORMS[form]}
    joined = EnsembleMlp(n_members=E, **arguments)
    with torch.no_grad():
        for p in joined.parameters():
            p.add_(0.2 * torch.randn_like(p))
    alone = [EnsembleMlp(**arguments) for _ in range(E)]
    for member, state in zip(alone, split_members(joined, E), strict=True):
        member.load_state_dict(state)
    assert not any(isinstance(m, EnsembleLinear) for net in alone for m in net.modules())
    return joined.eval(), [member.eval() for member in alone]


@pytest.mark.parametrize("form", FORMS)
def test_outputs_and_gradients_are_those_of_separate_networks(form):
    joined, alone = both(form)
    x = torch.randn(N, 4, requires_grad=True)
    y = torch.randn(E, N, 2)
    out = joined(x)
    torch.testing.assert_close(out, torch.stack([member(x) for member in alone]))
    (gradient,) = torch.autograd.grad(((out - y) ** 2).sum(), x, retain_graph=True)
    ((out - y) ** 2).sum().backward()
    expected = torch.zeros_like(x)
    for i, member in enumerate(alone):
        loss = ((member(x) - y[i]) ** 2).sum()
        expected += torch.autograd.grad(loss, x, retain_graph=True)[0]
        loss.backward()
        for p, own in zip(joined.parameters(), member.parameters(), strict=True):
            torch.testing.assert_close(p.grad[i], own.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_one_member_alone(form):
    joined, alone = both(form)
    x = torch.randn(N, 4)
    for i, member in enumerate(alone):
        out = joined(x, member=i)
        torch.testing.assert_close(out, member(x))
        out.sum().backward()
        for p in joined.parameters():
            others = [k for k in range(E) if k > i]
            assert (p.grad[others] == 0).all()


def test_every_member_has_inputs_of_its_own():
    layer, norm = EnsembleLinear(E, 4, 2, rows=True), EnsembleLayerNorm(E, 4)
    columns = EnsembleLinear(E, 4, 2)
    columns.load_state_dict(layer.state_dict())
    x = torch.randn(E, N, 4)
    out = layer(norm(x))
    torch.testing.assert_close(columns(norm(x).mT).mT, out)
    for i in range(E):
        normal = (x[i] - x[i].mean(-1, keepdim=True)) / (
            x[i].var(-1, correction=0, keepdim=True) + 1e-5
        ).sqrt()
        plain = normal @ layer.weight[i].T + layer.bias[i]
        torch.testing.assert_close(out[i], plain, rtol=1e-4, atol=1e-5)
    assert "3 x (4 -> 2)" in repr(layer)


def test_members_begin_apart_as_linear_layers_do():
    torch.manual_seed(0)
    layer = EnsembleLinear(4, 100, 50)
    bound = 0.1  # 1 / sqrt(100), torch's for both
    for tensor in (layer.weight, layer.bias):
        flat = tensor.detach().flatten(1)
        assert flat.abs().max() <= bound and flat.std().item() == pytest.approx(
            bound / 3**0.5, rel=0.1
        )
    assert not torch.equal(layer.weight[0], layer.weight[1])


def test_dropout_drops_in_training_only():
    joined, _ = both("dropout")
    x = torch.randn(N, 4)
    assert torch.equal(joined(x), joined(x))
    joined.train()
    assert not torch.equal(joined(x), joined(x))


@pytest.mark.parametrize("shape", [(3, 41, 257), (2, 3)])
def test_dropout_keeps_the_mean_and_passes_gradients_of_what_it_kept(shape):
    torch.manual_seed(3)
    x = torch.full(shape, 2.0, requires_grad=True)
    out = Dropout(0.25)(x)
    out.sum().backward()
    kept = out != 0
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 2 / 0.75))
    torch.testing.assert_close(x.grad, kept / 0.75)
    if x.numel() > 1000:  # five deviations of the share that is kept
        assert kept.double().mean() == pytest.approx(0.75, abs=5 * (0.1875 / x.numel()) ** 0.5)
        neighbours = (kept[..., 1:] & kept[..., :-1]).double().mean()
        assert neighbours == pytest.approx(0.75**2, abs=0.02)
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.25)(x.detach()), out)


@pytest.mark.parametrize("p", [0.0, 0.99, 1.0])
def test_dropout_of_nothing_and_of_nearly_all(p):
    out = Dropout(p)(torch.ones(1000))
    assert (out != 0).double().mean() == pytest.approx(1 - p, abs=0.02)


class Sum(nn.Module):
    """A user's model, of two inputs."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(()))

    def forward(self, a, b):
        return self.w * (a + b).sum(-1)


def test_models_of_any_class_are_stacked():
    ensemble = Ensemble(Sum, E)
    a, b = torch.randn(2, N, 4)
    out = ensemble(a, b)
    weights = [member.w for member in ensemble.members]
    assert len({float(w.detach()) for w in weights}) == E
    torch.testing.assert_close(out, torch.stack([w * (a + b).sum(-1) for w in weights]))
    assert torch.equal(ensemble(a, b, member=1), out[1])


@pytest.mark.parametrize("make", [lambda: EnsembleMlp(4, [6], 2, E), lambda: Ensemble(Sum, E)])
def test_states_come_apart_and_together_again(make):
    first, second = make(), make()
    states = split_members(first, E)
    assert len(states) == E
    join_members(second, states)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b) and a.data_ptr() != b.data_ptr()
    with pytest.raises((ValueError, RuntimeError)):
        join_members(second, states[:2])
