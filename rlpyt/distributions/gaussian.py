"""Gaussian distribution with independent components, for continuous actions."""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rlpyt.distributions.base import Distribution, NoiseSpec
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

EPS = 1e-8  # added to a fixed standard deviation, which may be zero, before the logarithm

DistInfo = namedarraytuple("DistInfo", ["mean"])  # [*lead, A] float32
DistInfoStd = namedarraytuple("DistInfoStd", ["mean", "log_std"])  # each [*lead, A] float32


class Gaussian(Distribution):
    """Diagonal Gaussian over A components; actions are [*lead, A] float32.

    Clipping of actions and noise affects only sampling; likelihood, entropy and KL divergence are
    those of the Gaussian itself. With squashing, the likelihood is the density of squashed actions,
    given actions *before* squashing (see ``log_likelihood``); the entropy has no closed form.

    Args:
        dim: A, number of components.
        std: standard deviation, one number or one for each component; ``None``: read from
            ``dist_info.log_std``; ``math.inf``: samples are uniform within clip or squash.
        clip: limit samples to [-clip, clip]; ``None``: no limit.
        noise_clip: limit the noise added to the mean to [-noise_clip, noise_clip]; ``None``: no
            limit.
        min_std, max_std: limits of the standard deviation.
        squash: make samples ``squash * tanh(sample)``; ``None``: no squashing.

    Raises:
        ValueError: a setting is out of range, or both clip and squash are set.
    """

    def __init__(
        self,
        dim: int,
        std: Any = None,
        clip: float | None = None,
        noise_clip: float | None = None,
        min_std: float | None = None,
        max_std: float | None = None,
        squash: float | None = None,
    ) -> None:
        if min_std is not None and min_std <= 0:
            raise ValueError(f"min_std must be positive, got {min_std}.")
        if min_std is not None and max_std is not None and min_std > max_std:
            raise ValueError(f"min_std must not exceed max_std={max_std}, got {min_std}.")
        self._dim = dim
        self.noise_spec = NoiseSpec("normal", (dim,))
        self.min_std = min_std
        self.max_std = max_std
        self.min_log_std = None if min_std is None else math.log(min_std)
        self.max_log_std = None if max_std is None else math.log(max_std)
        self.clip: float | None = None
        self.squash: float | None = None
        self.noise_clip: float | None = None
        self._uniform = False
        self.set_clip(clip)
        self.set_squash(squash)
        self.set_noise_clip(noise_clip)
        self._noise = None
        self._std_number: float | None = None  # std as it was set, if it was a float
        self.set_std(std)

    @property
    def dim(self) -> int:
        """Return the number of components."""
        return self._dim

    # Settings.

    def set_clip(self, clip: float | None) -> None:
        """Limit samples to [-clip, clip]; ``None`` turns it off."""
        self._set("clip", clip)

    def set_squash(self, squash: float | None) -> None:
        """Make samples ``squash * tanh(sample)``; ``None`` turns it off."""
        self._set("squash", squash)

    def set_noise_clip(self, noise_clip: float | None) -> None:
        """Limit the noise around the mean to [-noise_clip, noise_clip]; ``None`` turns it off."""
        self._set("noise_clip", noise_clip)

    def _set(self, name: str, value: float | None) -> None:
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value} must be positive, or None to turn it off.")
        setattr(self, name, value)
        if self.clip is not None and self.squash is not None:
            raise ValueError(
                f"clip and squash must not both be set, got clip={self.clip} and "
                f"squash={self.squash}. Squashed samples are bounded already; set one to None."
            )
        if self._uniform and self._bounds is None:
            raise ValueError(
                f"{name}=None leaves no bounds, but an infinite std samples uniformly within "
                "bounds. Set another std first."
            )

    def set_std(self, std: Any) -> None:
        """Fix the standard deviation, a number or [A]; ``None``: use ``dist_info.log_std``.

        With ``math.inf`` samples are uniform within the bounds for any mean.

        Raises:
            ValueError: std is negative or has another shape, or is infinite without bounds.
        """
        if std is None:
            self.std: Tensor | None = None
            self._std_numpy: Any = None
            self._std_number, self._uniform = None, False
            return
        if isinstance(std, float) and std == self._std_number:
            return  # unchanged; agents set it before every batch
        number = std if isinstance(std, float) else None
        std = torch.as_tensor(std, dtype=torch.float32)
        if std.numel() not in (1, self._dim) or bool((std < 0).any()):
            raise ValueError(
                f"std={std.tolist()} must be one number, or one for each of the {self._dim} "
                "components, and not negative."
            )
        std = std.reshape(-1) if std.numel() > 1 else std.reshape(())
        uniform = bool(std.isinf().any())
        if uniform and (std.numel() > 1 or self._bounds is None):
            raise ValueError(
                f"std={std.tolist()}: an infinite std, which samples uniformly, must be one number "
                "for all components, and needs bounds (clip or squash)."
            )
        limited = std.clamp(self.min_std or 0.0, self.max_std)
        exempt = (std == 0) | std.isinf()  # no noise, or uniform samples
        self.std = torch.where(exempt, std, limited)
        self._std_numpy = self.std.numpy()
        self._uniform = uniform
        self._std_number = number

    @property
    def _bounds(self) -> float | None:
        """Return the maximum absolute sample; ``None``: no limit."""
        return self.squash if self.clip is None else self.clip

    def _log_std(self, dist_info: NamedArrayTuple) -> Any:
        """Return the limited log standard deviation, broadcastable to the mean."""
        if self.std is not None:
            return torch.log(self.std.to(dist_info.mean.device) + EPS).expand(self._dim)
        log_std = dist_info.log_std
        if self.min_log_std is not None or self.max_log_std is not None:
            log_std = log_std.clip(self.min_log_std, self.max_log_std)
        return log_std

    def _std(self, dist_info: NamedArrayTuple) -> Any:
        """Return the limited standard deviation, as the mean a tensor or numpy array."""
        mean = dist_info.mean
        is_numpy = isinstance(mean, np.ndarray)
        if self.std is not None:
            return self._std_numpy if is_numpy else self.std.to(mean.device)
        return (np if is_numpy else torch).exp(self._log_std(dist_info))

    # Sampling.

    def sample(self, dist_info: NamedArrayTuple) -> Tensor:
        """Draw actions [*lead, A]: add clipped noise to the mean, then clip or squash the sum."""
        mean = dist_info.mean
        noise = self._take_noise(mean.shape[:-1], mean.device)
        return self.draw(dist_info, noise)  # type: ignore[no-any-return]

    def draw(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        """Return the actions [*lead, A] that ``sample`` draws from this noise.

        Args:
            dist_info: ``mean`` [*lead, A] and, unless std is fixed, ``log_std`` broadcastable to
                it.
            noise: [*lead, A] standard normal.
        """
        if self._uniform:
            return self._to_uniform(noise)
        return self._bound(self._add_noise(dist_info, noise))

    def _to_uniform(self, noise: Any) -> Any:
        """Convert standard normal numbers to uniform ones within the bounds."""
        assert self._bounds is not None
        if isinstance(noise, np.ndarray):  # numpy has no error function
            return self._to_uniform(torch.from_numpy(noise)).numpy()
        return self._bounds * torch.erf(noise / math.sqrt(2))

    def _add_noise(self, dist_info: NamedArrayTuple, noise: Any) -> Any:
        noise = self._std(dist_info) * noise
        if self.noise_clip is not None:
            noise = noise.clip(-self.noise_clip, self.noise_clip)
        return dist_info.mean + noise

    def _bound(self, sample: Any) -> Any:
        if self.clip is not None:
            return sample.clip(-self.clip, self.clip)
        if self.squash is None:
            return sample
        return self.squash * (np if isinstance(sample, np.ndarray) else torch).tanh(sample)

    def mode(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the clipped or squashed mean, the sample without noise."""
        self.set_noise(None)
        return self._bound(dist_info.mean)  # type: ignore[no-any-return]

    def sample_loglikelihood(
        self, dist_info: NamedArrayTuple, reparameterize: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Draw actions and compute their log-likelihood, with gradient through both (for SAC).

        Args:
            dist_info: parameters.
            reparameterize: if False, actions are constants, and the likelihood's gradient is the
                score function.

        Returns:
            Action [*lead, A], as from ``sample``; log-likelihood [*lead] of squashed actions.
        """
        if self.noise_clip is not None or not reparameterize:
            mean = dist_info.mean
            noise = self._take_noise(mean.shape[:-1], mean.device)
            sample = self._add_noise(dist_info, noise)
            sample = sample if reparameterize else sample.detach()
            return self._bound(sample), self.log_likelihood(sample, dist_info)
        # (sample - mean) / std is exactly the noise.
        mean, log_std = dist_info.mean, self._log_std(dist_info)
        noise = self._take_noise(mean.shape[:-1], mean.device)
        std = self._std(dist_info) if self.std is not None else log_std.exp()
        sample = torch.addcmul(mean, std, noise)
        terms = log_std + 0.5 * noise * noise
        if self.squash is not None:
            terms = terms + self._log_slope(sample)
        return self._bound(sample), -terms.sum(-1) - self._log_normalizer

    @property
    def _log_normalizer(self) -> float:
        return 0.5 * math.log(2 * math.pi) * self._dim

    # Formulas.

    def log_likelihood(self, x: Tensor, dist_info: NamedArrayTuple) -> Tensor:
        """Return the log-density of the actions, [*lead].

        Args:
            x: actions [*lead, A]; with squashing, *before* squashing. The result is the density of
                ``squash * tanh(x)``:

                    log N(x) - sum_i [log squash + 2 (log 2 - x_i - softplus(-2 x_i))]

                The bracket is log(squash (1 - tanh(x_i)^2)) in a form that is accurate for large x
                (Haarnoja et al. 2018, appendix C).
            dist_info: parameters.
        """
        logli = self._gaussian_logli(x, dist_info)
        if self.squash is None:
            return logli
        return logli - self._log_slope(x).sum(-1)

    def _log_slope(self, x: Tensor) -> Tensor:
        """Return log(squash (1 - tanh(x)^2)) of each component."""
        assert self.squash is not None
        constant = math.log(self.squash) + 2 * math.log(2)
        return constant - 2 * (x + F.softplus(-2 * x))

    def _gaussian_logli(self, x: Tensor, dist_info: NamedArrayTuple) -> Tensor:
        log_std: Tensor = self._log_std(dist_info)
        z: Tensor = (x - dist_info.mean) * torch.exp(-log_std)
        return -(0.5 * z * z + log_std).sum(-1) - self._log_normalizer

    def likelihood_ratio(
        self, x: Tensor, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple
    ) -> Tensor:
        """Return the density ratio, new over old, [*lead]; squashing cancels out."""
        new = self._gaussian_logli(x, new_dist_info)
        return torch.exp(new - self._gaussian_logli(x, old_dist_info))

    def kl(self, old_dist_info: NamedArrayTuple, new_dist_info: NamedArrayTuple) -> Tensor:
        """Return the KL divergence from old to new, [*lead]; squashing does not change it."""
        old: Tensor = self._log_std(old_dist_info)
        new: Tensor = self._log_std(new_dist_info)
        shift: Tensor = (old_dist_info.mean - new_dist_info.mean) * torch.exp(-new)
        return (new - old + 0.5 * (torch.exp(2 * (old - new)) + shift * shift - 1)).sum(-1)

    def entropy(self, dist_info: NamedArrayTuple) -> Tensor:
        """Return the sum of log(std) + log(2 pi e) / 2 over components, in nats, [*lead].

        Raises:
            NotImplementedError: squashing is on.
        """
        if self.squash is not None:
            raise NotImplementedError(
                "the entropy of a squashed Gaussian has no closed form; use "
                "-sample_loglikelihood(dist_info)[1], whose mean estimates it."
            )
        log_std: Tensor = self._log_std(dist_info).expand_as(dist_info.mean)
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)
