"""Implicit quantiles of returns from Atari images (Dabney et al. 2018)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.implicit_quantile import (
    N_COSINES,
    ImplicitQuantileHeadModel,
    quantiles_at,
)
from rlpyt.utils.buffer import Tensors


class AtariIqnModel(AtariDqnModel):
    """Convolutions, and a head that returns each action's return at any quantile fraction.

    Args:
        image_shape, output_size, fc_sizes, dueling, *args, **kwargs: arguments of `AtariDqnModel`.
        n_cosines: see `ImplicitQuantileHeadModel`.
    """

    make_head = ImplicitQuantileHeadModel
    uses_remember: ClassVar[bool] = True

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        *args: Any,
        n_cosines: int = N_COSINES,
        **kwargs: Any,
    ) -> None:
        sizes = (image_shape, output_size, fc_sizes, dueling)
        super().__init__(*sizes, *args, n_atoms=n_cosines, **kwargs)

    def heads(self, features: Tensor, tau: Tensor) -> Tensor:  # type: ignore[override]
        """Return quantiles at the fractions ``tau``."""
        return self.head(features, tau).float()  # type: ignore[no-any-return]

    def forward(  # type: ignore[override]
        self,
        observation: Tensor,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        tau: Tensor,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Return quantiles [*lead, A, N] float32, see `quantiles_at`."""
        return quantiles_at(self, observation, prev_action, prev_reward, tau, init_rnn_state)
