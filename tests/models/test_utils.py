import copy

import pytest
import torch
from torch import nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.ensemble import EnsembleMlp
from rlpyt.models.mlp import MlpModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.utils import (
    nonlinearity_class,
    scale_grad,
    strip_ddp_state_dict,
    update_state_dict,
)
from rlpyt.utils.names import UnknownName


def test_scale_grad_scales_only_the_gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = scale_grad(x, 0.25)
    assert torch.equal(y, x)
    (y * torch.tensor([1.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [0.25, 0.75]


def make_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_hard_update_copies_all():
    model, other = make_model(0), make_model(1)
    other[1].num_batches_tracked += 5
    update_state_dict(model, other.state_dict())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])


def test_soft_update_moves_a_part_of_the_way_in_place():
    model, other = make_model(0), make_model(1)
    before, address = copy.deepcopy(model.state_dict()), model[0].weight.data_ptr()
    other[1].num_batches_tracked += 5
    wrapped = {f"module.{k}": v for k, v in other.state_dict().items()}
    update_state_dict(model, wrapped, tau=0.25)
    for name in ("0.weight", "0.bias", "1.running_var"):
        expected = 0.25 * other.state_dict()[name] + 0.75 * before[name]
        torch.testing.assert_close(model.state_dict()[name], expected)
    assert model[1].num_batches_tracked == 5
    assert model[0].weight.data_ptr() == address
    assert model[0].weight.requires_grad


def test_update_refuses_other_structures_and_bad_tau():
    model = make_model(0)
    with pytest.raises(RuntimeError, match="keys"):
        update_state_dict(model, nn.Linear(3, 2).state_dict(), tau=0.5)
    for tau in (0, 1.5):
        with pytest.raises(ValueError, match="^tau "):
            update_state_dict(model, model.state_dict(), tau=tau)


def test_strip_ddp_removes_the_prefix_once():
    stripped = strip_ddp_state_dict({"module.a": 1, "b": 2, "module.module.c": 3})
    assert stripped == {"a": 1, "b": 2, "module.c": 3}


@pytest.mark.parametrize("name", ["ReLU", "Tanh", "SiLU", "GELU", "ELU", "Identity", "PReLU"])
def test_nonlinearities_have_their_names_in_torch(name):
    assert nonlinearity_class(name) is getattr(nn, name)
    assert nonlinearity_class(getattr(nn, name)) is getattr(nn, name)


def test_every_nonlinearity_with_a_name_is_a_function_of_one_number():
    with pytest.raises(UnknownName) as error:
        nonlinearity_class("")
    names = str(error.value).partition("Known: ")[2].rstrip(".").split(", ")
    assert {"LeakyReLU", "Mish", "Softplus"} < {*names}
    for name in names:
        x = torch.tensor([[-1.0, 0.5, 2.0]])
        module = nonlinearity_class(name)().eval()
        torch.testing.assert_close(module(x)[0, 1:], module(x[0, 1:]))


@pytest.mark.parametrize(
    "nonlinearity, error, message",
    [
        ("relu", UnknownName, "nonlinearity 'relu'; .*'ReLU'"),
        ("Softmax", UnknownName, "nonlinearity 'Softmax'"),
        (nn.ReLU(), TypeError, "nonlinearity .*got ReLU"),
        (3, TypeError, "nonlinearity .*got 3"),
    ],
)
def test_other_nonlinearities_are_refused(nonlinearity, error, message):
    with pytest.raises(error, match=message):
        MlpModel(3, [4], 2, nonlinearity)


def test_all_networks_take_names_of_nonlinearities():
    conv = Conv2dHeadModel((1, 6, 6), [2], [3], [1], 4, nonlinearity="ELU")
    names = dict(hidden_nonlinearity="ELU", mu_nonlinearity="ELU")
    for model in (conv, EnsembleMlp(3, [4], 2, 2, "ELU"), MujocoFfModel((3,), 2, [4], **names)):
        kinds = {type(m) for m in model.modules()}
        assert nn.ELU in kinds and not kinds & {nn.ReLU, nn.Tanh}
