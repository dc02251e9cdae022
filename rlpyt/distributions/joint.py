"""Joint distribution of actions that consist of several parts."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.utils.buffer import _named_leaves, buffer_from_example, buffer_func, leaves_of
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.names import field_names

BELOW_ONE = 1 - 2**-24  # largest float32 below 1


class Joint(Distribution):
    """Distribution of actions with independent parts, for Dict and Tuple action spaces.

    Actions have the structure of the space: (nested) named tuples of the parts' actions.
    ``dist_info`` is a record with the ``dist_info`` of each part, in order. Log-likelihoods,
    entropies and KL divergences of the parts add up, and likelihood ratios multiply.

    The noise is standard normal; parts that consume uniform numbers get its cumulative probability.

    Args:
        parts: distribution of each leaf of an action, in order.
        example: an action, for the structure.

    Attributes:
        DistInfo: type of ``dist_info``; its fields are named after the leaves.

    Raises:
        ValueError: the example does not have as many leaves as there are parts.
    """

    def __init__(self, parts: Sequence[Distribution], example: Any) -> None:
        self.parts = tuple(parts)
        self._example = buffer_from_example(example, ())
        names = [path for path, _ in _named_leaves(self._example)]
        if len(names) != len(self.parts):
            raise ValueError(f"parts must be one for each of {names}, got {len(self.parts)}.")
        self.DistInfo = namedarraytuple("JointDistInfo", field_names(names))
        self._noise_of: list[tuple[slice, NoiseSpec]] = []  # columns of each part's noise
        n = 0
        for part in self.parts:
            assert part.noise_spec is not None
            first, n = n, n + math.prod(part.noise_spec.shape)
            self._noise_of.append((slice(first, n), part.noise_spec))
        self.noise_spec = NoiseSpec("normal", (n,))

    @property
    def dim(self) -> int:
        """Return the sum of the parts' dimensions."""
        return sum(part.dim for part in self.parts)

    def sample(self, dist_info: NamedArrayTuple) -> Any:
        """Draw actions: a (nested) named tuple of [*lead, ...]."""
        parameter = leaves_of(dist_info)[0]
        return self.draw(dist_info, self._take_noise(parameter.shape[:-1], parameter.device))

    def draw(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        """Return the actions that ``sample`` draws from this noise [*lead, n]."""
        drawn = []
        rows = zip(self.parts, tuple(dist_info), self._noise_of, strict=True)
        for part, info, (columns, spec) in rows:
            own = noise[..., columns].reshape((*noise.shape[:-1], *spec.shape))
            drawn.append(part.draw(info, _uniform(own) if spec.kind == "uniform" else own))
        return self._action(iter(drawn))

    def mode(self, dist_info: NamedArrayTuple) -> Any:
        """Return the most likely action of each part."""
        self.set_noise(None)
        parts = zip(self.parts, tuple(dist_info), strict=True)
        return self._action(part.mode(info) for part, info in parts)

    def _action(self, leaves: Iterator[Any]) -> Any:
        return buffer_func(self._example, lambda _: next(leaves))

    def log_likelihood(self, x: Any, dist_info: NamedArrayTuple) -> Tensor:
        """Return the sum of the parts' log-likelihoods, [*lead]."""
        rows = zip(self.parts, leaves_of(x), tuple(dist_info), strict=True)
        return _sum(part.log_likelihood(leaf, info) for part, leaf, info in rows)

    def entropy(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the sum of the parts' entropies in nats, [*lead]."""
        rows = zip(self.parts, tuple(dist_info), strict=True)
        return _sum(part.entropy(info) for part, info in rows)

    def kl(self, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple) -> Tensor:
        """Return the sum of the parts' KL divergences from old to new, [*lead]."""
        rows = zip(self.parts, tuple(old_dist_info), tuple(new_dist_info), strict=True)
        return _sum(part.kl(old, new) for part, old, new in rows)


def _sum(terms: Iterator[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum(0)


def _uniform(noise: Any) -> Any:
    """Convert standard normal numbers to uniform ones in [0, 1)."""
    if isinstance(noise, np.ndarray):  # numpy has no error function
        return _uniform(torch.from_numpy(noise)).numpy()
    return (0.5 * torch.erfc(noise * -math.sqrt(0.5))).clamp(max=BELOW_ONE)
