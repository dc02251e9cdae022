"""Messages of distributions, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import math

import pytest

from rlpyt.distributions.categorical import Categorical
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.distributions.multi_categorical import MultiCategorical
from tests.wording import check

MESSAGES = {
    "size": (
        ValueError,
        lambda: Categorical(0),
        "dim must be at least 1, got 0.",
    ),
    "sizes": (
        ValueError,
        lambda: MultiCategorical([2, 0]),
        "dims must hold the number of choices, at least 1, of each part; got [2, 0].",
    ),
    "epsilon": (
        ValueError,
        lambda: EpsilonGreedy(dim=2, epsilon=1.5),
        "epsilon must be a number or a vector in [0, 1], got 1.5.",
    ),
    "standard deviation": (
        ValueError,
        lambda: Gaussian(2, std=-1.0),
        "std=-1.0 must be one number, or one for each of the 2 components, and not negative.",
    ),
    "infinite standard deviation": (
        ValueError,
        lambda: Gaussian(2, std=math.inf),
        (
            "std=inf: an infinite std, which samples uniformly, must be one number for all "
            "components, and needs bounds (clip or squash)."
        ),
    ),
    "two kinds of bounds": (
        ValueError,
        lambda: Gaussian(2, clip=1.0, squash=1.0),
        (
            "clip and squash must not both be set, got clip=1.0 and squash=1.0. Squashed "
            "samples are bounded already; set one to None."
        ),
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
