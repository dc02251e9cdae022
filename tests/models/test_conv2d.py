import pytest
import torch
from torch import nn

from rlpyt.models.conv2d import Conv2dHeadModel, Conv2dModel
from rlpyt.models.utils import conv2d_output_shape

ARGS = dict(channels=[4, 6], kernel_sizes=[3, 2], strides=[2, 1])
IMAGE = (2, 13, 11)


@pytest.mark.parametrize("use_maxpool", [False, True])
@pytest.mark.parametrize("paddings", [None, [0, 1]])
@pytest.mark.parametrize("final", [True, False])
def test_conv_out_size_is_what_comes_out(use_maxpool, paddings, final):
    settings = dict(paddings=paddings, use_maxpool=use_maxpool, final_nonlinearity=final)
    model = Conv2dModel(2, **ARGS, **settings)
    out = model(torch.randn(3, *IMAGE))
    assert model.conv_out_size(*IMAGE[1:]) == out[0].numel()
    assert model.conv_out_shape(*IMAGE[1:]) == out[0].shape
    assert (out.min() >= 0) == final and [type(m) for m in model.conv].count(nn.ReLU) == 1 + final
    pools = [m for m in model.modules() if isinstance(m, nn.MaxPool2d)]
    assert len(pools) == use_maxpool  # only the layer with a stride is pooled


def test_channels_last_in_training_changes_no_number():
    model = Conv2dModel(2, **ARGS)
    memory = []
    model.conv[0].register_forward_hook(lambda layer, args, out: memory.append(out.stride(1)))
    x = torch.randn(3, *IMAGE)
    training = model(x)
    with torch.no_grad():
        acting = model(x)
    assert memory[0] == 1 < memory[1]
    assert training.is_contiguous() and acting.is_contiguous()
    torch.testing.assert_close(training, acting)
    torch.testing.assert_close(training, model.conv(x))
    training.view(3, -1).sum().backward()  # as models for rlpyt do
    assert all(p.grad.is_contiguous() for p in model.parameters())


def test_head_reads_features_in_the_same_order_either_way():
    model = Conv2dHeadModel(IMAGE, **ARGS, hidden_sizes=[8], output_size=3)
    x = torch.randn(4, *IMAGE)
    with torch.no_grad():
        acting = model(x)
    torch.testing.assert_close(model(x), acting)
    assert acting.shape == (4, 3)
    assert model.output_size == 3


def test_head_can_be_left_out():
    model = Conv2dHeadModel(IMAGE, **ARGS, hidden_sizes=None)
    assert model(torch.randn(4, *IMAGE)).shape == (4, model.output_size)
    assert model.output_size == model.conv.conv_out_size(*IMAGE[1:])
    assert Conv2dHeadModel(IMAGE, **ARGS, hidden_sizes=8).output_size == 8


def test_conv2d_output_shape_by_hand():
    assert conv2d_output_shape(104, 80, kernel_size=8, stride=4) == (25, 19)
    assert conv2d_output_shape(25, 19, kernel_size=4, stride=2, padding=1) == (12, 9)
    assert conv2d_output_shape(7, 9, (3, 5), (1, 2), (0, 1)) == (5, 4)
    layer = nn.Conv2d(1, 1, 3, 2, 1, dilation=2)
    assert (
        conv2d_output_shape(10, 9, 3, 2, 1, dilation=2) == layer(torch.zeros(1, 1, 10, 9)).shape[2:]
    )


def test_misfits_are_refused():
    with pytest.raises(ValueError, match=r"\[2, 2, 1, 2\] entries"):
        Conv2dModel(2, [4, 6], [3, 2], [2])
    with pytest.warns(UserWarning, match="head_sizes=.8. .*Conv2dHeadModel"):
        Conv2dModel(2, **ARGS, head_sizes=[8])
    with pytest.raises(ValueError, match="too small"):
        Conv2dHeadModel((2, 2, 2), **ARGS, hidden_sizes=8)
    with pytest.raises(ValueError, match="channels, height, width"):
        Conv2dHeadModel((13, 11), **ARGS, hidden_sizes=8)
