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


class AtariIqnModel(AtariDqnModel):
    """Convolutions, and a head that returns each action's return at any quantile fraction.

    Args:
        image_shape, output_size, *args, **kwargs: arguments of `AtariDqnModel`.
        n_cosines: see `ImplicitQuantileHeadModel`.
    """

    make_head = ImplicitQuantileHeadModel
    forward = quantiles_at  # type: ignore[assignment]
    uses_remember: ClassVar[bool] = True

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        *args: Any,
        n_cosines: int = N_COSINES,
        **kwargs: Any,
    ) -> None:
        super().__init__(image_shape, output_size, *args, n_atoms=n_cosines, **kwargs)

    def heads(self, features: Tensor, tau: Tensor) -> Tensor:  # type: ignore[override]
        """Return quantiles at the fractions ``tau``."""
        return self.head(features, tau).float()  # type: ignore[no-any-return]
