"""Policy-gradient agents with continuous actions; the model gives (mu, log_std, value[, state])."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.pg.agent import PgAgent, box_size
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian

UNBOUNDED = 1e6  # a bound beyond this is no scale to go by


class GaussianPgAgent(PgAgent):
    """Continuous actions from a diagonal Gaussian around mu [.., A].

    The model speaks in units in which a bounded action space is [-1, 1]; mean and log_std are
    turned into the space's own units here, so what is recorded, and its likelihood, are in those
    units. Samples are recorded as drawn; collectors clip what they hand to the environment to
    the bounds. Unbounded components pass unchanged.
    """

    DistInfo = DistInfoStd

    def make_distribution(self, action_space: Any) -> Gaussian:
        """A diagonal Gaussian over the space's components."""
        dim = box_size(action_space)
        low = np.broadcast_to(np.asarray(action_space.low, np.float64), (dim,))
        high = np.broadcast_to(np.asarray(action_space.high, np.float64), (dim,))
        bounded = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
        half = np.where(bounded, (high - low) / 2, 1.0).astype(np.float32)
        if (half <= 0).any():
            raise ValueError(f"action space {action_space} has an empty range in some component.")
        self._center = np.where(bounded, (high + low) / 2, 0.0).astype(np.float32)
        self._half = half
        self._unit = bool((half == 1).all() and (self._center == 0).all())
        self._scale = [torch.from_numpy(x) for x in (half, self._center, np.log(half))]
        return Gaussian(dim=dim)

    def make_dist_info(self, mu: Any, log_std: Any) -> Any:
        """The distribution in the space's units, from the model's."""
        if self._unit:
            return DistInfoStd(mu, log_std)
        if isinstance(mu, np.ndarray):
            return DistInfoStd(mu * self._half + self._center, log_std + np.log(self._half))
        half, center, log_half = (x.to(mu.device) for x in self._scale)
        return DistInfoStd(mu * half + center, log_std + log_half)

    make_dist_info.speaks_numpy = True  # type: ignore[attr-defined]

    def action_input(self, prev_action: torch.Tensor) -> torch.Tensor:
        """The previous action in the model's units."""
        if self._unit:
            return prev_action
        half, center, _ = (x.to(prev_action.device) for x in self._scale)
        return (prev_action - center) / half


class RecurrentGaussianPgAgentBase(GaussianPgAgent):
    """``GaussianPgAgent`` for a recurrent model; to be combined with a memory mixin."""

    recurrent = True


class RecurrentGaussianPgAgent(RecurrentAgentMixin, RecurrentGaussianPgAgentBase):
    """Continuous actions, recurrent model."""


class AlternatingRecurrentGaussianPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentGaussianPgAgentBase
):
    """Continuous actions, recurrent model, in alternating samplers."""
