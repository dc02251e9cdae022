"""Masked policies: probabilities, gradients, and the same in numpy."""

import numpy as np
import pytest
import torch

from rlpyt.distributions.categorical import DistInfo
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models.masking import mask_logits, mask_probabilities
from rlpyt.models.observation import MaskShape, marked_shape, observation_size
from rlpyt.models.pg.vector import (
    CategoricalMlpModel,
    MultiCategoricalLstmModel,
    MultiCategoricalMlpModel,
    split_softmax,
)
from rlpyt.utils.collections import namedarraytuple
from tests.masked_env import MaskedEnv

Obs = namedarraytuple("obs", ["observation", "action_mask"])
DIMS = (3, 2, 4)
T, B = 4, 5


def random_masks(*lead, seed=0):
    mask = torch.from_numpy(np.random.default_rng(seed).random((*lead, sum(DIMS))) < 0.5)
    for first in (0, 3, 5):
        mask[..., first] |= ~mask[..., first : first + 2].any(-1)
    return mask


def plain_softmax(logits, mask):
    """The masked softmax of each component, by loops in float64."""
    out = np.zeros(logits.shape)
    for row in np.ndindex(logits.shape[:-1]):
        first = 0
        for n in DIMS:
            valid = [i for i in range(first, first + n) if mask[row][i]]
            weights = [np.exp(float(logits[row][i])) for i in valid]
            for i, weight in zip(valid, weights, strict=True):
                out[row][i] = weight / sum(weights)
            first += n
    return out


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8, torch.float32])
@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_masked_probabilities_are_those_of_a_plain_loop(lead, dtype):
    logits, mask = torch.randn(*lead, sum(DIMS)), random_masks(*lead)
    pi = split_softmax(mask_logits(logits, mask.to(dtype)), DIMS)
    expected = plain_softmax(logits.numpy(), mask.numpy())
    np.testing.assert_allclose(pi.numpy(), expected, atol=1e-6)
    assert (pi[~mask] == 0).all()
    other = mask_probabilities(split_softmax(logits, DIMS), mask.to(dtype), DIMS)
    np.testing.assert_allclose(other.numpy(), expected, atol=1e-6)
    assert (other[~mask] == 0).all()


def test_masked_logits_get_no_gradient_and_nothing_is_nan():
    logits, mask = torch.randn(T, B, sum(DIMS), requires_grad=True), random_masks(T, B)
    distribution = MultiCategorical(DIMS)
    new = DistInfo(split_softmax(mask_logits(logits, mask), DIMS))
    old = DistInfo(new.prob.detach().roll(1, 1) * mask + 1e-3 * mask)
    action = distribution.sample(DistInfo(new.prob.detach()))
    terms = {
        "log_likelihood": distribution.log_likelihood(action, new),
        "entropy": distribution.entropy(new),
        "kl": distribution.kl(old, new),
        "ratio": distribution.likelihood_ratio(action, old, new),
    }
    for name, term in terms.items():
        (gradient,) = torch.autograd.grad(term.sum(), logits, retain_graph=True)
        assert gradient.isfinite().all(), name
        assert (gradient[~mask] == 0).all(), name
        several = sum((m.sum(-1) > 1).int() for m in mask.split(DIMS, -1)) > 0
        assert (gradient[several] != 0).any(), name


