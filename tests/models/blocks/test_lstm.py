"""The layer-normalised LSTM against the paper's equations, written out, and step by step."""

import pytest
import torch
from torch import nn

from rlpyt.models.blocks import LayerNormLSTMCell, LSTMLayer, StackedLSTM, make_lnlstm
from rlpyt.models.recurrent import RnnState, run_recurrent

T, B, I, H = 5, 3, 4, 6


def normalized(x, weight, bias=0.0):
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered**2).mean(-1, keepdim=True)
    return weight * centered / (variance + 1e-5).sqrt() + bias


def slow_step(cell, x, h, c):
    """Ba, Kiros & Hinton 2016."""
    sums = normalized(h @ cell.weight_hh.t(), cell.norm_hh.weight)
    sums = sums + normalized(x @ cell.weight_ih.t(), cell.norm_ih.weight, cell.norm_ih.bias)
    f, i, o, g = sums.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(normalized(c, cell.norm_c.weight, cell.norm_c.bias)), c


def shaken(module):
    """With norms' weights and biases other than one and zero, which would hide mistakes."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def test_a_step_is_the_papers():
    cell = shaken(LayerNormLSTMCell(I, H))
    x, h, c = torch.randn(B, I), torch.randn(B, H), torch.randn(B, H)
    output, (next_h, next_c) = cell(x, (h, c))
    expected_h, expected_c = slow_step(cell, x, h, c)
    torch.testing.assert_close(output, expected_h)
    torch.testing.assert_close(next_h, expected_h)
    torch.testing.assert_close(next_c, expected_c)


def test_layers_run_as_their_cells_do_step_by_step_and_so_do_gradients():
    net = shaken(make_lnlstm(I, H, num_layers=2)).double()
    x = torch.randn(T, B, I, dtype=torch.float64, requires_grad=True)
    states = torch.randn(2, 2, B, H, dtype=torch.float64).unbind()
    outputs, (h, c) = net(x, states)
    own, last = [list(zip(*states))[n] for n in range(2)], []
    for t in range(T):
        below = x[t]
        for n, layer in enumerate(net.layers):
            own[n] = slow_step(layer.cell, below, *own[n])
            below = own[n][0]
        last.append(below)
    torch.testing.assert_close(outputs, torch.stack(last))
    torch.testing.assert_close(h, torch.stack([state[0] for state in own]))
    torch.testing.assert_close(c, torch.stack([state[1] for state in own]))
    wanted = [x, *net.parameters()]
    ours = torch.autograd.grad(outputs.square().sum(), wanted)
    slow = torch.autograd.grad(torch.stack(last).square().sum(), wanted)
    torch.testing.assert_close(ours, slow)


def test_it_has_the_shapes_of_torchs_lstm_and_can_go_on():
    ours, torchs = make_lnlstm(I, H, num_layers=2), nn.LSTM(I, H, num_layers=2)
    x = torch.randn(T, B, I)
    whole, state = ours(x)
    expected, expected_state = torchs(x)
    assert whole.shape == expected.shape
    assert [s.shape for s in state] == [s.shape for s in expected_state]
    first, between = ours(x[:2])
    rest, after = ours(x[2:], between)
    torch.testing.assert_close(torch.cat([first, rest]), whole)
    torch.testing.assert_close(after, state)
    zeros = (torch.zeros(2, B, H), torch.zeros(2, B, H))
    torch.testing.assert_close(ours(x, zeros)[0], whole)


def test_models_run_it_as_a_memory():
    net = make_lnlstm(I + 2 + 1, H)
    state = RnnState(torch.zeros(1, B, H), torch.zeros(1, B, H))
    inputs = (torch.randn(T * B, I), torch.randn(T, B, 2), torch.randn(T, B))
    out, after = run_recurrent(net, *inputs, state, T, B)
    assert out.shape == (T * B, H) and isinstance(after, RnnState)
    torch.testing.assert_close(out.view(T, B, H)[-1], after.h[0])


def test_a_stack_takes_other_cells():
    class Sum(nn.Module):
        """Adds up its inputs."""

        hidden_size = I

        def project(self, x):
            return x

        def step(self, x, state):
            h = state[0] + x
            return h, (h, state[1])

    net = StackedLSTM(1, LSTMLayer, [Sum], [Sum])
    x = torch.randn(T, B, I)
    torch.testing.assert_close(net(x)[0], x.cumsum(0))


def test_no_layers_are_refused():
    with pytest.raises(ValueError, match="num_layers .*got 0"):
        make_lnlstm(I, H, 0)


def test_states_of_another_depth_are_refused():
    lstm = make_lnlstm(3, 4, num_layers=2)
    with pytest.raises(ValueError, match=r"2 layers, \[2, B, H\]"):
        lstm(torch.zeros(5, 1, 3), (torch.zeros(1, 1, 4), torch.zeros(1, 1, 4)))
