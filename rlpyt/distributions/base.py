"""What every action distribution offers, and where its randomness comes from."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlpyt.utils.tensor import valid_mean

DistInfo: Any = None  # in a distribution's own module: the record of its parameters


class NoiseSpec(NamedTuple):
    """What one environment step consumes of randomness.

    ``kind`` is "uniform", on [0, 1), or "normal", with mean 0 and variance 1; ``shape`` is that
    of the float32 noise for one environment.
    """

    kind: str
    shape: tuple[int, ...]


class Distribution:
    """Chooses actions and computes likelihoods; the agent owns it. It holds settings only.

    ``dist_info`` is a record of the distribution's parameters, leaves [*lead, ...]. Actions and
    results have the same leading dimensions, usually [T, B] or [B]. Not every subclass
    implements everything.

    Sampling is a function of ``dist_info`` and of noise. Samplers that own a random stream for
    each environment hand the noise in by ``set_noise``; otherwise it is drawn from torch's
    generator.
    """

    noise_spec: NoiseSpec | None = None  # None: sampling takes no noise from outside
    _noise: Tensor | None = None

    @property
    def dim(self) -> int:
        """Number of discrete actions, or of components of a continuous one."""
        raise NotImplementedError

    def sample(self, dist_info: Any) -> Tensor:
        """Draw an action for each row."""
        raise NotImplementedError

    def mode(self, dist_info: Any) -> Tensor:
        """The likeliest action of each row; by default, of a kind that has none, a sample."""
        return self.sample(dist_info)

    def set_noise(self, noise: Tensor | None) -> None:
        """Give the noise of the next ``sample``, which uses it once.

        Args:
            noise: [*lead, *noise_spec.shape] float32 with the leading dimensions that will be
                sampled; ``None`` takes back what was given.
        """
        self._noise = noise

    def _take_noise(self, lead: tuple[int, ...], device: torch.device) -> Tensor:
        """The noise that was set, or fresh noise; [*lead, *noise_spec.shape] float32."""
        assert self.noise_spec is not None
        shape = lead + self.noise_spec.shape
        noise, self._noise = self._noise, None
        if noise is None:
            draw = torch.rand if self.noise_spec.kind == "uniform" else torch.randn
            return draw(shape, device=device)
        if noise.shape != shape:
            raise ValueError(
                f"noise of shape {tuple(noise.shape)} was set, but this sample needs {shape}: "
                f"the leading dimensions of dist_info, then noise_spec.shape."
            )
        return noise.to(device)

    def kl(self, old_dist_info: Any, new_dist_info: Any) -> Tensor:
        """KL divergence from old to new, [*lead]."""
        raise NotImplementedError

    def mean_kl(
        self, old_dist_info: Any, new_dist_info: Any, valid: Tensor | None = None
    ) -> Tensor:
        """Mean KL divergence over what is valid, a scalar."""
        return valid_mean(self.kl(old_dist_info, new_dist_info), valid)

    def log_likelihood(self, x: Tensor, dist_info: Any) -> Tensor:
        """Log-likelihood of the actions ``x``, [*lead]."""
        raise NotImplementedError

    def likelihood_ratio(self, x: Tensor, old_dist_info: Any, new_dist_info: Any) -> Tensor:
        """Likelihood of ``x`` under new over that under old, [*lead]."""
        new = self.log_likelihood(x, new_dist_info)
        return torch.exp(new - self.log_likelihood(x, old_dist_info))

    def entropy(self, dist_info: Any) -> Tensor:
        """Entropy in nats, [*lead]."""
        raise NotImplementedError

    def perplexity(self, dist_info: Any) -> Tensor:
        """exp(entropy), [*lead]: among how many actions it is as undecided as a uniform choice."""
        return torch.exp(self.entropy(dist_info))

    def mean_entropy(self, dist_info: Any, valid: Tensor | None = None) -> Tensor:
        """Mean entropy over what is valid, a scalar."""
        return valid_mean(self.entropy(dist_info), valid)

    def mean_perplexity(self, dist_info: Any, valid: Tensor | None = None) -> Tensor:
        """Mean perplexity over what is valid, a scalar."""
        return valid_mean(self.perplexity(dist_info), valid)