def test_likelihood_entropy_and_kl_are_those_of_the_valid_choices_alone():
    torch.manual_seed(1)
    logits, others, mask = torch.randn(B, 9), torch.randn(B, 9), random_masks(B)
    distribution = MultiCategorical(DIMS)
    p, q = (plain_softmax(x.numpy(), mask.numpy()) for x in (logits, others))
    info, other = (DistInfo(split_softmax(mask_logits(x, mask), DIMS)) for x in (logits, others))
    safe = np.where(p > 0, p, 1)
    expected = -(p * np.log(safe)).sum(-1)
    np.testing.assert_allclose(distribution.entropy(info).numpy(), expected, atol=1e-5)
    expected = (p * np.log(safe / np.where(q > 0, q, 1))).sum(-1)
    np.testing.assert_allclose(distribution.kl(info, other).numpy(), expected, atol=1e-4)
    action = distribution.sample(info)
    columns = action.numpy() + np.array([0, 3, 5])
    expected = np.log(np.take_along_axis(p, columns, -1)).sum(-1)
    found = distribution.log_likelihood(action, info).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_masked_choice_is_not_taken_in_a_million_draws():
    torch.manual_seed(0)
    n = 1_000_000
    distribution = MultiCategorical(DIMS)
    logits = torch.tensor([[9.0, 0, 0, 5, 0, 0, 30, 0, 0]]).expand(n, -1)
    mask = torch.tensor([[0, 1, 1, 0, 1, 1, 0, 0, 1]])
    info = DistInfo(split_softmax(mask_logits(logits, mask.expand(n, -1)), DIMS))
    taken = distribution.to_onehot(distribution.sample(info)).mean(0)
    assert (taken[mask[0] == 0] == 0).all()
    np.testing.assert_allclose(taken[mask[0] == 1].numpy(), [0.5, 0.5, 1, 0.5, 0.5], atol=0.01)
    for noise in (0.0, np.nextafter(np.float32(1), np.float32(0))):
        row, noises = info.prob[:1], torch.full((1, 3), float(noise))
        for prob, u in ((row, noises), (row.numpy(), noises.numpy())):
            drawn = torch.as_tensor(distribution.draw(DistInfo(prob), u))
            assert mask[0][drawn[0] + torch.tensor([0, 3, 5])].all()


def test_the_mask_is_left_out_of_the_features():
    from rlpyt.envs.gym import GymEnvWrapper

    shape = marked_shape(GymEnvWrapper(MaskedEnv()).observation_space)
    assert isinstance(shape.action_mask, MaskShape) and shape.action_mask == (6,)
    assert observation_size(shape) == 3


def make_model(cls=MultiCategoricalMlpModel, **kwargs):
    torch.manual_seed(0)
    shape = namedarraytuple("obs", Obs._fields)((3,), MaskShape((9,)))
    model = cls(shape, DIMS, **kwargs)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model


@pytest.mark.parametrize("shared", [False, True])
def test_numpy_acting_masks_as_torch_does(shared):
    model = make_model(shared=shared)
    forward = model.numpy_forward()
    assert forward is not None
    for seed in range(3):
        observation = Obs(torch.randn(B, 3), random_masks(B, seed=seed).to(torch.int8))
        pi, value = model(observation)
        own_pi, own_value = forward(Obs(*(x.numpy() for x in observation)))
        np.testing.assert_allclose(own_pi, pi.detach().numpy(), atol=1e-6)
        np.testing.assert_allclose(own_value, value.detach().numpy(), atol=1e-6)
        assert (own_pi[observation.action_mask.numpy() == 0] == 0).all()
    empty = forward(Obs(np.zeros((B, 3), np.float32), np.zeros((B, 9), np.int8)))[0]
    assert np.isfinite(empty).all()


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_recurrent_models_mask_every_step(lead):
    model = make_model(MultiCategoricalLstmModel)
    observation = Obs(torch.randn(*lead, 3), random_masks(*lead))
    pi, _, _ = model(observation, torch.zeros(*lead, 9), torch.zeros(lead))
    assert (pi[~observation.action_mask] == 0).all()
    assert torch.allclose(pi.sum(-1), torch.tensor(3.0))


def test_a_model_without_masks_is_traced_as_before():
    model = CategoricalMlpModel((3,), 4)
    x = torch.randn(B, 3)
    pi, _ = model.numpy_forward()(x.numpy())
    np.testing.assert_allclose(pi, model(x)[0].detach().numpy(), atol=1e-6)
