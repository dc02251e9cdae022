import copy

import pytest
import torch
from torch import nn

from rlpyt.models.utils import scale_grad, strip_ddp_state_dict, update_state_dict


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
        with pytest.raises(ValueError, match="tau must be above 0"):
            update_state_dict(model, model.state_dict(), tau=tau)


def test_strip_ddp_removes_the_prefix_once():
    stripped = strip_ddp_state_dict({"module.a": 1, "b": 2, "module.module.c": 3})
    assert stripped == {"a": 1, "b": 2, "module.c": 3}
