import numpy as np
import pytest
import torch

from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy, EpsilonGreedy

T, B, A = 4, 3, 5
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def test_greedy_unless_the_first_number_is_below_epsilon():
    q = torch.tensor([[0.0, 3.0, 1.0]]).expand(4, 3)
    distribution = EpsilonGreedy(epsilon=0.5, dim=3)
    distribution.set_noise(torch.tensor([[0.5, 0.9], [0.49, 0.9], [0.0, 0.0], [0.49, BELOW_ONE]]))
    assert distribution.sample(q).tolist() == [1, 2, 0, 2]


@pytest.mark.parametrize("lead", [(B,), (T, B)])
def test_vector_epsilon_runs_along_environments(lead):
    q = torch.zeros(*lead, A)
    q[..., 2] = 1
    distribution = EpsilonGreedy(epsilon=np.array([0.0, 1.0, 0.5]), dim=A)
    noise = torch.zeros(*lead, 2)
    noise[..., 0], noise[..., 1] = 0.7, BELOW_ONE
    distribution.set_noise(noise)
    action = distribution.sample(q)
    assert action.shape == lead
    assert action.dtype == torch.long
    assert torch.equal(action, torch.tensor([2, A - 1, 2]).expand(lead))


def test_extremes_of_epsilon():
    torch.manual_seed(0)
    q = torch.randn(5000, A)
    assert torch.equal(EpsilonGreedy(epsilon=0, dim=A).sample(q), q.argmax(-1))
    frequency = torch.bincount(EpsilonGreedy(dim=A).sample(q), minlength=A) / 5000
    assert torch.allclose(frequency, torch.full((A,), 1 / A), atol=0.025)  # default epsilon is 1


def test_without_batch_dimension():
    assert EpsilonGreedy(epsilon=0.0, dim=3).sample(torch.tensor([0.0, 0.0, 1.0])).item() == 2


def test_epsilon_is_kept_as_given():
    distribution = EpsilonGreedy(epsilon=0.3, dim=2)
    assert distribution.epsilon == 0.3
    vector = torch.tensor([0.1, 0.2])
    distribution.set_epsilon(vector)
    assert distribution.epsilon is vector


def test_misfits_are_refused():
    with pytest.raises(ValueError, match="epsilon must be"):
        EpsilonGreedy(epsilon=1.5, dim=2)
    with pytest.raises(ValueError, match="dim=2"):
        EpsilonGreedy(dim=2).sample(torch.zeros(B, 4))
    with pytest.raises(ValueError, match="epsilon has 3 entries"):
        EpsilonGreedy(epsilon=torch.zeros(3), dim=A).sample(torch.zeros(B + 1, A))
    with pytest.raises(ValueError, match="set_z"):
        CategoricalEpsilonGreedy(dim=2).sample(torch.zeros(B, 2, 4))


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_atoms_are_weighed_by_their_values(lead):
    p = torch.zeros(*lead, 2, 3)
    p[..., 0, :] = torch.tensor([0.0, 1.0, 0.0])
    p[..., 1, :] = torch.tensor([0.6, 0.0, 0.4])
    rising, falling = torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, -1.0])
    distribution = CategoricalEpsilonGreedy(dim=2, epsilon=0, z=rising)
    assert torch.equal(distribution.sample(p), torch.zeros(lead, dtype=torch.long))
    assert torch.equal(distribution.sample(p, falling), torch.ones(lead, dtype=torch.long))
    distribution.set_z(falling)
    assert torch.equal(distribution.sample(p), torch.ones(lead, dtype=torch.long))


@pytest.mark.parametrize("epsilon", [0.4, np.linspace(0, 1, 50)])
def test_numpy_chooses_the_same_actions(epsilon):
    torch.manual_seed(3)
    q, p, noise = torch.randn(50, A), torch.rand(50, A, 7).softmax(-1), torch.rand(50, 2)
    plain = EpsilonGreedy(epsilon=epsilon, dim=A)
    categorical = CategoricalEpsilonGreedy(epsilon=epsilon, dim=A, z=torch.linspace(-2, 1, 7))
    for distribution, values in ((plain, q), (categorical, p)):
        distribution.set_noise(noise)
        action = distribution.sample(values)
        assert len(action.unique()) == A
        own = distribution.draw(values.numpy(), noise.numpy())
        assert own.dtype == np.int64 and np.array_equal(own, action.numpy())


def test_the_mode_is_greedy_whatever_epsilon():
    q = torch.randn(T, B, A)
    assert torch.equal(EpsilonGreedy(epsilon=1, dim=A).mode(q), q.argmax(-1))
    p, z = torch.rand(B, A, 6), torch.linspace(3, -3, 6)
    mode = CategoricalEpsilonGreedy(epsilon=1, dim=A, z=z).mode(p)
    assert torch.equal(mode, (p * z).sum(-1).argmax(-1))
