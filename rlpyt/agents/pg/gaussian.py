"""Policy-gradient agents with continuous actions; models return (mu, log_std, value[, state])."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.pg.agent import PgAgent
from rlpyt.agents.spaces import ActionScale
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Tensors


class GaussianPgAgent(PgAgent):
    """Samples continuous actions from a diagonal Gaussian around mu [.., A].

    The model works in units in which a bounded action space is [-1, 1]. The agent converts mean and
    log_std to the space's units, so recorded actions and their likelihood are in these units.
    Actions are recorded without clipping; collectors clip them for the environment. Unbounded
    components are not converted.
    """

    DistInfo = DistInfoStd

    def make_distribution(self, action_space: Space) -> Gaussian:
        """Return a diagonal Gaussian over the space's components."""
        self._scale = ActionScale(action_space)
        return Gaussian(dim=self._scale.size)

    def make_dist_info(self, mu: Any, log_std: Any) -> Any:
        """Return the distribution in the space's units, given the model's."""
        scale = self._scale
        if scale.is_identity:
            return DistInfoStd(mu, log_std)
        shift: Any = scale.log_half
        if not isinstance(log_std, np.ndarray):
            shift = torch.from_numpy(shift).to(log_std.device)
        return DistInfoStd(scale.to_space(mu), log_std + shift)

    make_dist_info.takes_numpy = True  # type: ignore[attr-defined]

    def action_input(self, prev_action: Tensors) -> torch.Tensor:
        """Return the previous action in the model's units."""
        return self._scale.to_unit(prev_action)  # type: ignore[no-any-return]


class RecurrentGaussianPgAgent(GaussianPgAgent):
    """Continuous actions, recurrent model."""

    recurrent = True


class AlternatingRecurrentGaussianPgAgent(RecurrentGaussianPgAgent):
    """Continuous actions, recurrent model, for alternating samplers."""

    alternating = True


RecurrentGaussianPgAgentBase = RecurrentGaussianPgAgent  # rlpyt's name
