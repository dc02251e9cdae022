"""Joint distributions against sums and products by hand, and Monte Carlo."""

import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.categorical import Categorical
from rlpyt.distributions.categorical import DistInfo as Prob
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.distributions.joint import Joint
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models.masking import mask_probabilities
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import namedarraytuple, namedtuple_class

Action = namedtuple_class("act", ["kind", "rest"])
Rest = namedtuple_class("act_rest", ["force", "bits"])
EXAMPLE = Action(np.int64(0), Rest(np.zeros(2, np.float32), np.zeros(2, np.int64)))
T, B = 3, 4


def joint():
    return Joint([Categorical(dim=3), Gaussian(dim=2), MultiCategorical([2, 2])], EXAMPLE)


def random_info(distribution, lead=(T, B), seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*lead, *shape, generator=generator)
    bits = torch.softmax(draw(2, 2), -1).flatten(-2)
    gaussian = DistInfoStd(draw(2), 0.3 * draw(2))
    return distribution.DistInfo(Prob(torch.softmax(draw(3), -1)), gaussian, Prob(bits))


def test_the_record_is_named_after_the_parts():
    assert joint().DistInfo._fields == ("kind", "rest_force", "rest_bits")
    assert joint().noise_spec == ("normal", (1 + 2 + 2,)) and joint().dim == 3 + 2 + 4
    with pytest.raises(ValueError, match=r"\['kind', 'rest.force', 'rest.bits'\]"):
        Joint([Categorical(dim=3)], EXAMPLE)


def test_samples_have_the_structure_of_the_space_and_the_right_frequencies():
    torch.manual_seed(0)
    distribution, n = joint(), 200_000
    info = buffer_func(random_info(distribution, ()), lambda x: x.expand(n, *x.shape))
    action = distribution.sample(info)
    assert action._fields == EXAMPLE._fields and action.rest._fields == Rest._fields
    assert action.kind.shape == (n,) and action.rest.force.shape == action.rest.bits.shape == (n, 2)
    kind = torch.bincount(action.kind, minlength=3) / n
    assert torch.allclose(kind, info.kind.prob[0], atol=0.005)
    ones = action.rest.bits.float().mean(0)
    assert torch.allclose(ones, info.rest_bits.prob[0, [1, 3]], atol=0.005)
    assert torch.allclose(action.rest.force.mean(0), info.rest_force.mean[0], atol=0.02)
    std = info.rest_force.log_std[0].exp()
    assert torch.allclose(action.rest.force.std(0), std, atol=0.02)
    together = torch.stack([action.kind.float(), *action.rest.force.T, *action.rest.bits.T.float()])
    assert (torch.corrcoef(together) - torch.eye(5)).abs().max() < 0.02  # independent


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_sums_and_products_by_hand(lead):
    distribution = joint()
    old, new = random_info(distribution, lead), random_info(distribution, lead, seed=1)
    action = distribution.sample(old)
    for row in np.ndindex(*lead):
        at = lambda x, row=row: x[row].double()
        kind, bits = action.kind[row], action.rest.bits[row]
        force = at(action.rest.force)

        def density(info, kind=kind, bits=bits, force=force, at=at):
            p = at(info.kind.prob)[kind]
            p *= at(info.rest_bits.prob)[bits[0]] * at(info.rest_bits.prob)[2 + bits[1]]
            mean, std = at(info.rest_force.mean), at(info.rest_force.log_std).exp()
            z = (force - mean) / std
            return p * (torch.exp(-0.5 * z * z) / std / math.sqrt(2 * math.pi)).prod()

        log = distribution.log_likelihood(action, new)[row].item()
        assert log == pytest.approx(math.log(density(new)), abs=1e-4)
        ratio = distribution.likelihood_ratio(action, old, new)[row].item()
        assert ratio == pytest.approx(float(density(new) / density(old)), rel=1e-3)


def test_extreme_ratios_of_parts_cancel():
    """A density that rises by e^112 in one part and falls by e^144 in another."""
    pair = namedtuple_class("pair", ["a", "b"])
    distribution = Joint([Gaussian(1), Gaussian(1)], pair(np.zeros(1), np.zeros(1)))
    info = lambda *rows: distribution.DistInfo(*(DistInfoStd(*torch.tensor(row)) for row in rows))
    old, new = info([[15.0], [0.0]], [[0.0], [0.0]]), info([[0.0], [0.0]], [[17.0], [0.0]])
    at = pair(torch.zeros(1), torch.zeros(1))
    ratio = distribution.likelihood_ratio(at, old, new).item()
    assert ratio == pytest.approx(math.exp((15**2 - 17**2) / 2), rel=1e-4)


def masked(info):
    """The info without the first kind and the second choice of the first bit."""
    mask = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1, 1])
    kind = mask_probabilities(info.kind.prob, mask[0], [3])
    bits = mask_probabilities(info.rest_bits.prob, mask[1], [2, 2])
    return info._replace(kind=Prob(kind), rest_bits=Prob(bits))


@pytest.mark.parametrize("change", [lambda info: info, masked], ids=["all", "masked"])
def test_entropy_and_kl_by_monte_carlo(change):
    torch.manual_seed(0)
    distribution, n = joint(), 400_000
    old, new = (change(random_info(distribution, (), seed)) for seed in (0, 1))
    many = lambda info: buffer_func(info, lambda x: x.expand(n, *x.shape))
    action = distribution.sample(many(old))
    log = distribution.log_likelihood(action, many(old))
    assert distribution.entropy(old).item() == pytest.approx(-log.mean().item(), abs=0.01)
    kl = (log - distribution.log_likelihood(action, many(new))).mean().item()
    assert distribution.kl(old, new).item() == pytest.approx(kl, rel=0.03)
    assert distribution.kl(old, old).item() == pytest.approx(0, abs=1e-5)
    assert distribution.mean_kl(old, new).item() == pytest.approx(kl, rel=0.03)


def test_numpy_draws_the_same_actions():
    distribution = joint()
    info, noise = random_info(distribution), torch.randn(T, B, 5)
    noise[0, 0], noise[0, 1] = 30.0, -30.0  # the ends of the uniform numbers
    drawn = distribution.draw(info, noise)
    own = distribution.draw(buffer_func(info, torch.Tensor.numpy), noise.numpy())
    for a, b in zip(leaves_of(drawn), leaves_of(own), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert drawn.kind.max() <= 2 and drawn.rest.bits.max() <= 1


def test_the_mode_is_that_of_each_part():
    distribution = joint()
    info = random_info(distribution)
    mode = distribution.mode(info)
    assert torch.equal(mode.kind, info.kind.prob.argmax(-1))
    assert torch.equal(mode.rest.force, info.rest_force.mean)
    assert torch.equal(mode.rest.bits, info.rest_bits.prob.unflatten(-1, (2, 2)).argmax(-1))


def test_records_are_indexed_as_arrays():
    action = joint().sample(random_info(joint()))
    assert action[1].rest.force.shape == (B, 2)
    assert namedarraytuple("act", Action._fields) is type(action)
