import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.algos.dqn.losses import (
    categorical_loss,
    greedy_row,
    greedy_value,
    huber,
    inv_value_scale,
    project_onto_atoms,
    sequence_priority,
    split_by_matrix,
    value_scale,
)

T, B, A, P = 3, 4, 5, 7


def test_greedy_value_by_one_network_or_two():
    next_q = torch.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 0.0]])
    selecting = torch.tensor([[0.0, 1.0, 9.0], [2.0, 7.0, 3.0]])
    assert greedy_value(next_q).tolist() == [5.0, 4.0]
    assert greedy_value(next_q, selecting).tolist() == [2.0, 3.0]
    both = greedy_value(torch.stack([next_q, selecting]), torch.stack([selecting, next_q]))
    assert both.tolist() == [[2.0, 3.0], [1.0, 2.0]]


@pytest.mark.parametrize("lead", [(B,), (T, B)])
def test_greedy_row_is_that_of_the_best_action(lead):
    rows, q = torch.randn(*lead, A, P), torch.randn(*lead, A)
    out = greedy_row(rows, q)
    for where in np.ndindex(lead):
        assert torch.equal(out[where], rows[where][int(q[where].argmax())])


def test_huber_of_a_tensors_clip_is_that_of_the_number():
    x = torch.linspace(-3, 3, 13, requires_grad=True)
    losses = [huber(x, clip) for clip in (1.5, torch.tensor(1.5))]
    slopes = [torch.autograd.grad(loss.sum(), x)[0] for loss in losses]
    for one, other in (losses, slopes):
        torch.testing.assert_close(one, other)


def test_huber_by_hand():
    x = torch.tensor([-3.0, -1.0, 0.0, 0.5, 4.0], requires_grad=True)
    out = huber(x, 2.0)
    assert out.tolist() == [2 * (3 - 1), 0.5, 0.0, 0.125, 2 * (4 - 1)]
    out.sum().backward()
    assert x.grad.tolist() == [-2.0, -1.0, 0.0, 0.5, 2.0]
    assert huber(x, None).tolist() == [4.5, 0.5, 0.0, 0.125, 8.0]
    other = torch.nn.functional.huber_loss(x, torch.zeros(5), reduction="none", delta=2.0)
    assert torch.allclose(out, other)


def projection_by_loops(p, return_, discount_n, z):
    """Each atom's mass to its two neighbours, as the paper's algorithm 1 says."""
    out = np.zeros(p.shape)
    n, low_end, high_end = len(z), float(z[0]), float(z[-1])
    spacing = (high_end - low_end) / (n - 1)
    for b in range(len(p)):
        for j in range(n):
            moved = float(return_[b]) + float(discount_n[b]) * float(z[j])
            position = (min(max(moved, low_end), high_end) - low_end) / spacing
            low = min(math.floor(position), n - 2)
            out[b, low] += p[b, j] * (low + 1 - position)
            out[b, low + 1] += p[b, j] * (position - low)
    return torch.from_numpy(out).float()


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 60), st.floats(-20, 20), st.floats(0.1, 30), st.integers(0, 2**31))
def test_projection_is_that_of_the_paper(n_atoms, low, width, seed):
    g = torch.Generator().manual_seed(seed)
    z = torch.linspace(low, low + width, n_atoms)
    p = torch.rand(B, n_atoms, generator=g).softmax(-1)
    return_ = width * torch.randn(B, generator=g)
    discount_n = torch.rand(B, generator=g)
    discount_n[0] = 0
    out = project_onto_atoms(p, return_, discount_n, z)
    assert torch.allclose(out.sum(-1), torch.ones(B), atol=1e-5)
    expected = projection_by_loops(p, return_, discount_n, z)
    assert torch.allclose(out, expected, atol=1e-4)
    spacing = width / (n_atoms - 1)
    moved = return_.unsqueeze(-1) + discount_n.unsqueeze(-1) * z
    position = ((moved - low) / spacing).clamp(0, n_atoms - 1)
    assert torch.allclose(split_by_matrix(p, position), expected, atol=1e-4)


def test_projection_of_a_return_that_is_not_finite():
    z, p = torch.linspace(-1, 1, 3), torch.full((3, 3), 1 / 3)
    out = project_onto_atoms(p, torch.tensor([math.nan, math.inf, 0.0]), torch.ones(3), z)
    assert out[0].isnan().any() and out[1].tolist() == [0, 0, 1] and torch.equal(out[2], p[2])


