"""Mixture density networks (Bishop 1994), which predict a distribution with several modes."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlpyt.models.blocks.heads import Device
from rlpyt.utils.checks import check_range

MIN_STD = 1e-4  # keeps the likelihood of a point at the mean of a component finite


class MDNHead(nn.Module):
    """Head for the parameters of a mixture of K Gaussians for each of D components.

    Args:
        in_features: number of inputs.
        out_features: D, number of components.
        num_density: K, number of Gaussians.
        device: device of the parameters.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        num_density: int,
        device: Device = None,
    ) -> None:
        super().__init__()
        self.out_features, self.num_density = out_features, num_density
        # Torch's initial biases spread the means; equal means would stay together for long.
        self.parts = nn.Linear(in_features, 3 * num_density * out_features, device=device)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logit_pi, mean and std, each [N, K, D], for inputs [N, in_features]."""
        parts = self.parts(x).view(len(x), 3, self.num_density, self.out_features)
        logit_pi, mean, raw_std = parts.unbind(1)
        return logit_pi, mean, F.softplus(raw_std) + MIN_STD

    @staticmethod
    def loss(logit_pi: Tensor, mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood of the targets, averaged over rows.

            L = - 1/N sum_n ln sum_k exp sum_d [ln pi_k(x_{n,d}) + ln N(x_{n,d}; mu_k, sigma_k)]

        The sum over k is a log-sum-exp, so it neither overflows nor vanishes. If D > 1 and weights
        differ between the components, this is not the loss of the distribution of ``sample``, in
        which each component chooses its own Gaussian, but an upper bound of that loss.

        Args:
            logit_pi: logits of the mixing weights [N, K, D].
            mean, std: parameters of the Gaussians, each [N, K, D].
            target: targets [N, D].

        Returns:
            A scalar, with gradient.

        Raises:
            ValueError: ``target`` is not [N, D].
        """
        if target.shape != (mean.shape[0], mean.shape[2]):
            raise ValueError(
                f"target of shape {tuple(target.shape)} must be [N, D], for parameters [N, K, D] "
                f"of shape {tuple(mean.shape)}."
            )
        z = (target.unsqueeze(1) - mean) / std
        log_density = -0.5 * z**2 - std.log() - 0.5 * math.log(2 * math.pi)
        joint = (torch.log_softmax(logit_pi, dim=1) + log_density).sum(dim=2)  # [N, K]
        return -torch.logsumexp(joint, dim=1).mean()

    @staticmethod
    def sample(logit_pi: Tensor, mean: Tensor, std: Tensor, tau: float = 1.0) -> Tensor:
        """Choose a Gaussian for each component, then draw from it; with gradient to mean and std.

        Args:
            logit_pi, mean, std: parameters [N, K, D].
            tau: temperature above 0, by which logits are divided and variances multiplied (Ha &
                Schmidhuber 2018). Values above 1 make samples vary more.

        Returns:
            [N, D].

        Raises:
            ValueError: tau is not positive.
        """
        check_range("tau", tau, 0.0, open_low=True)
        weights = torch.softmax(logit_pi.detach() / tau, dim=1).transpose(1, 2)  # [N, D, K]
        N, D, K = weights.shape
        k = torch.multinomial(weights.reshape(-1, K), 1).view(N, 1, D)
        mean, std = mean.gather(1, k).squeeze(1), std.gather(1, k).squeeze(1)
        return mean + std * math.sqrt(tau) * torch.randn_like(mean)
