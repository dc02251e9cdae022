"""Policy-gradient agents with continuous actions; the model gives (mu, log_std, value[, state])."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.action_scale import ActionScale
from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.pg.agent import PgAgent
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian


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
        self._scale = ActionScale(action_space)
        return Gaussian(dim=self._scale.size)

    def make_dist_info(self, mu: Any, log_std: Any) -> Any:
        """The distribution in the space's units, from the model's."""
        scale = self._scale
        if scale.is_identity:
            return DistInfoStd(mu, log_std)
        shift: Any = scale.log_half
        if not isinstance(log_std, np.ndarray):
            shift = torch.from_numpy(shift).to(log_std.device)
        return DistInfoStd(scale.to_space(mu), log_std + shift)

    make_dist_info.speaks_numpy = True  # type: ignore[attr-defined]

    def action_input(self, prev_action: torch.Tensor) -> torch.Tensor:
        """The previous action in the model's units."""
        return self._scale.to_unit(prev_action)  # type: ignore[no-any-return]


class RecurrentGaussianPgAgentBase(GaussianPgAgent):
    """``GaussianPgAgent`` for a recurrent model; to be combined with a memory mixin."""

    recurrent = True


class RecurrentGaussianPgAgent(RecurrentAgentMixin, RecurrentGaussianPgAgentBase):
    """Continuous actions, recurrent model."""


class AlternatingRecurrentGaussianPgAgent(
    AlternatingRecurrentAgentMixin, RecurrentGaussianPgAgentBase
):
    """Continuous actions, recurrent model, in alternating samplers."""
