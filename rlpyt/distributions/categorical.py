"""Categorical distribution: one discrete action."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.distributions.base import NoiseSpec
from rlpyt.distributions.discrete import DiscreteMixin
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.tensor import select_at_indexes

EPS = 1e-8  # keeps logarithms and ratios of vanishing probabilities finite

DistInfo = namedarraytuple("DistInfo", ["prob"])  # [*lead, A] float32, not negative


class Categorical(DiscreteMixin):
    """Distribution over A actions, integers [*lead], with probabilities ``prob`` [*lead, A].

    Sampling inverts the cumulative distribution: with u uniform on [0, 1), the action is the
    number of cumulative probabilities <= u * total. Sums are taken in order and in float64, so
    an action of probability zero is never chosen, numpy and torch choose the same actions, and
    probabilities need not sum to one exactly.
    """

    noise_spec = NoiseSpec("uniform", ())

    def sample(self, dist_info: NamedArrayTuple) -> Tensor:
        """Draw actions [*lead] of ``dtype`` (int64 by default)."""
        prob = dist_info.prob
        noise = self._take_noise(prob.shape[:-1], prob.device)
        action: Tensor = self.draw(dist_info, noise)
        return action if self.dtype is torch.long else action.to(self.dtype)

    def draw(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        """Return the actions [*lead] that ``sample`` draws from this noise [*lead], int64."""
        cumulative = cumulative_sum(dist_info.prob)
        x = (noise * cumulative[..., -1])[..., None]
        if isinstance(x, np.ndarray):
            return np.add.reduce(cumulative <= x, -1)
        return torch.searchsorted(cumulative, x, right=True).squeeze(-1)

    def mode(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the most likely actions [*lead]."""
        return torch.as_tensor(dist_info.prob.argmax(-1)).to(self.dtype)

    def kl(self, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple) -> Tensor:
        """Return the expectation of log(old / new) under the old probabilities, [*lead]."""
        old, new = old_dist_info.prob, new_dist_info.prob
        return expected_log(old, (old + EPS) / (new + EPS))

    def entropy(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the entropy in nats, [*lead]."""
        # torch.special.entr would have an infinite gradient where a probability is zero.
        return -expected_log(dist_info.prob, dist_info.prob + EPS)

    def log_likelihood(self, indexes: Tensor, dist_info: NamedArrayTuple) -> Tensor:
        """Return the log-probability of the actions ``indexes`` [*lead], [*lead]."""
        return torch.log(select_at_indexes(indexes, dist_info.prob) + EPS)

    def likelihood_ratio(
        self, indexes: Tensor, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple
    ) -> Tensor:
        """Return the probability ratio of actions ``indexes`` [*lead], new over old, [*lead]."""
        new = select_at_indexes(indexes, new_dist_info.prob)
        return (new + EPS) / (select_at_indexes(indexes, old_dist_info.prob) + EPS)


def expected_log(prob: Tensor, x: Tensor) -> Tensor:
    """Return the mean of log(x) under the probabilities of the last dimension, [*lead]."""
    return (prob * x.log()).sum(-1)


def cumulative_sum(prob: Any) -> Any:
    """Return the cumulative sum over the last dimension, [*lead, A] float64."""
    if isinstance(prob, np.ndarray):
        return np.add.accumulate(prob, -1, np.float64)
    return prob.cumsum(-1, dtype=torch.float64)
