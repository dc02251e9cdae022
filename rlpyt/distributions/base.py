"""Interface of action distributions and of their noise."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import valid_mean

DistInfo: Any = None  # each distribution's module defines it: the record of its parameters


class NoiseSpec(NamedTuple):
    """Random numbers that one environment's step consumes.

    ``kind`` is "uniform", on [0, 1), or "normal", with mean 0 and variance 1; ``shape`` is the
    shape of the float32 noise of one environment.
    """

    kind: str
    shape: tuple[int, ...]


class Distribution:
    """Samples actions and computes likelihoods for an agent; it holds only settings.

    ``dist_info`` is a record of the distribution's parameters, leaves [*lead, ...]. Actions and
    results have the same leading dimensions, usually [T, B] or [B]. A subclass may implement only
    some of the methods.

    Sampling is a pure function, ``draw``, of ``dist_info`` and noise, both tensors or both numpy
    arrays. Samplers with a random stream for each environment set the noise by ``set_noise``;
    otherwise ``sample`` draws it from torch's generator.
    """

    noise_spec: NoiseSpec | None = None  # None: ``set_noise`` has no effect
    _noise: Tensor | None = None

    @property
    def dim(self) -> int:
        """Return the number of discrete actions, or of components of a continuous action."""
        raise NotImplementedError(f"{type(self).__name__} must define the property dim.")

    def sample(self, dist_info: Any) -> Tensor:
        """Draw an action for each row."""
        raise NotImplementedError

    def draw(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        """Return the actions that ``sample`` draws from this noise; tensors or numpy arrays.

        Agents act in numpy only if the class that defines ``sample`` also defines ``draw``.

        Args:
            dist_info: parameters, leaves [*lead, ...].
            noise: [*lead, *noise_spec.shape] float32.
        """
        raise NotImplementedError

    def mode(self, dist_info: Any) -> Tensor:
        """Return the most likely action of each row; by default a sample."""
        return self.sample(dist_info)

    def set_noise(self, noise: Tensor | None) -> None:
        """Set the noise of the next ``sample`` only.

        Args:
            noise: [*lead, *noise_spec.shape] float32, with the leading dimensions of the next
                sample; ``None``: discard noise that was set.
        """
        self._noise = noise

    def _take_noise(self, lead: tuple[int, ...], device: torch.device) -> Tensor:
        """Return the noise that was set, or new noise; [*lead, *noise_spec.shape] float32."""
        assert self.noise_spec is not None
        shape = lead + self.noise_spec.shape
        noise, self._noise = self._noise, None
        if noise is None:
            draw = torch.rand if self.noise_spec.kind == "uniform" else torch.randn
            return draw(shape, dtype=torch.float32, device=device)
        if noise.shape != shape:
            raise ValueError(
                f"noise must have the shape {shape} (leading dimensions of dist_info, then "
                f"noise_spec.shape) for this sample, got {tuple(noise.shape)}."
            )
        return noise.to(device)

    def kl(self, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple) -> Tensor:
        """Return the KL divergence from old to new, [*lead]."""
        raise NotImplementedError

    def mean_kl(
        self,
        old_dist_info: NamedArrayTuple,
        new_dist_info: NamedArrayTuple,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Return the mean KL divergence over valid entries, a scalar."""
        return valid_mean(self.kl(old_dist_info, new_dist_info), valid)

    def log_likelihood(self, x: Tensor, dist_info: NamedArrayTuple) -> Tensor:
        """Return the log-likelihood of the actions ``x``, [*lead]."""
        raise NotImplementedError

    def likelihood_ratio(
        self, x: Tensor, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple
    ) -> Tensor:
        """Return the likelihood of ``x`` under new, divided by that under old, [*lead]."""
        new = self.log_likelihood(x, new_dist_info)
        return torch.exp(new - self.log_likelihood(x, old_dist_info))

    def entropy(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the entropy in nats, [*lead]."""
        raise NotImplementedError

    def perplexity(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return exp(entropy), [*lead]: the number of equally likely actions."""
        return torch.exp(self.entropy(dist_info))

    def mean_entropy(self, dist_info: NamedArrayTuple, valid: Tensor | None = None) -> Tensor:
        """Return the mean entropy over valid entries, a scalar."""
        return valid_mean(self.entropy(dist_info), valid)

    def mean_perplexity(self, dist_info: NamedArrayTuple, valid: Tensor | None = None) -> Tensor:
        """Return the mean perplexity over valid entries, a scalar."""
        return valid_mean(self.perplexity(dist_info), valid)


def namespace(array: Any) -> Any:
    """Return the module of this array, torch or numpy."""
    return np if isinstance(array, np.ndarray) else torch


def as_int(array: Any) -> Any:
    """Return the array with its entries truncated to int64."""
    return array.astype(np.int64) if isinstance(array, np.ndarray) else array.long()
