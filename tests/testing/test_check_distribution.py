"""``check_distribution`` passes rlpyt's distributions and reports each fault of others."""

import pytest
import torch
from gymnasium import spaces

from rlpyt.distributions.categorical import Categorical
from rlpyt.distributions.categorical import DistInfo as Probabilities
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.distributions.joint import Joint
from rlpyt.distributions.multi_categorical import DistInfo as Several
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing import ConformanceError, check_distribution
from rlpyt.testing.distribution import CHECKS

PROB = Probabilities(torch.tensor([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]))
NORMAL = DistInfoStd(
    torch.tensor([[0.5, -1.0], [0.0, 0.3]]), torch.tensor([[0.0, -0.5], [0.2, -0.1]])
)
PARTS = GymSpaceWrapper(spaces.Dict(kind=spaces.Discrete(3), force=spaces.Box(-1, 1, (2,))))
JOINT = Joint([Categorical(3), Gaussian(2)], PARTS.null_value())


@pytest.mark.parametrize(
    "distribution,dist_info",
    [
        (Categorical(3), PROB),
        (Gaussian(2), NORMAL),
        (JOINT, JOINT.DistInfo(PROB, NORMAL)),
    ],
)
def test_distributions_pass(distribution, dist_info):
    report = check_distribution(distribution, dist_info)
    assert {*report.passed} == {*CHECKS}


@pytest.mark.parametrize("setting", ["clip", "squash"])
def test_what_only_drawn_values_would_show_is_left_open(setting):
    report = check_distribution(Gaussian(2, **{setting: 1.0}), NORMAL)
    left = {finding.check for finding in report.findings if finding.level == "open"}
    assert left == {"mode", "entropy", "kl"}


def test_a_distribution_of_several_choices_passes():
    parts = [torch.softmax(torch.randn(4, n), -1) for n in (2, 3)]
    report = check_distribution(MultiCategorical([2, 3]), Several(torch.cat(parts, -1)))
    assert {*report.passed} == {*CHECKS}


class Same(Categorical):
    def sample(self, dist_info):
        return torch.zeros(dist_info.prob.shape[:-1], dtype=torch.long)


class Deaf(Categorical):
    def sample(self, dist_info):
        self.set_noise(None)
        return super().sample(dist_info)


class OtherInNumpy(Categorical):
    def sample(self, dist_info):
        return super().sample(dist_info)

    def draw(self, dist_info, noise):
        action = super().draw(dist_info, noise)
        return action if isinstance(action, torch.Tensor) else 2 - action


class LeastLikely(Categorical):
    def mode(self, dist_info):
        return dist_info.prob.argmin(-1)


class Detached(Gaussian):
    def log_likelihood(self, x, dist_info):
        return super().log_likelihood(x, dist_info._make(leaf.detach() for leaf in dist_info))


class PerComponent(Gaussian):
    def log_likelihood(self, x, dist_info):
        return -((x - dist_info.mean) ** 2)


class Inverse(Gaussian):
    def likelihood_ratio(self, x, old, new):
        return super().likelihood_ratio(x, new, old)


class InBits(Categorical):
    def entropy(self, dist_info):
        return super().entropy(dist_info) / 0.6931


class Reversed(Categorical):
    def kl(self, old, new):
        return super().kl(new, old)


class NotZero(Categorical):
    def kl(self, old, new):
        return super().kl(old, new) + 0.1


@pytest.mark.parametrize(
    "Cls,check,match",
    [
        (Same, "sample", "all samples are equal"),
        (Deaf, "noise", "two samples .*same noise"),
        (OtherInNumpy, "noise", "numpy arrays"),
        (LeastLikely, "mode", "above the mode"),
        (Detached, "likelihood", "no gradient reaches"),
        (PerComponent, "likelihood", r"\(2, 2\), .*\(2,\)"),
        (Inverse, "ratio", "new likelihood by the old"),
        (InBits, "entropy", "but samples give"),
        (Reversed, "kl", "but samples give"),
        (NotZero, "kl", "between equal distributions"),
    ],
)
def test_faults_are_reported(Cls, check, match):
    gaussian = issubclass(Cls, Gaussian)
    distribution, dist_info = (Cls(2), NORMAL) if gaussian else (Cls(3), PROB)
    with pytest.raises(ConformanceError, match=match) as caught:
        check_distribution(distribution, dist_info)
    assert [f.check for f in caught.value.report.errors] == [check]


def test_a_distribution_without_entropy_leaves_it_open():
    class Sampling(Gaussian):
        def entropy(self, dist_info):
            raise NotImplementedError("no closed form")

    report = check_distribution(Sampling(2), NORMAL, skip=["pickle"])
    assert "entropy" not in report.passed and "kl" in report.passed