def test_projection_by_hand():
    z = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    p = torch.tensor([0.1, 0.2, 0.3, 0.4])

    def project(return_, discount_n):
        out = project_onto_atoms(p[None], torch.tensor([return_]), torch.tensor([discount_n]), z)
        return out[0].numpy()

    assert np.allclose(project(0.0, 1.0), p)  # every atom hits itself
    assert np.allclose(project(1.0, 1.0), [0, 0.1, 0.2, 0.7])  # the next one; beyond the end: there
    assert np.allclose(project(-1.0, 1.0), [0.3, 0.3, 0.4, 0])
    assert np.allclose(project(0.25, 1.0), [0.075, 0.175, 0.275, 0.475])  # a quarter moves on
    assert np.allclose(project(2.0, 0.0), [0, 0, 0, 1])  # a terminal state, on an atom
    assert np.allclose(project(0.5, 0.0), [0, 0.5, 0.5, 0])  # and between two
    assert np.allclose(project(-7.0, 0.0), [1, 0, 0, 0]) and np.allclose(
        project(9.0, 1.0), [0, 0, 0, 1]
    )
    assert np.allclose(project(0.0, 0.5), [0.05, 0.05 + 0.2 + 0.15, 0.15 + 0.4, 0])


def test_projection_of_sequences():
    z = torch.linspace(-2, 3, P)
    p, return_, discount_n = torch.rand(T, B, P).softmax(-1), torch.randn(T, B), torch.rand(T, B)
    out = project_onto_atoms(p, return_, discount_n, z)
    for t in range(T):
        assert torch.allclose(out[t], project_onto_atoms(p[t], return_[t], discount_n[t], z))


def test_categorical_loss_by_hand():
    p = torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]], requires_grad=True)
    target = torch.tensor([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    loss, kl = categorical_loss(p, target, eps=1e-6)
    expected = [math.log(2), -math.log(0.75), -0.5 * math.log(torch.finfo().tiny)]
    assert np.allclose(loss.detach(), expected)
    assert kl[2] == pytest.approx(0.5 * (math.log(0.5) + math.log(0.5) - math.log(1e-6)), rel=1e-4)
    assert kl[0] == pytest.approx(1e-6) and kl[1] == pytest.approx(-math.log(0.75), rel=1e-3)
    assert not kl.requires_grad and bool((kl > 0).all())
    loss[1].backward()
    assert np.allclose(p.grad[1], [0, -1 / 0.75])


@pytest.mark.parametrize("logit", [1.0, 18.0, 80.0])
def test_categorical_gradient_is_that_of_a_softmax_however_wrong_it_is(logit):
    logits = torch.tensor([[logit, 0.0]], requires_grad=True)
    loss, kl = categorical_loss(logits.softmax(-1), torch.tensor([[0.0, 1.0]]), eps=1e-6)
    loss.sum().backward()
    p = 1 / (1 + math.exp(-logit))
    assert np.allclose(logits.grad, [[p, -p]])
    assert loss.item() == pytest.approx(math.log(1 + math.exp(logit)), rel=1e-5)
    assert kl.item() <= -math.log(1e-6) + 1e-4


@pytest.mark.parametrize("eps", [0.0, 1e-3, 0.1])
def test_value_scale_and_its_inverse(eps):
    x = torch.tensor([-300.0, -2.0, -1e-4, 0.0, 1e-4, 3.0, 1e4])
    by_definition = x.sign() * (torch.sqrt(x.abs().double() + 1) - 1) + eps * x
    assert torch.allclose(value_scale(x, eps).double(), by_definition, rtol=1e-5, atol=1e-10)
    assert torch.allclose(inv_value_scale(value_scale(x, eps), eps), x, rtol=1e-4, atol=1e-6)
    z = torch.linspace(-20, 20, 41)
    assert torch.allclose(value_scale(inv_value_scale(z, eps), eps), z, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("eps", [0.0, 1e-3, 1e-2, 0.1])
def test_value_scale_and_its_inverse_are_exact_for_any_size(eps):
    x = torch.logspace(-8, 6, 500)
    exact = x.double()
    scaled = exact / (torch.sqrt(exact + 1) + 1) + eps * exact
    for sign in (1, -1):
        error = value_scale(sign * x, eps).double() - sign * scaled
        assert (error.abs() / scaled).max() < 5e-7
        error = inv_value_scale(sign * scaled.float(), eps).double() - sign * exact
        assert (error.abs() / exact).max() < 5e-7


def test_value_scale_by_hand():
    assert value_scale(torch.tensor([3.0, -8.0]), 0.5).tolist() == [1 + 1.5, -2 - 4.0]
    assert inv_value_scale(torch.tensor([2.5, -6.0]), 0.5).tolist() == [3.0, -8.0]


def test_sequence_priority_by_hand():
    td_abs = torch.tensor([[1.0, 9.0, 5.0], [3.0, 2.0, float("nan")], [2.0, 7.0, 1.0]])
    valid = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    out = sequence_priority(td_abs, valid, eta=0.75)
    assert out.tolist() == [0.75 * 3 + 0.25 * 2, 0.75 * 7 + 0.25 * 4.5, 0.0]
    assert torch.equal(sequence_priority(td_abs, valid > 0, eta=0.75), out)
