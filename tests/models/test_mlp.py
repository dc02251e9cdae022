import copy

import pytest
import torch
from torch import nn

from rlpyt.models.layers import Layers
from rlpyt.models.mlp import MlpModel

IN = 5


@pytest.mark.parametrize(
    ("hidden_sizes", "output_size", "expected"),
    [([7, 6], 3, [(7, 5), (6, 7), (3, 6)]), (7, None, [(7, 5)]), ([], 2, [(2, 5)])],
)
def test_layers_and_output_size(hidden_sizes, output_size, expected):
    model = MlpModel(IN, hidden_sizes, output_size)
    assert [tuple(p.shape) for p in model.parameters() if p.dim() == 2] == expected
    assert model.output_size == expected[-1][0]
    assert model(torch.zeros(4, IN)).shape == (4, expected[-1][0])


def test_nonlinearity_follows_hidden_layers_only():
    model = MlpModel(IN, [4], None, nn.Tanh)
    assert (model(100 * torch.randn(8, IN)).abs() <= 1).all()
    linear = MlpModel(IN, [], 2)
    x = torch.randn(3, IN)
    torch.testing.assert_close(linear(2 * x) - linear(x), linear(x) - linear(0 * x))


def test_no_layer_at_all_is_refused():
    with pytest.raises(ValueError, match="leave no layer"):
        MlpModel(IN, [])


@pytest.mark.parametrize("nonlinearity", [nn.Tanh, nn.ReLU, nn.Sigmoid, nn.Identity, nn.ELU])
def test_shortcut_equals_the_modules(nonlinearity):
    model = MlpModel(IN, [7, 6], 3, nonlinearity)
    for lead in ((), (4,), (2, 3)):
        x = torch.randn(*lead, IN)
        assert torch.equal(model(x), nn.Sequential(*model.model)(x))


def test_shortcut_respects_hooks_and_parametrizations():
    model, seen, x = MlpModel(IN, [4], 2), [], torch.randn(3, IN)
    plain = model(x)
    handle = model.model[1].register_forward_hook(lambda module, args, out: seen.append(out))
    model(x)
    assert len(seen) == 1
    handle.remove()
    handle = model.model.register_forward_hook(lambda module, args, out: 2 * out)
    torch.testing.assert_close(model(x), 2 * plain)
    handle.remove()
    handle = model.model[0].register_full_backward_pre_hook(lambda module, grads: (0 * grads[0],))
    model(x).sum().backward()
    assert not model.model[0].weight.grad.any() and model.model[2].weight.grad.any()
    handle.remove()
    model.model[0].register_forward_pre_hook(lambda module, args: (2 * args[0],))
    torch.testing.assert_close(model(x), plain_of(model, 2 * x))
    model.model[1].forward = lambda input: 3 * input
    torch.testing.assert_close(model(x), plain_of(model, 2 * x))
    normed = nn.utils.parametrizations.weight_norm(copy.deepcopy(MlpModel(IN, [], 2)).model[0])
    torch.testing.assert_close(Layers(normed)(x), normed(x))
    assert not torch.equal(model(x), plain)


def plain_of(model, x):
    first, act, last = model.model
    h = act(nn.functional.linear(x, first.weight, first.bias))
    return last(h)


def test_shortcut_takes_swapped_parameters():
    """``functional_call`` evaluates other parameters without copying the model."""
    model, other, x = MlpModel(IN, [4], 2), MlpModel(IN, [4], 2), torch.randn(3, IN)
    result = torch.func.functional_call(model, dict(other.named_parameters()), (x,))
    assert torch.equal(result, other(x))


def test_compiles_without_a_graph_break():
    model, x = MlpModel(IN, [4], 2, nn.Tanh), torch.randn(3, IN)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))


def test_orthogonal_initialisation():
    model = MlpModel(64, [32], 4, nn.Tanh, orthogonal_gain=0.01)
    hidden, output = model.model[0], model.model[2]
    torch.testing.assert_close(hidden.weight @ hidden.weight.T, 2 * torch.eye(32))
    torch.testing.assert_close(output.weight @ output.weight.T, 1e-4 * torch.eye(4))
    assert (hidden.bias == 0).all()
    assert (output.bias == 0).all()
