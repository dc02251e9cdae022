"""The scan of minGRU equals a plain loop, forwards and backwards."""

import pytest
import torch

from rlpyt.models.mingru import MinGru, linear_recurrence


def looped(decay, x, initial):
    h, states = torch.zeros_like(x[0]) if initial is None else initial, []
    for t in range(len(x)):
        h = decay[t] * h + x[t]
        states.append(h)
    return torch.stack(states)


@pytest.mark.parametrize("with_initial", [False, True])
@pytest.mark.parametrize("T", [1, 2, 3, 4, 5, 7, 8, 13, 64, 1000])
def test_the_scan_is_the_loop(T, with_initial):
    torch.manual_seed(T)
    decay = torch.rand(T, 3, 5) ** 0.1  # mostly near 1, so that the past matters
    decay[torch.rand(T, 3) < 0.1] = 0  # resets
    x, weights = torch.randn(T, 3, 5), torch.randn(T, 3, 5)
    inputs = [decay, x, *([torch.randn(3, 5)] if with_initial else [])]
    results = []
    for function in (linear_recurrence, looped):
        leaves = [leaf.clone().requires_grad_() for leaf in inputs]
        h = function(*leaves, *([] if with_initial else [None]))
        got = torch.autograd.grad((h * weights).sum(), leaves, allow_unused=True)
        # Without an initial state, the loop's first decay has the gradient 0.
        results.append([h, *(torch.zeros_like(i) if g is None else g for i, g in zip(inputs, got))])
    for own, theirs in zip(*results, strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(0)
    shapes = [(6, 2, 3), (6, 2, 3), (2, 3)]
    inputs = [torch.rand(s, dtype=torch.double, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(linear_recurrence, inputs)


def test_decays_may_underflow():
    T = 4096
    decay, x = torch.full((T, 1), 1e-30), torch.ones(T, 1)
    torch.testing.assert_close(linear_recurrence(decay, x), x)


def test_a_sequence_of_1024_steps_is_within_1e_5_of_its_steps():
    torch.manual_seed(0)
    layer = MinGru(5, 8, num_layers=2)
    x, starts = torch.randn(1024, 3, 5), torch.rand(1024, 3) < 0.01
    output, last = layer(x, None, starts)
    state = torch.zeros_like(last)
    for t in range(1024):
        state = state.masked_fill(starts[t, :, None], 0)
        step, state = layer(x[t : t + 1], state)
        torch.testing.assert_close(step[0], output[t], rtol=0, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=0, atol=1e-5)


def test_initial_time_constants_are_spread():
    layer = MinGru(5, 64)
    update = torch.sigmoid(layer.layers[0].bias.detach()[:64])
    steps = 1 / update
    assert steps.min() == pytest.approx(2, rel=1e-3)
    assert steps.max() == pytest.approx(64, rel=1e-3)


@pytest.mark.parametrize("num_layers", [0, 1.5])
def test_numbers_of_layers_are_checked(num_layers):
    with pytest.raises((ValueError, TypeError), match="num_layers"):
        MinGru(5, 8, num_layers)
